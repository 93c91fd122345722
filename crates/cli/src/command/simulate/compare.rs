//! A result against the one that is expected.

use anyhow::{Result, bail};
use octile_mosaic::{
    Float,
    interpret::{Element, Tensor},
};
use serde::Serialize;

/// How two results differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The largest difference.
    pub max_difference: f64,
    /// The largest expected magnitude.
    pub max_magnitude: f64,
    /// The largest difference as a part of what is allowed: 2 units in the last place, and what sums of binary32 in
    /// another order can differ by.
    pub of_allowed: f64,
}

/// Bits of the significand, the leading one included; integers are exact.
fn precision(element: Element) -> Option<i32> {
    match element {
        Element::Float(Float::F32) => Some(24),
        Element::Float(Float::F16) => Some(11),
        Element::Float(Float::Bf16) => Some(8),
        Element::Float(Float::F8E4M3FN) => Some(4),
        Element::Float(Float::F8E5M2) => Some(3),
        Element::Integer(_) => None,
    }
}

/// The result that a kernel should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Its type; `None` for binary64, which stands for any type of float.
    pub element: Option<Element>,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Every element.
    pub values: Vec<f64>,
}

impl Expected {
    /// Exactly this tensor.
    pub fn of(tensor: &Tensor) -> Self {
        let values = tensor.to_f32().into_iter().map(f64::from).collect();
        Self { element: Some(tensor.element), shape: tensor.shape.clone(), values }
    }

    fn admits(&self, result: &Tensor) -> bool {
        let element = match self.element {
            Some(element) => element == result.element,
            None => matches!(result.element, Element::Float(_)),
        };
        element && self.shape == result.shape
    }
}

/// `f8E4M3FN[2, 3]`
fn described(element: Option<Element>, shape: &[usize]) -> String {
    let element = element.map_or("f64".to_owned(), |element| element.to_string());
    format!("{element}{shape:?}")
}

impl Comparison {
    /// Compares; `products` were added up in all, evenly over the elements.
    pub fn between(result: &Tensor, expected: &Expected, products: u64) -> Result<Self> {
        if !expected.admits(result) {
            bail!(
                "the result is {}, but the expected tensor is {}",
                described(Some(result.element), &result.shape),
                described(expected.element, &expected.shape)
            );
        }
        let (ours, theirs) = (result.to_f32(), &expected.values);
        let max_magnitude = theirs.iter().fold(0f64, |most, value| most.max(value.abs()));
        let each = products as f64 / ours.len().max(1) as f64;
        let sums = 2.0 * each.sqrt() * 2f64.powi(-24) * max_magnitude;
        let allowed = |value: f64| match precision(result.element) {
            Some(bits) => {
                2.0 * 2f64.powi(value.abs().max(f64::MIN_POSITIVE).log2().floor() as i32 + 1 - bits) + sums
            }
            None => 0.0,
        };
        let (mut max_difference, mut of_allowed) = (0f64, 0f64);
        for (&ours, &theirs) in ours.iter().zip(theirs) {
            let ours = f64::from(ours);
            let same = ours == theirs || ours.is_nan() && theirs.is_nan();
            let difference = if same { 0.0 } else { (ours - theirs).abs() };
            // What is no number, and should be one, is infinitely far off.
            let difference = if difference.is_nan() { f64::INFINITY } else { difference };
            max_difference = max_difference.max(difference);
            if difference > 0.0 {
                of_allowed = of_allowed.max(difference / allowed(theirs));
            }
        }
        Ok(Self { max_difference, max_magnitude, of_allowed })
    }

    /// Whether every element is close enough.
    pub fn passed(&self) -> bool {
        self.of_allowed <= 1.0
    }
}

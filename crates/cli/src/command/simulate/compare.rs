//! Compares a result with the expected one.

use anyhow::{Result, bail};
use octile_mosaic::{
    Float,
    interpret::{Element, Tensor},
};
use serde::Serialize;

/// Difference of two results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// Largest difference.
    pub max_difference: f64,
    /// Largest finite expected magnitude.
    pub max_magnitude: f64,
    /// Largest difference relative to the tolerance: 2 ulp, plus what another summation order in f32 can
    /// change.
    pub of_allowed: f64,
}

/// Bits of the significand, including the leading one; `None` for integers, which are exact.
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

/// Largest power of two up to the magnitude; at least the smallest normal number.
fn power_of_two_below(value: f64) -> f64 {
    const SIGNIFICAND: u64 = (1 << (f64::MANTISSA_DIGITS - 1)) - 1;
    f64::from_bits(value.abs().max(f64::MIN_POSITIVE).to_bits() & !SIGNIFICAND)
}

/// The expected result of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Element type; `None` for f64, which is comparable with any float type.
    pub element: Option<Element>,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// The elements.
    pub values: Vec<f64>,
}

impl Expected {
    /// Expects this tensor.
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
    /// Compares results whose elements are sums of `products` multiply-adds in total.
    pub fn between(result: &Tensor, expected: &Expected, products: u64) -> Result<Self> {
        if !expected.admits(result) {
            bail!(
                "the result is {}, but the expected tensor is {}",
                described(Some(result.element), &result.shape),
                described(expected.element, &expected.shape)
            );
        }
        let (ours, theirs) = (result.to_f32(), &expected.values);
        let finite = theirs.iter().filter(|value| value.is_finite());
        let max_magnitude = finite.fold(0f64, |most, value| most.max(value.abs()));
        let each = products as f64 / ours.len().max(1) as f64;
        let sums = 2.0 * each.sqrt() * 2f64.powi(-24) * max_magnitude;
        let units = precision(result.element).map(|bits| 2.0 * 2f64.powi(1 - bits));
        let allowed = |value: f64| units.map_or(0.0, |units| units * power_of_two_below(value) + sums);
        let (mut max_difference, mut of_allowed) = (0f64, 0f64);
        for (&ours, &theirs) in ours.iter().zip(theirs) {
            let ours = f64::from(ours);
            let same = ours == theirs || ours.is_nan() && theirs.is_nan();
            let difference = if same { 0.0 } else { (ours - theirs).abs() };
            // NaN where a number is expected counts as an infinite difference.
            let difference = if difference.is_nan() { f64::INFINITY } else { difference };
            max_difference = max_difference.max(difference);
            let allowed = allowed(theirs);
            if difference.is_infinite() {
                of_allowed = f64::INFINITY;
            } else if difference > of_allowed * allowed {
                // Divide only for a new maximum.
                of_allowed = difference / allowed;
            }
        }
        Ok(Self { max_difference, max_magnitude, of_allowed })
    }

    /// Whether every element is within the tolerance.
    pub fn passed(&self) -> bool {
        self.of_allowed <= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { element: Element::Float(Float::F32), shape: vec![values.len()], bytes }
    }

    #[test]
    fn what_is_infinite_on_one_side_alone_fails() {
        let values = [1.0, f32::INFINITY, f32::NAN, 0.0];
        let passes = |ours: [f32; 4]| {
            Comparison::between(&tensor(&ours), &Expected::of(&tensor(&values)), 0)
                .expect("same shape")
                .passed()
        };
        assert!(passes(values));
        assert!(!passes([1.0, f32::MAX, f32::NAN, 0.0]));
        assert!(!passes([1.0, f32::INFINITY, 1.0, 0.0]));
        assert!(!passes([f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0]));
        assert!(!passes([1.0, f32::INFINITY, f32::NAN, 1e-6]));
    }

    #[test]
    fn powers_of_two_are_found() {
        for (value, power) in
            [(1.0, 1.0), (-3.9, 2.0), (4.0, 4.0), (0.3, 0.25), (f64::INFINITY, f64::INFINITY)]
        {
            assert_eq!(power_of_two_below(value), power, "{value}");
        }
        for value in [0.0, -0.0, 5e-324, f64::NAN] {
            assert_eq!(power_of_two_below(value), f64::MIN_POSITIVE, "{value}");
        }
    }
}

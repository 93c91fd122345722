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

impl Comparison {
    /// Compares; `products` were added up in all, evenly over the elements.
    pub fn between(result: &Tensor, expected: &Tensor, products: u64) -> Result<Self> {
        if (result.element, &result.shape) != (expected.element, &expected.shape) {
            bail!(
                "the result is {:?} of shape {:?}, but the expected tensor is {:?} of shape {:?}",
                result.element,
                result.shape,
                expected.element,
                expected.shape
            );
        }
        let (ours, theirs) = (result.to_f32(), expected.to_f32());
        let max_magnitude = theirs.iter().fold(0f64, |most, value| most.max(f64::from(value.abs())));
        let each = products as f64 / ours.len().max(1) as f64;
        let sums = 2.0 * each.sqrt() * 2f64.powi(-24) * max_magnitude;
        let allowed = |value: f64| match precision(result.element) {
            Some(bits) => {
                2.0 * 2f64.powi(value.abs().max(f64::MIN_POSITIVE).log2().floor() as i32 + 1 - bits) + sums
            }
            None => 0.0,
        };
        let (mut max_difference, mut of_allowed) = (0f64, 0f64);
        for (&ours, &theirs) in ours.iter().zip(&theirs) {
            let same = ours == theirs || ours.is_nan() && theirs.is_nan();
            let difference = if same { 0.0 } else { (f64::from(ours) - f64::from(theirs)).abs() };
            // What is no number, and should be one, is infinitely far off.
            let difference = if difference.is_nan() { f64::INFINITY } else { difference };
            max_difference = max_difference.max(difference);
            if difference > 0.0 {
                of_allowed = of_allowed.max(difference / allowed(theirs.into()));
            }
        }
        Ok(Self { max_difference, max_magnitude, of_allowed })
    }

    /// Whether every element is close enough.
    pub fn passed(&self) -> bool {
        self.of_allowed <= 1.0
    }
}

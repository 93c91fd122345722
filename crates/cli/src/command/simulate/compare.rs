//! Compares a result with the expected one.

use anyhow::{Result, bail};
use octile_mosaic::{
    Float,
    interpret::{Element, Tensor},
};
use serde::Serialize;

use super::tolerance::{Arithmetic, ChosenTolerance, Scale, Tolerance};
use crate::python::PythonPlace;

/// Difference of two results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of the result.
    pub result: usize,
    /// Name of the expected tensor.
    pub expected: String,
    /// Whether every element is within the tolerance.
    pub passed: bool,
    /// Largest difference.
    pub max_difference: f64,
    /// Largest finite expected magnitude.
    pub max_magnitude: f64,
    /// Largest difference relative to the tolerance.
    pub of_allowed: f64,
    /// The tolerance.
    #[serde(flatten)]
    pub tolerance: Tolerance,
    /// Elements beyond the tolerance.
    pub wrong: usize,
    /// Elements.
    pub elements: usize,
    /// The element that differs most, relative to the tolerance; `None` if all are equal.
    pub worst: Option<WorstElement>,
    /// Line that defines the kernel, if the result is wrong and there is one kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PythonPlace>,
}

/// The element that differs most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstElement {
    /// Its index.
    pub index: Vec<usize>,
    /// What the kernel computed.
    pub got: f64,
    /// What was expected.
    pub expected: f64,
    /// Largest allowed difference.
    pub allowed: f64,
}

/// The expected result of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Name of the tensor.
    pub name: String,
    /// Element type; `None` for f64, which is comparable with any float type.
    pub element: Option<Element>,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// The elements.
    pub values: Vec<f64>,
}

impl Expected {
    /// Expects this tensor.
    pub(super) fn of(name: &str, tensor: &Tensor) -> Self {
        let (element, shape) = (Some(tensor.element), tensor.shape.clone());
        Self { name: name.to_owned(), element, shape, values: tensor.to_f64() }
    }

    /// Whether a result can be compared: floats with floats that are at least as precise.
    fn admits(&self, result: &Tensor) -> bool {
        let element = match (self.element, result.element) {
            (None, result) => matches!(result, Element::Float(_)),
            (Some(Element::Float(expected)), Element::Float(result)) => {
                precision(expected) >= precision(result)
            }
            (Some(expected), result) => expected == result,
        };
        element && self.shape == result.shape
    }
}

/// Bits of the significand, including the leading one.
fn precision(float: Float) -> u32 {
    match float {
        Float::F32 => 24,
        Float::F16 => 11,
        Float::Bf16 => 8,
        Float::F8E4M3FN => 4,
        Float::F8E5M2 => 3,
    }
}

/// `f8E4M3FN[2, 3]`
fn described(element: Option<Element>, shape: &[usize]) -> String {
    let element = element.map_or("f64".to_owned(), |element| element.to_string());
    format!("{element}{shape:?}")
}

/// Difference of two elements: 0 for the same NaN or infinity, infinite where only one is finite.
fn difference(got: f64, expected: f64) -> f64 {
    if got == expected || got.is_nan() && expected.is_nan() {
        return 0.0;
    }
    let difference = (got - expected).abs();
    if difference.is_nan() { f64::INFINITY } else { difference }
}

/// The difference in units of what is allowed.
fn share(difference: f64, allowed: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference / allowed }
}

/// Index of the element at a row-major position.
fn index_of(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let extent = extent.max(1);
            let at = position % extent;
            position /= extent;
            at
        })
        .collect();
    index.reverse();
    index
}

/// What tolerances are derived from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Judging {
    /// The roundings that the result depends on.
    pub arithmetic: Arithmetic,
    /// Multiply-adds of the whole run.
    pub products: u64,
    /// What the user chose.
    pub chosen: ChosenTolerance,
}

impl Judging {
    fn tolerance(&self, result: &Tensor, values: &[f64]) -> Tolerance {
        let products = if self.arithmetic.multiplies() { self.products } else { 0 };
        let products = products as f64 / values.len().max(1) as f64;
        let default = self.arithmetic.tolerance(result.element, products, &Scale::of(values));
        let ChosenTolerance { rtol, atol } = self.chosen;
        Tolerance { rtol: rtol.unwrap_or(default.rtol), atol: atol.unwrap_or(default.atol) }
    }

    /// Compares result `number` with the expected one.
    pub(super) fn compare(&self, number: usize, result: &Tensor, expected: &Expected) -> Result<Comparison> {
        if !expected.admits(result) {
            bail!(
                "the result is {}, but the expected tensor is {}",
                described(Some(result.element), &result.shape),
                described(expected.element, &expected.shape)
            );
        }
        let (ours, theirs) = (result.to_f64(), &expected.values);
        let tolerance = self.tolerance(result, theirs);
        let mut comparison = Comparison {
            result: number,
            expected: expected.name.clone(),
            passed: true,
            max_difference: 0.0,
            max_magnitude: Scale::of(theirs).max,
            of_allowed: 0.0,
            tolerance,
            wrong: 0,
            elements: ours.len(),
            worst: None,
            python: None,
        };
        for (position, (&got, &wanted)) in ours.iter().zip(theirs).enumerate() {
            let difference = difference(got, wanted);
            let allowed = tolerance.at(wanted);
            let share = share(difference, allowed);
            comparison.max_difference = comparison.max_difference.max(difference);
            // An infinite tolerance next to an infinite element admits nothing but that element.
            let is_wrong = difference.is_infinite() || difference > allowed;
            comparison.wrong += usize::from(is_wrong);
            let share = if is_wrong && share.is_nan() { f64::INFINITY } else { share };
            if share > comparison.of_allowed {
                comparison.of_allowed = share;
                let index = index_of(position, &result.shape);
                comparison.worst = Some(WorstElement { index, got, expected: wanted, allowed });
            }
        }
        comparison.passed = comparison.wrong == 0;
        Ok(comparison)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        Tensor::from_f32(Element::Float(Float::F32), &[values.len()], values.to_vec())
    }

    fn compare(ours: &[f32], theirs: &[f32]) -> Comparison {
        let expected = Expected::of("out", &tensor(theirs));
        Judging::default().compare(0, &tensor(ours), &expected).expect("same shape")
    }

    #[test]
    fn what_is_infinite_on_one_side_alone_fails() {
        let values = [1.0, f32::INFINITY, f32::NAN, 0.0];
        let passes = |ours: [f32; 4]| compare(&ours, &values).passed;
        assert!(passes(values));
        assert!(!passes([1.0, f32::MAX, f32::NAN, 0.0]));
        assert!(!passes([1.0, f32::INFINITY, 1.0, 0.0]));
        assert!(!passes([f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0]));
        assert!(!passes([1.0, f32::INFINITY, f32::NAN, 1e-6]));
    }

    #[test]
    fn the_worst_element_is_named() {
        let expected = Expected { shape: vec![2, 2], ..Expected::of("out", &tensor(&[1.0, 2.0, 3.0, 4.0])) };
        let ours = Tensor { shape: vec![2, 2], ..tensor(&[1.0, 2.5, 3.25, 4.0]) };
        let compared = Judging::default().compare(1, &ours, &expected).expect("same shape");
        let worst = compared.worst.expect("two elements differ");
        assert_eq!((worst.index, worst.got, worst.expected), (vec![0, 1], 2.5, 2.0));
        assert_eq!((compared.wrong, compared.elements, compared.result), (2, 4, 1));
    }

    #[test]
    fn integers_are_exact_beyond_the_precision_of_f32() {
        let integers = |value: i32| Tensor {
            element: Element::Integer(4),
            shape: vec![1],
            bytes: value.to_le_bytes().to_vec().into(),
        };
        let expected = Expected::of("out", &integers(1 << 24));
        let judged = |value: i32| Judging::default().compare(0, &integers(value), &expected).expect("fits");
        assert!(judged(1 << 24).passed && !judged((1 << 24) + 1).passed);
    }

    #[test]
    fn chosen_tolerances_replace_the_defaults() {
        let expected = Expected::of("out", &tensor(&[100.0]));
        let judged = |rtol, atol| {
            let chosen = ChosenTolerance { rtol, atol };
            Judging { chosen, ..Judging::default() }.compare(0, &tensor(&[101.0]), &expected).expect("fits")
        };
        assert!(
            !judged(None, None).passed && judged(Some(0.01), None).passed && judged(None, Some(1.0)).passed
        );
        assert!(!judged(Some(0.009), Some(0.0)).passed);
    }
}

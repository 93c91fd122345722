//! Converts tensors of files and problems for a device, and compares results.

use std::path::Path;

use anyhow::{Context, Result, bail};
use half::{bf16, f16};
use octile_core::{
    E4m3, FloatKind,
    sample::{Activations, Operands},
};
use octile_runtime::pjrt::{ElementType, HostTensor};
use safetensors::{Dtype, tensor::TensorView};

use octile_harness::backend::OutputBuffer;

use crate::{print::shown, tensor_file};

/// Converts a float type.
pub(super) fn element(kind: FloatKind) -> ElementType {
    match kind {
        FloatKind::F32 => ElementType::F32,
        FloatKind::Bf16 => ElementType::Bf16,
        FloatKind::F16 => ElementType::F16,
    }
}

/// Converts the operands of a problem, in argument order.
pub(super) fn of_operands(operands: &Operands) -> Result<Vec<HostTensor>> {
    let problem = &operands.problem;
    let pair = |(rows, cols): (usize, usize)| vec![rows, cols];
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let (kind, x) = match &operands.x {
        Activations::Fp8(x) => (ElementType::F8E4M3Fn, x.codes().to_vec()),
        Activations::F32(x) => (ElementType::F32, floats(x)),
        Activations::Bf16(x) => (ElementType::Bf16, x.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Activations::F16(x) => (ElementType::F16, x.iter().flat_map(|value| value.to_le_bytes()).collect()),
    };
    let weight = &operands.weight;
    let mut tensors = vec![
        HostTensor::new(kind, vec![problem.m, problem.k], x)?,
        HostTensor::new(ElementType::F8E4M3Fn, vec![problem.n, problem.k], weight.codes().to_vec())?,
        HostTensor::new(ElementType::F32, pair(problem.w_scale_shape()), floats(weight.scales()))?,
    ];
    if let (Activations::Fp8(x), Some(shape)) = (&operands.x, problem.x_scale_shape()) {
        tensors.push(HostTensor::new(ElementType::F32, pair(shape), floats(x.scales()))?);
    }
    Ok(tensors)
}

/// Reads those of the named operands that the file has, and the expected result.
pub(super) fn read(
    path: &Path,
    names: &[String],
    expect: Option<&str>,
) -> Result<(Vec<HostTensor>, Option<HostTensor>)> {
    let bytes = tensor_file::bytes(path)?;
    let file = tensor_file::tensors(path, &bytes)?;
    let tensor = |name: &str| {
        let held = || format!("{} has no tensor '{name}', only {}", shown(path), file.names().join(", "));
        from_file(name, &file.tensor(name).ok().with_context(held)?)
    };
    let present = names.iter().filter(|name| file.tensor(name).is_ok());
    let operands = present.map(|name| tensor(name)).collect::<Result<Vec<_>>>()?;
    if operands.is_empty() {
        bail!(
            "{} has none of the tensors {}: name the operands with --operands",
            shown(path),
            names.join(", ")
        );
    }
    Ok((operands, expect.map(tensor).transpose()?))
}

fn from_file(name: &str, view: &TensorView<'_>) -> Result<HostTensor> {
    let element = match view.dtype() {
        Dtype::BOOL => ElementType::Pred,
        Dtype::I8 => ElementType::S8,
        Dtype::I16 => ElementType::S16,
        Dtype::I32 => ElementType::S32,
        Dtype::I64 => ElementType::S64,
        Dtype::U8 => ElementType::U8,
        Dtype::U16 => ElementType::U16,
        Dtype::U32 => ElementType::U32,
        Dtype::U64 => ElementType::U64,
        Dtype::F16 => ElementType::F16,
        Dtype::BF16 => ElementType::Bf16,
        Dtype::F32 => ElementType::F32,
        Dtype::F64 => ElementType::F64,
        Dtype::F8_E4M3 => ElementType::F8E4M3Fn,
        Dtype::F8_E5M2 => ElementType::F8E5M2,
        other => bail!("tensor '{name}' has unsupported element type {other:?}"),
    };
    Ok(HostTensor::new(element, view.shape().to_vec(), view.data().to_vec())?)
}

/// Converts a result for the checks; `None` if it is not f32, bf16 or f16.
pub(super) fn output(tensor: &HostTensor) -> Option<OutputBuffer> {
    let bytes = tensor.bytes();
    Some(match tensor.element() {
        ElementType::F32 => OutputBuffer::F32(elements(bytes, f32::from_le_bytes)),
        ElementType::Bf16 => OutputBuffer::Bf16(elements(bytes, bf16::from_le_bytes)),
        ElementType::F16 => OutputBuffer::F16(elements(bytes, f16::from_le_bytes)),
        _ => return None,
    })
}

fn elements<const N: usize, T>(bytes: &[u8], element: impl Fn([u8; N]) -> T) -> Vec<T> {
    let chunks = bytes.chunks_exact(N);
    chunks.map(|chunk| element(chunk.try_into().expect("chunks have the length asked for"))).collect()
}

/// TensorDifference of a result from the expected one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorDifference {
    /// Largest absolute difference.
    pub max_abs: f64,
    /// Largest expected magnitude.
    pub magnitude: f64,
}

impl TensorDifference {
    /// Compares two tensors of floats, element by element.
    pub fn between(result: &HostTensor, expected: &HostTensor) -> Result<Self> {
        if result.dims() != expected.dims() {
            bail!("the result has shape {:?}, but shape {:?} is expected", result.dims(), expected.dims());
        }
        let (result, expected) = (widen(result)?, widen(expected)?);
        let differences = result.iter().zip(&expected).map(|(r, e)| if r == e { 0.0 } else { (r - e).abs() });
        // `f64::max` would ignore NaN.
        let largest = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
        Ok(Self {
            max_abs: differences.fold(0.0, largest),
            magnitude: expected.iter().map(|value| value.abs()).fold(0.0, largest),
        })
    }

    /// Returns the error relative to the largest expected magnitude.
    pub fn relative(&self) -> f64 {
        if self.max_abs == 0.0 { 0.0 } else { self.max_abs / self.magnitude }
    }

    /// Whether the relative error is at most `tolerance`; never for NaN.
    pub fn within(&self, tolerance: f64) -> bool {
        self.relative() <= tolerance
    }
}

fn widen(tensor: &HostTensor) -> Result<Vec<f64>> {
    let bytes = tensor.bytes();
    Ok(match tensor.element() {
        ElementType::F64 => elements(bytes, f64::from_le_bytes),
        ElementType::F32 => elements(bytes, |b| f64::from(f32::from_le_bytes(b))),
        ElementType::Bf16 => elements(bytes, |b| bf16::from_le_bytes(b).to_f64()),
        ElementType::F16 => elements(bytes, |b| f16::from_le_bytes(b).to_f64()),
        ElementType::F8E4M3Fn => elements(bytes, |[code]: [u8; 1]| f64::from(E4m3::from_bits(code).to_f32())),
        other => bail!("cannot compare elements of type {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> HostTensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        HostTensor::new(ElementType::F32, vec![values.len()], bytes).unwrap()
    }

    #[test]
    fn differences_are_measured_against_the_largest_magnitude() {
        let difference = TensorDifference::between(&tensor(&[1.0, -4.0]), &tensor(&[1.5, -4.0])).unwrap();
        assert_eq!(difference, TensorDifference { max_abs: 0.5, magnitude: 4.0 });
        assert!(difference.within(0.125) && !difference.within(0.12));
    }

    #[test]
    fn nan_is_never_close() {
        for values in [[f32::NAN, 1.0], [1.0, f32::NAN]] {
            assert!(
                !TensorDifference::between(&tensor(&values), &tensor(&[1.0, 1.0]))
                    .unwrap()
                    .within(f64::INFINITY)
            );
        }
    }

    #[test]
    fn shapes_must_agree() {
        let error = TensorDifference::between(&tensor(&[1.0]), &tensor(&[1.0, 2.0])).unwrap_err();
        assert_eq!(error.to_string(), "the result has shape [1], but shape [2] is expected");
    }
}

//! Result matrices.

use half::{bf16, f16};
use octile_core::{
    FloatKind,
    exact::{ExactComparison, ExactOperands},
    oracle::{Comparison, Reference},
};

/// A result matrix of any element type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum OutputBuffer {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
    F16(Vec<f16>),
}

impl OutputBuffer {
    /// A buffer of NaN, so that an element that is never written is detected.
    pub fn poisoned(kind: FloatKind, len: usize) -> Self {
        match kind {
            FloatKind::F32 => Self::F32(vec![f32::NAN; len]),
            FloatKind::Bf16 => Self::Bf16(vec![bf16::NAN; len]),
            FloatKind::F16 => Self::F16(vec![f16::NAN; len]),
        }
    }

    /// Fills the buffer with NaN again.
    pub fn poison(&mut self) {
        match self {
            Self::F32(values) => values.fill(f32::NAN),
            Self::Bf16(values) => values.fill(bf16::NAN),
            Self::F16(values) => values.fill(f16::NAN),
        }
    }

    /// Decodes little-endian bytes into the buffer.
    pub fn copy_from_bytes(&mut self, bytes: &[u8]) {
        fn copy<T, const N: usize>(bytes: &[u8], out: &mut [T], element: fn([u8; N]) -> T) {
            for (to, &from) in out.iter_mut().zip(bytes.as_chunks().0) {
                *to = element(from);
            }
        }
        match self {
            Self::F32(values) => copy(bytes, values, f32::from_le_bytes),
            Self::Bf16(values) => copy(bytes, values, bf16::from_le_bytes),
            Self::F16(values) => copy(bytes, values, f16::from_le_bytes),
        }
    }

    /// Copies some of the rows.
    pub fn select_rows(&self, rows: &[usize], cols: usize) -> Self {
        fn select<T: Copy>(values: &[T], rows: &[usize], cols: usize) -> Vec<T> {
            rows.iter().flat_map(|row| &values[row * cols..][..cols]).copied().collect()
        }
        match self {
            Self::F32(values) => Self::F32(select(values, rows, cols)),
            Self::Bf16(values) => Self::Bf16(select(values, rows, cols)),
            Self::F16(values) => Self::F16(select(values, rows, cols)),
        }
    }

    /// Compares the result with the reference.
    pub fn compare(&self, reference: &Reference) -> Comparison {
        match self {
            Self::F32(values) => reference.compare(values),
            Self::Bf16(values) => reference.compare(values),
            Self::F16(values) => reference.compare(values),
        }
    }

    /// Compares the result with the exact one.
    pub fn compare_exactly(&self, exact: &ExactOperands) -> ExactComparison {
        match self {
            Self::F32(values) => exact.compare(values),
            Self::Bf16(values) => exact.compare(values),
            Self::F16(values) => exact.compare(values),
        }
    }

    /// The result as bytes, for bitwise comparison.
    pub fn bits(&self) -> Vec<u8> {
        match self {
            Self::F32(values) => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            Self::Bf16(values) => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            Self::F16(values) => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
        }
    }
}

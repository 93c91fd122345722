//! Element types in memory: their sizes, and conversion to f32 or 32-bit integers.

use std::fmt;

use half::{bf16, f16, slice::HalfFloatSliceExt};
use octile_core::fp8::{E4m3, E5m2};

use crate::types::{Float, Type};

/// Element type of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A float.
    Float(Float),
    /// An integer of 1, 2, 4 or (scalars only) 8 bytes. Booleans and integers of 2 or 4 bits take one byte.
    Integer(usize),
}

/// Prints the MLIR spelling: `f8E4M3FN`, `i32`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(float) => float.fmt(f),
            Self::Integer(bytes) => write!(f, "i{}", 8 * bytes),
        }
    }
}

impl Element {
    /// Element type of a vector, tensor, memref or scalar; `None` for semaphores, unknown types and 64-bit
    /// integers in memory.
    pub fn of(ty: &Type) -> Option<Self> {
        match ty.element() {
            Type::Float(float) => Some(Self::Float(*float)),
            Type::Index => Some(Self::Integer(4)),
            Type::Integer(bits @ (1 | 2 | 4 | 8 | 16 | 32)) => {
                Some(Self::Integer((*bits as usize).div_ceil(8)))
            }
            Type::Integer(64) if *ty == Type::I64 || matches!(ty, Type::Tensor(..)) => Some(Self::Integer(8)),
            // Kernels have no unsigned types; the tensors around them have.
            Type::Other(name) if matches!(ty, Type::Tensor(..)) => match name.as_str() {
                "ui2" | "ui4" | "ui8" => Some(Self::Integer(1)),
                "ui16" => Some(Self::Integer(2)),
                "ui32" => Some(Self::Integer(4)),
                "ui64" => Some(Self::Integer(8)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Bytes per element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Float(float) => float.bits() / 8,
            Self::Integer(bytes) => bytes,
        }
    }

    /// Poison byte: repeated, it is NaN in every float type, and an unlikely integer.
    pub const POISON: u8 = 0xff;
}

/// Rounds to a float type, ties to even, with the type's own overflow.
#[inline(always)]
pub(crate) fn round_to(float: Float, value: f32) -> f32 {
    match float {
        Float::F32 => value,
        Float::Bf16 => bf16::from_f32(value).to_f32(),
        Float::F16 => f16::from_f32(value).to_f32(),
        Float::F8E4M3FN => E4m3::from_f32(value).to_f32(),
        Float::F8E5M2 => E5m2::from_f32(value).to_f32(),
    }
}

/// Rounds towards zero; saturates at the largest finite value.
pub(crate) fn truncate_to(float: Float, value: f32) -> f32 {
    let nearest = round_to(float, value);
    if !value.is_finite() || nearest.abs() <= value.abs() {
        return nearest;
    }
    // The previous magnitude, or the largest finite one before infinity and NaN.
    let before = |bits: u16, infinity: u16| (bits & 1 << 15) | ((bits & !(1 << 15)).min(infinity) - 1);
    match float {
        Float::F32 => value,
        Float::Bf16 => bf16::from_bits(before(bf16::from_f32(value).to_bits(), 0x7f80)).to_f32(),
        Float::F16 => f16::from_bits(before(f16::from_f32(value).to_bits(), 0x7c00)).to_f32(),
        Float::F8E4M3FN => {
            let bits = E4m3::from_f32(value).to_bits();
            E4m3::from_bits(bits & 0x80 | ((bits & 0x7f) - 1)).to_f32()
        }
        Float::F8E5M2 => {
            let bits = E5m2::from_f32(value).to_bits();
            E5m2::from_bits(bits & 0x80 | ((bits & 0x7f).min(0x7c) - 1)).to_f32()
        }
    }
}

/// Appends the floats in `bytes` to `out`.
pub(crate) fn read_floats(float: Float, bytes: &[u8], out: &mut Vec<f32>) {
    match float {
        Float::F32 => {
            out.extend(bytes.as_chunks().0.iter().map(|&b: &[u8; 4]| f32::from_le_bytes(b)));
        }
        Float::Bf16 => {
            let bits = bytes.as_chunks().0.iter().map(|&b: &[u8; 2]| u32::from(u16::from_le_bytes(b)));
            out.extend(bits.map(|bits| f32::from_bits(bits << 16)));
        }
        Float::F16 => {
            let halves: Vec<f16> =
                bytes.as_chunks().0.iter().map(|&b: &[u8; 2]| f16::from_le_bytes(b)).collect();
            let start = out.len();
            out.resize(start + halves.len(), 0.0);
            halves.convert_to_f32_slice(&mut out[start..]);
        }
        Float::F8E4M3FN => out.extend(bytes.iter().map(|&code| E4m3::from_bits(code).to_f32())),
        Float::F8E5M2 => out.extend(bytes.iter().map(|&code| E5m2::from_bits(code).to_f32())),
    }
}

/// Stores floats, rounding; most come from a conversion to the same type and are exact.
pub(crate) fn write_floats(float: Float, values: &[f32], bytes: &mut [u8]) {
    match float {
        Float::F32 => {
            for (to, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                *to = value.to_le_bytes();
            }
        }
        Float::Bf16 => {
            for (to, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                *to = bf16::from_f32(*value).to_le_bytes();
            }
        }
        Float::F16 => {
            for (to, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                *to = f16::from_f32(*value).to_le_bytes();
            }
        }
        Float::F8E4M3FN => {
            for (to, value) in bytes.iter_mut().zip(values) {
                *to = E4m3::from_f32(*value).to_bits();
            }
        }
        Float::F8E5M2 => {
            for (to, value) in bytes.iter_mut().zip(values) {
                *to = E5m2::from_f32(*value).to_bits();
            }
        }
    }
}

/// Appends the integers in `bytes`, of `size` bytes each, to `out`; 64-bit ones lose their upper half.
pub(crate) fn read_integers(size: usize, bytes: &[u8], out: &mut Vec<i32>) {
    match size {
        1 => out.extend(bytes.iter().map(|&b| i32::from(b as i8))),
        2 => out.extend(bytes.as_chunks().0.iter().map(|&b| i32::from(i16::from_le_bytes(b)))),
        4 => out.extend(bytes.as_chunks().0.iter().map(|&b| i32::from_le_bytes(b))),
        8 => out.extend(bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b) as i32)),
        _ => unreachable!("integers have 1, 2, 4 or 8 bytes"),
    }
}

/// Stores integers of `size` bytes.
pub(crate) fn write_integers(size: usize, values: &[i32], bytes: &mut [u8]) {
    for (to, value) in bytes.chunks_exact_mut(size).zip(values) {
        to.copy_from_slice(&i64::from(*value).to_le_bytes()[..size]);
    }
}

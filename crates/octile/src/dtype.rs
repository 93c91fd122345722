//! Element types, and which activations share a scale.

use std::fmt;

use bytemuck::{AnyBitPattern, Pod, PodCastError};
use half::{bf16, f16};
use octile_core::{ActivationKind, FloatKind, ScaleGranularity, ScaleLayout};

use crate::Error;

/// Element type of activations or results.
///
/// ```
/// use octile::{DType, Float, bf16};
///
/// assert_eq!(bf16::DTYPE, DType::BF16);
/// assert_eq!(DType::F8E4M3.to_string(), "f8e4m3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// bfloat16.
    BF16,
    /// IEEE binary16.
    F16,
    /// 8 bits, 4 of them exponent: finite numbers up to 448, and NaN. For activations only.
    F8E4M3,
}

impl DType {
    pub(crate) fn of(kind: FloatKind) -> Self {
        match kind {
            FloatKind::F32 => Self::F32,
            FloatKind::Bf16 => Self::BF16,
            FloatKind::F16 => Self::F16,
        }
    }

    /// The float wider than 8 bits, if it is one.
    pub(crate) fn wide(self) -> Option<FloatKind> {
        match self {
            Self::F32 => Some(FloatKind::F32),
            Self::BF16 => Some(FloatKind::Bf16),
            Self::F16 => Some(FloatKind::F16),
            Self::F8E4M3 => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::F8E4M3 => "f8e4m3",
        })
    }
}

/// Which activations share a scale when they are multiplied in 8 bits.
///
/// ```
/// use octile::{Block, DType, Device, Matmul, Scales, Weight};
///
/// let weight = Weight::quantize(&[0.5f32; 128], [1, 128], Block::B128)?;
/// // f16 activations that are not quantized: no rounding to 8 bits.
/// let matmul = Matmul::builder(&Device::cpu()?, weight).activations(DType::F16, Scales::None).build()?;
/// assert_eq!(matmul.shape(), [1, 128]);
/// # Ok::<(), octile::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scales {
    /// One scale per row and block of K: the token groups of DeepSeek and of most served models.
    #[default]
    PerToken,
    /// One scale per square block, as the weight has.
    PerBlock,
    /// No scales: activations are multiplied as they are. CPUs and TPUs only.
    None,
}

impl Scales {
    /// How activations of a type arrive. 8-bit activations without scales do not exist.
    pub(crate) fn of(self, dtype: DType) -> Option<ActivationKind> {
        let granularity = match self {
            Self::PerToken => ScaleGranularity::Token,
            Self::PerBlock => ScaleGranularity::Block,
            Self::None => return dtype.wide().map(ActivationKind::Plain),
        };
        Some(match dtype.wide() {
            Some(kind) => ActivationKind::Quantized(kind, granularity),
            None => ActivationKind::Fp8(granularity),
        })
    }
}

/// Floats that [`Matmul::run`](crate::Matmul::run) takes and gives: f32, bf16 and f16.
pub trait Float: sealed::Sealed + Copy {
    /// Which type this is.
    const DTYPE: DType;
}

pub(crate) mod sealed {
    use super::{Input, Output};

    pub trait Sealed: Sized {
        fn widen(self) -> f32;
        fn input(values: &[Self]) -> Input<'_>;
        fn output(values: &mut [Self]) -> Output<'_>;
    }
}

/// Activations of any type.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
    F16(&'a [f16]),
    Fp8 { codes: &'a [u8], scales: &'a [f32], layout: Option<ScaleLayout> },
}

impl<'a> Input<'a> {
    /// Native-endian bytes of a type, with scales if that is f8e4m3.
    pub(crate) fn from_bytes(
        dtype: DType,
        bytes: &'a [u8],
        scales: &'a [f32],
        layout: Option<ScaleLayout>,
    ) -> Result<Self, Error> {
        let refused = |_| Error::bytes("x", bytes, dtype);
        if dtype != DType::F8E4M3 && !(scales.is_empty() && layout.is_none()) {
            return Err(Error::UnsupportedType("x_scales are for f8e4m3 activations: pass none"));
        }
        Ok(match dtype {
            DType::F32 => Self::F32(elements(bytes).map_err(refused)?),
            DType::BF16 => Self::Bf16(elements(bytes).map_err(refused)?),
            DType::F16 => Self::F16(elements(bytes).map_err(refused)?),
            DType::F8E4M3 => Self::Fp8 { codes: bytes, scales, layout },
        })
    }
}

impl Input<'_> {
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::Bf16(_) => DType::BF16,
            Self::F16(_) => DType::F16,
            Self::Fp8 { .. } => DType::F8E4M3,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Fp8 { codes, .. } => codes.len(),
        }
    }
}

/// Sees bytes as elements. An empty slice may be anywhere: nothing is read.
fn elements<T: AnyBitPattern>(bytes: &[u8]) -> Result<&[T], PodCastError> {
    if bytes.is_empty() { Ok(&[]) } else { bytemuck::try_cast_slice(bytes) }
}

/// The same for elements that are written.
fn elements_mut<T: Pod>(bytes: &mut [u8]) -> Result<&mut [T], PodCastError> {
    if bytes.is_empty() { Ok(&mut []) } else { bytemuck::try_cast_slice_mut(bytes) }
}

/// A result of any type.
pub enum Output<'a> {
    F32(&'a mut [f32]),
    Bf16(&'a mut [bf16]),
    F16(&'a mut [f16]),
}

impl<'a> Output<'a> {
    /// Native-endian bytes of a type.
    pub(crate) fn from_bytes(dtype: DType, bytes: &'a mut [u8]) -> Result<Self, Error> {
        let error = Error::bytes("the output", bytes, dtype);
        let cast = match dtype {
            DType::F32 => elements_mut(bytes).map(Self::F32),
            DType::BF16 => elements_mut(bytes).map(Self::Bf16),
            DType::F16 => elements_mut(bytes).map(Self::F16),
            DType::F8E4M3 => return Err(error),
        };
        cast.map_err(|_| error)
    }
}

impl Output<'_> {
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::Bf16(_) => DType::BF16,
            Self::F16(_) => DType::F16,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
            Self::F16(values) => values.len(),
        }
    }

    /// Takes over little-endian bytes of as many values.
    pub(crate) fn copy_from_bytes(&mut self, bytes: &[u8]) {
        match self {
            Self::F32(out) => fill(out, bytes, f32::from_le_bytes),
            Self::Bf16(out) => fill(out, bytes, bf16::from_le_bytes),
            Self::F16(out) => fill(out, bytes, f16::from_le_bytes),
        }
    }
}

fn fill<T, const N: usize>(out: &mut [T], bytes: &[u8], read: fn([u8; N]) -> T) {
    for (value, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *value = read(*bytes);
    }
}

macro_rules! floats {
    ($($float:ty, $dtype:ident, $variant:ident, $widen:expr;)*) => {$(
        impl sealed::Sealed for $float {
            fn widen(self) -> f32 {
                $widen(self)
            }

            fn input(values: &[Self]) -> Input<'_> {
                Input::$variant(values)
            }

            fn output(values: &mut [Self]) -> Output<'_> {
                Output::$variant(values)
            }
        }

        impl Float for $float {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
floats! {
    f32, F32, F32, f32::from;
    bf16, BF16, Bf16, bf16::to_f32;
    f16, F16, F16, f16::to_f32;
}

//! Operands and results of a matmul.

use std::ops::Range;

use half::{bf16, f16, slice::HalfFloatSliceExt};
use octile_core::{
    ActivationKind, ActivationView, FloatKind, Mat, QuantBlock, QuantizeError, QuantizedActivation,
    QuantizedWeight, ScaleGranularity, WeightView, plan::cpu::PANEL, quantize::check_scale_products,
};

use super::{PackedView, PackedWeight};

/// A weight in one of its two layouts.
#[derive(Debug, Clone, Copy)]
pub enum WeightRef<'a> {
    /// Row-major, as in checkpoints. For the strategies `auto`, `dma` and `smem`.
    Rows(WeightView<'a>),
    /// Packed once, for the strategy `strip`.
    Packed(PackedView<'a>),
}

impl WeightRef<'_> {
    /// The N of the multiplication.
    pub fn rows(&self) -> usize {
        match self {
            Self::Rows(weight) => weight.rows(),
            Self::Packed(weight) => weight.rows(),
        }
    }

    /// The K of the multiplication.
    pub fn cols(&self) -> usize {
        match self {
            Self::Rows(weight) => weight.cols(),
            Self::Packed(weight) => weight.cols(),
        }
    }

    /// Side of a quantization block.
    pub fn quant_block(&self) -> QuantBlock {
        match self {
            Self::Rows(weight) => weight.quant_block(),
            Self::Packed(weight) => weight.quant_block(),
        }
    }

    /// The scales of the rows of a panel, one per k-block.
    pub(super) fn panel_scales(&self, panel: usize) -> &[f32] {
        match self {
            Self::Rows(weight) => {
                let blocks = weight.quant_block().count(weight.cols());
                &weight.scales()[panel * PANEL / weight.quant_block().size() * blocks..][..blocks]
            }
            Self::Packed(weight) => weight.scales(panel),
        }
    }

    /// The largest scale. Rejects bad scales of a row-major weight; those of a packed one were checked when
    /// it was packed.
    pub(super) fn largest_scale(&self) -> Result<f32, QuantizeError> {
        match self {
            Self::Rows(weight) => weight.check_scales(),
            Self::Packed(weight) => Ok(weight.largest_scale()),
        }
    }

    /// Rejects activation scales that overflow times a scale of the same k-block.
    pub(super) fn check_products(&self, x_scales: &[f32]) -> Result<(), QuantizeError> {
        let blocks = self.quant_block().count(self.cols());
        match self {
            Self::Rows(weight) => check_scale_products(x_scales, weight.scales(), blocks),
            Self::Packed(weight) => {
                check_scale_products(x_scales, &weight.all_scales(), blocks).map_err(|error| match error {
                    QuantizeError::ScaleProduct { x_row, w_row, col, x, w } => {
                        let w_row = w_row * PANEL / self.quant_block().size();
                        QuantizeError::ScaleProduct { x_row, w_row, col, x, w }
                    }
                    error => error,
                })
            }
        }
    }
}

impl<'a> From<&'a QuantizedWeight> for WeightRef<'a> {
    fn from(weight: &'a QuantizedWeight) -> Self {
        Self::Rows(weight.into())
    }
}

impl<'a> From<&'a PackedWeight> for WeightRef<'a> {
    fn from(weight: &'a PackedWeight) -> Self {
        Self::Packed(weight.view())
    }
}

/// A matrix of floats wider than 8 bits.
#[derive(Debug, Clone, Copy)]
pub enum Floats<'a> {
    /// IEEE binary32.
    F32(Mat<'a, f32>),
    /// bfloat16.
    Bf16(Mat<'a, bf16>),
    /// IEEE binary16.
    F16(Mat<'a, f16>),
}

impl Floats<'_> {
    /// Element type.
    pub fn kind(&self) -> FloatKind {
        match self {
            Self::F32(_) => FloatKind::F32,
            Self::Bf16(_) => FloatKind::Bf16,
            Self::F16(_) => FloatKind::F16,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::F32(mat) => mat.rows(),
            Self::Bf16(mat) => mat.rows(),
            Self::F16(mat) => mat.rows(),
        }
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        match self {
            Self::F32(mat) => mat.cols(),
            Self::Bf16(mat) => mat.cols(),
            Self::F16(mat) => mat.cols(),
        }
    }

    /// Returns columns of a row as f32: in place, or widened into `buffer`.
    pub(super) fn widened<'b>(
        &'b self,
        row: usize,
        columns: Range<usize>,
        buffer: &'b mut [f32],
    ) -> &'b [f32] {
        let buffer = &mut buffer[..columns.len()];
        match self {
            Self::F32(mat) => return &mat.row(row)[columns],
            Self::Bf16(mat) => mat.row(row)[columns].convert_to_f32_slice(buffer),
            Self::F16(mat) => mat.row(row)[columns].convert_to_f32_slice(buffer),
        }
        buffer
    }
}

macro_rules! floats_from {
    ($($variant:ident($float:ty)),*) => {$(
        impl<'a> From<Mat<'a, $float>> for Floats<'a> {
            fn from(mat: Mat<'a, $float>) -> Self {
                Self::$variant(mat)
            }
        }
    )*};
}
floats_from!(F32(f32), Bf16(bf16), F16(f16));

/// The activations of a multiplication.
#[derive(Debug, Clone, Copy)]
pub enum Activation<'a> {
    /// Already quantized.
    Fp8(ActivationView<'a>),
    /// Quantized in the call, in blocks of the weight's size.
    Quantize(Floats<'a>, ScaleGranularity),
    /// Multiplied without quantization.
    Plain(Floats<'a>),
}

impl Activation<'_> {
    /// Their kind.
    pub fn kind(&self) -> ActivationKind {
        match self {
            Self::Fp8(x) => ActivationKind::Fp8(x.granularity()),
            Self::Quantize(x, granularity) => ActivationKind::Quantized(x.kind(), *granularity),
            Self::Plain(x) => ActivationKind::Plain(x.kind()),
        }
    }

    /// The M of the multiplication.
    pub fn rows(&self) -> usize {
        match self {
            Self::Fp8(x) => x.rows(),
            Self::Quantize(x, _) | Self::Plain(x) => x.rows(),
        }
    }

    /// The K of the multiplication.
    pub fn cols(&self) -> usize {
        match self {
            Self::Fp8(x) => x.cols(),
            Self::Quantize(x, _) | Self::Plain(x) => x.cols(),
        }
    }
}

impl<'a> From<&'a QuantizedActivation> for Activation<'a> {
    fn from(x: &'a QuantizedActivation) -> Self {
        Self::Fp8(x.into())
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

/// Element types of a result: f32, bf16 and f16.
pub trait Output: sealed::Sealed + Copy + Send + Sync {
    /// Which type this is.
    const KIND: FloatKind;

    /// Rounds to nearest, ties to even.
    #[doc(hidden)]
    fn narrow(values: &[f32], out: &mut [Self]);
}

impl Output for f32 {
    const KIND: FloatKind = FloatKind::F32;

    fn narrow(values: &[f32], out: &mut [Self]) {
        out.copy_from_slice(values);
    }
}

impl Output for bf16 {
    const KIND: FloatKind = FloatKind::Bf16;

    fn narrow(values: &[f32], out: &mut [Self]) {
        out.convert_from_f32_slice(values);
    }
}

impl Output for f16 {
    const KIND: FloatKind = FloatKind::F16;

    fn narrow(values: &[f32], out: &mut [Self]) {
        out.convert_from_f32_slice(values);
    }
}

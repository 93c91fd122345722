//! Requests: quantize, convert, dequantize.

use octile_core::FloatKind;

/// How an fp8 checkpoint is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Fine-grained fp8 of DeepSeek and transformers: `X.weight_scale_inv`.
    Fp8,
    /// compressed-tensors: `X.weight_scale`.
    CompressedTensors,
}

/// Which scales are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScaleKind {
    /// Arbitrary f32.
    F32,
    /// Powers of two, stored as F32.
    Ue8m0,
}

/// Which dimension of a fused expert tensor holds the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExpertLayout {
    /// `[experts, outputs, inputs]`.
    OutIn,
    /// `[experts, inputs, outputs]`: transposed while it is split.
    InOut,
}

/// Quantizes floats to fp8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantize {
    /// Layout of the output.
    pub format: Format,
    /// Scales of the output.
    pub scales: ScaleKind,
    /// Globs of tensors or modules to leave as they are.
    pub skip: Vec<String>,
    /// If not empty, only tensors matching these globs are quantized.
    pub only: Vec<String>,
    /// Layout of fused expert tensors, used when shapes and config are ambiguous.
    pub expert_layout: Option<ExpertLayout>,
}

impl Default for Quantize {
    fn default() -> Self {
        Self {
            format: Format::Fp8,
            scales: ScaleKind::F32,
            skip: Vec::new(),
            only: Vec::new(),
            expert_layout: None,
        }
    }
}

/// Changes the layout or the scales of an fp8 checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convert {
    /// Layout of the output; `None` keeps that of the input.
    pub format: Option<Format>,
    /// Scales of the output; `None` keeps the kind of the input.
    pub scales: Option<ScaleKind>,
    /// Rounds scales that are not powers of two, and re-encodes their codes. Loses precision.
    pub requantize: bool,
}

/// What to do with a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Floats to fp8.
    Quantize(Quantize),
    /// fp8 to fp8.
    Convert(Convert),
    /// fp8 to floats of this type.
    Dequantize(FloatKind),
}

impl Request {
    pub(crate) fn action(&self) -> &'static str {
        match self {
            Self::Quantize(_) => "quantized",
            Self::Convert(_) => "converted",
            Self::Dequantize(_) => "dequantized",
        }
    }
}

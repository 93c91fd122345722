//! Reads, quantizes, converts and dequantizes model checkpoints in the Hugging Face layout: safetensors
//! files with a `config.json`.
//!
//! [`Checkpoint`] opens one without trusting it, [`CheckpointPlan`] decides what a [`Request`] does to each
//! tensor, and [`write()`] streams the result, a block of rows at a time on all cores. Memory use does not
//! grow with the model. [`Judge`] finds what is wrong with a checkpoint, and what its quantization costs.

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("safetensors files are little-endian, and this crate reads them without swapping bytes");

mod error;
mod judge;
mod linear;
mod matrix;
mod plan;
mod positioned;
mod read;
mod request;
mod write;

pub use error::{CheckpointError, Result};
pub use judge::{
    CodeSummary, Defect, DefectKind, Granularity, Histogram, Judge, JudgedLayer, Judgement, ModelSummary,
    ScaleOrder, ScaleSummary, Snr, SnrSource,
};
pub use linear::LinearLayer;
pub use plan::{
    Changed, CheckpointPlan, Kept, KeptBecause, OutputShard, OutputTensor, QuantizationConfig, RuledOut,
};
pub use read::{
    Checkpoint, Config, HEADER_LIMIT, Header, Index, Layer, LayerFormat, ScaleNaming, Scales, Shard,
    ShardFile, Survey, Tensor, TensorId, TensorReader, without_numbers,
};
pub use request::{Convert, ExpertLayout, Format, Quantize, Request, ScaleKind};
pub use safetensors::Dtype;
pub use write::{OtherFile, Outcome, Output, Progress, write};

/// Rows and columns of a quantization block.
pub const BLOCK: usize = 128;

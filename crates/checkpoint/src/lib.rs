//! Checkpoints of large models: safetensors files with a `config.json`, as Hugging Face lays them out.
//!
//! [`Checkpoint`] opens one without trusting it, [`Plan`] decides what a [`Request`] makes of it, and [`write`] does
//! that, a block of rows at a time on all cores. Memory does not grow with the model.

#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("safetensors files are little-endian, and this crate reads them without swapping bytes");

mod error;
mod plan;
mod positioned;
mod read;
mod request;
mod write;

pub use error::{CheckpointError, Result};
pub use plan::{Changed, Kept, KeptBecause, OutputShard, OutputTensor, Plan, QuantizationConfig, RuledOut};
pub use read::{
    Checkpoint, Config, HEADER_LIMIT, Header, Index, Layer, LayerFormat, ScaleNaming, Scales, Shard,
    ShardFile, Survey, Tensor, TensorId, TensorReader,
};
pub use request::{Convert, ExpertLayout, Format, Quantize, Request, ScaleKind};
pub use safetensors::Dtype;
pub use write::{OtherFile, Outcome, Output, Progress, write};

/// Side of a quantization block.
pub const BLOCK: usize = 128;

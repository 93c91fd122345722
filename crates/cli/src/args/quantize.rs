//! Arguments of `octile quantize`, `octile convert` and `octile dequantize`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// What comes out, for the help text.
pub const QUANTIZE_HELP: &str = "\
IN is a folder in the Hugging Face layout (safetensors shards, index, config.json),
or one .safetensors file. For every linear layer OUT holds

  X.weight             F8_E4M3 [N, K]
  X.weight_scale_inv   F32 [ceil(N/128), ceil(K/128)], a multiplier

with the codes and scales of transformers' fine-grained fp8 quantizer, bit by bit.
Embeddings, lm_head, routers, norms, one-dimensional tensors and weights whose K is
not a multiple of 128 stay as they are; fused expert tensors are split per expert;
weights that are fp8 already keep their codes. config.json gets a
quantization_config, every other file is copied.

OUT appears when it is whole. After a kill, the same command resumes with the shards
that were finished; after an error nothing is left behind. IN is never changed.

Examples:
  octile quantize Qwen3-8B -o Qwen3-8B-FP8
  octile quantize Qwen3-8B -o Qwen3-8B-FP8 --dry-run
  octile quantize Qwen3-8B -o out --format compressed-tensors
  octile quantize Qwen3-8B -o out --skip 'model.layers.0.*' --skip '*.o_proj'
  octile quantize Qwen3-8B -o out --only '*.mlp.*' --scales ue8m0
  octile quantize model.safetensors -o model-fp8.safetensors";

/// For the help text.
pub const CONVERT_HELP: &str = "\
Codes are kept, so converting between formats loses nothing. With --scales ue8m0,
scales that are powers of two stay as they are; others are refused unless
--requantize allows rounding them and the codes with them.

Examples:
  octile convert Qwen3-8B-FP8 -o out --format compressed-tensors
  octile convert DeepSeek-V3 -o out --scales ue8m0 --requantize";

/// For the help text.
pub const DEQUANTIZE_HELP: &str = "\
Each value is its code times its scale, computed in f32 and rounded once.

Examples:
  octile dequantize Qwen3-8B-FP8 -o Qwen3-8B-BF16
  octile dequantize Qwen3-8B-FP8 -o out --dtype f32";

/// Where to write: shared by all three.
#[derive(Debug, Clone, ClapArgs)]
pub struct OutputArgs {
    /// Checkpoint folder, or one .safetensors file
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// New folder, or for one file a new .safetensors file
    #[arg(short, long = "output", value_name = "OUT")]
    pub output: PathBuf,
    /// Print what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Replace OUT if it is a checkpoint
    #[arg(long, visible_alias = "overwrite")]
    pub force: bool,
    /// Threads [default: all cores, at most 48]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Arguments of `octile quantize`.
#[derive(Debug, Clone, ClapArgs)]
pub struct QuantizeArgs {
    /// Where to read and write.
    #[command(flatten)]
    pub place: OutputArgs,
    /// Layout of the output
    #[arg(long, value_enum, default_value_t = FormatChoice::Fp8)]
    pub format: FormatChoice,
    /// Kind of scales: any f32, or powers of two (stored as F32)
    #[arg(long, value_enum, default_value_t = ScaleKindChoice::F32)]
    pub scales: ScaleKindChoice,
    /// Leave tensors or modules as they are whose names match; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub skip: Vec<String>,
    /// Quantize only tensors or modules whose names match; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Layout of fused expert tensors where their shapes leave it open
    #[arg(long, value_enum)]
    pub expert_layout: Option<LayoutChoice>,
}

/// Arguments of `octile convert`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ConvertArgs {
    /// Where to read and write.
    #[command(flatten)]
    pub place: OutputArgs,
    /// Layout of the output [default: that of the input]
    #[arg(long, value_enum)]
    pub format: Option<FormatChoice>,
    /// Kind of scales: any f32, or powers of two (stored as F32) [default: that of the input]
    #[arg(long, value_enum)]
    pub scales: Option<ScaleKindChoice>,
    /// Round scales that are no powers of two, and their codes: loses precision
    #[arg(long)]
    pub requantize: bool,
}

/// Arguments of `octile dequantize`.
#[derive(Debug, Clone, ClapArgs)]
pub struct DequantizeArgs {
    /// Where to read and write.
    #[command(flatten)]
    pub place: OutputArgs,
    /// Element type of the output
    #[arg(long, value_enum, default_value_t = FloatChoice::Bf16)]
    pub dtype: FloatChoice,
}

/// Layout of an fp8 checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// X.weight_scale_inv: transformers, DeepSeek, vLLM, SGLang
    Fp8,
    /// X.weight_scale: compressed-tensors, vLLM
    CompressedTensors,
}

/// Kind of scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScaleKindChoice {
    /// Any f32
    F32,
    /// Powers of two
    Ue8m0,
}

/// Layout of fused expert tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutChoice {
    /// [experts, outputs, inputs]
    OutIn,
    /// [experts, inputs, outputs]
    InOut,
}

/// Element type of dequantized weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it; doc comments would become help text")]
pub enum FloatChoice {
    Bf16,
    F16,
    F32,
}

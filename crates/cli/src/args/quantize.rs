//! Arguments of `octile quantize`, `octile convert` and `octile dequantize`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Help text of `quantize`.
pub(super) const QUANTIZE_HELP: &str = "\
IN is a folder in the Hugging Face layout (safetensors shards, index,
config.json), or one .safetensors file. For every linear layer OUT contains

  X.weight             F8_E4M3 [N, K]
  X.weight_scale_inv   F32 [ceil(N/128), ceil(K/128)], a multiplier

bit-identical to the fine-grained fp8 quantizer of transformers. Embeddings,
lm_head, routers, norms, one-dimensional tensors and weights whose K is not a
multiple of 128 are not quantized; fused expert tensors are split per expert;
fp8 weights keep their codes. config.json gets a quantization_config; all other
files are copied.

OUT appears only when complete. After a kill, the same command resumes with the
finished shards; after an error nothing is left behind. IN is never changed.

Examples:
  octile quantize Qwen3-8B -o Qwen3-8B-FP8
  octile quantize Qwen3-8B -o Qwen3-8B-FP8 --dry-run
  octile quantize Qwen3-8B -o out --format compressed-tensors
  octile quantize Qwen3-8B -o out --skip 'model.layers.0.*' --skip '*.o_proj'
  octile quantize Qwen3-8B -o out --only '*.mlp.*' --scales ue8m0
  octile quantize model.safetensors -o model-fp8.safetensors";

/// Help text of `convert`.
pub(super) const CONVERT_HELP: &str = "\
Converting between formats keeps the codes and is lossless. With --scales ue8m0,
all scales must be powers of two; --requantize rounds other scales and adjusts
the codes.

Examples:
  octile convert Qwen3-8B-FP8 -o out --format compressed-tensors
  octile convert DeepSeek-V3 -o out --scales ue8m0 --requantize";

/// Help text of `dequantize`.
pub(super) const DEQUANTIZE_HELP: &str = "\
Each value is code times scale, computed in f32 and rounded once.

Examples:
  octile dequantize Qwen3-8B-FP8 -o Qwen3-8B-BF16
  octile dequantize Qwen3-8B-FP8 -o out --dtype f32";

/// Input and output of all three commands.
#[derive(Debug, Clone, ClapArgs)]
pub struct OutputArgs {
    /// Checkpoint folder, or one .safetensors file
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// New folder, or new .safetensors file for one file
    #[arg(short, long = "output", value_name = "OUT")]
    pub output: PathBuf,
    /// Print the plan and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Replace OUT if it is a checkpoint
    #[arg(long, visible_alias = "overwrite")]
    pub force: bool,
    /// Threads [default: one per core, at most 48]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Arguments of `octile quantize`.
#[derive(Debug, Clone, ClapArgs)]
pub struct QuantizeArgs {
    /// Input and output.
    #[command(flatten)]
    pub place: OutputArgs,
    /// Layout of the output
    #[arg(long, value_enum, default_value_t = FormatChoice::Fp8)]
    pub format: FormatChoice,
    /// Scales: any f32, or powers of two stored as F32
    #[arg(long, value_enum, default_value_t = ScaleKindChoice::F32)]
    pub scales: ScaleKindChoice,
    /// Do not quantize tensors or modules that match; repeatable
    #[arg(long, value_name = "GLOB")]
    pub skip: Vec<String>,
    /// Quantize only tensors or modules that match; repeatable
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Layout of fused expert tensors with ambiguous shapes
    #[arg(long, value_enum)]
    pub expert_layout: Option<LayoutChoice>,
}

/// Arguments of `octile convert`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ConvertArgs {
    /// Input and output.
    #[command(flatten)]
    pub place: OutputArgs,
    /// Layout of the output [default: as input]
    #[arg(long, value_enum)]
    pub format: Option<FormatChoice>,
    /// Scales: any f32, or powers of two [default: as input]
    #[arg(long, value_enum)]
    pub scales: Option<ScaleKindChoice>,
    /// Round other scales to powers of two; loses precision
    #[arg(long)]
    pub requantize: bool,
}

/// Arguments of `octile dequantize`.
#[derive(Debug, Clone, ClapArgs)]
pub struct DequantizeArgs {
    /// Input and output.
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

/// Values that scales may have.
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

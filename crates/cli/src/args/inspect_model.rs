//! Arguments of `octile inspect-model`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::JsonArgs;

/// Help text.
pub(super) const INSPECT_MODEL_HELP: &str = "\
MODEL is a folder in the Hugging Face layout or one .safetensors file. Every fp8
weight is read once: scales, codes, and the signal-to-quantization-noise ratio,
estimated from the codes or, with --against, measured. Weights in other formats
are listed.

Finds truncated and missing shards, an index or config.json that disagrees with
the tensors, missing, malformed, NaN or negative scales, reciprocals in place of
scales, transposed scales, scales rounded to powers of two without adjusting the
codes, clipped and NaN codes. What the codes cannot show without the original,
the report says.

Exit codes: 0 nothing found, 1 defects found, 2 the checkpoint cannot be read.

Examples:
  octile inspect-model Qwen3-8B-FP8
  octile inspect-model Qwen3-8B-FP8 --against Qwen3-8B --html model.html
  octile inspect-model model-00001-of-00004.safetensors --worst 50
  octile inspect-model DeepSeek-V3 --json=model.json --quiet";

/// Arguments of `octile inspect-model`.
#[derive(Debug, Clone, ClapArgs)]
pub struct InspectModelArgs {
    /// Checkpoint folder, or one .safetensors file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Original checkpoint to measure the error against
    #[arg(long, value_name = "MODEL")]
    pub against: Option<PathBuf>,
    /// Number of weights to print, worst first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub worst: usize,
    /// Also write a page with plots; - is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Threads [default: one per core, at most 48]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Destination of the document.
    #[command(flatten)]
    pub json: JsonArgs,
}

//! The problems of `test`, `bench` and `tune`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use octile_core::{ActivationKind, FloatKind, Problem};

use super::{IdleOption, OutChoice, Sample, ScalesChoice, XChoice};

/// Shapes and element types.
#[derive(Debug, Clone, ClapArgs)]
pub struct ProblemArgs {
    /// Rows of x, outputs, inputs, and quantization block; repeatable
    #[arg(long = "shape", value_name = "MxNxK:QB")]
    pub shapes: Vec<Problem>,
    /// Shapes of a file: one MxNxK:QB per line, # comments, - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shapes", "model"])]
    pub shapes_from: Option<PathBuf>,
    /// Sample of model layers: fit (200), judge (100), or a number (100)
    ///
    /// Layers of published models under tensor parallelism, with 1 to 16384 rows. Fit a performance model to
    /// the first, and judge it by the second: they have no shape in common. Every number draws a sample that
    /// shares no shape with these.
    #[arg(long, value_name = "NAME", allow_negative_numbers = true,
        conflicts_with_all = ["shapes", "model", "shapes_from"])]
    pub sample: Option<Sample>,
    /// Leave out shapes with more GFLOP than this
    #[arg(long, value_name = "GFLOP", value_parser = gflop, allow_negative_numbers = true)]
    pub max_gflop: Option<f64>,
    /// Layers of this checkpoint instead of shapes
    ///
    /// A folder in the Hugging Face layout, or one .safetensors file: its fp8 weights, or those that `octile
    /// quantize` would quantize. `test` checks the first layer of each shape with its real weight. `tune`
    /// adds the layers that its config.json describes, fused ones included, and needs nothing else.
    #[arg(long, value_name = "MODEL", conflicts_with = "shapes")]
    pub model: Option<PathBuf>,
    /// Rows of x for --model [default: 1,16,512]
    #[arg(long, value_name = "M,..", value_delimiter = ',', requires = "model", value_parser = token_count,
        allow_negative_numbers = true)]
    pub tokens: Vec<usize>,
    /// Activations: fp8, floats to quantize, or unquantized (-plain)
    #[arg(long, value_enum, default_value_t = XChoice::Fp8)]
    pub x: XChoice,
    /// Scales per 1 x QB token group or QB x QB block [default: token]
    #[arg(long, value_enum)]
    pub x_scales: Option<ScalesChoice>,
    /// Element type of the result
    #[arg(long, value_enum, default_value_t = OutChoice::F32)]
    pub out: OutChoice,
}

impl ProblemArgs {
    /// The requested activations.
    pub fn activation(&self) -> ActivationKind {
        self.x.activation(self.x_scales.unwrap_or(ScalesChoice::Token))
    }

    /// The requested result type.
    pub fn out_kind(&self) -> FloatKind {
        self.out.kind()
    }

    /// Whether some problem is named.
    pub fn is_named(&self) -> bool {
        !self.shapes.is_empty() || self.shapes_from.is_some() || self.sample.is_some() || self.model.is_some()
    }

    /// Rejects options that have no effect.
    pub fn require_sense(&self) -> Result<(), IdleOption> {
        // clap drops `requires` where an option that conflicts with the required one is given.
        if !self.tokens.is_empty() && self.model.is_none() {
            return Err(IdleOption { option: "--tokens", needs: "--model" });
        }
        self.x.require_scales(self.x_scales)
    }
}

/// A positive amount of work.
fn gflop(text: &str) -> Result<f64, String> {
    let gflop = text.parse::<f64>().ok().filter(|gflop| *gflop > 0.0 && gflop.is_finite());
    gflop.ok_or_else(|| "expected a positive number, such as 20".to_owned())
}

/// A number of tokens.
fn token_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1 << 20).contains(count));
    count.ok_or_else(|| "expected numbers from 1 to 1048576, such as 1,16,512".to_owned())
}

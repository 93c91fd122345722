//! Arguments of `octile run-module`.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};
use octile_core::Problem;

use super::{OutChoice, ScalesChoice, XChoice};

/// Help text of `run-module`.
pub(super) const RUN_MODULE_HELP: &str = "\
A PJRT plugin is the library through which XLA uses a device. For NVIDIA GPUs it
is xla_cuda_plugin.so of the wheel jax-cuda13-pjrt, which needs the nvidia
wheels that jax[cuda13] installs; for TPUs it is libtpu.so. This command has not
been tested on a TPU.

With --shape, the operands are random, and the result is checked against an f64
reference with a bound on every element; without MODULE, a plain StableHLO
version of the operation runs. With --tensors, a file provides the operands.

Examples:
  octile run-module --plugin xla_cuda_plugin.so --shape 512x512x512:128
  octile run-module out/v4_whole_k_strip/stablehlo.mlir --plugin libtpu.so \\
    --shape 512x512x512:128
  octile run-module model.mlir --plugin xla_cuda_plugin.so \\
    --tensors model.safetensors --expect out";

/// Arguments of `octile run-module`.
#[derive(Debug, Clone, ClapArgs)]
#[command(group = ArgGroup::new("source").args(["shape", "tensors"]).required(true))]
pub struct RunModuleArgs {
    /// StableHLO text with a function @main; - is stdin
    #[arg(value_name = "MODULE")]
    pub module: Option<PathBuf>,
    /// PJRT plugin of the device
    #[arg(long, value_name = "PATH")]
    pub plugin: PathBuf,
    /// Time limit for finding the device
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub timeout: u64,
    /// Client option of the plugin; repeatable
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// Use random operands of this problem
    #[arg(long, value_name = "MxNxK:QB")]
    pub shape: Option<Problem>,
    /// With --shape: activations, as in `octile test`
    #[arg(long, value_enum, default_value_t = XChoice::Fp8, conflicts_with = "tensors")]
    pub x: XChoice,
    /// With --shape: scales of activations [default: token]
    #[arg(long, value_enum, conflicts_with = "tensors")]
    pub x_scales: Option<ScalesChoice>,
    /// With --shape: element type of the result
    #[arg(long, value_enum, default_value_t = OutChoice::F32, conflicts_with = "tensors")]
    pub out: OutChoice,
    /// With --shape: seed of the operands
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "tensors")]
    pub seed: u64,
    /// Read the operands from a safetensors file
    #[arg(long, value_name = "FILE", requires = "module")]
    pub tensors: Option<PathBuf>,
    /// With --tensors: operand names in argument order
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "x,w_q,w_scale,x_scale",
        requires = "tensors"
    )]
    pub operands: Vec<String>,
    /// With --tensors: tensor to compare the first result with
    #[arg(long, value_name = "NAME", requires = "tensors")]
    pub expect: Option<String>,
    /// With --expect: largest error, relative to the largest magnitude
    #[arg(long, value_name = "T", default_value_t = 1e-5, requires = "expect")]
    pub tolerance: f64,
}

impl RunModuleArgs {
    /// Returns the problem of `--shape`.
    pub fn problem(&self) -> Option<Problem> {
        let shape = self.shape?;
        let scales = self.x_scales.unwrap_or(ScalesChoice::Token);
        Some(shape.with_x(self.x.activation(scales)).with_out(self.out.kind()))
    }
}

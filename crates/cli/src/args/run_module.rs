//! Arguments of `octile run-module`.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};
use octile_core::Problem;

use super::{OutChoice, ScalesChoice, XChoice};

/// What it does, for the help text.
pub const RUN_MODULE_HELP: &str = "\
A PJRT plugin is the library through which XLA reaches a device. For NVIDIA GPUs
it is xla_cuda_plugin.so of the wheel jax-cuda13-pjrt, with the nvidia wheels
that jax[cuda13] installs beside it; for TPUs it is libtpu.so. TPUs are reached
like any other device, but this command has not been run on one.

With --shape the operands are random, and the result is checked against an f64
reference with a bound on every element; without MODULE, the operation in plain
StableHLO is run. With --tensors the operands come from a file.

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
    /// StableHLO text with a function @main [default: the operation of --shape]
    #[arg(value_name = "MODULE")]
    pub module: Option<PathBuf>,
    /// The PJRT plugin of the device
    #[arg(long, value_name = "PATH")]
    pub plugin: PathBuf,
    /// How long the plugin may look for its device
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// An option of the plugin's client; may be given more than once
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// Random operands x, w_q, w_scale (and x_scale) of this problem
    #[arg(long, value_name = "MxNxK:QB")]
    pub shape: Option<Problem>,
    /// With --shape: how the activations come, as in `octile test`
    #[arg(long, value_enum, default_value_t = XChoice::Fp8, conflicts_with = "tensors")]
    pub x: XChoice,
    /// With --shape: which activations share a scale [default: block]
    #[arg(long, value_enum, conflicts_with = "tensors")]
    pub x_scales: Option<ScalesChoice>,
    /// With --shape: element type of the result
    #[arg(long, value_enum, default_value_t = OutChoice::F32, conflicts_with = "tensors")]
    pub out: OutChoice,
    /// With --shape: seed of the operands
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "tensors")]
    pub seed: u64,
    /// Operands of MODULE from a safetensors file
    #[arg(long, value_name = "FILE", requires = "module")]
    pub tensors: Option<PathBuf>,
    /// With --tensors: names of the operands, in the order of the arguments of @main
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "x,w_q,w_scale,x_scale",
        requires = "tensors"
    )]
    pub operands: Vec<String>,
    /// With --tensors: the tensor that the first result must equal, within --tolerance
    #[arg(long, value_name = "NAME", requires = "tensors")]
    pub expect: Option<String>,
    /// With --expect: the largest error, as a part of the largest expected magnitude
    #[arg(long, value_name = "T", default_value_t = 1e-5, requires = "expect")]
    pub tolerance: f64,
}

impl RunModuleArgs {
    /// The problem of `--shape`.
    pub fn problem(&self) -> Option<Problem> {
        let shape = self.shape?;
        let scales = self.x_scales.unwrap_or(ScalesChoice::Block);
        Some(shape.with_x(self.x.activation(scales)).with_out(self.out.kind()))
    }
}

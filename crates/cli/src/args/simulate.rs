//! Arguments of `octile simulate`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{IdleOption, JsonArgs};

/// Help text of `simulate`.
pub(super) const SIMULATE_HELP: &str = "\
KERNEL is Mosaic text from JAX or Octile, or a StableHLO module that contains a
Mosaic kernel. It runs on this machine, with DMAs concurrent to the core. The
simulator reports data races, deadlocks, semaphores that are not zero at the
end, reads of uninitialized memory, and out-of-bounds accesses.

The operands are the tensors of FILE in stored order, except the expected one,
`out`, and names that start with `reference`; or those listed in --operands. The
stablehlo.mlir of `octile inspect` takes x, w_q, w_scale and x_scale, and runs
on random operands without a FILE; mosaic.mlir takes them in the layout of its
version.

A result passes if every element is within 2 ulp of the expected one, plus what
another summation order can change. An f64 tensor may be expected of a kernel
that returns any float type. The MXU rounds f32 operands to bf16 unless
`tpu.matmul` asks for more precision; so does the simulator, with a note.

A kernel that executes more than --max-operations is stopped and fails. A scalar
operation counts 1, a vector operation 1 per 32 elements, a matmul 1 per 1024
multiply-adds. Unsupported operations are rejected before the run.

Times are modelled, not measured: MXU, VPU and scalar unit at the rates of the
chip, and one DMA engine with the HBM bandwidth and a fixed latency. The trace
opens in chrome://tracing and in Perfetto.

A KERNEL that ends in .ptx is a GPU kernel in its folder of `octile inspect
--target sm_90a`; the PTX may have been edited. It runs thread by thread on
random operands, in several schedules, and its result is compared with an f64
reference. The simulator reports data races in shared memory, deadlocks,
out-of-bounds accesses, missing fences, and accesses before the previous kernel
has finished (PDL). No time is modelled. It takes seconds per 10^9 of M x N x K,
so inspect a shape with few tiles.

Examples:
  octile simulate kernel.mlir --tensors t.safetensors --expect out
  octile simulate compilation_output/v3_smem_scales/stablehlo.mlir
  octile simulate gpu/v4_whole_k_strip/kernel.ptx
  octile simulate kernel.mlir --tensors t.safetensors --trace trace.json
  octile simulate kernel.mlir --tensors t.safetensors --svg timeline.svg";

/// Arguments of `octile simulate`.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct SimulateArgs {
    /// Mosaic or StableHLO text, or kernel.ptx; - is stdin
    #[arg(value_name = "KERNEL")]
    pub kernel: PathBuf,
    /// Safetensors file with the operands; - is stdin
    #[arg(long, value_name = "FILE")]
    pub tensors: Option<PathBuf>,
    /// Operand names in argument order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub operands: Vec<String>,
    /// Tensor to compare the first result with
    #[arg(long, value_name = "NAME")]
    pub expect: Option<String>,
    /// Detect data races (the default)
    #[arg(long, conflicts_with = "no_races")]
    pub races: bool,
    /// Do not detect data races
    #[arg(long)]
    pub no_races: bool,
    /// Modelled TPU [default: that of the manifest, or tpu7x]
    #[arg(long, value_name = "CHIP")]
    pub chip: Option<String>,
    /// Write a Chrome trace of DMAs, waits and matmuls
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the timeline as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Stop after N operations [default: generous]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_operations: Option<u64>,
    /// Also write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also print GitHub Actions annotations
    #[arg(long)]
    pub github: bool,
    /// Destination of the report.
    #[command(flatten)]
    pub json: JsonArgs,
}

impl SimulateArgs {
    /// Rejects options that have no effect on a GPU kernel.
    pub fn require_ptx_options(&self) -> Result<(), IdleOption> {
        let options = [
            ("--tensors", self.tensors.is_some()),
            ("--operands", !self.operands.is_empty()),
            ("--expect", self.expect.is_some()),
            ("--no-races", self.no_races),
            ("--chip", self.chip.is_some()),
            ("--trace", self.trace.is_some()),
            ("--svg", self.svg.is_some()),
        ];
        require_none(&options, "a Mosaic kernel")
    }

    /// Rejects options that have no effect without tensors.
    pub fn require_no_tensor_options(&self) -> Result<(), IdleOption> {
        let options = [("--operands", !self.operands.is_empty()), ("--expect", self.expect.is_some())];
        require_none(&options, "--tensors")
    }
}

/// Rejects the first option that is given.
fn require_none(options: &[(&'static str, bool)], needs: &'static str) -> Result<(), IdleOption> {
    match options.iter().find(|(_, given)| *given) {
        Some(&(option, _)) => Err(IdleOption { option, needs }),
        None => Ok(()),
    }
}

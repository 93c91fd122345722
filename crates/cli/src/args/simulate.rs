//! Arguments of `octile simulate`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use octile_mosaic::limits::MAX_DEVICES;

use super::{IdleOption, JsonArgs};

/// Help text of `simulate`.
pub(super) const SIMULATE_HELP: &str = "\
KERNEL is any Pallas TPU kernel, as JAX lowers it on any machine:

  lowered = jax.jit(f).trace(*args).lower(lowering_platforms=(\"tpu\",))
  open(\"lowered.mlir\", \"w\").write(lowered.as_text())

Also its generic form, MLIR bytecode (also base64), Mosaic text, a folder of
--xla_mosaic_dump_to, and stablehlo.mlir and mosaic.mlir of `octile inspect`. It
runs on this machine, with DMAs concurrent to the core. The simulator reports
data races, deadlocks, semaphores that are not zero at the end, reads of
uninitialized memory, and out-of-bounds accesses. The StableHLO around kernels
is evaluated; --kernel runs one kernel alone, on operands of its own. Kernels of
a folder run one after the other.

Without --tensors the operands are random. Those of FILE are matched to the
arguments by name, by number (a00, a01 or arg0, arg1), or by type and shape; if
that leaves a choice, list them in call order with --operands. `out`, `out0`,
names that start with `reference`, and the expected ones are not operands.

A result passes if |result - expected| <= atol + rtol * |expected| everywhere.
The defaults follow the type and what the kernel computes: rounding, the order
of sums, exponentials, intermediate bf16. Integers must be equal. An expected
tensor may have a wider float type than the result. The MXU rounds f32 operands
to bf16 unless `precision` asks for more; so does the simulator, with a note.

A kernel that executes more than --max-operations is stopped and fails. A scalar
operation counts 1, a vector operation 1 per 32 elements, a matmul 1 per 1024
multiply-adds. Unsupported operations are rejected before the run.

A module with a device mesh (shard_map) runs on all devices of the mesh, with
whole operands and results. With --devices N, any other kernel runs on N: an
operand with one more dimension, N long, gives each device its part, every other
one is the same on all, and results get such a dimension. Findings name the
devices. DMAs from one device to another arrive in the order of their start.

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
  octile simulate lowered.mlir
  octile simulate lowered.mlir --tensors t.safetensors --expect out
  octile simulate lowered.mlir --tensors t.safetensors --expect out,lse
  octile simulate lowered.mlir --github --junit simulate.xml
  octile simulate lowered.mlir --seed 7 --save results.safetensors
  octile simulate lowered.mlir --trace trace.json
  octile simulate compilation_output/v3_smem_scales/stablehlo.mlir
  octile simulate gpu/v4_whole_k_strip/kernel.ptx";

/// Arguments of `octile simulate`.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct SimulateArgs {
    /// A lowered Pallas kernel, a Mosaic dump folder, or kernel.ptx; - is stdin
    #[arg(value_name = "KERNEL")]
    pub kernel: PathBuf,
    /// Run one kernel of the module alone
    #[arg(long = "kernel", value_name = "NAME")]
    pub only: Option<String>,
    /// Safetensors file with the operands; - is stdin [default: random]
    #[arg(long, value_name = "FILE")]
    pub tensors: Option<PathBuf>,
    /// Operand names in argument order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub operands: Vec<String>,
    /// Tensors to compare the results with, in order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub expect: Vec<String>,
    /// Relative tolerance [default: by type and operations]
    #[arg(long, value_name = "R", value_parser = tolerance)]
    pub rtol: Option<f64>,
    /// Absolute tolerance [default: by type and operations]
    #[arg(long, value_name = "A", value_parser = tolerance)]
    pub atol: Option<f64>,
    /// Seed of random operands [default: 42]
    #[arg(long, value_name = "N", conflicts_with = "tensors")]
    pub seed: Option<u64>,
    /// Write the results to a safetensors file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Detect data races (the default)
    #[arg(long, conflicts_with = "no_races")]
    pub races: bool,
    /// Do not detect data races
    #[arg(long)]
    pub no_races: bool,
    /// Number of devices [default: the module's mesh, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_DEVICES as i64))]
    pub devices: Option<u16>,
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
            ("--kernel", self.only.is_some()),
            ("--tensors", self.tensors.is_some()),
            ("--operands", !self.operands.is_empty()),
            ("--expect", !self.expect.is_empty()),
            ("--rtol", self.rtol.is_some()),
            ("--atol", self.atol.is_some()),
            ("--seed", self.seed.is_some()),
            ("--save", self.save.is_some()),
            ("--no-races", self.no_races),
            ("--devices", self.devices.is_some()),
            ("--chip", self.chip.is_some()),
            ("--trace", self.trace.is_some()),
            ("--svg", self.svg.is_some()),
        ];
        require_none(&options, "a Mosaic kernel")
    }

    /// Rejects options for a single kernel; the error is the option.
    pub fn require_one_kernel(&self) -> Result<(), &'static str> {
        let options = [
            ("--tensors", self.tensors.is_some()),
            ("--save", self.save.is_some()),
            ("--trace", self.trace.is_some()),
            ("--svg", self.svg.is_some()),
            ("--junit", self.junit.is_some()),
            ("--json", self.json.json.is_some()),
        ];
        options.iter().find(|(_, given)| *given).map_or(Ok(()), |(option, _)| Err(option))
    }

    /// Rejects options that have no effect without tensors.
    pub fn require_no_tensor_options(&self) -> Result<(), IdleOption> {
        let options = [("--operands", !self.operands.is_empty()), ("--expect", !self.expect.is_empty())];
        require_none(&options, "--tensors")
    }

    /// Rejects tolerances without anything to compare.
    pub fn require_expected_for_tolerances(&self) -> Result<(), IdleOption> {
        let options = [("--rtol", self.rtol.is_some()), ("--atol", self.atol.is_some())];
        match self.expect.is_empty() {
            true => require_none(&options, "--expect"),
            false => Ok(()),
        }
    }
}

/// Parses a tolerance: a finite number that is not negative.
fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("a tolerance is a number such as 1e-5, not negative".to_owned()),
    }
}

/// Rejects the first option that is given.
fn require_none(options: &[(&'static str, bool)], needs: &'static str) -> Result<(), IdleOption> {
    match options.iter().find(|(_, given)| *given) {
        Some(&(option, _)) => Err(IdleOption { option, needs }),
        None => Ok(()),
    }
}

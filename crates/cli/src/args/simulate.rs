//! Arguments of `octile simulate`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::IdleOption;

/// What it does, for the help text.
pub const SIMULATE_HELP: &str = "\
KERNEL is Mosaic text as JAX or Octile write it, or a StableHLO module with such
a kernel inside. It runs on this machine; its copies are agents beside the core,
and what they may do in any order is checked: races, deadlocks, semaphores that
are not zero at the end, memory that nothing has written, accesses out of
bounds.

Operands are the tensors of FILE in the order in which they are stored, without
the expected one, one called `out`, and those whose name begins with
`reference`; or those that --operands names. Of what `octile inspect` writes,
stablehlo.mlir takes x, w_q, w_scale and x_scale as they are, whatever the
version, and runs on random ones without a FILE; mosaic.mlir takes them as its
version lays them out.

A result passes if every element is as expected up to 2 units in the last place
and what sums in another order can differ by. A tensor of f64 may be expected of
a kernel that returns any kind of float. The matrix units round f32 operands to
bf16 unless `tpu.matmul` asks for more precision; so does the simulator, and
says at which lines.

A kernel that executes more than --max-operations is stopped and fails. A scalar
operation counts one, a vector operation one per 32 elements, a product one per
1024 multiply-adds. Operations and attributes that are not simulated are refused
before anything runs.

Times are modelled, not measured: matrix, vector and scalar units at the rates
of the chip, one copy engine at the bandwidth of device memory with a fixed
latency. The trace opens in chrome://tracing and in Perfetto.

A KERNEL whose name ends in .ptx is a GPU kernel in the folder where `octile
inspect --target sm_90a` wrote it; it may have been changed since. It is run
thread by thread on random operands, in several orders of events, and its
result compared with an f64 reference. What is looked for: races in shared
memory, deadlocks, accesses out of bounds, missing fences, memory touched before
the kernel before is over. No time is modelled. It takes some seconds for every
10^9 of M x N x K, so ask `octile inspect` for a shape of few tiles.

Examples:
  octile simulate kernel.mlir --tensors t.safetensors --expect out
  octile simulate compilation_output/v3_smem_scales/stablehlo.mlir
  octile simulate gpu/v4_whole_k_strip/kernel.ptx
  octile simulate kernel.mlir --tensors t.safetensors --trace trace.json
  octile simulate kernel.mlir --tensors t.safetensors --svg timeline.svg";

/// Arguments of `octile simulate`.
#[derive(Debug, Clone, ClapArgs)]
pub struct SimulateArgs {
    /// Mosaic or StableHLO text, or a kernel.ptx that `octile inspect` wrote
    #[arg(value_name = "KERNEL")]
    pub kernel: PathBuf,
    /// Operands of a Mosaic kernel, a safetensors file
    #[arg(long, value_name = "FILE")]
    pub tensors: Option<PathBuf>,
    /// Names of the operands, in the order of the kernel's arguments
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub operands: Vec<String>,
    /// The tensor of the file that the first result is compared with
    #[arg(long, value_name = "NAME")]
    pub expect: Option<String>,
    /// Look for races: the default
    #[arg(long, conflicts_with = "no_races")]
    pub races: bool,
    /// Do not look for races
    #[arg(long)]
    pub no_races: bool,
    /// The chip that is modelled: tpu7x, v6e, v5e, v5p or v4 [default: that of a dump, or tpu7x]
    #[arg(long, value_name = "CHIP")]
    pub chip: Option<String>,
    /// Stop a Mosaic kernel after so many operations [default: 134217728]
    #[arg(long, value_name = "N")]
    pub max_operations: Option<u64>,
    /// Write a Chrome trace of every copy, wait and product
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Draw the timeline
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl SimulateArgs {
    /// Refuses options that mean nothing for a GPU kernel.
    pub fn require_ptx_options(&self) -> Result<(), IdleOption> {
        let options = [
            ("--tensors", self.tensors.is_some()),
            ("--operands", !self.operands.is_empty()),
            ("--expect", self.expect.is_some()),
            ("--no-races", self.no_races),
            ("--chip", self.chip.is_some()),
            ("--max-operations", self.max_operations.is_some()),
            ("--trace", self.trace.is_some()),
            ("--svg", self.svg.is_some()),
        ];
        require_none(&options, "a Mosaic kernel")
    }

    /// Refuses options that mean nothing where there are no tensors.
    pub fn require_no_tensor_options(&self) -> Result<(), IdleOption> {
        let options = [("--operands", !self.operands.is_empty()), ("--expect", self.expect.is_some())];
        require_none(&options, "--tensors")
    }
}

/// Refuses the first option that is given.
fn require_none(options: &[(&'static str, bool)], needs: &'static str) -> Result<(), IdleOption> {
    match options.iter().find(|(_, given)| *given) {
        Some(&(option, _)) => Err(IdleOption { option, needs }),
        None => Ok(()),
    }
}

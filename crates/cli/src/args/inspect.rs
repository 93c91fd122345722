//! Arguments of `octile inspect`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use octile_core::{Problem, plan::tpu::BlockMode};
use octile_mosaic::limits::MAX_DEVICES;

use super::{ChipChoice, IdleOption, OutChoice, ScalesChoice, StrategyChoice, XChoice, promotion};

/// Help text of `inspect`.
pub(super) const INSPECT_HELP: &str = "\
Compiles the TPU kernels with the real TPU compiler; no TPU is needed. For each
version, DIR holds the optimized HLO, named as in the original guides, and a
folder with everything else:

  DIR/v2_manual_async_dma_hlo.txt   copy of optimized.hlo.txt below
  DIR/v2_manual_async_dma/
    manifest.json                   plan, versions, flags, figures, files
    stablehlo.mlir                  compiled module
    mosaic.mlir                     kernel in that module
    optimized.hlo.txt               module after optimization
    packed-bundles-post-ra.txt      LLO, one bundle per cycle
    final_bundles.txt               LLO without empty bundles
    final_hlo-static-per-bundle-utilization.txt
    schedule-analysis.txt
    executable.bin                  for a runtime of the same libtpu version
    raw/                            all compiler output, with --keep-dumps

With --target sm_90a, assembles the GPU kernels with ptxas; no GPU is needed:

  DIR/v4_whole_k_strip/
    manifest.json                   plan, versions, registers, shared memory,
                                    spills, counts of QGMMA, UTMALDG, SYNCS...
    kernel.ptx                      PTX, as passed to the driver
    kernel.sass                     machine code, from nvdisasm
    kernel.cubin
    ptxas.txt                       output of `ptxas -v`
    quantize/                       with --x bf16, f16 or f32: the same files
                                    for the quantization kernel

With a MODULE, compiles it with its Pallas kernels; DIR gets a folder with the
same files for each kernel, named like the kernel. LLO instructions carry the
Python lines that they come from, which `octile analyze` adds up. A MODULE with
a device mesh (shard_map) is compiled for all devices of the mesh, any other one
for --devices, each of which runs the whole module. A kernel without a program
(bytecode, base64, Mosaic text, a folder of --xla_mosaic_dump_to) gets one that
passes operands of the types that the kernel states.

The versions are v1_auto_double_buffer, v2_manual_async_dma, v3_smem_scales and
v4_whole_k_strip; `--strategy best` is v4. Existing versions are replaced as a
whole; if anything fails, nothing is changed. `octile analyze`, `verify`,
`compare` and `report` read these folders.

Examples:
  octile inspect
  octile inspect --strategy strip --shape 4096x4096x4096:512 -o out
  octile inspect --mode aligned --x-scales block      as in the guides
  octile inspect lowered.mlir --chip v6e -o out       any Pallas kernel
  octile inspect kernel.mlir --devices 4 -o out       a kernel by itself
  octile inspect --chip v6e --x bf16 --strategy v2 --strategy v3
  octile inspect --target sm_90a --strategy best --x bf16
  octile inspect --target sm_90a --shape 4096x7168x2048:128 --out bf16 -o gpu
  octile inspect --target sm_90a --strategy best --promote 64 --for-racecheck";

/// Options that choose a kernel of our own.
const PLANNING: [&str; 8] =
    ["strategies", "shape", "mode", "promote", "for_racecheck", "x", "x_scales", "out"];

/// Arguments of `octile inspect`.
#[derive(Debug, Clone, ClapArgs)]
pub struct InspectArgs {
    /// Pallas kernel to compile instead of our kernels; - is stdin
    ///
    /// StableHLO text with Pallas kernels, from `jax.jit(f).lower(...).as_text()`, or a kernel alone in every
    /// form that `octile simulate` takes. The output folder gets one folder per kernel.
    #[arg(value_name = "MODULE", conflicts_with_all = PLANNING)]
    pub module: Option<PathBuf>,
    /// Number of devices that run MODULE [default: its mesh, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_DEVICES as i64))]
    pub devices: Option<u16>,
    /// Target: tpu7x, v6e, v5e, v5p, v4, sm_90a, h100 or h200
    ///
    /// v4 supports unquantized (-plain) activations only. sm_90a is an H200.
    #[arg(long, visible_alias = "target", value_name = "CHIP", default_value = "tpu7x")]
    pub chip: ChipChoice,
    /// auto, dma, smem, strip (or v1 to v4), best, all; repeatable
    #[arg(long = "strategy", value_name = "S", default_value = "all")]
    pub strategies: Vec<StrategyChoice>,
    /// Rows of x, outputs, inputs, and quantization block
    #[arg(long, value_name = "MxNxK:QB", default_value = "512x512x512:128")]
    pub shape: Problem,
    /// Block mode of TPU kernels: auto, aligned or large [default: auto]
    ///
    /// A tile of an aligned kernel is one quantization block, of a large one many. auto picks by modelled
    /// cycles.
    #[arg(long)]
    pub mode: Option<BlockMode>,
    /// K elements between promotions on a GPU [default: 128]
    ///
    /// One of 32, 64, 128, 256 and 512. `auto` supports 128 only.
    #[arg(long, value_name = "K", value_parser = promotion)]
    pub promote: Option<usize>,
    /// Generate GPU kernels that racecheck can follow
    #[arg(long)]
    pub for_racecheck: bool,
    /// Activations: fp8, floats to quantize, or unquantized (-plain)
    #[arg(long, value_enum, default_value_t = XChoice::Fp8)]
    pub x: XChoice,
    /// Scales per 1 x QB token group or QB x QB block [default: token]
    #[arg(long, value_enum)]
    pub x_scales: Option<ScalesChoice>,
    /// Element type of the result
    #[arg(long, value_enum, default_value_t = OutChoice::F32)]
    pub out: OutChoice,
    /// TPU compiler [default: see `octile tools --help`]
    #[arg(long, value_name = "PATH")]
    pub libtpu: Option<PathBuf>,
    /// Output folder
    #[arg(short, long = "output", value_name = "DIR", default_value = "compilation_output")]
    pub output: PathBuf,
    /// Keep all compiler output in a folder `raw`
    #[arg(long)]
    pub keep_dumps: bool,
}

impl InspectArgs {
    /// Returns the problem to compile.
    pub fn problem(&self) -> Result<Problem, IdleOption> {
        self.x.require_scales(self.x_scales)?;
        let x = self.x.activation(self.x_scales.unwrap_or(ScalesChoice::Token));
        Ok(self.shape.with_x(x).with_out(self.out.kind()))
    }
}

//! Arguments of `octile inspect`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use octile_core::{Problem, plan::tpu::BlockMode};

use super::{ChipChoice, IdleOption, OutChoice, ScalesChoice, StrategyChoice, XChoice, promotion};

/// What comes out, for the help text.
pub const INSPECT_HELP: &str = "\
Compiles the TPU kernels with the real TPU compiler; no TPU is needed. For each
version, DIR then holds the optimized HLO under the file name of the original
guides, and a folder with everything about that version:

  DIR/v2_manual_async_dma_hlo.txt   a copy of the optimized.hlo.txt below
  DIR/v2_manual_async_dma/
    manifest.json                   plan, versions, flags, figures, files
    stablehlo.mlir                  the module that was compiled
    mosaic.mlir                     the kernel inside of it
    optimized.hlo.txt               the module after optimization
    packed-bundles-post-ra.txt      the kernel's code, one bundle per cycle
    final_bundles.txt               the same without its empty bundles
    final_hlo-static-per-bundle-utilization.txt
    schedule-analysis.txt
    executable.bin                  for a runtime of the same libtpu version
    raw/                            with --keep-dumps, all that was written

With --target sm_90a the GPU kernels are assembled with ptxas; no GPU is needed:

  DIR/v4_whole_k_strip/
    manifest.json                   plan, versions, registers, shared memory,
                                    spills, counts of QGMMA, UTMALDG, SYNCS...
    kernel.ptx                      the kernel as the driver gets it
    kernel.sass                     its machine code, by nvdisasm
    kernel.cubin
    ptxas.txt                       what `ptxas -v` says
    quantize/                       with --x bf16, f16 or f32: the same about
                                    the kernel that quantizes the activations,
                                    whose figures are in the manifest too

The versions are v1_auto_double_buffer, v2_manual_async_dma, v3_smem_scales and
v4_whole_k_strip, which is also what `--strategy best` takes. A version that was
there before is replaced as a whole; if anything fails, nothing is changed.
`octile analyze`, `verify`, `compare` and `report` read such folders.

Examples:
  octile inspect
  octile inspect --strategy strip --shape 4096x4096x4096:512 --mode large -o out
  octile inspect --chip v6e --x bf16 --strategy v2 --strategy v3
  octile inspect --target sm_90a --strategy best --x bf16 --x-scales token
  octile inspect --target sm_90a --shape 4096x7168x2048:128 --out bf16 -o gpu
  octile inspect --target sm_90a --strategy best --promote 64 --for-racecheck";

/// Arguments of `octile inspect`.
#[derive(Debug, Clone, ClapArgs)]
pub struct InspectArgs {
    /// What to compile for: a TPU (tpu7x, v6e, v5e, v5p; v4 with plain activations only), or sm_90a, an NVIDIA Hopper
    /// GPU (also h100, h200)
    #[arg(long, visible_alias = "target", value_name = "CHIP", default_value = "tpu7x")]
    pub chip: ChipChoice,
    /// auto, dma, smem, strip (or v1 to v4), best, all; may be given more than once
    #[arg(long = "strategy", value_name = "S", default_value = "all")]
    pub strategies: Vec<StrategyChoice>,
    /// M rows of x, N outputs, K inputs, block side 128, 256 or 512
    #[arg(long, value_name = "MxNxK:QB", default_value = "512x512x512:128")]
    pub shape: Problem,
    /// Blocks of TPU kernels: aligned (one quantization block) or large (many) [default: aligned]
    #[arg(long)]
    pub mode: Option<BlockMode>,
    /// Products of a GPU kernel's tensor cores between additions to the f32 sums: 32, 64, 128, 256 or 512; `auto` takes
    /// 128 only [default: 128]
    #[arg(long, value_name = "K", value_parser = promotion)]
    pub promote: Option<usize>,
    /// GPU kernels that `compute-sanitizer --tool racecheck` can follow, as `octile test --for-racecheck` runs them
    #[arg(long)]
    pub for_racecheck: bool,
    /// How the activations come: fp8 with scales; bf16, f16 or f32 to be quantized on the fly; or, with -plain,
    /// to be multiplied unquantized
    #[arg(long, value_enum, default_value_t = XChoice::Fp8)]
    pub x: XChoice,
    /// Which activations share a scale: QB x QB blocks, or 1 x QB token groups [default: block]
    #[arg(long, value_enum)]
    pub x_scales: Option<ScalesChoice>,
    /// Element type of the result
    #[arg(long, value_enum, default_value_t = OutChoice::F32)]
    pub out: OutChoice,
    /// The TPU compiler [default: see `octile tools --help`]
    #[arg(long, value_name = "PATH")]
    pub libtpu: Option<PathBuf>,
    /// Where to write
    #[arg(short, long = "output", value_name = "DIR", default_value = "compilation_output")]
    pub output: PathBuf,
    /// Also keep everything that the compiler wrote, in a folder `raw` of each version
    #[arg(long)]
    pub keep_dumps: bool,
}

impl InspectArgs {
    /// The problem asked for.
    pub fn problem(&self) -> Result<Problem, IdleOption> {
        self.x.require_scales(self.x_scales)?;
        let x = self.x.activation(self.x_scales.unwrap_or(ScalesChoice::Block));
        Ok(self.shape.with_x(x).with_out(self.out.kind()))
    }
}

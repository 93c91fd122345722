//! Arguments of the commands that read compiler dumps.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use octile_core::Strategy;

use super::{ChipChoice, InspectArgs, JsonArgs};

/// Default output folder of `octile inspect`.
const OUTPUT: &str = "compilation_output";

/// Help text of `analyze`.
pub(super) const ANALYZE_HELP: &str = "\
A folder written by `octile inspect` holds one version per sub-folder. Any other
folder of dumps is one version, and so is a single file. The content decides
what a file is: optimized HLO, Mosaic, LLO listing, utilization table, schedule
analysis, PTX, SASS, or the notation of the guides. - is standard input. Of a
lowered module with one Pallas kernel, and of a kernel as MLIR bytecode or
base64, the Mosaic is read; `octile inspect` compiles it.

If a folder has a manifest.json, only the files listed there are read. Unlisted
dumps are rejected, and so are folders that mix kernels or targets. Other files,
such as a report, are ignored.

Examples:
  octile analyze compilation_output
  octile analyze v3_smem_scales_hlo.txt
  zcat mosaic.mlir.gz | octile analyze -
  octile analyze compilation_output/v4_whole_k_strip --json=facts.json";

/// Help text of `verify`.
pub(super) const VERIFY_HELP: &str = "\
The plan in manifest.json decides which checks a version must pass. Without a
manifest, its name does (v2_manual_async_dma, 512-v3-tpu7x). A check that is not
required is a note and never fails. Empty, truncated and unknown files fail.

On GPUs these checks mean: scales-staged and data-on-chip, staged in shared
memory; fits-on-chip, enough registers and shared memory for the planned CTAs
per SM. The quantization kernel (quantize/) must fit and must not spill.

Exit codes: 0 every version passes, 1 a version fails, 2 nothing to verify, or
the dumps of a folder belong to several kernels.

Examples:
  octile verify
  octile verify out --strict --junit verify.xml";

/// Help text of `compare`.
pub(super) const COMPARE_HELP: &str = "\
Prints one column per version. With exactly two versions, or two folders of
versions, also matches every operand, buffer, copy, MMA and loop of the two, and
lists what differs with its line in both dumps, then the operations whose counts
differ. The dumps may be of different shapes or chips.

Two records of `octile bench --json=FILE` are compared with confidence
intervals.

Examples:
  octile compare before.json after.json
  octile compare compilation_output
  octile compare before after
  octile compare before/v2_manual_async_dma after/v2_manual_async_dma";

/// Help text of `check`.
pub(super) const CHECK_HELP: &str = "\
Runs `octile inspect` and `octile verify`, and prints one table of all versions.
Use `octile analyze` for the evidence.

Examples:
  octile check
  octile check --strategy v3 --shape 2048x2048x2048:512 --strict
  octile check --target sm_90a --shape 4096x4096x7168:128";

/// Help text of `report`.
pub(super) const REPORT_HELP: &str = "\
The page is one file without scripts or external resources. It shows the fastest
version, the version table, the roofline, and for every version its findings,
simulated timeline, unit utilization, memory map and code.

Exit codes: 0 the page is written, 1 it is written but some files are damaged or
not dumps, 2 error.

Examples:
  octile report compilation_output -o report.html";

/// Overrides for missing or wrong metadata.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct KnownArgs {
    /// Strategy of the dumps [default: from manifest or name]
    #[arg(long, value_name = "S")]
    pub strategy: Option<Strategy>,
    /// Target chip, as in `inspect` [default: from manifest or name]
    #[arg(long, value_name = "CHIP")]
    pub chip: Option<ChipChoice>,
}

/// Arguments of `octile analyze`.
#[derive(Debug, Clone, ClapArgs)]
pub struct AnalyzeArgs {
    /// Dumps or folders of dumps
    #[arg(value_name = "FILE|DIR", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// Overrides.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Destination of the facts.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Verdict options of `verify` and `check`.
#[derive(Debug, Clone, ClapArgs)]
pub struct JudgeArgs {
    /// Fail required checks that the files cannot prove
    #[arg(long)]
    pub strict: bool,
    /// Also write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Destination of the verdicts.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Arguments of `octile verify`.
#[derive(Debug, Clone, ClapArgs)]
pub struct VerifyArgs {
    /// Dumps or folders of dumps
    #[arg(value_name = "DIR", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// Overrides.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Verdict options.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Arguments of `octile compare`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CompareArgs {
    /// Dumps, folders of dumps, or two benchmark records
    #[arg(value_name = "INPUT", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// Overrides.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Destination of the table and the differences.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Arguments of `octile check`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CheckArgs {
    /// What to compile.
    #[command(flatten)]
    pub inspect: InspectArgs,
    /// Verdict options.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Arguments of `octile report`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// Dumps or folders of dumps
    #[arg(value_name = "DIR", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// Overrides.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Output file; - is standard output
    #[arg(short, long = "output", value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
}

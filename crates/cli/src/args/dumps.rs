//! Arguments of the commands that read what a compiler wrote.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use octile_core::Strategy;

use super::{ChipChoice, InspectArgs};

/// Where `octile inspect` writes unless told otherwise.
const OUTPUT: &str = "compilation_output";

/// What the help of these commands says about their input.
pub const ANALYZE_HELP: &str = "\
A folder that `octile inspect` wrote holds one version per sub-folder. Any other
folder with dumps is one version, and so is a file named by itself. What each
file is shows in its content: optimized HLO, Mosaic, LLO listings, utilization
tables, schedule analyses, PTX, SASS, and the notation of the guides.

Of a folder with a manifest.json only the files that it lists are read; dumps
that it does not list are refused, and so are folders with dumps of two kernels
or for both TPU and GPU. Other files, such as a page or a record, may lie there.

Examples:
  octile analyze compilation_output
  octile analyze v3_smem_scales_hlo.txt
  octile analyze compilation_output/v4_whole_k_strip --json > facts.json";

/// For the help text of `verify`.
pub const VERIFY_HELP: &str = "\
Which checks a version must pass follows from the plan in its manifest.json, or
else from the version and the chip that its name tells (v2_manual_async_dma,
512-v3-tpu7x). A file that is empty, cut off or not a dump at all fails.

Of GPU kernels the same names say: scales-staged and data-on-chip, that shared
memory holds them; fits-on-chip, that a multiprocessor has the registers and the
shared memory for the blocks that it should hold. A kernel that quantizes the
activations first (quantize/) must have no spills and fit.

Exit codes: 0 every version passes, 1 one does not, 2 there is nothing to
verify, or a folder does not hold the dumps of one kernel.

Examples:
  octile verify
  octile verify out --strict --junit verify.xml";

/// For the help text of `compare`.
pub const COMPARE_HELP: &str = "\
One column per version, from the facts in its dumps. With exactly two versions,
or two folders of versions, also what became of every operand, buffer, copy,
product and loop of the one in the other, with its line in both; and which
operations are not as often in the code. Any two dumps will do, also of
different shapes or chips.

Examples:
  octile compare compilation_output
  octile compare before after
  octile compare before/v2_manual_async_dma after/v2_manual_async_dma";

/// For the help text of `check`.
pub const CHECK_HELP: &str = "\
Does what `octile inspect` and `octile verify` do, and shows the facts of all
versions in one table; `octile analyze` then tells the evidence.

Examples:
  octile check
  octile check --strategy v3 --shape 2048x2048x2048:512 --strict
  octile check --target sm_90a --shape 4096x4096x7168:128 --x-scales token";

/// For the help text of `report`.
pub const REPORT_HELP: &str = "\
The page needs no network and no script: it can be mailed, and read on a phone.

Exit codes: 0 the page is written, 1 it is, but files that it is about are
damaged or no dumps, 2 there is no page.

Examples:
  octile report compilation_output -o report.html";

/// What no file says, or says wrongly.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct KnownArgs {
    /// The version that the dumps are of [default: as the manifest or the name says]
    #[arg(long, value_name = "S")]
    pub strategy: Option<Strategy>,
    /// The chip that they are for: tpu7x, v6e, v5e, v5p or v4, or a GPU: sm_90a, h100, h200 [default: as the manifest
    /// or the name says]
    #[arg(long, value_name = "CHIP")]
    pub chip: Option<ChipChoice>,
}

/// Arguments of `octile analyze`.
#[derive(Debug, Clone, ClapArgs)]
pub struct AnalyzeArgs {
    /// Dumps, or folders of them
    #[arg(value_name = "FILE|DIR", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// What no file says.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Print facts and findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// How strictly to judge, and where to write it down: shared by `verify` and `check`.
#[derive(Debug, Clone, ClapArgs)]
pub struct JudgeArgs {
    /// Fail where a required check cannot be proven from the files
    #[arg(long)]
    pub strict: bool,
    /// Also write the verdicts as a JUnit file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Arguments of `octile verify`.
#[derive(Debug, Clone, ClapArgs)]
pub struct VerifyArgs {
    /// Dumps, or folders of them
    #[arg(value_name = "DIR", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// What no file says.
    #[command(flatten)]
    pub known: KnownArgs,
    /// How strictly.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Arguments of `octile compare`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CompareArgs {
    /// Dumps, or folders of them
    #[arg(value_name = "DIR", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// What no file says.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Print the table and the differences as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `octile check`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CheckArgs {
    /// What to compile.
    #[command(flatten)]
    pub inspect: InspectArgs,
    /// How strictly to judge it.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Arguments of `octile report`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// Dumps, or folders of them
    #[arg(value_name = "DIR", default_value = OUTPUT)]
    pub inputs: Vec<PathBuf>,
    /// What no file says.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Where to write the page
    #[arg(short, long = "output", value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
}

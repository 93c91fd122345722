//! Arguments of `octile tune`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};
use octile_core::Problem;

use super::{ChipChoice, IdleOption, JsonArgs, ProblemArgs, seconds};

/// Help text of `tune`.
pub(super) const TUNE_HELP: &str = "\
Times the candidate plans of each shape in turns and remembers the fastest in a
table, if it beat the default plan twice by more than the noise; a table cannot
lose to the default. `octile bench`, `octile test` and the library use tables
from then on; OCTILE_TUNED=off does not. For a TPU no TPU is needed: the real
compiler compiles the candidates, and their cycles are counted.

Each shape is written when it is done: after Ctrl-C or a crash, the same command
goes on with the next one. Several may run at once. Tables are JSON files in
$OCTILE_TUNED_DIR, $XDG_DATA_HOME/octile/tuned or ~/.local/share/octile/tuned.
Entries of other versions, drivers and devices are ignored. Octile comes with
tables too, which count where yours have no entry.

Examples:
  octile tune --shape 16x4096x4096:128 --x bf16 --out bf16
  octile tune --model Qwen3-8B --tokens 1,16,64,512,4096 --x bf16 --out bf16
  octile tune --model DeepSeek-V3 --tp 8 --list    shapes for --shapes-from
  octile tune --shapes-from shapes.txt --backend gpu
  octile tune --sample fit --max-gflop 10
  octile tune --backend tpu --chip tpu7x --shape 1000x1280x5120:128 --out bf16
  octile tune --explain 64x1024x4096:128      every candidate; nothing is kept";

/// Arguments of `octile tune`.
#[derive(Debug, Clone, ClapArgs)]
pub struct TuneArgs {
    /// The device whose plans are searched
    #[arg(long, value_enum, default_value_t = TuneBackend::Best)]
    pub backend: TuneBackend,
    /// Shapes and element types.
    #[command(flatten)]
    pub problems: ProblemArgs,
    /// Show every candidate of this shape: time, model, limit
    ///
    /// Measures all candidates to the end, and does not change the table.
    #[arg(long, value_name = "MxNxK:QB",
        conflicts_with_all = ["shapes", "shapes_from", "sample", "model", "again", "list"])]
    pub explain: Option<Problem>,
    /// Write --explain as a page with a plot
    #[arg(long, value_name = "FILE", requires = "explain")]
    pub html: Option<PathBuf>,
    /// Layers of --model on one of N tensor-parallel devices
    ///
    /// As vLLM and SGLang divide them: layers that read the hidden state along N, those that write it along
    /// K. Needs the config.json of the model.
    #[arg(long, value_name = "N", requires = "model", value_parser = clap::value_parser!(u16).range(1..=1024),
        allow_negative_numbers = true)]
    pub tp: Option<u16>,
    /// Search shapes again that the table already holds
    #[arg(long)]
    pub again: bool,
    /// List the shapes with their layers, and exit
    #[arg(long)]
    pub list: bool,
    /// Time per shape in seconds, more than 0
    ///
    /// A faster plan is timed again after a pause, which takes up to 0.6 times as long on top.
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, default_value = "5",
        allow_negative_numbers = true)]
    pub budget: Duration,
    /// Threads of the CPU [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024),
        allow_negative_numbers = true)]
    pub threads: Option<u16>,
    /// TPU chip [default: tpu7x]
    #[arg(long, value_name = "CHIP")]
    pub chip: Option<ChipChoice>,
    /// TPU candidates to compile per shape at most [default: 12]
    ///
    /// The default plan is one of them. A shape that was searched with fewer is searched again.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..),
        allow_negative_numbers = true)]
    pub candidates: Option<u16>,
    /// TPU compiler [default: where `octile tools` finds it]
    #[arg(long, value_name = "FILE")]
    pub libtpu: Option<PathBuf>,
    /// Destination of the report.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// A device whose plans can be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TuneBackend {
    /// A usable GPU, else the CPU
    Best,
    /// This machine's CPU, by time
    Cpu,
    /// An NVIDIA Hopper GPU, by time
    Gpu,
    /// A TPU, by cycles of the real compiler; no TPU is needed
    Tpu,
}

/// A time in seconds that is not zero.
fn positive_seconds(text: &str) -> Result<Duration, String> {
    let positive = seconds(text).ok().filter(|budget| !budget.is_zero());
    positive.ok_or_else(|| "expected a number of seconds above 0, such as 5 or 0.5".to_owned())
}

impl TuneArgs {
    /// Rejects documents where shapes are only listed.
    pub fn require_search(&self) -> Result<(), IdleOption> {
        let documents = [("--html", self.html.is_some()), ("--json", self.json.json.is_some())];
        match documents.into_iter().find(|(_, given)| self.list && *given) {
            Some((option, _)) => Err(IdleOption { option, needs: "a search, not --list" }),
            None => Ok(()),
        }
    }

    /// Rejects options that have no effect on this backend.
    pub fn require_sense(&self, backend: TuneBackend) -> Result<(), IdleOption> {
        self.problems.require_sense()?;
        let (cpu, tpu) = (backend == TuneBackend::Cpu, backend == TuneBackend::Tpu);
        let options = [
            // clap drops `requires` where an option that conflicts with the required one is given.
            ("--tp", self.tp.is_some(), self.problems.model.is_some(), "--model"),
            ("--html", self.html.is_some(), self.explain.is_some(), "--explain"),
            ("--threads", self.threads.is_some(), cpu, "--backend cpu"),
            ("--chip", self.chip.is_some(), tpu, "--backend tpu"),
            ("--libtpu", self.libtpu.is_some(), tpu, "--backend tpu"),
            ("--candidates", self.candidates.is_some(), tpu, "--backend tpu"),
        ];
        match options.into_iter().find(|(_, given, applies, _)| *given && !applies) {
            Some((option, .., needs)) => Err(IdleOption { option, needs }),
            None => Ok(()),
        }
    }
}

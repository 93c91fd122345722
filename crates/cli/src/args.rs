//! The command line. Parsing does no work: every field is a plain value.

mod chip;
mod dumps;
mod inspect;
mod inspect_model;
mod problems;
mod quantize;
mod run_module;
mod simulate;
mod tools;
mod tune;

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use octile_core::{
    ActivationKind, FloatKind, ScaleGranularity,
    device::cpu::Isa,
    plan::{hopper::PROMOTIONS, tpu::BlockMode},
};

pub use octile_harness::{case::StrategyChoice, shapes::Sample};

pub use chip::{ChipChoice, HOPPER_TARGET};
pub use dumps::{AnalyzeArgs, CheckArgs, CompareArgs, JudgeArgs, KnownArgs, ReportArgs, VerifyArgs};
pub use inspect::InspectArgs;
pub use inspect_model::InspectModelArgs;
pub use problems::ProblemArgs;
pub use quantize::{
    ConvertArgs, DequantizeArgs, FloatChoice, FormatChoice, LayoutChoice, OutputArgs, QuantizeArgs,
    ScaleKindChoice,
};
pub use run_module::RunModuleArgs;
pub use simulate::SimulateArgs;
pub use tools::{ToolGroup, ToolsAction, ToolsArgs};
pub use tune::{TuneArgs, TuneBackend};

/// FP8 block-scaled matmul: check it, time it, see what it compiled to.
///
/// Without a command, `octile` lists the devices, checks every strategy on the CPU and on a usable GPU, times
/// them on six shapes, and recommends one.
#[derive(Debug, Parser)]
#[command(name = "octile", version, arg_required_else_help = false, after_help = EXIT_CODES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print no report and no progress: exit code, errors and JSON only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Color the output; NO_COLOR turns `auto` off
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

const EXIT_CODES: &str = "Exit codes: 0 passed, 1 a check failed, 2 error, 128+N ended by signal N.";

/// When to color the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

const TEST_EXAMPLES: &str = "\
Examples:
  octile test                               five standard shapes, every strategy
  octile test --strategy v2 --shape 512x512x512:128
  octile test --x bf16 --x-scales block --out bf16 --shape 1x4096x4096:128
  octile test --isa portable --threads 1 --json=checks.json
  octile test --model Qwen3-8B-FP8 --tokens 1,16
  octile test --backend gpu-sim             no GPU needed; ragged shapes, minutes
  octile test --backend gpu-sim --promote 64 --shape 130x300x1000:128";

const BENCH_EXAMPLES: &str = "\
Examples:
  octile bench --quick                      six standard shapes, 10 runs each
  octile bench --strategy strip --shape 1x4096x4096:128 --x bf16 --threads 1
  octile bench --iterations 50 --warmup 5 --json=timings.json
  octile bench --model Qwen3-8B --tokens 1,64 --x bf16
  octile bench --sample judge --max-gflop 1 --strategy best
  octile bench --baseline timings.json --fail-if-slower 5%";

const COMPLETIONS_HELP: &str = "\
Examples:
  octile completions bash > ~/.local/share/bash-completion/completions/octile
  octile completions fish > ~/.config/fish/completions/octile.fish";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check every strategy against an f64 reference
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Time the strategies side by side and recommend one
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Find faster plans for shapes, and remember them
    #[command(after_help = tune::TUNE_HELP)]
    Tune(TuneArgs),
    /// List devices and compilers, and what is missing
    Devices,
    /// Compile the kernels and keep the compiler output
    #[command(after_help = inspect::INSPECT_HELP)]
    Inspect(InspectArgs),
    /// Show what compiler dumps contain and prove
    #[command(after_help = dumps::ANALYZE_HELP)]
    Analyze(AnalyzeArgs),
    /// Verify that each version compiled as intended
    #[command(after_help = dumps::VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Compare dumps of versions, or two benchmark records
    #[command(after_help = dumps::COMPARE_HELP)]
    Compare(CompareArgs),
    /// Compile and verify: inspect, analyze and verify in one
    #[command(after_help = dumps::CHECK_HELP)]
    Check(CheckArgs),
    /// Write an HTML report about the versions
    #[command(after_help = dumps::REPORT_HELP)]
    Report(ReportArgs),
    /// Run a StableHLO module through a PJRT plugin
    #[command(after_help = run_module::RUN_MODULE_HELP)]
    RunModule(RunModuleArgs),
    /// Simulate a Pallas or PTX kernel; find races and deadlocks
    #[command(after_help = simulate::SIMULATE_HELP)]
    Simulate(SimulateArgs),
    /// Quantize a checkpoint to fp8 with block scales
    #[command(after_help = quantize::QUANTIZE_HELP)]
    Quantize(QuantizeArgs),
    /// Convert an fp8 checkpoint between formats
    #[command(after_help = quantize::CONVERT_HELP)]
    Convert(ConvertArgs),
    /// Convert an fp8 checkpoint to bf16, f16 or f32
    #[command(after_help = quantize::DEQUANTIZE_HELP)]
    Dequantize(DequantizeArgs),
    /// Check an fp8 checkpoint: defects, scales, quantization noise
    #[command(after_help = inspect_model::INSPECT_MODEL_HELP)]
    InspectModel(InspectModelArgs),
    /// Locate or install the vendors' compilers
    #[command(after_help = tools::TOOLS_HELP)]
    Tools(ToolsArgs),
    /// Print shell completions
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page of octile, or of one command
    #[command(hide = true)]
    Man {
        /// The command
        command: Option<String>,
    },
    /// Compile a request from standard input: the child process of `inspect`
    #[command(hide = true)]
    CompileChild,
}

impl Command {
    /// Whether it depends on the environment variables of the library.
    pub fn multiplies(&self) -> bool {
        matches!(
            self,
            Self::Test(_)
                | Self::Bench(_)
                | Self::Tune(_)
                | Self::Devices
                | Self::Inspect(_)
                | Self::Check(_)
        )
    }
}

/// `--json`, the same for every command that has it.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct JsonArgs {
    /// Print JSON instead of the report, or write it to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Backend and problems of `test` and `bench`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WorkArgs {
    /// Where to run
    #[arg(long, value_enum, default_value_t = BackendName::Best)]
    pub backend: BackendName,
    /// auto, dma, smem, strip (or v1 to v4), best, all; repeatable
    #[arg(long = "strategy", value_name = "S", default_value = "all")]
    pub strategies: Vec<StrategyChoice>,
    /// Problems.
    #[command(flatten)]
    pub problems: ProblemArgs,
    /// Threads of the CPU backend [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Keep each thread of the CPU backend on one core
    ///
    /// For timings on a machine where nothing else runs. Linux only; elsewhere it has no effect.
    #[arg(long)]
    pub pin_threads: bool,
    /// CPU instruction set
    #[arg(long, value_name = "ISA",
        help = format!("CPU instruction set: {} [default: fastest]", Isa::native_names()))]
    pub isa: Option<Isa>,
    /// Block mode of TPU kernels: auto, aligned, large; repeatable [default: auto]
    #[arg(long = "mode", value_name = "MODE")]
    pub modes: Vec<BlockMode>,
    /// K elements between promotions on a GPU [default: 128]
    ///
    /// One of 32, 64, 128, 256 and 512. Smaller intervals are more accurate and slower; above 128 only small
    /// tiles fit, which costs more than it saves. `auto` supports 128 only. A simulated GPU accumulates more
    /// accurately than a real one, and does not show the difference.
    #[arg(long, value_name = "K", value_parser = promotion)]
    pub promote: Option<usize>,
    /// Generate GPU kernels that racecheck can follow
    ///
    /// Every consumer thread arrives on the empty barriers, as `compute-sanitizer --tool racecheck` needs it.
    /// Slower.
    #[arg(long)]
    pub for_racecheck: bool,
    /// Whether plans of tuned tables are left alone.
    #[arg(skip)]
    pub default_plans: bool,
    /// Seed of the random operands
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Destination of the records.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// A promotion interval that the kernels support.
fn promotion(text: &str) -> Result<usize, String> {
    let known = |every: &usize| PROMOTIONS.contains(every);
    text.parse().ok().filter(known).ok_or_else(|| {
        let (last, others) = PROMOTIONS.split_last().expect("there are promotions");
        let others: Vec<_> = others.iter().map(usize::to_string).collect();
        format!("expected {} or {last}", others.join(", "))
    })
}

/// Arguments of `octile test`.
#[derive(Debug, Clone, ClapArgs)]
pub struct TestArgs {
    /// Backend and problems.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Arguments of `octile bench`.
#[derive(Debug, Clone, ClapArgs)]
pub struct BenchArgs {
    /// Backend and problems.
    #[command(flatten)]
    pub work: WorkArgs,
    /// List the shapes with their layers, and exit
    #[arg(long)]
    pub list: bool,
    /// Time default plans beside those of tuned tables
    ///
    /// Plans of tuned tables are used by default, see `octile tune`. This times both in turns.
    #[arg(long)]
    pub tuned: bool,
    /// Use default plans only
    #[arg(long, conflicts_with = "tuned")]
    pub untuned: bool,
    /// Run 10 iterations after 2 warm-up runs
    #[arg(long, conflicts_with_all = ["iterations", "warmup"])]
    pub quick: bool,
    /// Timed runs of each strategy [default: 100, within the budget]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: Option<u32>,
    /// Untimed runs before them [default: 3]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u32>,
    /// Time per shape in seconds; 0 is unlimited [default: 10]
    ///
    /// Divided between the strategies; each has at least three timed runs, or seven with --baseline.
    /// --iterations without --budget is unlimited.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Option<Duration>,
    /// Compare with a record of `octile bench --json=FILE`
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Exit with 1 when significantly slower than the baseline
    ///
    /// Fails when the 95 % confidence interval of a ratio of medians lies above this limit, such as 5%.
    #[arg(long, value_name = "PERCENT", requires = "baseline", value_parser = percent)]
    pub fail_if_slower: Option<f64>,
}

/// A time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds, such as 10 or 0.5".to_owned())
}

/// A percentage, with or without the sign, as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let fraction = percent.filter(|percent| (0.0..=1e6).contains(percent)).map(|percent| percent / 100.0);
    fraction.ok_or_else(|| "expected a percentage of 0 or more, such as 5%".to_owned())
}

/// Where to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// A usable GPU, else the CPU
    Best,
    /// This machine's CPU
    Cpu,
    /// An NVIDIA Hopper GPU: H100 or H200
    Gpu,
    /// A simulated H200; detects races, deadlocks and out-of-bounds accesses
    GpuSim,
    /// A simulated TPU; detects races and deadlocks
    TpuSim,
}

/// Element type of the activations, and whether they are quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it; doc comments would become help text")]
pub enum XChoice {
    Fp8,
    Bf16,
    F16,
    F32,
    Bf16Plain,
    F16Plain,
    F32Plain,
}

/// Granularity of the activation scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it; doc comments would become help text")]
pub enum ScalesChoice {
    Block,
    Token,
}

/// Element type of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it; doc comments would become help text")]
pub enum OutChoice {
    F32,
    Bf16,
    F16,
}

impl WorkArgs {
    /// Rejects options that have no effect on the chosen backend.
    pub fn require_sense(&self) -> Result<(), IdleOption> {
        self.problems.require_sense()?;
        let (cpu, simulated) = (self.backend == BackendName::Cpu, self.backend == BackendName::TpuSim);
        let gpu = matches!(self.backend, BackendName::Gpu | BackendName::GpuSim);
        let options = [
            ("--isa", self.isa.is_some(), cpu, "--backend cpu"),
            ("--threads", self.threads.is_some(), cpu, "--backend cpu"),
            ("--pin-threads", self.pin_threads, cpu, "--backend cpu"),
            ("--mode", !self.modes.is_empty(), simulated, "--backend tpu-sim"),
            ("--promote", self.promote.is_some(), gpu, "--backend gpu or gpu-sim"),
            ("--for-racecheck", self.for_racecheck, gpu, "--backend gpu or gpu-sim"),
        ];
        match options.into_iter().find(|(_, given, applies, _)| *given && !applies) {
            Some((option, .., needs)) => Err(IdleOption { option, needs }),
            None => Ok(()),
        }
    }
}

/// An option that would be ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{option} has no effect here and only applies to {needs}: remove it")]
pub struct IdleOption {
    option: &'static str,
    needs: &'static str,
}

impl XChoice {
    /// Rejects scales for activations that have none.
    pub fn require_scales(self, scales: Option<ScalesChoice>) -> Result<(), IdleOption> {
        let plain = matches!(self, Self::Bf16Plain | Self::F16Plain | Self::F32Plain);
        let idle =
            IdleOption { option: "--x-scales", needs: "quantized activations (--x fp8, bf16, f16, f32)" };
        if plain && scales.is_some() { Err(idle) } else { Ok(()) }
    }

    /// Activations of this kind with these scales.
    pub fn activation(self, scales: ScalesChoice) -> ActivationKind {
        let scales = match scales {
            ScalesChoice::Block => ScaleGranularity::Block,
            ScalesChoice::Token => ScaleGranularity::Token,
        };
        match self {
            Self::Fp8 => ActivationKind::Fp8(scales),
            Self::Bf16 => ActivationKind::Quantized(FloatKind::Bf16, scales),
            Self::F16 => ActivationKind::Quantized(FloatKind::F16, scales),
            Self::F32 => ActivationKind::Quantized(FloatKind::F32, scales),
            Self::Bf16Plain => ActivationKind::Plain(FloatKind::Bf16),
            Self::F16Plain => ActivationKind::Plain(FloatKind::F16),
            Self::F32Plain => ActivationKind::Plain(FloatKind::F32),
        }
    }
}

impl OutChoice {
    /// The element type.
    pub fn kind(self) -> FloatKind {
        match self {
            Self::F32 => FloatKind::F32,
            Self::Bf16 => FloatKind::Bf16,
            Self::F16 => FloatKind::F16,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Args::command().debug_assert();
    }
}

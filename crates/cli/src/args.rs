//! The command line. Parsing does no work: every field is a plain value.

mod chip;
mod dumps;
mod inspect;
mod quantize;
mod run_module;
mod simulate;
mod tools;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::cpu::Isa,
    plan::{hopper::PROMOTIONS, tpu::BlockMode},
};

pub use chip::{ChipChoice, HOPPER_TARGET};
pub use dumps::{AnalyzeArgs, CheckArgs, CompareArgs, JudgeArgs, KnownArgs, ReportArgs, VerifyArgs};
pub use inspect::InspectArgs;
pub use quantize::{
    ConvertArgs, DequantizeArgs, FloatChoice, FormatChoice, LayoutChoice, OutputArgs, QuantizeArgs,
    ScaleKindChoice,
};
pub use run_module::RunModuleArgs;
pub use simulate::SimulateArgs;
pub use tools::{ToolGroup, ToolsAction, ToolsArgs};

/// FP8 matrix multiplication with one scale per 2-D block: check it, time it, see what it compiled to.
///
/// Without a command, `octile` says what this machine is, checks every strategy on the CPU and on the GPU where there is a
/// usable one, times them in quick mode on six shapes, and recommends one.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = false, after_help = EXIT_CODES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const EXIT_CODES: &str = "Exit codes: 0 all in order, 1 a check failed, 2 the request could not be carried out, 128+N signal N ended it.";

const TEST_EXAMPLES: &str = "\
Examples:
  octile test                                      the five standard shapes, every strategy
  octile test --strategy v2 --shape 512x512x512:128
  octile test --x bf16 --x-scales token --out bf16 --shape 1x4096x4096:128
  octile test --isa portable --threads 1 --json checks.json
  octile test --backend gpu-sim                    no GPU needed; ragged shapes too, minutes
  octile test --backend gpu-sim --strategy strip --promote 64 --shape 130x300x1000:128";

const BENCH_EXAMPLES: &str = "\
Examples:
  octile bench --quick                             six standard shapes, 10 iterations each
  octile bench --strategy strip --shape 1x4096x4096:128 --x bf16 --threads 1
  octile bench --iterations 50 --warmup 5 --json timings.json";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check every strategy against an f64 reference, with a bound on every element
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Time the strategies side by side, and recommend one
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// What this machine can run, and what each missing thing needs
    Devices,
    /// Compile the kernels for a TPU or a GPU, and keep what the compiler made of them
    #[command(after_help = inspect::INSPECT_HELP)]
    Inspect(InspectArgs),
    /// What the dumps of each version say, and which claims they prove
    #[command(after_help = dumps::ANALYZE_HELP)]
    Analyze(AnalyzeArgs),
    /// Whether every version is what it promises to be
    #[command(after_help = dumps::VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Versions side by side, and what is different between two
    #[command(after_help = dumps::COMPARE_HELP)]
    Compare(CompareArgs),
    /// Compile the kernels for a TPU or a GPU and verify the result: inspect, analyze and verify in one go
    #[command(after_help = dumps::CHECK_HELP)]
    Check(CheckArgs),
    /// Everything about the versions on one HTML page
    #[command(after_help = dumps::REPORT_HELP)]
    Report(ReportArgs),
    /// Run a StableHLO module on a device, through its PJRT plugin
    #[command(after_help = run_module::RUN_MODULE_HELP)]
    RunModule(RunModuleArgs),
    /// Run a Mosaic kernel without a TPU, or a GPU kernel's PTX without a GPU, and find races and deadlocks
    #[command(after_help = simulate::SIMULATE_HELP)]
    Simulate(SimulateArgs),
    /// Quantize a checkpoint to fp8 with one scale per 128 x 128 block
    #[command(after_help = quantize::QUANTIZE_HELP)]
    Quantize(QuantizeArgs),
    /// Convert an fp8 checkpoint between formats and kinds of scales
    #[command(after_help = quantize::CONVERT_HELP)]
    Convert(ConvertArgs),
    /// Turn an fp8 checkpoint back into bf16, f16 or f32
    #[command(after_help = quantize::DEQUANTIZE_HELP)]
    Dequantize(DequantizeArgs),
    /// The vendors' compilers: where they are, and fetching them
    #[command(after_help = tools::TOOLS_HELP)]
    Tools(ToolsArgs),
    /// Compile what standard input asks for: the process that `inspect` starts
    #[command(hide = true)]
    CompileChild,
}

/// Where and on what to multiply: shared by `test` and `bench`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WorkArgs {
    /// Where to run
    #[arg(long, value_enum, default_value_t = BackendName::Best)]
    pub backend: BackendName,
    /// auto, dma, smem, strip (or v1 to v4), best, all; may be given more than once
    #[arg(long = "strategy", value_name = "S", default_value = "all")]
    pub strategies: Vec<StrategyChoice>,
    /// M rows of x, N outputs, K inputs, block side 128, 256 or 512; may be given more than once
    #[arg(long = "shape", value_name = "MxNxK:QB")]
    pub shapes: Vec<Problem>,
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
    /// Threads of the CPU backend [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Instruction set of the CPU backend: portable, avx2, avx512 or avx512bf16 [default: the best there is]
    #[arg(long, value_name = "ISA")]
    pub isa: Option<Isa>,
    /// Blocks of the simulated TPU's kernels: aligned or large [default: both]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<BlockMode>,
    /// Products of the tensor cores, on a GPU or a simulated one, between additions to the f32 sums: 32, 64, 128, 256 or 512. Fewer are
    /// more exact and slower; more than 128 leave small tiles only, which undoes what they save. `auto` takes 128 only; a simulated GPU
    /// adds up more exactly, and does not show the difference [default: 128]
    #[arg(long, value_name = "K", value_parser = promotion)]
    pub promote: Option<usize>,
    /// Kernels for a GPU, or a simulated one, that `compute-sanitizer --tool racecheck` can follow: every thread says for itself that it
    /// has read a stage. Slower
    #[arg(long)]
    pub for_racecheck: bool,
    /// Seed of the random operands
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Also write the results to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A number of products that the tensor cores can add up by themselves.
fn promotion(text: &str) -> Result<usize, String> {
    let known = |every: &usize| PROMOTIONS.contains(every);
    text.parse().ok().filter(known).ok_or_else(|| {
        let (last, others) = PROMOTIONS.split_last().expect("there are promotions");
        let others: Vec<_> = others.iter().map(usize::to_string).collect();
        format!("give {} or {last}", others.join(", "))
    })
}

/// Arguments of `octile test`.
#[derive(Debug, Clone, ClapArgs)]
pub struct TestArgs {
    /// Where and on what.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Arguments of `octile bench`.
#[derive(Debug, Clone, ClapArgs)]
pub struct BenchArgs {
    /// Where and on what.
    #[command(flatten)]
    pub work: WorkArgs,
    /// 10 iterations after 2 warm-up runs
    #[arg(long, conflicts_with_all = ["iterations", "warmup"])]
    pub quick: bool,
    /// Timed runs of each contender
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Untimed runs before them
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup: u32,
}

/// Where to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// The GPU where there is a usable one, else the processor
    Best,
    /// This machine's processor
    Cpu,
    /// An NVIDIA Hopper GPU: H100 or H200
    Gpu,
    /// A simulated H200: the PTX of the kernels, run thread by thread, with races, deadlocks and stray accesses looked for
    GpuSim,
    /// A simulated TPU: the emitted kernels, interpreted, with races and deadlocks looked for
    TpuSim,
}

/// A strategy, all of them, or the one the plan prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyChoice {
    /// This one.
    One(Strategy),
    /// Every one.
    All,
    /// Whichever the plan picks for the shape.
    Best,
}

impl std::str::FromStr for StrategyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "best" => Ok(Self::Best),
            _ => text
                .parse()
                .map(Self::One)
                .map_err(|_| "expected auto, dma, smem or strip (or v1 to v4), best, or all".to_owned()),
        }
    }
}

/// How the activations come.
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

/// Which activations share a scale.
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
    /// The activations asked for.
    pub fn activation(&self) -> ActivationKind {
        self.x.activation(self.x_scales.unwrap_or(ScalesChoice::Block))
    }

    /// Refuses options that have no meaning beside the others.
    pub fn require_sense(&self) -> Result<(), IdleOption> {
        self.x.require_scales(self.x_scales)?;
        let (cpu, simulated) = (self.backend == BackendName::Cpu, self.backend == BackendName::TpuSim);
        let gpu = matches!(self.backend, BackendName::Gpu | BackendName::GpuSim);
        let options = [
            ("--isa", self.isa.is_some(), cpu, "--backend cpu"),
            ("--threads", self.threads.is_some(), cpu, "--backend cpu"),
            ("--mode", self.mode.is_some(), simulated, "--backend tpu-sim"),
            ("--promote", self.promote.is_some(), gpu, "--backend gpu or gpu-sim"),
            ("--for-racecheck", self.for_racecheck, gpu, "--backend gpu or gpu-sim"),
        ];
        match options.into_iter().find(|(_, given, applies, _)| *given && !applies) {
            Some((option, .., needs)) => Err(IdleOption { option, needs }),
            None => Ok(()),
        }
    }

    /// The result type asked for.
    pub fn out_kind(&self) -> FloatKind {
        self.out.kind()
    }
}

/// An option that would be ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{option} has no effect here and only goes with {needs}: leave it out")]
pub struct IdleOption {
    option: &'static str,
    needs: &'static str,
}

impl XChoice {
    /// Refuses scales for activations that have none.
    pub fn require_scales(self, scales: Option<ScalesChoice>) -> Result<(), IdleOption> {
        let plain = matches!(self, Self::Bf16Plain | Self::F16Plain | Self::F32Plain);
        let idle = IdleOption {
            option: "--x-scales",
            needs: "activations that have scales (--x fp8, bf16, f16, f32)",
        };
        if plain && scales.is_some() { Err(idle) } else { Ok(()) }
    }

    /// Activations of this kind, with these scales where there are any.
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

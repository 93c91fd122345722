//! `octile simulate`: runs a Mosaic kernel without a TPU, or a PTX kernel without a GPU.

mod compare;
mod diagnosis;
pub mod gpu;
mod junit;
mod kernels;
mod signals;
mod tensors;
mod trace;
mod wording;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, anyhow, bail};
use octile_core::{Problem, device::tpu::TpuChip, plan::tpu::TpuPlan, sample::Operands};
use octile_harness::backend::tensor_arguments;
use octile_mosaic::{
    Module,
    interpret::{Figures, Options, Outcome, Tensor, Timeline, embedded_kernel, simulate},
    limits::{BYTES_PER_OPERAND_BYTE, DEFAULT_BYTES, DEFAULT_OPERATIONS, PRODUCTS_PER_OPERATION},
    parse,
    verify::verify,
};
use serde::Serialize;

use crate::{
    Verdict,
    args::SimulateArgs,
    command::{
        analyze::manifest::{Manifest, Plan},
        work::require_memory,
    },
    input,
    print::shown,
};

pub use compare::{Comparison, Expected};
pub use diagnosis::{
    ArgumentNote, DiagnosedSite, Diagnosis, LocatedLine, LocatedNote, MosaicLine, Rejection,
};
use kernels::SimulatedKernels;
use tensors::Tensors;
pub use trace::chrome_trace;

pub use crate::python::{PythonLine, PythonPlace};

/// Default chip.
const DEFAULT_CHIP: &str = "tpu7x";
/// Seed of random operands.
const OPERANDS: u64 = 42;
/// The file of a TPU version's folder that runs on random operands.
pub const MODULE: &str = "stablehlo.mlir";

/// Kernel, operands and options of a run.
pub struct SimulateRequest {
    /// The file that the kernel was read from.
    pub file: PathBuf,
    /// Name of the kernel in messages.
    pub name: String,
    /// The kernel, or the module around it.
    pub module: Module,
    /// The Mosaic text that findings refer to.
    pub text: String,
    /// Names of the operands.
    pub names: Vec<String>,
    /// The operands, in argument order.
    pub operands: Vec<Tensor>,
    /// Whether they are random, for the problem in the manifest.
    pub are_random: bool,
    /// The expected result.
    pub expected: Option<Expected>,
    /// Whether to detect data races.
    pub races: bool,
    /// Whether to record the timeline.
    pub events: bool,
    /// The modelled chip.
    pub chip: &'static TpuChip,
    /// Operation limit.
    pub max_operations: u64,
    /// Memory limit, if the problem is known.
    pub max_bytes: Option<usize>,
}

impl SimulateRequest {
    /// Reads the kernel and its operands.
    pub fn new(args: &SimulateArgs) -> Result<Self> {
        let name = shown(&args.kernel);
        if args.kernel.is_dir() {
            bail!("{name} is a folder: name the kernel.ptx or stablehlo.mlir in it, or a Mosaic file");
        }
        let text = read_text(&args.kernel)?;
        let module = parse(&text).map_err(|error| {
            anyhow!("{name}:{error}: pass Mosaic text, or stablehlo.mlir or kernel.ptx of `octile inspect`")
        })?;
        let (Tensors { names, operands, expected }, chip, problem) = match &args.tensors {
            Some(file) => (tensors::read(file, &args.operands, args.expect.as_deref())?, None, None),
            None => {
                let (tensors, chip, problem) = random_operands(args)?;
                (tensors, Some(chip), Some(problem))
            }
        };
        let result = problem.map(|problem| problem.m.saturating_mul(problem.n));
        let products = problem.map_or(0, |problem| {
            [problem.m, problem.n, problem.k]
                .iter()
                .fold(1, |all: u64, &size| all.saturating_mul(size as u64))
        });
        let text = embedded_kernel(&module).unwrap_or(text);
        let events = args.trace.is_some() || args.svg.is_some();
        let are_random = args.tensors.is_none();
        let chip =
            TpuChip::named(args.chip.as_deref().or(chip.map(|chip| chip.name)).unwrap_or(DEFAULT_CHIP))?;
        let races = !args.no_races;
        // A large problem may take more operations.
        let default = DEFAULT_OPERATIONS.saturating_add(products / PRODUCTS_PER_OPERATION * 8);
        let max_operations = args.max_operations.unwrap_or(default);
        // Its result may be large while its operands are small; `require_memory` has checked that it fits.
        let max_bytes = result.map(|result| {
            let operands = operands.iter().fold(0usize, |all, tensor| all.saturating_add(tensor.bytes.len()));
            let known = operands.saturating_add(result.saturating_mul(size_of::<f32>()));
            DEFAULT_BYTES.saturating_add(known.saturating_mul(BYTES_PER_OPERAND_BYTE))
        });
        Ok(Self {
            file: args.kernel.clone(),
            name,
            module,
            text,
            names,
            operands,
            are_random,
            expected,
            races,
            events,
            chip,
            max_operations,
            max_bytes,
        })
    }
}

/// Reads the text of a kernel.
fn read_text(path: &Path) -> Result<String> {
    let text = input::read_text(path)?;
    if text.trim().is_empty() {
        bail!("{} is empty: write it again with `octile inspect`", shown(path));
    }
    Ok(text)
}

/// Returns the plan of a `stablehlo.mlir` that has a manifest beside it. Its operands are those of the
/// problem.
fn written_plan(module: &Path) -> Result<Option<Box<TpuPlan>>> {
    let folder = module.parent().filter(|_| module.file_name().is_some_and(|name| name == MODULE));
    Ok(match folder.map(Manifest::of).transpose()?.flatten().and_then(|manifest| manifest.plan) {
        Some(Plan::Tpu(plan)) => Some(plan),
        Some(Plan::Gpu(_)) | None => None,
    })
}

/// Makes random operands for such a module; also returns its chip and problem.
fn random_operands(args: &SimulateArgs) -> Result<(Tensors, &'static TpuChip, Problem)> {
    let Some(plan) = written_plan(&args.kernel)? else {
        bail!(
            "the kernel needs operands: pass a safetensors file with --tensors FILE (only the stablehlo.mlir of \
             `octile inspect` runs on random operands)"
        );
    };
    args.require_no_tensor_options()?;
    let problem = plan.problem;
    require_memory([&problem])?;
    let operands = tensor_arguments(&Operands::random(problem, OPERANDS));
    let names = ["x", "w_q", "w_scale", "x_scale"].map(str::to_owned);
    Ok((
        Tensors { names: names.into_iter().take(operands.len()).collect(), operands, expected: None },
        plan.chip,
        problem,
    ))
}

/// A report with its verdict. The verdict is a field of its own, because JSON has no infinite differences.
#[derive(Debug, Serialize)]
pub struct JudgedReport<'r, R> {
    passed: bool,
    #[serde(flatten)]
    report: &'r R,
}

impl<'r, R> JudgedReport<'r, R> {
    /// Combines a verdict and a report.
    pub fn new(verdict: Verdict, report: &'r R) -> Self {
        Self { passed: verdict == Verdict::Passed, report }
    }
}

/// Result of a simulated run.
#[derive(Debug, Serialize)]
pub struct SimulateReport {
    /// The kernel's file.
    pub kernel: String,
    /// Names of the operands.
    pub operands: Vec<String>,
    /// Whether they were random.
    pub random_operands: bool,
    /// Number of results.
    pub results: usize,
    /// The modelled chip.
    pub chip: &'static str,
    /// Whether data races were detected.
    pub races: bool,
    /// Whether the kernel finished.
    pub completed: bool,
    /// What the compiler would reject.
    pub violations: Vec<Rejection>,
    /// Races, deadlocks and other errors.
    pub findings: Vec<Diagnosis>,
    /// Where the chip's arithmetic differs from what the text suggests.
    pub notes: Vec<LocatedNote>,
    /// Operations executed.
    pub operations: u64,
    /// Comparison of the first result with the expected one.
    pub comparison: Option<Comparison>,
    /// Totals of the modelled clock.
    pub figures: Figures,
    /// Derived figures.
    pub shares: Shares,
    /// Seconds of the simulation.
    pub seconds: f64,
    /// The timeline, if recorded.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// How well a kernel uses the chip, on the modelled clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shares {
    /// Microseconds.
    pub microseconds: f64,
    /// Share of time in which the MXU multiplies.
    pub matmul_busy: f64,
    /// Share of DMA time that is hidden behind compute.
    pub copy_overlap: f64,
    /// Bytes moved, relative to the bytes of operands and results.
    pub traffic: f64,
}

impl SimulateReport {
    /// Fails on any finding or violation, or if the result differs from the expected one.
    pub fn verdict(&self) -> Verdict {
        let as_expected = self.comparison.as_ref().is_none_or(Comparison::passed);
        Verdict::of(self.findings.is_empty() && self.violations.is_empty() && as_expected)
    }
}

fn not_run(request: &SimulateRequest) -> String {
    let names = request.names.join(", ");
    format!("cannot run {} on operands {names}; choose others with --operands", request.name)
}

/// Runs the kernel.
pub fn run(request: &SimulateRequest) -> Result<SimulateReport> {
    let violations = verify(&parse(&request.text).unwrap_or_else(|_| request.module.clone()), request.chip);
    let shapes = request.expected.as_ref().map(|expected| vec![expected.shape.clone()]);
    let options = Options {
        races: request.races,
        events: request.events,
        output_shapes: shapes,
        max_operations: request.max_operations,
        max_bytes: request.max_bytes,
        ..Options::for_chip(request.chip)
    };
    let mut module = request.module.clone();
    let kernels = SimulatedKernels::name(&request.file, &mut module, &request.text);
    let start = Instant::now();
    let outcome = simulate(&module, &request.operands, &options).with_context(|| not_run(request))?;
    let seconds = start.elapsed().as_secs_f64();
    let (findings, notes) = (kernels.diagnoses(&outcome), kernels.notes(&outcome));
    let Outcome { outputs, findings: _, completed, timeline, operations, .. } = outcome;
    let products = timeline.figures.products;
    let comparison = match (&request.expected, outputs.first()) {
        (Some(expected), Some(result)) => Some(Comparison::between(result, expected, products)?),
        _ => None,
    };
    let figures = timeline.figures.clone();
    let shares = Shares {
        microseconds: 1e6 * figures.cycles / request.chip.rates.hertz,
        matmul_busy: figures.matmul_share(),
        copy_overlap: figures.overlap(),
        traffic: figures.bytes_moved as f64 / (figures.bytes_minimum as f64).max(1.0),
    };
    Ok(SimulateReport {
        kernel: request.name.clone(),
        operands: request.names.clone(),
        random_operands: request.are_random,
        results: outputs.len(),
        chip: request.chip.name,
        races: request.races,
        completed,
        violations: kernels.rejections(violations),
        findings,
        notes,
        operations,
        comparison,
        figures,
        shares,
        seconds,
        timeline,
    })
}

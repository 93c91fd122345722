//! `octile simulate`: runs a Pallas kernel without a TPU, or a PTX kernel without a GPU.

mod compare;
mod dataflow;
mod diagnosis;
pub mod gpu;
mod junit;
mod kernels;
mod matching;
mod operands;
mod random;
mod signals;
mod tensors;
mod tolerance;
mod trace;
mod wording;

use std::{path::PathBuf, time::Instant};

use anyhow::{Result, anyhow, bail};
use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    Module,
    interpret::{
        Element, Figures, Options, Outcome, OutputAlias, Signature, SimulateError, Tensor, Timeline,
        embedded_kernels, mesh_devices, simulate,
    },
    limits::{BYTES_PER_OPERAND_BYTE, DEFAULT_BYTES, DEFAULT_OPERATIONS, PRODUCTS_PER_OPERATION},
    types::DYNAMIC,
};
use serde::Serialize;

use crate::{
    Verdict,
    args::SimulateArgs,
    kernel_file::{self, KernelFile},
    print::shown,
};

use compare::Judging;
pub use compare::{Comparison, Expected, WorstElement};
use dataflow::Dataflow;
pub use diagnosis::{
    ArgumentNote, DiagnosedSite, Diagnosis, LocatedLine, LocatedNote, LocatedPrint, MosaicLine, Rejection,
};
use kernels::SimulatedKernels;
use operands::{ChosenOperands, OperandSource};
use tolerance::{Arithmetic, ChosenTolerance};
pub use trace::chrome_trace;

pub use crate::python::{PythonLine, PythonPlace};

/// Default chip.
const DEFAULT_CHIP: &str = "tpu7x";
/// Default seed of random operands.
const OPERANDS: u64 = 42;
/// The file of a TPU version's folder that runs on random operands of its problem.
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
    /// Shapes of the results, where the text does not state them.
    results: Option<Vec<Vec<usize>>>,
    /// Results that share memory with operands.
    aliases: Vec<OutputAlias>,
    /// The operands.
    operands: ChosenOperands,
    /// The expected results, in order.
    expected: Vec<Expected>,
    /// Tolerances in place of the defaults.
    tolerance: ChosenTolerance,
    /// Whether to detect data races.
    pub races: bool,
    /// Whether to record the timeline.
    pub events: bool,
    /// Number of devices; the mesh of a module counts if it has one.
    pub devices: usize,
    /// The modelled chip.
    pub chip: &'static TpuChip,
    /// Operation limit.
    pub max_operations: u64,
    /// Memory limit, if the problem is known.
    pub max_bytes: Option<usize>,
}

impl SimulateRequest {
    /// Reads one kernel and its operands.
    pub fn new(args: &SimulateArgs) -> Result<Self> {
        let mut requests = Self::all(args)?;
        match requests.len() {
            1 => Ok(requests.remove(0)),
            several => bail!("{} holds {several} kernels: pick one with --kernel", shown(&args.kernel)),
        }
    }

    /// Reads the kernel and its operands; one request for each kernel of a dump folder.
    pub fn all(args: &SimulateArgs) -> Result<Vec<Self>> {
        args.require_expected_for_tolerances()?;
        let files = KernelFile::read_all(&args.kernel)?;
        if let (true, Some(name)) = (files.len() > 1, &args.only) {
            let picked = SimulateArgs { only: None, ..args.clone() };
            return Ok(vec![Self::of_file(&picked, kernel_file::pick(files, name)?)?]);
        }
        if files.len() > 1 {
            let names = kernel_file::numbered_names(&files).join(", ");
            args.require_one_kernel().map_err(|option| {
                anyhow!(
                    "{} holds {} kernels: pick one for {option} with --kernel: {names}",
                    shown(&args.kernel),
                    files.len()
                )
            })?;
        }
        files.into_iter().map(|file| Self::of_file(args, file)).collect()
    }

    /// Reads the operands of a kernel.
    fn of_file(args: &SimulateArgs, file: KernelFile) -> Result<Self> {
        let only = args.only.as_deref().map(|name| file.kernel(name)).transpose()?;
        let plan = operands::written_plan(args)?;
        let chip = args.chip.as_deref().or(plan.as_ref().map(|plan| plan.chip.name)).unwrap_or(DEFAULT_CHIP);
        let chip = TpuChip::named(chip)?;
        let options = Options::for_chip(chip);
        let module = only.as_ref().map_or(&file.module, |kernel| &kernel.module);
        let devices = devices_beside_mesh(module, args.devices.map(usize::from))?;
        let signature = || {
            let signature = match &only {
                Some(kernel) => Signature::of_call(kernel),
                None => Signature::of(&file.module, &options),
            };
            signature.map(|signature| signature.on_devices(devices))
        };
        let chosen = operands::choose(args, plan.as_deref(), signature);
        let (operands, expected, only) = match chosen {
            Ok((operands, expected)) => (operands, expected, only),
            Err(error) if only.is_none() && devices == 1 => {
                operands::of_one_kernel(args, &file.module).ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        let problem = plan.map(|plan| plan.problem);
        let result = problem.map(|problem| problem.m.saturating_mul(problem.n));
        let products = problem.map_or(0, |problem| {
            [problem.m, problem.n, problem.k]
                .iter()
                .fold(1, |all: u64, &size| all.saturating_mul(size as u64))
        });
        // A large problem may take more operations.
        let default = DEFAULT_OPERATIONS.saturating_add(products / PRODUCTS_PER_OPERATION * 8);
        // Its result may be large while its operands are small; `require_memory` has checked that it fits.
        let max_bytes = result.map(|result| {
            let known = operands.bytes().saturating_add(result.saturating_mul(size_of::<f32>()));
            DEFAULT_BYTES.saturating_add(known.saturating_mul(BYTES_PER_OPERAND_BYTE))
        });
        let results =
            only.as_ref().map(|kernel| kernel.results.iter().map(|ty| ty.shape().to_vec()).collect());
        let aliases = only.as_ref().map(|kernel| kernel.aliases.clone()).unwrap_or_default();
        let KernelFile { path, name, module, text } = file;
        let (module, text) = only.map_or((module, text), |kernel| (kernel.module, kernel.text));
        Ok(Self {
            file: path,
            name,
            module,
            text,
            results,
            aliases,
            operands,
            expected,
            tolerance: ChosenTolerance { rtol: args.rtol, atol: args.atol },
            races: !args.no_races,
            events: args.trace.is_some() || args.svg.is_some(),
            devices,
            chip,
            max_operations: args.max_operations.unwrap_or(default),
            max_bytes,
        })
    }
}

/// Number of devices that each run the whole module: 1 if it has a mesh, whose devices run a part of it.
fn devices_beside_mesh(module: &Module, wanted: Option<usize>) -> Result<usize> {
    match (mesh_devices(module)?, wanted) {
        (Some(mesh), Some(wanted)) if mesh != wanted => {
            bail!("the module has a mesh of {mesh} devices, not {wanted}: leave out --devices")
        }
        (Some(_), _) => Ok(1),
        (None, wanted) => Ok(wanted.unwrap_or(1)),
    }
}

/// `f32[8, 128]`
fn spelled(element: Element, shape: &[usize]) -> String {
    let extent = |&extent: &usize| match extent {
        DYNAMIC => "?".to_owned(),
        known => known.to_string(),
    };
    let extents: Vec<String> = shape.iter().map(extent).collect();
    format!("{element}[{}]", extents.join(", "))
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
    /// Seed of random operands.
    pub seed: Option<u64>,
    /// What random operands may have caused.
    pub operand_notes: Vec<String>,
    /// Number of results.
    pub results: usize,
    /// The modelled chip.
    pub chip: &'static str,
    /// Number of devices.
    pub devices: usize,
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
    /// What the kernel printed, in order.
    pub prints: Vec<LocatedPrint>,
    /// Operations executed.
    pub operations: u64,
    /// The comparison that is closest to its tolerance, or furthest beyond it.
    pub comparison: Option<Comparison>,
    /// Comparison of each result with the expected one.
    pub comparisons: Vec<Comparison>,
    /// Totals of the modelled clock.
    pub figures: Figures,
    /// Derived figures.
    pub shares: Shares,
    /// Seconds of the simulation.
    pub seconds: f64,
    /// The results.
    #[serde(skip)]
    pub outputs: Vec<Tensor>,
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
        let as_expected = self.comparisons.iter().all(|comparison| comparison.passed);
        Verdict::of(self.findings.is_empty() && self.violations.is_empty() && as_expected)
    }
}

/// Rejects a result that the simulator could not compute; a note says why.
fn require_known(outputs: &[Tensor], number: usize, what: &str) -> Result<()> {
    if outputs.get(number).is_some_and(|result| !result.is_sound()) {
        bail!("result {number} depends on an operation that is not supported, so it cannot be {what}");
    }
    Ok(())
}

/// Serializes the results for `--save`.
pub fn saved(report: &SimulateReport) -> Result<Vec<u8>> {
    for number in 0..report.outputs.len() {
        require_known(&report.outputs, number, "saved: leave out --save")?;
    }
    tensors::serialized(&report.outputs)
}

/// Compares the results with the expected ones.
fn compare(request: &SimulateRequest, outcome: &Outcome) -> Result<Vec<Comparison>> {
    let (expected, outputs) = (&request.expected, &outcome.outputs);
    if outcome.completed && outputs.len() < expected.len() {
        bail!("--expect names {} tensors, but the number of results is {}", expected.len(), outputs.len());
    }
    for (number, _) in expected.iter().enumerate() {
        require_known(outputs, number, "compared: drop it from --expect")?;
    }
    let kernels = embedded_kernels(&request.module).unwrap_or_default();
    let modules = || kernels.iter().map(|kernel| &kernel.module).chain([&request.module]);
    let flow = Dataflow::of(&request.module, &kernels, outputs.len());
    let judging = |number: usize| Judging {
        arithmetic: match &flow {
            Some(flow) => Arithmetic::reaching(flow, number),
            None => Arithmetic::of(modules()),
        },
        products: outcome.timeline.figures.products,
        chosen: request.tolerance,
    };
    let pairs = outputs.iter().zip(expected).enumerate();
    pairs.map(|(number, (result, expected))| judging(number).compare(number, result, expected)).collect()
}

/// Runs the kernel.
pub fn run(request: &SimulateRequest) -> Result<SimulateReport> {
    let expected = &request.expected;
    let expected = || expected.iter().map(|expected| expected.shape.clone()).collect::<Vec<_>>();
    let shapes = request.results.clone().unwrap_or_else(expected);
    let options = Options {
        races: request.races,
        events: request.events,
        output_shapes: (!shapes.is_empty()).then_some(shapes),
        aliases: request.aliases.clone(),
        devices: request.devices,
        max_operations: request.max_operations,
        max_bytes: request.max_bytes,
        ..Options::for_chip(request.chip)
    };
    let mut module = request.module.clone();
    let kernels = SimulatedKernels::name(&request.file, &mut module, &request.text);
    let start = Instant::now();
    let (outcome, operand_notes) = request.operands.run(|operands| {
        simulate(&module, operands, &options).map_err(|error| {
            let on = match error {
                SimulateError::Operands(_) => request.operands.described(),
                _ => String::new(),
            };
            anyhow!(error).context(format!("cannot run {}{on}", request.name))
        })
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let mut comparisons = compare(request, &outcome)?;
    for wrong in comparisons.iter_mut().filter(|comparison| !comparison.passed) {
        wrong.python = kernels.only_definition();
    }
    let (findings, notes) = (kernels.diagnoses(&outcome), kernels.notes(&outcome));
    let Outcome { outputs, completed, timeline, operations, prints, .. } = outcome;
    // A program that did not finish returns nothing.
    let results = match (&request.results, completed) {
        (_, true) => outputs.len(),
        (Some(shapes), false) => shapes.len(),
        (None, false) => Signature::of(&module, &options).map_or(outputs.len(), |program| program.results),
    };
    let figures = timeline.figures.clone();
    let shares = Shares {
        microseconds: 1e6 * figures.cycles / request.chip.rates.hertz,
        matmul_busy: figures.matmul_share(),
        copy_overlap: figures.overlap(),
        traffic: figures.bytes_moved as f64 / (figures.bytes_minimum as f64).max(1.0),
    };
    let worst = comparisons.iter().max_by(|a, b| a.of_allowed.total_cmp(&b.of_allowed));
    Ok(SimulateReport {
        kernel: request.name.clone(),
        operands: request.operands.names.clone(),
        random_operands: !matches!(request.operands.source, OperandSource::File(_)),
        seed: request.operands.seed(),
        operand_notes,
        results,
        chip: request.chip.name,
        devices: mesh_devices(&request.module)?.unwrap_or(request.devices),
        races: request.races,
        completed,
        violations: kernels.rejections(request.chip),
        findings,
        notes,
        prints: kernels.prints(&prints),
        operations,
        comparison: worst.cloned(),
        comparisons,
        figures,
        shares,
        seconds,
        outputs,
        timeline,
    })
}

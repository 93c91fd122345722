//! A GPU kernel without a GPU: the PTX of a folder that `octile inspect --target sm_90a` wrote, changed by hand or not.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, anyhow, bail};
use octile_core::{
    Problem, Strategy,
    device::hopper::{HOPPER_GPUS, HopperGpu},
    exact::ExactOperands,
    oracle::{self, Comparison},
    plan::hopper::{Arguments, HopperPlan, Release},
    sample::Operands,
};
use octile_kernels::hopper;
use octile_ptx::simulate::{Fault, SimulatedMatmul, Simulator};
use serde::{Deserialize, Serialize};

use super::{OPERANDS, read_text};
use crate::{
    Verdict,
    args::SimulateArgs,
    backend::{Output, gpu::KernelOptions, gpu_sim::RESIDENT_BLOCKS},
    check::ExactCheck,
    command::{
        analyze::manifest,
        inspect::gpu::{PTX, QUANTIZE},
        require_memory,
    },
    input,
    plain_path::PlainPath,
    progress::Progress,
};

/// Orders of events that are tried.
const ORDERS: u64 = 4;

/// What to run.
#[derive(Debug)]
pub struct Job {
    kernel: PathBuf,
    text: String,
    plan: HopperPlan,
    gpu: &'static HopperGpu,
    product: SimulatedMatmul,
}

/// Whether this names a GPU kernel.
pub fn is_ptx(kernel: &Path) -> bool {
    kernel.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ptx"))
}

impl Job {
    /// The job that the arguments describe.
    pub fn new(args: &SimulateArgs) -> Result<Self> {
        args.require_ptx_options()?;
        let kernel = args.kernel.clone();
        let text = read_text(&kernel)?;
        let folder = kernel.parent().unwrap_or(Path::new(""));
        let manifest = folder.join(manifest::FILE_NAME);
        if folder.ends_with(QUANTIZE) && !manifest.is_file() {
            bail!(
                "{} runs before the kernel in the folder around it: simulate that one, and both run",
                kernel.display()
            );
        }
        let (plan, gpu) = plan(folder)?;
        require_memory([&plan.problem])?;
        let quantize = match hopper::quantize_for(&plan.problem) {
            Some((_, launch)) => Some((read_text(&input::within(folder, &quantize_ptx())?)?, launch)),
            None => None,
        };
        let quantize = quantize.as_ref().map(|(text, launch)| (&text[..], *launch));
        let entry = hopper::multiply(&plan).entry;
        let product = SimulatedMatmul::new(&plan, &text, quantize)
            .with_context(|| format!("cannot read {} as PTX of this kind", kernel.display()))?;
        let product = match args.max_operations {
            Some(most) => product.with_max_instructions(most),
            None => product,
        };
        if product.entry() != entry {
            bail!(
                "{} is of {}, not of {entry}, of which the manifest tells",
                kernel.display(),
                product.entry()
            );
        }
        Ok(Self { kernel, text, plan, gpu, product })
    }
}

/// The kernel that quantizes activations, seen from the folder of the one that multiplies.
fn quantize_ptx() -> PlainPath {
    PlainPath::new(&format!("{QUANTIZE}/{PTX}")).expect("a plain path")
}

/// The parts of a manifest that a plan follows from.
#[derive(Deserialize)]
struct Manifest {
    gpu: Gpu,
    plan: Plan,
}

#[derive(Deserialize)]
struct Gpu {
    name: String,
}

#[derive(Deserialize)]
struct Plan {
    problem: manifest::Problem,
    strategy: Strategy,
    promote_every: usize,
    release: Release,
}

/// The plan that a manifest tells of: made anew, and the same.
fn plan(folder: &Path) -> Result<(HopperPlan, &'static HopperGpu)> {
    let path = folder.join(manifest::FILE_NAME);
    let name = path.display();
    let written = manifest::sealed_value(folder)?.with_context(|| {
        format!(
            "there is no {name}: it says how the kernel is launched, so simulate a kernel.ptx in the folder where \
             `octile inspect --target sm_90a` wrote it"
        )
    })?;
    let of_gpu = || format!("{name} is not that of a GPU kernel of this version: run `octile inspect` again");
    let Manifest { gpu, plan } = serde_json::from_value(written.clone()).map_err(|_| anyhow!(of_gpu()))?;
    let problem = plan.problem.checked()?;
    let gpu = HOPPER_GPUS.iter().find(|known| known.name == gpu.name).with_context(of_gpu)?;
    let options = KernelOptions::new(Some(plan.promote_every), plan.release == Release::Thread);
    let made = options.plan(&problem, gpu, plan.strategy)?;
    if serde_json::to_value(&made)? != written["plan"] {
        bail!("{name} has a plan that this version of octile would not make: run `octile inspect` again");
    }
    Ok((made, gpu))
}

/// What a run brought.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The kernel's file.
    pub kernel: String,
    /// The GPU that it was planned for.
    pub gpu: &'static str,
    /// What was multiplied.
    pub problem: Problem,
    /// Orders of events that were tried.
    pub orders: u64,
    /// What stopped the last of them.
    pub fault: Option<Found>,
    /// The result of the first order against the f64 reference.
    pub comparison: Option<Comparison>,
    /// Results on operands with an exact product, where no error is allowed.
    pub exact: ExactCheck,
    /// Whether all orders gave the same bits.
    pub repeatable: bool,
    /// Instructions of all warps in the first order.
    pub instructions: u64,
    /// Lines with instructions that no one executed in any order: nothing is said of them.
    pub unreached: Vec<usize>,
    /// Seconds that it took on this machine.
    pub seconds: f64,
    /// The lines of the kernel.
    #[serde(skip)]
    pub lines: Vec<String>,
}

/// Where a run was stopped.
#[derive(Debug, Serialize)]
pub struct Found {
    /// From 1.
    pub line: usize,
    /// In the grid.
    pub block: usize,
    /// In its block.
    pub thread: usize,
    /// What is wrong.
    pub problem: String,
}

impl From<Fault> for Found {
    fn from(Fault { line, cta: block, thread, kind, .. }: Fault) -> Self {
        Self { line, block, thread, problem: kind.to_string() }
    }
}

impl Report {
    /// Failed if anything stopped the kernel, or its results are wrong or differ.
    pub fn verdict(&self) -> Verdict {
        let is_close = self.comparison.as_ref().is_some_and(Comparison::passed);
        let is_right = is_close && self.exact.wrong == 0;
        Verdict::of(self.fault.is_none() && is_right && self.repeatable)
    }
}

/// Runs the kernel in several orders of events.
pub fn run(job: &Job) -> Report {
    let start = Instant::now();
    let problem = job.plan.problem;
    let operands = Operands::random(problem, OPERANDS);
    let mut report = Report {
        kernel: job.kernel.display().to_string(),
        gpu: job.gpu.name,
        problem,
        orders: 0,
        fault: None,
        comparison: None,
        exact: ExactCheck::default(),
        repeatable: true,
        instructions: 0,
        unreached: Vec::new(),
        seconds: 0.0,
        lines: job.text.lines().map(str::to_owned).collect(),
    };
    let mut first = None;
    let draws = ExactOperands::draws(&problem);
    let progress = Progress::new(ORDERS + draws as u64);
    progress.doing("orders of events");
    let arguments = Arguments::fastest(&problem).with_constant_weight();
    while report.fault.is_none() && report.orders < ORDERS {
        report.orders += 1;
        let machine = Simulator { gpu: job.gpu, resident_ctas: RESIDENT_BLOCKS, seed: report.orders };
        match job.product.run(&operands, arguments, machine) {
            Err(fault) => report.fault = Some(fault.into()),
            Ok((bytes, outcome)) => match &first {
                Some(first) => {
                    report.repeatable &= *first == bytes;
                    report.unreached.retain(|line| outcome.unreached.contains(line));
                }
                None => {
                    report.instructions = outcome.instructions;
                    report.unreached = outcome.unreached;
                    report.comparison = Some(compare(&problem, &operands, &bytes));
                    first = Some(bytes);
                }
            },
        }
        progress.step();
    }
    progress.doing("exact operands");
    for draw in 0..draws {
        if report.fault.is_some() {
            break;
        }
        let exact = ExactOperands::new(problem, draw, OPERANDS);
        let machine = Simulator { gpu: job.gpu, resident_ctas: RESIDENT_BLOCKS, seed: ORDERS + 1 };
        match job.product.run(&exact.operands, arguments, machine) {
            Err(fault) => report.fault = Some(fault.into()),
            Ok((bytes, _)) => report.exact.add(result(&problem, &bytes).compare_exactly(&exact)),
        }
        progress.step();
    }
    report.seconds = start.elapsed().as_secs_f64();
    report
}

fn compare(problem: &Problem, operands: &Operands, bytes: &[u8]) -> Comparison {
    let (input, accumulator) = (operands.oracle_input(), SimulatedMatmul::ACCUMULATOR);
    let reference = oracle::multiply(&input, problem.m, &operands.weight, accumulator, problem.out);
    result(problem, bytes).compare(&reference)
}

fn result(problem: &Problem, bytes: &[u8]) -> Output {
    let mut result = Output::poisoned(problem.out, problem.m * problem.n);
    result.copy_from_bytes(bytes);
    result
}

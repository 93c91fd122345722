//! Simulates the PTX in a folder of `octile inspect --target sm_90a`, which may have been edited.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use octile_core::{
    Problem,
    device::hopper::HopperGpu,
    exact::ExactOperands,
    oracle::{self, Comparison},
    plan::hopper::{Arguments, HopperPlan},
    sample::Operands,
};
use octile_harness::{
    backend::{OutputBuffer, RESIDENT_CTAS},
    check::ExactCheck,
};
use octile_kernels::hopper;
use octile_ptx::simulate::{Fault, SimulatedMatmul, Simulator};
use serde::Serialize;

use super::OPERANDS;
use crate::{
    Verdict,
    args::SimulateArgs,
    command::{
        analyze::manifest::{self, Manifest, Plan},
        inspect::gpu::{PTX, QUANTIZE},
        work::require_memory,
    },
    input,
    plain_path::PlainPath,
    print::shown,
    progress::Progress,
};

/// Schedules to try.
const ORDERS: u64 = 4;

/// The kernels of a plan.
#[derive(Debug)]
pub struct GpuSimulateRequest {
    kernel: PathBuf,
    text: String,
    plan: HopperPlan,
    gpu: &'static HopperGpu,
    product: SimulatedMatmul,
}

/// Whether a file is PTX, by its name.
pub fn is_ptx(kernel: &Path) -> bool {
    kernel.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ptx"))
}

/// Reads the text of a kernel.
fn read_text(path: &Path) -> Result<String> {
    let text = input::read_text(path)?;
    if text.trim().is_empty() {
        bail!("{} is empty: write it again with `octile inspect`", shown(path));
    }
    Ok(text)
}

impl GpuSimulateRequest {
    /// Reads the kernels and the manifest beside them.
    pub fn new(args: &SimulateArgs) -> Result<Self> {
        args.require_ptx_options()?;
        let kernel = args.kernel.clone();
        let text = read_text(&kernel)?;
        let folder = kernel.parent().unwrap_or(Path::new(""));
        let manifest = folder.join(manifest::FILE_NAME);
        if folder.ends_with(QUANTIZE) && !manifest.is_file() {
            bail!(
                "{} is the quantization kernel: simulate the kernel.ptx one folder up, which runs both",
                shown(&kernel)
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
            .with_context(|| format!("cannot parse {}", shown(&kernel)))?;
        let product = match args.max_operations {
            Some(most) => product.with_max_instructions(most),
            None => product,
        };
        if product.entry() != entry {
            bail!(
                "{} defines {}, but the manifest expects {entry}: run `octile inspect` again",
                shown(&kernel),
                product.entry()
            );
        }
        Ok(Self { kernel, text, plan, gpu, product })
    }
}

/// Path of the quantization kernel in the folder of a version.
fn quantize_ptx() -> PlainPath {
    PlainPath::new(&format!("{QUANTIZE}/{PTX}")).expect("a plain path")
}

/// Reads the plan and the GPU of a manifest.
fn plan(folder: &Path) -> Result<(HopperPlan, &'static HopperGpu)> {
    let path = folder.join(manifest::FILE_NAME);
    let name = shown(&path);
    let manifest = Manifest::of(folder)?.with_context(|| {
        format!(
            "{name} does not exist: simulate kernel.ptx in its folder of `octile inspect --target sm_90a`, \
             whose manifest says how to launch it"
        )
    })?;
    match (manifest.plan, manifest.gpu) {
        (Some(Plan::Gpu(plan)), Some(gpu)) => Ok((*plan, gpu)),
        _ => bail!("{name} is not the manifest of a GPU kernel: run `octile inspect --target sm_90a`"),
    }
}

/// Result of the simulated runs.
#[derive(Debug, Serialize)]
pub struct GpuSimulateReport {
    /// The kernel's file.
    pub kernel: String,
    /// The planned GPU.
    pub gpu: &'static str,
    /// The problem.
    pub problem: Problem,
    /// Schedules that were tried.
    pub orders: u64,
    /// What stopped the last one.
    pub fault: Option<StoppedAt>,
    /// Result of the first schedule against the f64 reference.
    pub comparison: Option<Comparison>,
    /// Results on operands with an exact result, where no error is allowed.
    pub exact: ExactCheck,
    /// Whether all schedules gave the same bits.
    pub repeatable: bool,
    /// Instructions of all warps in the first schedule.
    pub instructions: u64,
    /// Lines with instructions that were not executed in any schedule, and so were not checked.
    pub unreached: Vec<usize>,
    /// Seconds of the simulation.
    pub seconds: f64,
    /// The lines of the kernel.
    #[serde(skip)]
    pub lines: Vec<String>,
}

/// Where a run was stopped, and why.
#[derive(Debug, Serialize)]
pub struct StoppedAt {
    /// Line of the PTX, from 1.
    pub line: usize,
    /// CTA in the grid.
    pub block: usize,
    /// Thread in the CTA.
    pub thread: usize,
    /// What is wrong.
    pub problem: String,
}

impl From<Fault> for StoppedAt {
    fn from(Fault { line, cta: block, thread, kind, .. }: Fault) -> Self {
        Self { line, block, thread, problem: kind.to_string() }
    }
}

impl GpuSimulateReport {
    /// Fails if the kernel was stopped, or its results are wrong or differ.
    pub fn verdict(&self) -> Verdict {
        let is_close = self.comparison.as_ref().is_some_and(Comparison::passed);
        let is_right = is_close && self.exact.wrong == 0;
        Verdict::of(self.fault.is_none() && is_right && self.repeatable)
    }
}

/// Runs the kernel in several schedules.
pub fn run(request: &GpuSimulateRequest) -> GpuSimulateReport {
    let start = Instant::now();
    let problem = request.plan.problem;
    let operands = Operands::random(problem, OPERANDS);
    let mut report = GpuSimulateReport {
        kernel: shown(&request.kernel),
        gpu: request.gpu.name,
        problem,
        orders: 0,
        fault: None,
        comparison: None,
        exact: ExactCheck::default(),
        repeatable: true,
        instructions: 0,
        unreached: Vec::new(),
        seconds: 0.0,
        lines: request.text.lines().map(str::to_owned).collect(),
    };
    let mut first = None;
    let draws = ExactOperands::draws(&problem);
    let progress = Progress::new(ORDERS + draws as u64);
    progress.doing("schedules");
    let arguments = Arguments::fastest(&problem).with_constant_weight();
    while report.fault.is_none() && report.orders < ORDERS {
        report.orders += 1;
        let machine = Simulator { gpu: request.gpu, resident_ctas: RESIDENT_CTAS, seed: report.orders };
        match request.product.run(&operands, arguments, machine) {
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
        let machine = Simulator { gpu: request.gpu, resident_ctas: RESIDENT_CTAS, seed: ORDERS + 1 };
        match request.product.run(&exact.operands, arguments, machine) {
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

fn result(problem: &Problem, bytes: &[u8]) -> OutputBuffer {
    let mut result = OutputBuffer::poisoned(problem.out, problem.m * problem.n);
    result.copy_from_bytes(bytes);
    result
}

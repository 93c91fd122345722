//! The work of `test` and `bench`: backends and cases.

use std::path::Path;

use anyhow::{Context, Result, bail};
use octile_core::{ActivationKind, Problem, plan::tpu::BlockMode};
use octile_harness::{
    HarnessError,
    backend::{Backend, BackendChoice, KernelOptions, has_usable_gpu},
    case::{Case, UNNAMED, named_cases},
};
use octile_runtime::cuda::CudaError;

use crate::{
    args::{BackendName, ProblemArgs, WorkArgs},
    input,
    print::{self, shown},
};

/// The named backend, or the best one. Options of the CPU backend select it, and so do unquantized
/// activations, which GPU kernels do not support.
pub(super) fn choose_backend(work: &WorkArgs) -> BackendName {
    match work.backend {
        BackendName::Best => {
            let is_plain = matches!(work.problems.activation(), ActivationKind::Plain(_));
            let for_cpu = work.isa.is_some() || work.threads.is_some() || work.pin_threads || is_plain;
            if !for_cpu && has_usable_gpu() { BackendName::Gpu } else { BackendName::Cpu }
        }
        named => named,
    }
}

/// Opens the chosen backend; a simulated TPU once per block mode.
pub(super) fn open_backends(work: &WorkArgs) -> Result<Vec<Box<dyn Backend>>> {
    let tuned = !work.default_plans;
    let kernels = KernelOptions::new(work.promote, work.for_racecheck).with_tuned(tuned);
    let choices = match choose_backend(work) {
        BackendName::Cpu | BackendName::Best => {
            let threads = work.threads.map(usize::from);
            vec![BackendChoice::Cpu { isa: work.isa, threads, pin_threads: work.pin_threads, tuned }]
        }
        BackendName::Gpu => vec![BackendChoice::Gpu(kernels)],
        BackendName::GpuSim => vec![BackendChoice::GpuSim(kernels)],
        BackendName::TpuSim => {
            let modes = if work.modes.is_empty() { &[BlockMode::Auto][..] } else { &work.modes };
            modes.iter().map(|&mode| BackendChoice::TpuSim(mode)).collect()
        }
    };
    choices.into_iter().map(|choice| choice.open().map_err(with_advice)).collect()
}

/// Says which tables and entries are ignored.
pub(super) fn print_table_notes(backend: &dyn Backend, cases: &[Case]) {
    let problems: Vec<Problem> = cases.iter().map(|case| case.problem).collect();
    backend.table_notes(&problems).iter().for_each(|note| print::say(&format!("octile: {note}")));
}

/// Adds what the command line offers instead.
pub(super) fn with_advice(error: HarnessError) -> anyhow::Error {
    let advice = match &error {
        HarnessError::Cuda(CudaError::NoDriver | CudaError::NoGpu) => {
            "; `octile test --backend gpu-sim` runs the kernels without a GPU"
        }
        HarnessError::NotTimed { .. } => {
            ": use `--backend cpu` or `--backend gpu`, or count cycles with `octile inspect`"
        }
        _ => return error.into(),
    };
    anyhow::anyhow!("{error}{advice}")
}

/// The user's shapes, or the standard ones, with the requested element types.
pub(super) fn problem_cases(problems: &ProblemArgs, standard: Vec<Case>) -> Result<Vec<Case>> {
    let cases = match (&problems.shapes_from, problems.sample) {
        (Some(path), _) => listed(path)?,
        (None, Some(sample)) => sample.cases(),
        (None, None) if problems.shapes.is_empty() => standard,
        (None, None) => named_cases(&problems.shapes),
    };
    let with_types = |case: Case| Case {
        problem: case.problem.with_x(problems.activation()).with_out(problems.out_kind()),
        ..case
    };
    within(problems, cases.into_iter().map(with_types).collect())
}

/// The cases with no more work than `--max-gflop`, if that is given.
pub(super) fn within(problems: &ProblemArgs, mut cases: Vec<Case>) -> Result<Vec<Case>> {
    if let Some(most) = problems.max_gflop {
        cases.retain(|case| case.problem.flops() <= most * 1e9);
        if cases.is_empty() {
            bail!("every shape has more than {most} GFLOP: raise --max-gflop");
        }
    }
    Ok(cases)
}

/// The shapes of a file. What follows `#` is a comment, and names the shape before it.
fn listed(path: &Path) -> Result<Vec<Case>> {
    let bytes = input::read(path, input::RECORD_BYTES)?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("{} is not UTF-8 text: list one shape per line, such as 16x4096x4096:128", shown(path));
    };
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut cases = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (shape, comment) = line.split_once('#').unwrap_or((line, ""));
        if !shape.trim().is_empty() {
            let problem = shape.trim().parse().with_context(|| format!("{}:{}", shown(path), at + 1))?;
            let label = if comment.trim().is_empty() { UNNAMED } else { comment.trim() };
            cases.push(Case { label: label.to_owned(), problem });
        }
    }
    if cases.is_empty() {
        bail!("{} has no shape: write one per line, such as 16x4096x4096:128", shown(path));
    }
    Ok(cases)
}

/// Rejects problems whose operands, result and reference exceed this machine's memory.
pub(super) fn require_memory<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Result<()> {
    let system = sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram()),
    );
    // A container may have less than the machine around it.
    let container = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    let memory = system.total_memory().min(container);
    for problem in problems {
        let Problem { m, n, k, .. } = *problem;
        // Samples are drawn as f32 beside their codes; the reference and its bounds are f64. In floats, which
        // do not overflow.
        let needed = 24.0 * m as f64 * n as f64 + 9.0 * (m as f64 + n as f64) * k as f64;
        if needed > memory as f64 {
            let gib = |bytes: f64| bytes / f64::from(1 << 30);
            bail!(
                "{problem} needs about {:.0} GiB of memory, this machine has {:.0} GiB: use a smaller shape",
                gib(needed),
                gib(memory as f64)
            );
        }
    }
    Ok(())
}

//! The work of `test` and `bench`: backends and cases.

use anyhow::{Result, bail};
use octile_core::{ActivationKind, Problem, plan::tpu::BlockMode};
use octile_harness::{
    HarnessError,
    backend::{Backend, BackendChoice, KernelOptions, has_usable_gpu},
    case::{Case, named_cases},
};
use octile_runtime::cuda::CudaError;

use crate::args::{BackendName, WorkArgs};

/// The named backend, or the best one. Options of the CPU backend select it, and so do unquantized
/// activations, which GPU kernels do not support.
pub(super) fn choose_backend(work: &WorkArgs) -> BackendName {
    match work.backend {
        BackendName::Best => {
            let is_plain = matches!(work.activation(), ActivationKind::Plain(_));
            let for_cpu = work.isa.is_some() || work.threads.is_some() || work.pin_threads || is_plain;
            if !for_cpu && has_usable_gpu() { BackendName::Gpu } else { BackendName::Cpu }
        }
        named => named,
    }
}

/// Opens the chosen backend; a simulated TPU once per block mode.
pub(super) fn open_backends(work: &WorkArgs) -> Result<Vec<Box<dyn Backend>>> {
    let kernels = KernelOptions::new(work.promote, work.for_racecheck);
    let choices = match choose_backend(work) {
        BackendName::Cpu | BackendName::Best => {
            let threads = work.threads.map(usize::from);
            vec![BackendChoice::Cpu { isa: work.isa, threads, pin_threads: work.pin_threads }]
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
pub(super) fn cases(work: &WorkArgs, standard: Vec<Case>) -> Vec<Case> {
    let cases = if work.shapes.is_empty() { standard } else { named_cases(&work.shapes) };
    let with_types = |case: Case| Case {
        problem: case.problem.with_x(work.activation()).with_out(work.out_kind()),
        ..case
    };
    cases.into_iter().map(with_types).collect()
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

//! `octile` without a command: the whole story in a minute or two.

use std::time::Duration;

use anyhow::Result;

use super::{bench, devices, test};
use crate::{
    Verdict,
    args::StrategyChoice,
    backend::{
        Backend,
        cpu::CpuBackend,
        gpu::{self, GpuBackend, KernelOptions},
    },
    case::{bench_cases, test_cases},
    interrupt,
    measure::Effort,
    print,
};

/// Time for each shape of the benchmark, so that all six fit into a minute on a slow machine.
const BUDGET_PER_SHAPE: Duration = Duration::from_secs(3);

/// Says what the machine is; then, for everything on it that multiplies, checks every strategy, times them, and recommends one. Each
/// part is printed as soon as it is there.
pub fn run() -> Result<Verdict> {
    print::devices::report(&devices::run());
    let mut passed = true;
    for backend in backends()? {
        passed &= check_and_time(backend.as_ref())?;
    }
    Ok(Verdict::of(passed))
}

/// The processor, and the GPU where there is a usable one.
fn backends() -> Result<Vec<Box<dyn Backend>>> {
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(CpuBackend::open(None, None)?)];
    if gpu::is_usable() {
        backends.push(Box::new(GpuBackend::open(KernelOptions::new(None, false))?));
    }
    Ok(backends)
}

/// Whether all is as it should be. What is wrong is not timed.
fn check_and_time(backend: &dyn Backend) -> Result<bool> {
    let strategies = vec![StrategyChoice::All];
    let job = test::Job { cases: test_cases(), strategies: strategies.clone(), seed: 1 };
    let checks = test::run(backend, &job)?;
    print::test::summary(&checks);
    if !checks.passed() {
        return Ok(false);
    }
    let effort = Effort { warmup: 1, budget: Some(BUDGET_PER_SHAPE), ..Effort::QUICK };
    let job = bench::Job { cases: bench_cases(), strategies, seed: 1, effort };
    let shapes = job.cases.len();
    let keep = |report: &_| interrupt::keep(Some(print::bench::so_far(report, shapes)));
    let report = bench::run(backend, &job, keep)?;
    interrupt::keep(None);
    print::bench::summary(&report);
    Ok(report.refused().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Setup;

    #[test]
    fn a_usable_gpu_takes_part() {
        let standin = octile_standin_driver::StandIn::load();
        let setups = || backends().unwrap().iter().map(|backend| backend.setup()).collect::<Vec<_>>();
        assert!(
            matches!(&setups()[..], [Setup::Cpu { .. }, Setup::Gpu { gpu_model, .. }] if gpu_model == "NVIDIA H200")
        );
        standin.pretend("NVIDIA A100,8.0,108;NVIDIA H100 80GB HBM3,9.0,132", 13_000);
        assert!(matches!(&setups()[1], Setup::Gpu { gpu_model, .. } if gpu_model == "NVIDIA H100 80GB HBM3"));
        standin.pretend("NVIDIA A100,8.0,108", 13_000);
        assert_eq!(setups().len(), 1);
        standin.pretend("NVIDIA H200,9.0,132", 12_000);
        assert_eq!(setups().len(), 1);
        assert_eq!(standin.faults(), [""; 0]);
    }
}

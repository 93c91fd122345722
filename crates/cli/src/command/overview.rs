//! `octile` without a command: devices, checks, timings and a recommendation in a minute or two.

use std::time::Duration;

use anyhow::Result;

use octile_core::{ActivationKind, ScaleGranularity};
use octile_harness::{
    backend::{Backend, CpuBackend, GpuBackend, KernelOptions, has_usable_gpu},
    bench::BenchRequest,
    case::{Case, StrategyChoice, bench_cases, test_cases},
    correctness::{self, TestRequest},
    measure::Effort,
};

use super::{bench, devices};
use crate::{Verdict, print, progress::Progress};

/// Time per shape, so that all six take less than a minute on a slow machine.
const BUDGET_PER_SHAPE: Duration = Duration::from_secs(3);

/// Lists the devices; then checks and times every strategy on each usable one. Each part is printed when it
/// is done.
pub fn run() -> Result<Verdict> {
    print::devices::report(&devices::run()?);
    let mut passed = true;
    for backend in backends()? {
        passed &= check_and_time(backend.as_ref())?;
    }
    Ok(Verdict::of(passed))
}

/// The CPU, and a usable GPU.
fn backends() -> Result<Vec<Box<dyn Backend>>> {
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(CpuBackend::open(None, None, false, true)?)];
    if has_usable_gpu() {
        backends.push(Box::new(GpuBackend::open(KernelOptions::new(None, false))?));
    }
    Ok(backends)
}

/// Token scales, as served models have them.
fn with_token_scales(cases: Vec<Case>) -> Vec<Case> {
    let x = ActivationKind::Fp8(ScaleGranularity::Token);
    cases.into_iter().map(|case| Case { problem: case.problem.with_x(x), ..case }).collect()
}

/// Whether every strategy is correct. Only then are they timed.
fn check_and_time(backend: &dyn Backend) -> Result<bool> {
    let strategies = vec![StrategyChoice::All];
    let cases = with_token_scales(test_cases());
    let progress = Progress::new(cases.len() as u64);
    let request = TestRequest { cases, strategies: strategies.clone(), seed: 1 };
    let checks = correctness::run(backend, &request, &progress)?;
    drop(progress);
    print::test::summary(&checks);
    if !checks.passed() {
        return Ok(false);
    }
    let effort = Effort { warmup: 1, budget: Some(BUDGET_PER_SHAPE), ..Effort::QUICK };
    let cases = with_token_scales(bench_cases());
    let report =
        bench::run(backend, &BenchRequest { cases, strategies, seed: 1, effort, times_both_plans: false })?;
    print::bench::summary(&report);
    Ok(report.refused().is_empty())
}

#[cfg(test)]
mod tests {
    use octile_harness::backend::Setup;

    use super::*;

    #[test]
    fn a_usable_gpu_takes_part() {
        let standin = octile_standin_driver::StandIn::load();
        let setups = || backends().unwrap().iter().map(|backend| backend.setup()).collect::<Vec<_>>();
        let first = setups();
        assert!(matches!(&first[0], Setup::Cpu { .. }) && first.len() == 2);
        assert!(matches!(&first[1], Setup::Gpu { gpu_model, .. } if gpu_model == "NVIDIA H200"));
        standin.pretend("NVIDIA A100,8.0,108;NVIDIA H100 80GB HBM3,9.0,132", 13_000);
        assert!(matches!(&setups()[1], Setup::Gpu { gpu_model, .. } if gpu_model == "NVIDIA H100 80GB HBM3"));
        standin.pretend("NVIDIA A100,8.0,108", 13_000);
        assert_eq!(setups().len(), 1);
        standin.pretend("NVIDIA H200,9.0,132", 12_000);
        assert_eq!(setups().len(), 1);
        assert_eq!(standin.faults(), [""; 0]);
    }
}

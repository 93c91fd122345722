//! `octile` without a command: the whole story in under a minute.

use std::time::Duration;

use anyhow::Result;

use super::{bench, devices, test};
use crate::{
    Verdict,
    args::StrategyChoice,
    backend::Backend,
    case::{bench_cases, test_cases},
    interrupt,
    measure::Effort,
    print,
};

/// Time for each shape of the benchmark, so that all six fit into a minute on a slow machine.
const BUDGET_PER_SHAPE: Duration = Duration::from_secs(3);

/// Says what the machine is, checks every strategy, times them, and recommends one. Each part is printed as soon
/// as it is there.
pub fn run(backend: &dyn Backend) -> Result<Verdict> {
    print::devices::report(&devices::run());
    let strategies = vec![StrategyChoice::All];
    let job = test::Job { cases: test_cases(), strategies: strategies.clone(), seed: 1 };
    let checks = test::run(backend, &job)?;
    print::test::summary(&checks);
    if !checks.passed() {
        return Ok(Verdict::Failed);
    }
    let effort = Effort { warmup: 1, budget: Some(BUDGET_PER_SHAPE), ..Effort::QUICK };
    let job = bench::Job { cases: bench_cases(), strategies, seed: 1, effort };
    let shapes = job.cases.len();
    let keep = |report: &_| interrupt::keep(Some(print::bench::so_far(report, shapes)));
    let report = bench::run(backend, &job, keep)?;
    interrupt::keep(None);
    print::bench::summary(&report);
    Ok(Verdict::of(report.refused().is_empty()))
}

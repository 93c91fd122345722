//! `octile bench`: what to time, and on what.

use std::path::Path;

use anyhow::{Context, Result};
use octile_core::{Problem, Strategy};
use octile_harness::{
    backend::Backend,
    bench::{self, BenchReport, BenchRequest},
    case::{Case, StrategyChoice, bench_cases},
    measure::Effort,
    record::BenchBaseline,
    stats::FEWEST_FOR_INTERVAL,
};
use octile_runtime::{cpu::variable_in_force, switches::INVARIANT, tuned::SWITCH};

use super::{
    model::Model,
    work::{problem_cases, with_advice},
};
use crate::{
    args::{BackendName, BenchArgs},
    input, interrupt,
    print::{self, shown},
    progress::Progress,
};

/// Times the request; an interrupt prints the shapes that are done.
pub fn run(backend: &dyn Backend, request: &BenchRequest) -> Result<BenchReport> {
    let progress = Progress::new(request.steps());
    let shapes = request.cases.len();
    let keep = |report: &_| interrupt::keep(Some(print::bench::so_far(report, shapes)));
    let report = bench::run(backend, request, &progress, keep).map_err(with_advice)?;
    interrupt::keep(None);
    Ok(report)
}

/// Reads a benchmark record.
pub fn read_baseline(path: &Path) -> Result<BenchBaseline> {
    BenchBaseline::parse(&input::read(path, input::RECORD_BYTES)?).with_context(|| shown(path))
}

/// The request that the arguments describe.
pub fn request(args: &BenchArgs, model: Option<&Model>) -> Result<BenchRequest> {
    let cases = match model {
        Some(model) => model.bench_cases(&args.work.problems)?,
        None => problem_cases(&args.work.problems, bench_cases())?,
    };
    Ok(BenchRequest {
        cases,
        strategies: args.work.strategies.clone(),
        seed: args.work.seed,
        effort: effort(args),
        times_both_plans: args.tuned,
    })
}

/// Why `--tuned` finds no plan of a table, where it is given and does not.
pub fn why_not_tuned(
    args: &BenchArgs,
    backend: &dyn Backend,
    request: &BenchRequest,
) -> Option<&'static str> {
    let strategies =
        |problem: &Problem| StrategyChoice::resolve(&request.strategies, backend, problem).into_iter();
    let is_tuned = |case: &Case| {
        let mut strategies = strategies(&case.problem);
        strategies.any(|strategy| backend.plan_label(&case.problem, strategy).tuned.is_some())
    };
    if !args.tuned || request.cases.iter().any(is_tuned) {
        return None;
    }
    let has_strip = |case: &Case| strategies(&case.problem).any(|strategy| strategy == Strategy::Strip);
    let work = &args.work;
    Some(match work.backend {
        BackendName::GpuSim | BackendName::TpuSim => "simulated devices use default plans",
        _ if !SWITCH.is_on().unwrap_or(false) => "OCTILE_TUNED turns tables off",
        _ if INVARIANT.is_on().unwrap_or(true) => "OCTILE_BATCH_INVARIANT turns tables off",
        BackendName::Cpu if work.isa.is_some() => "--isa turns tables off",
        BackendName::Cpu if matches!(variable_in_force(), Ok(Some(_))) => "OCTILE_ISA turns tables off",
        _ if work.for_racecheck => "--for-racecheck turns tables off",
        _ if work.promote.is_some() => "--promote turns tables off",
        _ if !request.cases.iter().any(has_strip) => "of the strategies, only strip (v4) has tuned plans",
        _ => "no table has a faster plan for these shapes",
    })
}

/// A number of runs that the user names is kept; otherwise the budget limits it.
fn effort(args: &BenchArgs) -> Effort {
    let standard = match args.quick {
        true => Effort::QUICK,
        false => Effort { iterations: 100, warmup: 3, ..Effort::QUICK },
    };
    let budget = match (args.budget, args.iterations) {
        (Some(budget), _) => Some(budget).filter(|budget| !budget.is_zero()),
        (None, Some(_)) => None,
        (None, None) => Some(Effort::BUDGET),
    };
    Effort {
        iterations: args.iterations.unwrap_or(standard.iterations),
        warmup: args.warmup.unwrap_or(standard.warmup),
        budget,
        // A comparison needs a confidence interval.
        fewest: if args.baseline.is_some() { FEWEST_FOR_INTERVAL as u32 } else { Effort::FEWEST },
    }
}

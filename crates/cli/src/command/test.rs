//! `octile test`: every strategy against the f64 reference.

use anyhow::Result;
use octile_core::{Problem, Strategy, bound::Accumulator, exact::ExactOperands, sample::Operands};
use serde::Serialize;

use super::{cases, strategies};
use crate::{
    args::{BackendName, StrategyChoice, WorkArgs},
    backend::{Backend, Setup},
    case::{Case, test_cases, test_cases_with_ragged},
    check::{Check, ExactCheck, Expectation, RELATIVE_TOLERANCE},
    progress::Progress,
    record::{ProblemFields, Provenance},
};

/// What to check.
#[derive(Debug, Clone)]
pub struct Job {
    /// Shapes.
    pub cases: Vec<Case>,
    /// Strategies.
    pub strategies: Vec<StrategyChoice>,
    /// Seed of the operands.
    pub seed: u64,
}

impl Job {
    /// The job that the arguments describe.
    pub fn new(work: &WorkArgs) -> Self {
        // Kernels that are simulated are also put to shapes that no block divides.
        let standard = match work.backend {
            BackendName::GpuSim | BackendName::TpuSim => test_cases_with_ragged(),
            BackendName::Best | BackendName::Cpu | BackendName::Gpu => test_cases(),
        };
        Self { cases: cases(work, standard), strategies: work.strategies.clone(), seed: work.seed }
    }
}

/// Every check that was made.
#[derive(Debug, Clone)]
pub struct Report {
    /// When and with what.
    pub provenance: Provenance,
    /// Where.
    pub setup: Setup,
    /// Seed of the operands.
    pub seed: u64,
    /// How the checked strategies add up products, each way once.
    pub accumulators: Vec<Accumulator>,
    /// Per shape, in the order asked for.
    pub cases: Vec<CaseReport>,
}

/// The checks of one shape.
#[derive(Debug, Clone)]
pub struct CaseReport {
    /// The shape.
    pub case: Case,
    /// Per strategy.
    pub checks: Vec<(Strategy, Check)>,
}

impl Report {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.cases.iter().flat_map(|case| &case.checks).all(|(_, check)| check.passed())
    }

    /// For each strategy that was checked: how many of its checks passed, and how many there were.
    pub fn tally(&self) -> Vec<(Strategy, usize, usize)> {
        let tally = |strategy: Strategy| {
            let checks = self.cases.iter().flat_map(|case| &case.checks).filter(|(s, _)| *s == strategy);
            let (passed, all) =
                checks.fold((0, 0), |(passed, all), (_, c)| (passed + usize::from(c.passed()), all + 1));
            (strategy, passed, all)
        };
        Strategy::ALL.into_iter().map(tally).filter(|(_, _, all)| *all > 0).collect()
    }

    /// The report as flat records.
    pub fn records(&self) -> Vec<Record<'_>> {
        let record = |case: &'_ Case, strategy: Strategy, check: &Check| Record {
            setup: self.setup.clone(),
            strategy,
            problem: ProblemFields::from(&case.problem),
            seed: self.seed,
            check: check.clone(),
            relative_tolerance: RELATIVE_TOLERANCE,
            passed: check.passed(),
            provenance: &self.provenance,
        };
        self.cases
            .iter()
            .flat_map(|report| report.checks.iter().map(move |(s, check)| record(&report.case, *s, check)))
            .collect()
    }
}

/// One check, as it is written to a file.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    #[serde(flatten)]
    setup: Setup,
    strategy: Strategy,
    #[serde(flatten)]
    problem: ProblemFields,
    seed: u64,
    #[serde(flatten)]
    check: Check,
    relative_tolerance: f64,
    passed: bool,
    #[serde(flatten)]
    provenance: &'a Provenance,
}

/// Checks everything that the job asks for.
pub fn run(backend: &dyn Backend, job: &Job) -> Result<Report> {
    let progress = Progress::new(job.cases.len() as u64);
    let (mut reports, mut accumulators) = (Vec::new(), Vec::new());
    for case in &job.cases {
        progress.doing(format!("checking {} ({})", case.problem, case.label));
        let mut checks = check_random(backend, job, &case.problem)?;
        progress.doing(format!("checking {} ({}), exactly", case.problem, case.label));
        check_exact(backend, job, &case.problem, &mut checks)?;
        for (strategy, _) in &checks {
            let accumulator = backend.accumulator_of(*strategy, &case.problem);
            if !accumulators.contains(&accumulator) {
                accumulators.push(accumulator);
            }
        }
        reports.push(CaseReport { case: case.clone(), checks });
        progress.step();
    }
    Ok(Report {
        provenance: Provenance::now(),
        setup: backend.setup(),
        seed: job.seed,
        accumulators,
        cases: reports,
    })
}

/// Checks every strategy on random operands, against the error bound of its arithmetic.
fn check_random(backend: &dyn Backend, job: &Job, problem: &Problem) -> Result<Vec<(Strategy, Check)>> {
    let operands = Operands::random(*problem, job.seed);
    let mut expectation = (backend.accumulator(), Expectation::whole(&operands, backend.accumulator()));
    let mut checks = Vec::new();
    for strategy in strategies(&job.strategies, backend, problem) {
        let accumulator = backend.accumulator_of(strategy, problem);
        if accumulator != expectation.0 {
            expectation = (accumulator, Expectation::whole(&operands, accumulator));
        }
        let mut contender = backend.prepare(strategy, &operands)?;
        checks.push((strategy, expectation.1.check(contender.as_mut())?));
    }
    Ok(checks)
}

/// Checks every strategy on operands with an exact product, where no error is allowed.
fn check_exact(
    backend: &dyn Backend,
    job: &Job,
    problem: &Problem,
    checks: &mut [(Strategy, Check)],
) -> Result<()> {
    let draws = ExactOperands::draws(problem);
    for (_, check) in checks.iter_mut() {
        check.exact = Some(ExactCheck::default());
    }
    for draw in 0..draws {
        let exact = ExactOperands::new(*problem, draw, job.seed);
        for (strategy, check) in checks.iter_mut() {
            let mut contender = backend.prepare(*strategy, &exact.operands)?;
            check.add_exact(&exact, contender.as_mut())?;
        }
    }
    Ok(())
}

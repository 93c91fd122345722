//! Checks every strategy against the f64 reference.

use octile_core::{
    Problem, QuantizedWeight, Strategy, bound::Accumulator, exact::ExactOperands, sample::Operands,
};
use serde::Serialize;

use crate::{
    Observer, Result,
    backend::{Backend, PlanLabel, Setup},
    case::{Case, StrategyChoice},
    check::{Check, ExactCheck, Expectation, RELATIVE_TOLERANCE},
    record::{ProblemFields, Provenance},
};

/// What to check.
#[derive(Debug, Clone)]
pub struct TestRequest {
    /// Shapes.
    pub cases: Vec<Case>,
    /// Strategies.
    pub strategies: Vec<StrategyChoice>,
    /// Seed of the operands.
    pub seed: u64,
}

/// Every check that was made on one backend.
#[derive(Debug, Clone)]
pub struct TestReport {
    /// When and by which version.
    pub provenance: Provenance,
    /// The machine.
    pub setup: Setup,
    /// Seed of the operands.
    pub seed: u64,
    /// Accumulator models of the checked strategies, each once.
    pub accumulators: Vec<Accumulator>,
    /// Per shape, in the order of the request.
    pub cases: Vec<CaseChecks>,
}

/// Checks of one shape.
#[derive(Debug, Clone)]
pub struct CaseChecks {
    /// The shape.
    pub case: Case,
    /// Per strategy.
    pub checks: Vec<(Strategy, Check)>,
    /// The plans of the same strategies.
    pub plans: Vec<PlanLabel>,
}

impl TestReport {
    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.cases.iter().flat_map(|case| &case.checks).all(|(_, check)| check.passed())
    }

    /// For each strategy: the number of checks that passed, and of all.
    pub fn tally(&self) -> Vec<(Strategy, usize, usize)> {
        let tally = |strategy: Strategy| {
            let checks = self.cases.iter().flat_map(|case| &case.checks).filter(|(s, _)| *s == strategy);
            let (passed, all) =
                checks.fold((0, 0), |(passed, all), (_, c)| (passed + usize::from(c.passed()), all + 1));
            (strategy, passed, all)
        };
        Strategy::ALL.into_iter().map(tally).filter(|(_, _, all)| *all > 0).collect()
    }
}

/// Checks of `octile test` on one or several backends, as they are written.
#[derive(Debug, Serialize)]
pub struct TestRecord<'a> {
    relative_tolerance: f64,
    suites: Vec<SuiteRecord<'a>>,
}

#[derive(Debug, Serialize)]
struct SuiteRecord<'a> {
    #[serde(flatten)]
    provenance: &'a Provenance,
    machine: &'a Setup,
    seed: u64,
    passed: bool,
    checks: Vec<CheckRecord<'a>>,
}

#[derive(Debug, Serialize)]
struct CheckRecord<'a> {
    strategy: Strategy,
    label: &'a str,
    #[serde(flatten)]
    problem: ProblemFields,
    #[serde(flatten)]
    plan: &'a PlanLabel,
    #[serde(flatten)]
    check: &'a Check,
    passed: bool,
}

impl<'a> TestRecord<'a> {
    /// The record of these reports.
    pub fn new(reports: &'a [TestReport]) -> Self {
        type Checked<'a> = (&'a (Strategy, Check), &'a PlanLabel);
        let check = |case: &'a CaseChecks, ((strategy, check), plan): Checked<'a>| CheckRecord {
            strategy: *strategy,
            label: &case.case.label,
            problem: ProblemFields::from(&case.case.problem),
            plan,
            check,
            passed: check.passed(),
        };
        let checks = |case: &'a CaseChecks| {
            case.checks.iter().zip(&case.plans).map(move |checked| check(case, checked))
        };
        let suite = |report: &'a TestReport| SuiteRecord {
            provenance: &report.provenance,
            machine: &report.setup,
            seed: report.seed,
            passed: report.passed(),
            checks: report.cases.iter().flat_map(checks).collect(),
        };
        Self { relative_tolerance: RELATIVE_TOLERANCE, suites: reports.iter().map(suite).collect() }
    }
}

/// Rows of the result that are checked with a given weight.
const CHECKED_ROWS: usize = 16;

/// Loads the weight of a case.
pub type LoadWeight<'a> = dyn FnMut(&Case) -> Result<QuantizedWeight> + 'a;

/// Checks every case, with random and with exact operands.
pub fn run(backend: &dyn Backend, request: &TestRequest, observer: &dyn Observer) -> Result<TestReport> {
    check_all(backend, request, observer, |case| {
        observer.doing(format!("checking {} ({})", case.problem, case.label));
        let operands = Operands::random(case.problem, request.seed);
        let mut checks = check_operands(backend, request, &operands, case.problem.m)?;
        observer.doing(format!("checking {} ({}), exact operands", case.problem, case.label));
        check_exact(backend, request, &case.problem, &mut checks)?;
        Ok(checks)
    })
}

/// Checks every case with a weight of the caller, loaded when its turn comes, and random activations.
pub fn run_with_weights(
    backend: &dyn Backend,
    request: &TestRequest,
    load: &mut LoadWeight<'_>,
    observer: &dyn Observer,
) -> Result<TestReport> {
    check_all(backend, request, observer, |case| {
        observer.doing(format!("checking {} ({})", case.problem, case.label));
        let operands = Operands::with_weight(case.problem, load(case)?, request.seed);
        check_operands(backend, request, &operands, CHECKED_ROWS)
    })
}

fn check_all(
    backend: &dyn Backend,
    request: &TestRequest,
    observer: &dyn Observer,
    mut check: impl FnMut(&Case) -> Result<Vec<(Strategy, Check)>>,
) -> Result<TestReport> {
    let (mut cases, mut accumulators) = (Vec::new(), Vec::new());
    for case in &request.cases {
        let checks = check(case)?;
        for (strategy, _) in &checks {
            let accumulator = backend.accumulator_of(*strategy, &case.problem);
            if !accumulators.contains(&accumulator) {
                accumulators.push(accumulator);
            }
        }
        let plan = |(strategy, _): &(Strategy, Check)| backend.plan_label(&case.problem, *strategy);
        cases.push(CaseChecks { case: case.clone(), plans: checks.iter().map(plan).collect(), checks });
        observer.step();
    }
    let (provenance, setup) = (Provenance::now(), backend.setup());
    Ok(TestReport { provenance, setup, seed: request.seed, accumulators, cases })
}

/// Checks every strategy on these operands, against the error bound of its accumulator, in up to `rows` rows.
fn check_operands(
    backend: &dyn Backend,
    request: &TestRequest,
    operands: &Operands,
    rows: usize,
) -> Result<Vec<(Strategy, Check)>> {
    let problem = &operands.problem;
    let expect = |accumulator| (accumulator, Expectation::sampled(operands, rows, accumulator));
    let mut expectation = expect(backend.accumulator());
    let mut checks = Vec::new();
    for strategy in StrategyChoice::resolve(&request.strategies, backend, problem) {
        let accumulator = backend.accumulator_of(strategy, problem);
        if accumulator != expectation.0 {
            expectation = expect(accumulator);
        }
        let mut contender = backend.prepare(strategy, operands)?;
        checks.push((strategy, expectation.1.check(contender.as_mut())?));
    }
    Ok(checks)
}

/// Checks every strategy on operands whose product is exact, where no error is allowed.
fn check_exact(
    backend: &dyn Backend,
    request: &TestRequest,
    problem: &Problem,
    checks: &mut [(Strategy, Check)],
) -> Result<()> {
    let draws = ExactOperands::draws(problem);
    for (_, check) in checks.iter_mut() {
        check.exact = Some(ExactCheck::default());
    }
    for draw in 0..draws {
        let exact = ExactOperands::new(*problem, draw, request.seed);
        for (strategy, check) in checks.iter_mut() {
            let mut contender = backend.prepare(*strategy, &exact.operands)?;
            check.add_exact(&exact, contender.as_mut())?;
        }
    }
    Ok(())
}

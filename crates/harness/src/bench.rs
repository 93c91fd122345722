//! Times the strategies side by side and recommends one.

use octile_core::{Problem, Strategy, sample::Operands};

use crate::{
    Observer, Result,
    backend::{Backend, Peak, PlanLabel, Setup},
    case::{Case, StrategyChoice},
    check::{Check, Expectation},
    measure::{Effort, interleaved},
    record::Provenance,
    roofline::Roof,
    stats::{Statistics, geometric_mean, uncertainty},
};

/// Rows that are checked before a strategy is timed.
const CHECKED_ROWS: usize = 64;

/// What to time.
#[derive(Debug, Clone)]
pub struct BenchRequest {
    /// Shapes.
    pub cases: Vec<Case>,
    /// Strategies.
    pub strategies: Vec<StrategyChoice>,
    /// Seed of the operands.
    pub seed: u64,
    /// Number of runs, and their time.
    pub effort: Effort,
    /// Whether default plans are timed beside those of tuned tables.
    pub times_both_plans: bool,
}

impl BenchRequest {
    /// Steps that are reported to the observer at most.
    pub fn steps(&self) -> u64 {
        self.cases.len() as u64 * u64::from(self.effort.iterations)
    }
}

/// Every timing that was taken.
#[derive(Debug, Clone)]
pub struct BenchReport {
    /// When and by which version.
    pub provenance: Provenance,
    /// The machine.
    pub setup: Setup,
    /// Its measured peak: the highest of all shapes.
    pub peak: Peak,
    /// Seed of the operands.
    pub seed: u64,
    /// Untimed runs before the timed ones.
    pub warmup: u32,
    /// Per shape, in the order of the request.
    pub cases: Vec<CaseTimings>,
}

/// Timings of one shape.
#[derive(Debug, Clone)]
pub struct CaseTimings {
    /// The shape.
    pub case: Case,
    /// Strategies that passed their check, in version order.
    pub timings: Vec<Timing>,
    /// Strategies that failed their check and were not timed.
    pub refused: Vec<(Strategy, Check)>,
    /// Default plans of strategies with a plan from a tuned table, where both were asked for.
    pub untuned: Vec<Timing>,
}

/// Timing of one strategy on one shape.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The strategy.
    pub strategy: Strategy,
    /// Its plan.
    pub plan: PlanLabel,
    /// Its times.
    pub stats: Statistics,
    /// Throughput at the mean time.
    pub tflops_mean: f64,
    /// Throughput at the best time.
    pub tflops_best: f64,
    /// Throughput at the median time.
    pub tflops_median: f64,
    /// Compulsory memory traffic per median time.
    pub gbytes_per_s: f64,
}

impl Timing {
    /// Throughputs that follow from the times.
    pub fn new(strategy: Strategy, plan: PlanLabel, problem: &Problem, stats: Statistics) -> Self {
        let tflops = |ms: f64| problem.flops() / ms / 1e9;
        Self {
            strategy,
            plan,
            tflops_mean: tflops(stats.mean_ms),
            tflops_best: tflops(stats.min_ms),
            tflops_median: tflops(stats.median_ms),
            gbytes_per_s: problem.min_bytes() as f64 / stats.median_ms / 1e6,
            stats,
        }
    }
}

impl CaseTimings {
    /// The strategy with the smallest median time.
    pub fn winner(&self) -> Option<&Timing> {
        self.timings.iter().min_by(|a, b| a.stats.median_ms.total_cmp(&b.stats.median_ms))
    }

    /// The default plan of a strategy that was timed with a plan from a tuned table, and the speedup of the
    /// latter.
    pub fn untuned(&self, tuned: &Timing) -> Option<(&Timing, f64)> {
        let untuned = self.untuned.iter().find(|timing| timing.strategy == tuned.strategy)?;
        Some((untuned, untuned.stats.median_ms / tuned.stats.median_ms))
    }

    fn stats_of(&self, strategy: Strategy) -> Option<&Statistics> {
        self.timings.iter().find(|timing| timing.strategy == strategy).map(|timing| &timing.stats)
    }
}

/// The strategy to use, and how certain that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recommendation {
    /// Winner of most shapes.
    pub winner: Strategy,
    /// Speedup over the simplest strategy, as the geometric mean over the shapes: 0.1 is 10 %.
    pub gain: f64,
    /// Half-width of the gain's 95 % confidence interval; `None` with too few runs.
    pub spread: Option<f64>,
    /// The simplest strategy that was timed.
    pub simplest: Strategy,
}

impl Recommendation {
    /// Whether the gain exceeds its uncertainty.
    pub fn is_significant(&self) -> bool {
        self.spread.is_some_and(|spread| self.gain > spread)
    }
}

impl BenchReport {
    /// The roof over `problem` on this machine.
    pub fn roof(&self, problem: &Problem) -> Roof {
        Roof::new(problem, &self.peak)
    }

    /// Strategies that were not timed because their results are wrong.
    pub fn refused(&self) -> Vec<(&Case, Strategy, &Check)> {
        self.cases.iter().flat_map(|c| c.refused.iter().map(|(s, check)| (&c.case, *s, check))).collect()
    }

    /// Strategies that were timed, in version order, with the number of shapes that each wins.
    pub fn wins(&self) -> Vec<(Strategy, usize)> {
        let timed = |s: &Strategy| self.cases.iter().any(|case| case.stats_of(*s).is_some());
        let wins = |s: Strategy| {
            (s, self.cases.iter().filter(|c| c.winner().is_some_and(|w| w.strategy == s)).count())
        };
        Strategy::ALL.into_iter().filter(timed).map(wins).collect()
    }

    /// The strategy to use; `None` unless two or more were timed on the same shape.
    pub fn recommendation(&self) -> Option<Recommendation> {
        let wins = self.wins();
        let &(simplest, _) = wins.first()?;
        let &(winner, _) = wins.iter().rev().max_by_key(|(_, wins)| wins)?;
        let pairs: Vec<_> =
            self.cases.iter().filter_map(|case| case.stats_of(simplest).zip(case.stats_of(winner))).collect();
        // Runs of one round saw the machine in the same state, so their ratios have the least variance.
        let ratios = |(slow, fast): &(&Statistics, &Statistics)| {
            let rounds = slow.samples_ms.iter().zip(&fast.samples_ms);
            rounds.map(|(slow, fast)| (slow / fast).ln()).collect::<Vec<_>>()
        };
        let spread = uncertainty(&pairs.iter().map(ratios).collect::<Vec<_>>());
        let gains = pairs.iter().map(|(slow, fast)| slow.median_ms / fast.median_ms);
        (wins.len() > 1 && !pairs.is_empty()).then(|| Recommendation {
            winner,
            gain: geometric_mean(gains) - 1.0,
            spread: spread.map(f64::exp_m1),
            simplest,
        })
    }
}

/// Times every case, and passes the report so far to `after_case` when one is done.
pub fn run(
    backend: &dyn Backend,
    request: &BenchRequest,
    observer: &dyn Observer,
    after_case: impl Fn(&BenchReport),
) -> Result<BenchReport> {
    observer.doing("measuring the machine's peak".to_owned());
    let mut report = BenchReport {
        provenance: Provenance::now(),
        setup: backend.setup(),
        peak: Peak { tflops: 0.0, read_gbytes: 0.0 },
        seed: request.seed,
        warmup: request.effort.warmup,
        cases: Vec::new(),
    };
    if let Some(first) = request.cases.first() {
        report.peak = backend.peak(&first.problem)?;
    }
    for case in &request.cases {
        report.cases.push(time_case(backend, request, case, observer)?);
        // Disturbances only lower a measured peak, so the highest of several is the most accurate.
        report.peak = report.peak.max(backend.peak(&case.problem)?);
        after_case(&report);
    }
    report.provenance = Provenance::now();
    Ok(report)
}

fn time_case(
    backend: &dyn Backend,
    request: &BenchRequest,
    case: &Case,
    observer: &dyn Observer,
) -> Result<CaseTimings> {
    let problem = case.problem;
    observer.doing(format!("checking {problem} ({})", case.label));
    let operands = Operands::random(problem, request.seed);
    let expectation = Expectation::sampled(&operands, CHECKED_ROWS, backend.accumulator());
    let (mut names, mut contenders, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for strategy in StrategyChoice::resolve(&request.strategies, backend, &problem) {
        let mut prepared = vec![(true, backend.prepare(strategy, &operands)?)];
        if request.times_both_plans {
            let untuned = backend.prepare_untuned(strategy, &operands)?;
            prepared.extend(untuned.map(|contender| (false, contender)));
        }
        for (is_used, mut contender) in prepared {
            let check = expectation.check(contender.as_mut())?;
            if check.passed() {
                names.push((is_used, strategy));
                contenders.push(contender);
            } else {
                refused.push((strategy, check));
            }
        }
    }
    observer.doing(format!("timing {problem} ({})", case.label));
    let stats = match contenders.is_empty() {
        true => Vec::new(),
        false => interleaved(&mut contenders, request.effort, || observer.step())?,
    };
    let (mut timings, mut untuned) = (Vec::new(), Vec::new());
    for ((is_used, strategy), stats) in names.into_iter().zip(stats) {
        // A default plan beside it is no tuned one, whatever its ISA is.
        let plan = if is_used { backend.plan_label(&problem, strategy) } else { PlanLabel::default() };
        let timing = Timing::new(strategy, plan, &problem, stats);
        if is_used { timings.push(timing) } else { untuned.push(timing) }
    }
    Ok(CaseTimings { case: case.clone(), timings, refused, untuned })
}

//! `octile bench`: the strategies side by side on the clock.

use anyhow::Result;
use octile_core::{Strategy, sample::Operands};
use serde::Serialize;

use super::{cases, strategies};
use crate::{
    args::{BenchArgs, StrategyChoice},
    backend::{Backend, Peak, Setup},
    case::{Case, bench_cases},
    check::{Check, Expectation},
    measure::{Effort, interleaved},
    progress::Progress,
    record::{ProblemFields, Provenance},
    stats::{Statistics, geometric_mean, uncertainty},
};

/// Rows that are checked before a strategy may be timed.
const CHECKED_ROWS: usize = 64;

/// What to time.
#[derive(Debug, Clone)]
pub struct Job {
    /// Shapes.
    pub cases: Vec<Case>,
    /// Strategies.
    pub strategies: Vec<StrategyChoice>,
    /// Seed of the operands.
    pub seed: u64,
    /// How often.
    pub effort: Effort,
}

impl Job {
    /// The job that the arguments describe.
    pub fn new(args: &BenchArgs) -> Self {
        let effort = if args.quick {
            Effort::QUICK
        } else {
            Effort { iterations: args.iterations, warmup: args.warmup, budget: None }
        };
        let cases = cases(&args.work, bench_cases());
        Self { cases, strategies: args.work.strategies.clone(), seed: args.work.seed, effort }
    }
}

/// Every timing that was taken.
#[derive(Debug, Clone)]
pub struct Report {
    /// When and with what.
    pub provenance: Provenance,
    /// Where.
    pub setup: Setup,
    /// What the machine can do at most.
    pub peak: Peak,
    /// Seed of the operands.
    pub seed: u64,
    /// Untimed runs before the timed ones.
    pub warmup: u32,
    /// Per shape, in the order asked for.
    pub cases: Vec<CaseReport>,
}

/// The timings of one shape.
#[derive(Debug, Clone)]
pub struct CaseReport {
    /// The shape.
    pub case: Case,
    /// Strategies that passed their check, in version order.
    pub timings: Vec<Timing>,
    /// Strategies that failed it and were not timed.
    pub refused: Vec<(Strategy, Check)>,
}

/// One strategy on one shape.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The strategy.
    pub strategy: Strategy,
    /// Its times.
    pub stats: Statistics,
    /// At the mean time.
    pub tflops_mean: f64,
    /// At the best time.
    pub tflops_best: f64,
    /// Bytes that must move at least, per median time.
    pub gbytes_per_s: f64,
    /// At the median time.
    pub tflops_median: f64,
}

impl CaseReport {
    /// The strategy with the least median time.
    pub fn winner(&self) -> Option<&Timing> {
        self.timings.iter().min_by(|a, b| a.stats.median_ms.total_cmp(&b.stats.median_ms))
    }
}

/// What to use, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recommendation {
    /// Winner of most shapes.
    pub winner: Strategy,
    /// How much faster it is than the simplest strategy, as the geometric mean over the shapes: 0.1 is 10 %.
    pub gain: f64,
    /// How far that may be off, by the scatter of the runs; `None` where there are too few to tell.
    pub spread: Option<f64>,
    /// The simplest strategy that was timed.
    pub simplest: Strategy,
}

impl Recommendation {
    /// Whether the winner is faster by more than the runs scatter.
    pub fn is_sure(&self) -> bool {
        self.spread.is_some_and(|spread| self.gain > spread)
    }
}

impl Report {
    /// Throughput at the median time in percent of the measured peak.
    pub fn percent_of_peak(&self, timing: &Timing) -> f64 {
        100.0 * timing.tflops_median / self.peak.tflops
    }

    /// Strategies that were not timed because they are wrong.
    pub fn refused(&self) -> Vec<(&Case, Strategy, &Check)> {
        self.cases.iter().flat_map(|c| c.refused.iter().map(|(s, check)| (&c.case, *s, check))).collect()
    }

    /// The strategies that were timed, in version order, with the number of shapes that each wins.
    pub fn wins(&self) -> Vec<(Strategy, usize)> {
        let timed = |s: &Strategy| self.cases.iter().any(|c| c.timings.iter().any(|t| t.strategy == *s));
        let wins = |s: Strategy| {
            (s, self.cases.iter().filter(|c| c.winner().is_some_and(|w| w.strategy == s)).count())
        };
        Strategy::ALL.into_iter().filter(timed).map(wins).collect()
    }

    /// What to use; `None` unless two strategies or more were timed on the same shape.
    pub fn recommendation(&self) -> Option<Recommendation> {
        let wins = self.wins();
        let &(simplest, _) = wins.first()?;
        let &(winner, _) = wins.iter().rev().max_by_key(|(_, wins)| wins)?;
        let of = |case: &'_ CaseReport, strategy: Strategy| {
            case.timings.iter().find(|t| t.strategy == strategy).map(|t| t.stats.clone())
        };
        let pairs: Vec<_> =
            self.cases.iter().filter_map(|case| of(case, simplest).zip(of(case, winner))).collect();
        // Runs take turns, so that those of one round saw the machine alike: their ratios scatter least.
        let ratios = |(slow, fast): &(Statistics, Statistics)| {
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

    /// The report as flat records.
    pub fn records(&self) -> Vec<Record<'_>> {
        let record = |case: &'_ Case, timing: &'_ Timing| Record {
            setup: self.setup.clone(),
            strategy: timing.strategy,
            problem: ProblemFields::from(&case.problem),
            seed: self.seed,
            warmup: self.warmup,
            stats: timing.stats.clone(),
            tflops_mean: timing.tflops_mean,
            tflops_best: timing.tflops_best,
            gbytes_per_s: timing.gbytes_per_s,
            percent_of_peak: self.percent_of_peak(timing),
            peak_tflops: self.peak.tflops,
            peak_read_gbytes_per_s: self.peak.read_gbytes,
            provenance: &self.provenance,
        };
        self.cases.iter().flat_map(|c| c.timings.iter().map(move |t| record(&c.case, t))).collect()
    }
}

/// One timing, as it is written to a file.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    #[serde(flatten)]
    setup: Setup,
    strategy: Strategy,
    #[serde(flatten)]
    problem: ProblemFields,
    seed: u64,
    warmup: u32,
    #[serde(flatten)]
    stats: Statistics,
    tflops_mean: f64,
    tflops_best: f64,
    gbytes_per_s: f64,
    percent_of_peak: f64,
    peak_tflops: f64,
    peak_read_gbytes_per_s: f64,
    #[serde(flatten)]
    provenance: &'a Provenance,
}

/// Times everything that the job asks for, and hands the report so far to `after_case` whenever a shape is done.
pub fn run(backend: &dyn Backend, job: &Job, after_case: impl Fn(&Report)) -> Result<Report> {
    let progress = Progress::new(job.cases.len() as u64 * u64::from(job.effort.iterations));
    progress.doing("measuring the machine's peak");
    let mut report = Report {
        provenance: Provenance::now(),
        setup: backend.setup(),
        peak: backend.peak()?,
        seed: job.seed,
        warmup: job.effort.warmup,
        cases: Vec::new(),
    };
    for case in &job.cases {
        report.cases.push(time_case(backend, job, case, &progress)?);
        // Whatever disturbs the machine can only lower a peak, so the highest of several is the truest.
        report.peak = report.peak.max(backend.peak()?);
        after_case(&report);
    }
    report.provenance = Provenance::now();
    Ok(report)
}

fn time_case(backend: &dyn Backend, job: &Job, case: &Case, progress: &Progress) -> Result<CaseReport> {
    let problem = case.problem;
    progress.doing(format!("checking {problem} ({})", case.label));
    let operands = Operands::random(problem, job.seed);
    let expectation = Expectation::sampled(&operands, CHECKED_ROWS, backend.accumulator());
    let (mut names, mut contenders, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for strategy in strategies(&job.strategies, backend, &problem) {
        let mut contender = backend.prepare(strategy, &operands)?;
        let check = expectation.check(contender.as_mut())?;
        if check.passed() {
            names.push(strategy);
            contenders.push(contender);
        } else {
            refused.push((strategy, check));
        }
    }
    progress.doing(format!("timing {problem} ({})", case.label));
    if contenders.is_empty() {
        return Ok(CaseReport { case: case.clone(), timings: Vec::new(), refused });
    }
    let stats = interleaved(&mut contenders, job.effort, || progress.step())?;
    let timing = |(strategy, stats): (Strategy, Statistics)| {
        let tflops = |ms: f64| problem.flops() / ms / 1e9;
        Timing {
            strategy,
            tflops_mean: tflops(stats.mean_ms),
            tflops_best: tflops(stats.min_ms),
            gbytes_per_s: problem.min_bytes() as f64 / stats.median_ms / 1e6,
            tflops_median: tflops(stats.median_ms),
            stats,
        }
    };
    let timings = names.into_iter().zip(stats).map(timing).collect();
    Ok(CaseReport { case: case.clone(), timings, refused })
}

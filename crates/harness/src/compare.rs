//! Comparison of two benchmark records, with confidence intervals.

use octile_core::Strategy;
use serde::Serialize;
use thiserror::Error;

use crate::{
    backend::Setup,
    record::{BaselineTiming, BenchBaseline, ProblemFields, Provenance},
    stats::{Estimate, FEWEST_FOR_INTERVAL, Statistics, mean_ratio, median_ratio},
};

/// Two benchmark records side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchComparison {
    /// The first record.
    pub before: RecordOrigin,
    /// The second record.
    pub after: RecordOrigin,
    /// Contenders of both records, in the order of the second.
    pub pairs: Vec<ComparedTiming>,
    /// Geometric mean of the ratios of medians, where every pair has an interval.
    pub mean_ratio: Option<Estimate>,
    /// Contenders of the first record only.
    pub only_before: Vec<String>,
    /// Contenders of the second record only.
    pub only_after: Vec<String>,
}

/// Where a record comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordOrigin {
    /// When and by which version it was made.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The machine.
    pub machine: Setup,
}

/// One contender of both records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedTiming {
    /// The strategy.
    pub strategy: Strategy,
    /// The problem.
    #[serde(flatten)]
    pub problem: ProblemFields,
    /// Median of the first record.
    pub before_ms: f64,
    /// Median of the second record.
    pub after_ms: f64,
    /// Runs of the first and the second record.
    pub runs: (usize, usize),
    /// Ratio of the medians, after / before, with its 95 % interval; `None` with too few runs.
    pub ratio: Option<Estimate>,
    /// What the interval shows.
    pub change: TimingChange,
}

/// What the confidence interval of a ratio shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimingChange {
    /// The second record is faster.
    Faster,
    /// The second record is slower.
    Slower,
    /// The interval includes 1.
    NotSignificant,
    /// There are too few runs for an interval.
    TooFewRuns,
}

impl TimingChange {
    fn of(ratio: Option<Estimate>) -> Self {
        match ratio {
            None => Self::TooFewRuns,
            Some(ratio) if ratio.low > 1.0 => Self::Slower,
            Some(ratio) if ratio.high < 1.0 => Self::Faster,
            Some(_) => Self::NotSignificant,
        }
    }
}

/// Why two records cannot be compared, or a limit cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompareError {
    /// No contender is in both records.
    #[error("the records have no strategy and problem in common: time the same shapes in both")]
    NothingInCommon,
    /// A contender has too few runs for a confidence interval.
    #[error(
        "{strategy} on {problem} has {} and {} runs, and a limit needs {FEWEST_FOR_INTERVAL} of each: \
         time more runs",
        runs.0,
        runs.1
    )]
    TooFewRuns {
        /// The strategy.
        strategy: Strategy,
        /// The problem.
        problem: ProblemFields,
        /// Runs of the first and the second record.
        runs: (usize, usize),
    },
}

impl BenchComparison {
    /// Compares the contenders that both records have.
    pub fn new(before: &BenchBaseline, after: &BenchBaseline) -> Result<Self, CompareError> {
        let is_same =
            |a: &BaselineTiming, b: &BaselineTiming| (a.strategy, &a.problem) == (b.strategy, &b.problem);
        let twin = |of: &BaselineTiming, among: &'_ BenchBaseline| {
            among.timings.iter().position(|timing| is_same(timing, of))
        };
        let name = |timing: &BaselineTiming| format!("{} on {}", timing.strategy, timing.problem);
        let only = |these: &BenchBaseline, others: &BenchBaseline| -> Vec<String> {
            these.timings.iter().filter(|timing| twin(timing, others).is_none()).map(name).collect()
        };
        let pairs: Vec<_> = after
            .timings
            .iter()
            .filter_map(|timing| Some(ComparedTiming::new(&before.timings[twin(timing, before)?], timing)))
            .collect();
        if pairs.is_empty() {
            return Err(CompareError::NothingInCommon);
        }
        let ratios = pairs.iter().map(|pair| pair.ratio).collect::<Option<Vec<_>>>();
        Ok(Self {
            before: RecordOrigin::of(before),
            after: RecordOrigin::of(after),
            mean_ratio: ratios.and_then(|ratios| mean_ratio(&ratios)),
            only_before: only(before, after),
            only_after: only(after, before),
            pairs,
        })
    }

    /// Whether both records come from the same machine in the same setup.
    pub fn is_same_machine(&self) -> bool {
        self.before.machine == self.after.machine
    }

    /// Contenders whose second record is slower by more than `limit` (0.05 is 5 %) with 95 % confidence.
    pub fn slower_than(&self, limit: f64) -> Result<Vec<&ComparedTiming>, CompareError> {
        let mut slower = Vec::new();
        for pair in &self.pairs {
            let ComparedTiming { strategy, problem, runs, .. } = pair;
            let too_few =
                || CompareError::TooFewRuns { strategy: *strategy, problem: problem.clone(), runs: *runs };
            if pair.ratio.ok_or_else(too_few)?.low > 1.0 + limit {
                slower.push(pair);
            }
        }
        Ok(slower)
    }
}

impl RecordOrigin {
    fn of(record: &BenchBaseline) -> Self {
        Self { provenance: record.provenance.clone(), machine: record.machine.clone() }
    }
}

impl ComparedTiming {
    fn new(before: &BaselineTiming, after: &BaselineTiming) -> Self {
        let ratio = median_ratio(&before.samples_ms, &after.samples_ms);
        let median = |timing: &BaselineTiming| Statistics::of(timing.samples_ms.clone()).median_ms;
        Self {
            strategy: after.strategy,
            problem: after.problem.clone(),
            before_ms: median(before),
            after_ms: median(after),
            runs: (before.samples_ms.len(), after.samples_ms.len()),
            ratio,
            change: TimingChange::of(ratio),
        }
    }
}

#[cfg(test)]
mod tests {
    use octile_core::{Problem, QuantBlock};

    use super::*;

    fn record(runs: usize, factors: &[(Strategy, f64)]) -> BenchBaseline {
        let problem = ProblemFields::from(&Problem::new(16, 128, 128, QuantBlock::B128).unwrap());
        let samples = |factor: f64| (0..runs).map(|i| factor * (1.0 + 0.001 * i as f64)).collect();
        let timing = |&(strategy, factor): &(Strategy, f64)| BaselineTiming {
            strategy,
            problem: problem.clone(),
            samples_ms: samples(factor),
        };
        BenchBaseline {
            provenance: Provenance { date: "2026-01-01T00:00:00Z".into(), version: "0".into() },
            machine: Setup::Cpu { cpu_model: "p".into(), isa: "avx2".into(), threads: 1, pinned: false },
            timings: factors.iter().map(timing).collect(),
        }
    }

    #[test]
    fn only_a_significant_slowdown_beyond_the_limit_counts() {
        let before = record(10, &[(Strategy::Auto, 1.0), (Strategy::Dma, 1.0), (Strategy::Smem, 1.0)]);
        let after = record(10, &[(Strategy::Auto, 1.2), (Strategy::Dma, 1.03), (Strategy::Strip, 1.0)]);
        let comparison = BenchComparison::new(&before, &after).unwrap();
        let changes: Vec<_> = comparison.pairs.iter().map(|pair| (pair.strategy, pair.change)).collect();
        assert_eq!(changes, [(Strategy::Auto, TimingChange::Slower), (Strategy::Dma, TimingChange::Slower)]);
        let slower = comparison.slower_than(0.05).unwrap();
        assert_eq!(slower.iter().map(|pair| pair.strategy).collect::<Vec<_>>(), [Strategy::Auto]);
        assert!(comparison.slower_than(0.5).unwrap().is_empty() && comparison.is_same_machine());
        assert!(comparison.only_before[0].starts_with("smem on ") && comparison.only_before.len() == 1);
        assert!(comparison.only_after[0].starts_with("strip on ") && comparison.only_after.len() == 1);
        let same = BenchComparison::new(&before, &before).unwrap();
        assert!(same.pairs.iter().all(|pair| pair.change == TimingChange::NotSignificant));
        let faster = BenchComparison::new(&after, &before).unwrap();
        assert_eq!(faster.pairs[0].change, TimingChange::Faster);
    }

    #[test]
    fn too_few_runs_decide_nothing() {
        let before = record(6, &[(Strategy::Auto, 1.0)]);
        let comparison = BenchComparison::new(&before, &record(10, &[(Strategy::Auto, 2.0)])).unwrap();
        assert_eq!(comparison.pairs[0].change, TimingChange::TooFewRuns);
        assert_eq!(comparison.mean_ratio, None);
        let said = comparison.slower_than(0.05).unwrap_err().to_string();
        assert!(said.starts_with("auto on 16x128x128:128, ") && said.contains("has 6 and 10 runs"), "{said}");
        let other = record(10, &[(Strategy::Dma, 1.0)]);
        assert_eq!(BenchComparison::new(&before, &other), Err(CompareError::NothingInCommon));
    }
}

//! Records: results as JSON documents with a schema.

use std::{fmt, ops::RangeInclusive, time::SystemTime};

use octile_core::{Problem, Strategy};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::{
    backend::{PlanLabel, Setup},
    bench::{BenchReport, BenchRequest},
    roofline::Limiter,
    stats::Statistics,
};

/// Name and version of a document's schema, written as `name/version`. The version changes when a field is
/// removed or gets another meaning, not when one is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Name.
    pub name: &'static str,
    /// Version.
    pub version: u32,
}

impl Schema {
    /// Timings of `octile bench`.
    pub const BENCH: Self = Self::v1("octile-bench");
    /// Checks of `octile test`.
    pub const TEST: Self = Self::v1("octile-test");
    /// Comparison of two benchmark records.
    pub const BENCH_COMPARISON: Self = Self::v1("octile-bench-comparison");

    /// The first version of the schema of this name.
    pub const fn v1(name: &'static str) -> Self {
        Self { name, version: 1 }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A JSON document: `schema` first, then the fields of the body.
#[derive(Debug, Serialize)]
pub struct Document<'a, T> {
    /// Schema of the body.
    pub schema: Schema,
    /// The body, which must serialize as an object.
    #[serde(flatten)]
    pub body: &'a T,
}

/// When and by which version a record was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Date and time, UTC.
    pub date: String,
    /// Version of Octile.
    pub version: String,
}

impl Provenance {
    /// Now, by this version.
    pub fn now() -> Self {
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Self { date, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// The fields of a problem in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemFields {
    m: usize,
    n: usize,
    k: usize,
    quant_block: usize,
    x: String,
    out: String,
}

impl From<&Problem> for ProblemFields {
    fn from(problem: &Problem) -> Self {
        let Problem { m, n, k, quant_block, x, out } = problem;
        let (x, out) = (x.to_string(), out.to_string());
        Self { m: *m, n: *n, k: *k, quant_block: quant_block.size(), x, out }
    }
}

impl fmt::Display for ProblemFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, quant_block, x, out } = self;
        write!(f, "{m}x{n}x{k}:{quant_block}, x {x}, out {out}")
    }
}

/// Timings of `octile bench`, as they are written.
#[derive(Debug, Serialize)]
pub struct BenchRecord {
    #[serde(flatten)]
    provenance: Provenance,
    machine: Setup,
    peak_tflops: f64,
    peak_read_gbytes_per_s: f64,
    seed: u64,
    warmup: u32,
    timings: Vec<TimingRecord>,
}

#[derive(Debug, Serialize)]
struct TimingRecord {
    strategy: Strategy,
    #[serde(flatten)]
    problem: ProblemFields,
    #[serde(flatten)]
    plan: PlanLabel,
    #[serde(flatten)]
    stats: Statistics,
    tflops_mean: f64,
    tflops_best: f64,
    tflops_median: f64,
    gbytes_per_s: f64,
    roof_tflops: f64,
    limiter: Limiter,
    percent_of_roof: f64,
    /// The default plan, where the strategy used one from a tuned table and both were timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    untuned: Option<UntunedRecord>,
}

#[derive(Debug, Serialize)]
struct UntunedRecord {
    #[serde(flatten)]
    stats: Statistics,
    /// Speedup of the tuned plan: median by median.
    tuned_speedup: f64,
}

impl From<&BenchReport> for BenchRecord {
    fn from(report: &BenchReport) -> Self {
        let timings = report.cases.iter().flat_map(|case| {
            let problem = case.case.problem;
            let roof = report.roof(&problem);
            case.timings.iter().map(move |timing| TimingRecord {
                strategy: timing.strategy,
                problem: ProblemFields::from(&problem),
                plan: timing.plan.clone(),
                stats: timing.stats.clone(),
                tflops_mean: timing.tflops_mean,
                tflops_best: timing.tflops_best,
                tflops_median: timing.tflops_median,
                gbytes_per_s: timing.gbytes_per_s,
                roof_tflops: roof.tflops,
                limiter: roof.limiter,
                percent_of_roof: roof.percent(timing.tflops_median),
                untuned: case.untuned(timing).map(|(untuned, tuned_speedup)| UntunedRecord {
                    stats: untuned.stats.clone(),
                    tuned_speedup,
                }),
            })
        });
        Self {
            provenance: report.provenance.clone(),
            machine: report.setup.clone(),
            peak_tflops: report.peak.tflops,
            peak_read_gbytes_per_s: report.peak.read_gbytes,
            seed: report.seed,
            warmup: report.warmup,
            timings: timings.collect(),
        }
    }
}

/// The part of a benchmark record that a comparison reads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BenchBaseline {
    /// When and by which version it was made.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The machine.
    pub machine: Setup,
    /// Every contender's samples.
    pub timings: Vec<BaselineTiming>,
}

/// Samples of one strategy on one problem.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BaselineTiming {
    /// The strategy.
    pub strategy: Strategy,
    /// The problem.
    #[serde(flatten)]
    pub problem: ProblemFields,
    /// Every time, in milliseconds.
    pub samples_ms: Vec<f64>,
}

/// Times of a run that a record may hold, in milliseconds; ratios of these cannot overflow.
const PLAUSIBLE_MS: RangeInclusive<f64> = 1e-9..=1e12;

/// Why a benchmark record could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not JSON, or fields are missing.
    #[error("not a benchmark record: {0}; write one with `octile bench --json=FILE`")]
    Malformed(String),
    /// It has no schema, or that of another document.
    #[error(
        "not a benchmark record: its schema is {found}, expected {}; \
         write one with `octile bench --json=FILE`",
        Schema::BENCH
    )]
    OtherSchema {
        /// Its schema.
        found: String,
    },
    /// A time is not plausible.
    #[error("not a benchmark record: {strategy} on {problem} has a time of {time:?} ms")]
    BadTime {
        /// The strategy.
        strategy: Strategy,
        /// The problem.
        problem: ProblemFields,
        /// The time.
        time: f64,
    },
    /// A strategy and problem appear twice.
    #[error("not a benchmark record: {strategy} on {problem} appears twice")]
    Duplicate {
        /// The strategy.
        strategy: Strategy,
        /// The problem.
        problem: ProblemFields,
    },
    /// It has no times.
    #[error("not a benchmark record: {strategy} on {problem} has no times")]
    NoTimes {
        /// The strategy.
        strategy: Strategy,
        /// The problem.
        problem: ProblemFields,
    },
}

impl From<serde_json::Error> for RecordError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// The schema of a document; every other field is ignored.
#[derive(Deserialize)]
struct SchemaField {
    schema: Option<String>,
}

/// Whether `text` is a JSON document with the name of this schema, whatever its version.
pub fn has_schema(text: &[u8], schema: Schema) -> bool {
    let document = serde_json::from_slice::<SchemaField>(text).ok();
    let name = document.and_then(|document| document.schema);
    name.is_some_and(|name| name.split_once('/').is_some_and(|(name, _)| name == schema.name))
}

impl BenchBaseline {
    /// Whether it has a problem of the request.
    pub fn shares_with(&self, request: &BenchRequest) -> bool {
        let has = |problem: ProblemFields| self.timings.iter().any(|timing| timing.problem == problem);
        request.cases.iter().any(|case| has(ProblemFields::from(&case.problem)))
    }

    /// Reads a record that `octile bench --json` wrote.
    pub fn parse(text: &[u8]) -> Result<Self, RecordError> {
        let SchemaField { schema } = serde_json::from_slice(text)?;
        if schema.as_deref() != Some(&Schema::BENCH.to_string()) {
            let found = schema.map_or_else(|| "missing".to_owned(), |schema| format!("{schema:?}"));
            return Err(RecordError::OtherSchema { found });
        }
        let record: Self = serde_json::from_slice(text)?;
        for (index, BaselineTiming { strategy, problem, samples_ms }) in record.timings.iter().enumerate() {
            let is_same = |other: &BaselineTiming| (other.strategy, &other.problem) == (*strategy, problem);
            if record.timings[..index].iter().any(is_same) {
                return Err(RecordError::Duplicate { strategy: *strategy, problem: problem.clone() });
            }
            if samples_ms.is_empty() {
                return Err(RecordError::NoTimes { strategy: *strategy, problem: problem.clone() });
            }
            if let Some(&time) = samples_ms.iter().find(|time| !PLAUSIBLE_MS.contains(time)) {
                return Err(RecordError::BadTime { strategy: *strategy, problem: problem.clone(), time });
            }
        }
        Ok(record)
    }
}

impl From<&BenchReport> for BenchBaseline {
    fn from(report: &BenchReport) -> Self {
        let timings = report.cases.iter().flat_map(|case| {
            case.timings.iter().map(|timing| BaselineTiming {
                strategy: timing.strategy,
                problem: ProblemFields::from(&case.case.problem),
                samples_ms: timing.stats.samples_ms.clone(),
            })
        });
        Self {
            provenance: report.provenance.clone(),
            machine: report.setup.clone(),
            timings: timings.collect(),
        }
    }
}

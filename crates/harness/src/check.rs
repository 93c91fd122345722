//! Comparison of a contender's results with the reference.

use octile_core::{
    bound::Accumulator,
    exact::{ExactComparison, ExactOperands, WrongElement},
    oracle::{self, Comparison, OracleInput, Reference},
    sample::Operands,
};
use serde::Serialize;

use crate::{Result, backend::Contender};

/// Largest relative error of the original test suite, kept so that results can be compared. The bound on
/// every element is far tighter.
pub const RELATIVE_TOLERANCE: f64 = 5e-2;

/// Reference results for some or all rows of a problem.
pub struct Expectation {
    rows: Vec<usize>,
    cols: usize,
    reference: Reference,
}

impl Expectation {
    /// Checks all rows.
    pub fn whole(operands: &Operands, accumulator: Accumulator) -> Self {
        Self::of_rows(operands, (0..operands.problem.m).collect(), accumulator)
    }

    /// Checks all columns of at most `count` rows, spread evenly from the first to the last: cheap beside a
    /// benchmark.
    pub fn sampled(operands: &Operands, count: usize, accumulator: Accumulator) -> Self {
        let m = operands.problem.m;
        if m <= count {
            return Self::whole(operands, accumulator);
        }
        let rows = (0..count).map(|i| i * (m - 1) / (count - 1)).collect();
        Self::of_rows(operands, rows, accumulator)
    }

    fn of_rows(operands: &Operands, rows: Vec<usize>, accumulator: Accumulator) -> Self {
        let problem = operands.problem;
        let input = match operands.oracle_input() {
            OracleInput::Fp8(x) => OracleInput::Fp8(x.select_rows(&rows)),
            OracleInput::Plain(x) => OracleInput::Plain(
                rows.iter().flat_map(|row| &x[row * problem.k..][..problem.k]).copied().collect(),
            ),
        };
        let reference = oracle::multiply(&input, rows.len(), &operands.weight, accumulator, problem.out);
        Self { rows, cols: problem.n, reference }
    }

    /// Runs the contender twice on a NaN-poisoned output, and compares the first result with the reference
    /// and the second with the first.
    pub fn check(&self, contender: &mut dyn Contender) -> Result<Check> {
        contender.output().poison();
        contender.run()?;
        let first = contender.output().clone();
        contender.output().poison();
        contender.run()?;
        let repeatable = first.bits() == contender.output().bits();
        let comparison = first.select_rows(&self.rows, self.cols).compare(&self.reference);
        let (findings, stopped) = (contender.findings(), contender.stopped());
        Ok(Check { comparison, exact: None, repeatable, findings, stopped })
    }
}

/// Result of a check on exact operands.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ExactCheck {
    /// Sets of operands that were multiplied; 0 where K is too long for exact sums.
    pub draws: usize,
    /// Elements of all sets that are not bit-exact.
    pub wrong: usize,
    /// The first wrong element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<WrongElement>,
}

impl ExactCheck {
    /// Adds the result of one set.
    pub fn add(&mut self, comparison: ExactComparison) {
        self.draws += 1;
        self.wrong += comparison.wrong;
        self.first = self.first.or(comparison.first);
    }
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Comparison with the reference.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Check on exact operands, where one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<ExactCheck>,
    /// Whether a second run gave bitwise equal results.
    pub repeatable: bool,
    /// Number of a simulator's findings: data races, deadlocks, out-of-bounds accesses.
    pub findings: usize,
    /// Fault that stopped a simulated kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl Check {
    /// Runs the contender, prepared with the operands of `exact`, on a poisoned output and adds the result.
    pub fn add_exact(&mut self, exact: &ExactOperands, contender: &mut dyn Contender) -> Result<()> {
        contender.output().poison();
        contender.run()?;
        self.exact.get_or_insert_default().add(contender.output().compare_exactly(exact));
        self.findings += contender.findings();
        self.stopped = self.stopped.take().or(contender.stopped());
        Ok(())
    }

    /// Whether every element is within its bound and the tolerance, exact operands gave exact results, and
    /// the result is bitwise repeatable.
    pub fn passed(&self) -> bool {
        let close = self.comparison.passed() && self.comparison.max_relative <= RELATIVE_TOLERANCE;
        let right = close && self.exact.is_none_or(|exact| exact.wrong == 0);
        right && self.repeatable && self.findings == 0 && self.stopped.is_none()
    }

    /// Describes the failure in one sentence; `None` when the check passed.
    pub fn complaint(&self) -> Option<String> {
        let (row, col) = self.comparison.worst_at;
        if let Some(stopped) = &self.stopped {
            Some(format!("the simulator stopped the kernel: {stopped}"))
        } else if !self.comparison.passed() {
            let times = self.comparison.worst_of_bound;
            Some(format!("row {row}, column {col}: error is {times:.3e} times the bound"))
        } else if self.comparison.max_relative > RELATIVE_TOLERANCE {
            let relative = self.comparison.max_relative;
            Some(format!("largest relative error is {relative:.3e}, more than {RELATIVE_TOLERANCE}"))
        } else if let Some(ExactCheck { wrong, first: Some(first), .. }) = self.exact {
            let WrongElement { row, col, result, expected } = first;
            let s = if wrong == 1 { "" } else { "s" };
            Some(format!(
                "{wrong} element{s} wrong on exact operands: \
                 row {row}, column {col} is {result:e}, not {expected:e}"
            ))
        } else if self.findings > 0 {
            let found = self.findings;
            Some(format!(
                "the simulator has {found} findings: \
                 run `octile simulate` on the kernel that `octile inspect` writes"
            ))
        } else if !self.repeatable {
            Some("results differ between two runs".to_owned())
        } else {
            None
        }
    }
}

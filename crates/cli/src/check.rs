//! Whether a contender computes what it should.

use anyhow::Result;
use octile_core::{
    bound::Accumulator,
    exact::{ExactComparison, ExactOperands, WrongElement},
    oracle::{self, Comparison, OracleInput, Reference},
    sample::Operands,
};
use serde::Serialize;

use crate::backend::Contender;

/// The relative error that the original test suite allowed. Our bound on every element is far tighter; this one
/// is kept so that results can be compared.
pub const RELATIVE_TOLERANCE: f64 = 5e-2;

/// The reference result for some or all rows of a problem.
pub struct Expectation {
    rows: Vec<usize>,
    cols: usize,
    reference: Reference,
}

impl Expectation {
    /// All rows: a full check.
    pub fn whole(operands: &Operands, accumulator: Accumulator) -> Self {
        Self::of_rows(operands, (0..operands.problem.m).collect(), accumulator)
    }

    /// At most `count` rows, spread evenly, with the first and the last among them: a check that costs little
    /// beside a benchmark. Every column of those rows is looked at.
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

    /// Runs the contender twice on a poisoned result, and compares the first result with the reference and the
    /// second with the first.
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

/// What results on exact operands were.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ExactCheck {
    /// Draws of operands that were multiplied; none where K is too long for exact sums.
    pub draws: usize,
    /// Elements of all draws that are not the correct value to the bit.
    pub wrong: usize,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<WrongElement>,
}

impl ExactCheck {
    /// Adds what one draw gave.
    pub fn add(&mut self, comparison: ExactComparison) {
        self.draws += 1;
        self.wrong += comparison.wrong;
        self.first = self.first.or(comparison.first);
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Against the reference.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// On operands with an exact product, where those were multiplied, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<ExactCheck>,
    /// Whether a second run gave the same bits.
    pub repeatable: bool,
    /// What a simulator found to be wrong beside the result: races, deadlocks, stray accesses.
    pub findings: usize,
    /// What stopped a simulated kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl Check {
    /// Runs the contender, which has the operands of `exact`, on a poisoned result and adds what it computed.
    pub fn add_exact(&mut self, exact: &ExactOperands, contender: &mut dyn Contender) -> Result<()> {
        contender.output().poison();
        contender.run()?;
        self.exact.get_or_insert_default().add(contender.output().compare_exactly(exact));
        self.findings += contender.findings();
        self.stopped = self.stopped.take().or(contender.stopped());
        Ok(())
    }

    /// Whether every element is within its bound and the tolerance, exact where it must be, and the result repeats to
    /// the bit.
    pub fn passed(&self) -> bool {
        let close = self.comparison.passed() && self.comparison.max_relative <= RELATIVE_TOLERANCE;
        let right = close && self.exact.is_none_or(|exact| exact.wrong == 0);
        right && self.repeatable && self.findings == 0 && self.stopped.is_none()
    }

    /// What is wrong, in a few words; `None` when nothing is.
    pub fn complaint(&self) -> Option<String> {
        let (row, col) = self.comparison.worst_at;
        if let Some(stopped) = &self.stopped {
            Some(format!("the simulator stopped the kernel: {stopped}"))
        } else if !self.comparison.passed() || self.comparison.max_relative > RELATIVE_TOLERANCE {
            let times = self.comparison.worst_of_bound;
            Some(format!("row {row}, column {col} is off by {times:.3e} times what rounding can explain"))
        } else if let Some(ExactCheck { wrong, first: Some(first), .. }) = self.exact {
            let WrongElement { row, col, result, expected } = first;
            let s = if wrong == 1 { "" } else { "s" };
            Some(format!(
                "{wrong} element{s} of an exact product wrong: row {row}, column {col} is {result:e}, not {expected:e}"
            ))
        } else if self.findings > 0 {
            let found = self.findings;
            Some(format!(
                "the simulator has {found} findings: write the kernel out and run `octile simulate` on it"
            ))
        } else if !self.repeatable {
            Some("a second run gave other bits".to_owned())
        } else {
            None
        }
    }
}

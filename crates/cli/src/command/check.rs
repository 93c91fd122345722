//! `octile check`: compile, then read back what was compiled and judge it.

use anyhow::Result;

use super::{
    analyze::{self, Told},
    compare::Column,
    inspect, verify,
};

/// What was compiled, what that says, and the verdicts on it.
#[derive(Debug)]
pub struct Report {
    /// What was compiled.
    pub compiled: inspect::InspectReport,
    /// The facts, one column per version.
    pub facts: Vec<Column>,
    /// The verdicts.
    pub verdicts: verify::VerifyReport,
}

/// Compiles, analyzes and verifies; only the versions of this run are judged.
pub fn run(job: &inspect::InspectRequest, strict: bool) -> Result<Report> {
    let compiled = inspect::run(job)?;
    let inputs = compiled.folders();
    let versions = analyze::run(&analyze::AnalyzeRequest { inputs, told: Told::default() })?;
    let facts = versions.iter().map(Column::of).collect();
    Ok(Report { compiled, facts, verdicts: verify::VerifyReport::new(versions, strict) })
}

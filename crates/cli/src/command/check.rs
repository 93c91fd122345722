//! `octile check`: compiles, then reads the compiler output back and verifies it.

use anyhow::Result;

use super::{
    analyze::{self, Told},
    compare::Column,
    inspect, verify,
};

/// Compiled versions with their facts and verdicts.
#[derive(Debug)]
pub struct CheckReport {
    /// The compiled versions.
    pub compiled: inspect::InspectReport,
    /// The facts, one column per version.
    pub facts: Vec<Column>,
    /// The verdicts.
    pub verdicts: verify::VerifyReport,
}

/// Compiles, analyzes and verifies the versions of the request.
pub fn run(request: &inspect::InspectRequest, strict: bool) -> Result<CheckReport> {
    let compiled = inspect::run(request)?;
    let inputs = compiled.folders();
    let versions = analyze::run(&analyze::AnalyzeRequest { inputs, told: Told::default() })?;
    let facts = versions.iter().map(Column::of).collect();
    Ok(CheckReport { compiled, facts, verdicts: verify::VerifyReport::new(versions, strict) })
}

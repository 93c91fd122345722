//! `octile check`: compile, then read back what was compiled and judge it.

use anyhow::Result;

use super::{
    analyze::{self, Told},
    inspect, verify,
};

/// What was compiled, and the verdicts on it.
#[derive(Debug)]
pub struct Report {
    /// What was compiled.
    pub compiled: inspect::Report,
    /// The verdicts.
    pub verdicts: verify::Report,
}

/// Compiles, analyzes and verifies; only the versions of this run are judged.
pub fn run(job: &inspect::Job, strict: bool) -> Result<Report> {
    let compiled = inspect::run(job)?;
    let inputs = compiled.folders();
    let versions = analyze::run(&analyze::Job { inputs, told: Told::default() })?;
    Ok(Report { compiled, verdicts: verify::Report::new(versions, strict) })
}

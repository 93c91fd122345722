//! Prints `octile run-module`.

use std::fmt::Write;

use super::emit;
use crate::{
    Verdict,
    command::run_module::{RunModuleReport, RunOutcome},
};

/// Prints device, times and the check of the result.
pub fn report(report: &RunModuleReport) {
    emit(&text(report));
}

fn text(report: &RunModuleReport) -> String {
    let (major, minor) = report.pjrt_api;
    let mut text = String::new();
    let _ = writeln!(text, "device   {} ({}, PJRT {major}.{minor})", report.device, report.platform);
    let _ = writeln!(text, "results  {}", report.results.join(", "));
    let _ = writeln!(
        text,
        "times    {:.1} ms to compile, {:.3} ms per run",
        1e3 * report.compile.as_secs_f64(),
        1e3 * report.run.as_secs_f64()
    );
    let verdict = match report.verdict() {
        Verdict::Passed => "PASS",
        Verdict::Failed => "FAIL",
    };
    let _ = match &report.outcome {
        RunOutcome::Checked(check) => writeln!(
            text,
            "check    {verdict}: max relative error {:.3e}, worst element at {:.3e} of its bound{}",
            check.comparison.max_relative,
            check.comparison.worst_of_bound,
            check.complaint().map(|complaint| format!("; {complaint}")).unwrap_or_default()
        ),
        RunOutcome::Compared(difference, tolerance) => writeln!(
            text,
            "check    {verdict}: largest error {:.3e}, {:.3e} of the largest magnitude, tolerance \
             {tolerance:e}",
            difference.max_abs,
            difference.relative()
        ),
        RunOutcome::NotChecked => writeln!(text, "check    none: name the expected tensor with --expect"),
    };
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command::run_module::TensorDifference;

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(text(&RunModuleReport {
            pjrt_api: (0, 116),
            platform: "cuda".to_owned(),
            device: "NVIDIA H200".to_owned(),
            results: vec!["f32[512, 512]".to_owned()],
            compile: Duration::from_millis(250),
            run: Duration::from_micros(120),
            outcome: RunOutcome::Compared(TensorDifference { max_abs: 0.5, magnitude: 4.0 }, 1e-5),
        }));
    }
}

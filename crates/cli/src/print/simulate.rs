//! Prints `octile simulate`.

mod findings;
mod github;
pub mod gpu;
mod svg;
pub(super) mod timeline;

use std::fmt::Write;

use super::{emit, heading};
use crate::{
    Verdict,
    command::simulate::{Comparison, SimulateReport},
};

pub use findings::finding;
pub use github::{annotations, gpu_annotations};
pub use svg::drawing;

/// Prints findings, the comparison of the result, and modelled times.
pub fn report(report: &SimulateReport) {
    emit(&text(report));
}

fn text(report: &SimulateReport) -> String {
    let cores = match report.devices {
        1 => "one core".to_owned(),
        devices => format!("{devices} devices, one core each"),
    };
    let mut text = heading(format!("{}\nsimulated {}, {cores}", report.kernel, report.chip));
    for rejection in &report.violations {
        let _ = writeln!(text, "REJECTED BY THE COMPILER\n{}", findings::rejection(rejection));
    }
    for (number, finding) in report.findings.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", number + 1, findings::finding(finding));
    }
    let results = if report.results == 1 { "result" } else { "results" };
    let random = report.seed.map(|seed| format!("random (seed {seed}): ")).unwrap_or_default();
    let names = report.operands.join(", ");
    let _ = writeln!(text, "operands  {random}{names}; {} {results}", report.results);
    for note in &report.operand_notes {
        let _ = writeln!(text, "note      {note}");
    }
    let races = if report.races { "with race detection" } else { "without race detection" };
    let found = match report.findings.len() {
        0 => "none".to_owned(),
        1 => "1".to_owned(),
        many => many.to_string(),
    };
    let end = if report.completed { "finished" } else { "did not finish" };
    let _ = writeln!(text, "findings  {found}, {races}; the kernel {end}");
    if report.comparisons.is_empty() {
        let _ = writeln!(text, "result    not compared: {}", why_not_compared(report));
    }
    for comparison in &report.comparisons {
        text += &compared(comparison, report.comparisons.len());
    }
    for print in &report.prints {
        let _ = writeln!(text, "print     {}", findings::print(print));
    }
    for note in &report.notes {
        let _ = writeln!(text, "note      {}", findings::note(note));
    }
    let (figures, shares) = (&report.figures, &report.shares);
    let _ = writeln!(
        text,
        "modelled  {:.0} cycles, {:.1} us: MXU busy {:.1} %, waiting {:.1} %",
        figures.cycles,
        shares.microseconds,
        1e2 * shares.matmul_busy,
        1e2 * figures.wait_cycles / figures.cycles.max(1.0)
    );
    let _ = writeln!(
        text,
        "DMAs      {}, {} bytes, {:.2} times the operands and results; {:.1} % of their time hidden",
        figures.copies,
        figures.bytes_moved,
        shares.traffic,
        1e2 * shares.copy_overlap
    );
    let _ = writeln!(text, "time      {:.3} s on this machine", report.seconds);
    let verdict = match (report.verdict(), report.comparisons.is_empty()) {
        (Verdict::Passed, false) => "PASS",
        (Verdict::Passed, true) => "PASS, result not compared",
        _ => "FAIL",
    };
    let _ = writeln!(text, "verdict   {verdict}");
    text
}

fn why_not_compared(report: &SimulateReport) -> &'static str {
    match (report.completed, report.random_operands) {
        (false, _) => "the kernel did not finish",
        (true, true) => "the operands are random; pass --tensors FILE --expect NAME to compare",
        (true, false) => "name the expected tensor with --expect",
    }
}

/// The comparison of one result, with its worst element.
fn compared(comparison: &Comparison, count: usize) -> String {
    let number = if count > 1 { format!("{} ", comparison.result) } else { String::new() };
    let verdict = if comparison.passed { "PASS" } else { "FAIL" };
    let of_allowed = match comparison.of_allowed {
        far if far >= 1e4 => format!("{far:.1e}"),
        near => format!("{near:.3}"),
    };
    let mut text = format!(
        "result    {number}{verdict}: largest difference {:.3e} of {:.3e}, {of_allowed} of the tolerance (rtol \
         {:.1e}, atol {:.1e})\n",
        comparison.max_difference,
        comparison.max_magnitude,
        comparison.tolerance.rtol,
        comparison.tolerance.atol
    );
    if let Some(worst) = comparison.worst.as_ref().filter(|_| !comparison.passed) {
        let _ = writeln!(
            text,
            "          worst at {:?}: got {}, expected {} ({}), allowed {:.3e}; {} of {} elements are wrong",
            worst.index,
            worst.got,
            worst.expected,
            comparison.expected,
            worst.allowed,
            comparison.wrong,
            comparison.elements
        );
        if let Some(place) = &comparison.python {
            let _ = writeln!(text, "          computed by {}", findings::python_line(&place.line));
        }
    }
    text
}

//! `octile verify` as text.

use std::fmt::Write;

use octile_dump::checks::{Finding, Verdict};

use super::{
    analyze::{helper_title, line, place, title},
    emit, heading, rule,
};
use crate::command::verify::{Judged, VerifyReport};

/// Prints the checklist and verdict of every version, and the overall verdict.
pub fn report(report: &VerifyReport) {
    emit(&text(report));
}

fn text(report: &VerifyReport) -> String {
    let mut text = heading(if report.strict { "Verification, strict" } else { "Verification" });
    for judged in &report.versions {
        text.push_str(&version(judged));
        text.push('\n');
    }
    text.push_str(&rule());
    for judged in &report.versions {
        let _ = writeln!(text, "{:<5} {}", word(judged.passed), judged.version.name);
    }
    let _ = writeln!(text, "{}: {}", word(report.passed()), tally(report));
    text
}

/// Counts the versions that pass or fail.
fn tally(report: &VerifyReport) -> String {
    let all = report.versions.len();
    match (report.versions.iter().filter(|judged| !judged.passed).count(), all) {
        (0, 1) => "1 version".to_owned(),
        (0, _) => format!("all {all} versions"),
        (1, 1) => "1 version fails".to_owned(),
        (1, _) => format!("1 of {all} versions fails"),
        (failed, _) => format!("{failed} of {all} versions fail"),
    }
}

fn version(judged: &Judged) -> String {
    let version = &judged.version;
    let mut text = format!("{}\n", title(version));
    for trouble in &version.troubles {
        let _ = writeln!(text, "  FAIL {:<16} {trouble}", "files");
    }
    if let Some(contradiction) = &version.promise.contradiction {
        let _ = writeln!(text, "  note {:<16} {contradiction}", "version");
    }
    text.extend(version.findings.iter().filter(|finding| version.is_required(finding)).map(promise));
    for finding in version.findings.iter().filter(|finding| judged.notes.contains(&finding.check)) {
        let _ = writeln!(text, "  note {:<16} {}", finding.check, finding.says);
        for evidence in finding.evidence.iter().take(1) {
            let _ = writeln!(text, "       at  {}", place(evidence));
        }
    }
    for waiver in &version.promise.waived {
        let _ = writeln!(text, "  -    {:<16} not required: {}", waiver.check, waiver.because);
    }
    for helper in &version.helpers {
        let _ = writeln!(text, "  {}", helper_title(helper));
        text.extend(helper.findings.iter().map(promise));
    }
    let counts = [
        (judged.refuted.len(), "failed"),
        (judged.obscured.len(), "in code that could not be followed"),
        (judged.unproven.len(), "not observable in these files"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let note = counts.collect::<Vec<_>>().join(", ");
    let note = if note.is_empty() { note } else { format!(" ({note})") };
    let _ = writeln!(text, "  {}{note}", word(judged.passed));
    text
}

/// A required check; if it fails, with the line that proves it.
fn promise(finding: &Finding) -> String {
    let mut text = line(finding, true);
    if finding.verdict == Verdict::Fail {
        for evidence in finding.evidence.iter().take(1) {
            let _ = writeln!(text, "       at  {}", place(evidence));
        }
        let _ = writeln!(text, "       why {}\n       do  {}", finding.why, finding.remedy);
    }
    text
}

fn word(passed: bool) -> &'static str {
    if passed { "PASS" } else { "FAIL" }
}

//! JUnit XML: one suite per version, one case per required check.

use anyhow::Result;
use octile_dump::checks::{Finding, Verdict};
use quick_junit::{Report as Document, TestCase, TestCaseStatus, TestSuite};

use super::{Judged, VerifyReport};
use crate::command::junit::{case as named, failure, skipped};

/// Returns the document.
pub(super) fn document(report: &VerifyReport) -> Result<String> {
    let mut document = Document::new("octile verify");
    for judged in &report.versions {
        let mut suite = TestSuite::new(&judged.version.name);
        suite.add_test_case(files(judged));
        let required = judged.version.findings.iter().filter(|finding| judged.version.is_required(finding));
        let name = |finding: &Finding| finding.check.name().to_owned();
        suite.add_test_cases(required.map(|finding| case(judged, &name(finding), finding, report.strict)));
        for helper in &judged.version.helpers {
            let name = |finding| format!("{}/{}", helper.name, name(finding));
            let cases =
                helper.findings.iter().map(|finding| case(judged, &name(finding), finding, report.strict));
            suite.add_test_cases(cases);
        }
        document.add_test_suite(suite);
    }
    Ok(document.to_string()?)
}

/// The case that fails for damaged and contradictory files.
fn files(judged: &Judged) -> TestCase {
    let troubles = &judged.version.troubles;
    let status = match troubles.first() {
        None => TestCaseStatus::success(),
        Some(first) => failure(first, &troubles.join("\n")),
    };
    named(&judged.version.name, "files", status)
}

fn case(judged: &Judged, name: &str, finding: &Finding, strict: bool) -> TestCase {
    let evidence =
        finding.evidence.iter().map(|line| format!("{}:{}: {}", line.file, line.place, line.excerpt));
    let details = [finding.why.to_owned(), finding.remedy.to_owned()].into_iter().chain(evidence);
    let details = details.collect::<Vec<_>>().join("\n");
    let status = match finding.verdict {
        Verdict::Pass => TestCaseStatus::success(),
        Verdict::Fail | Verdict::Obscured => failure(&finding.says, &details),
        Verdict::NotObservable if strict => failure(&finding.says, &details),
        Verdict::NotObservable => skipped(&finding.says),
    };
    named(&judged.version.name, name, status)
}

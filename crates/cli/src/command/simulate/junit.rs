//! JUnit XML of a simulated run: one suite per kernel file, one case per kind of check.

use anyhow::Result;
use quick_junit::{Report as Document, TestCase, TestCaseStatus, TestSuite};

use super::{Diagnosis, SimulateReport, gpu::GpuSimulateReport};
use crate::command::junit::{case, failure, skipped};

/// Cases with the titles of the findings that fail them. The last one takes all others.
const CASES: [(&str, &[&str]); 9] = [
    ("data races", &["RACE", "MISSING BARRIER"]),
    ("deadlocks", &["DEADLOCK", "DEADLOCK BETWEEN DEVICES"]),
    ("semaphores", &["SEMAPHORE"]),
    ("memory accesses", &["OUT OF BOUNDS", "UNINITIALIZED", "NO SUCH DEVICE"]),
    ("MXUs", &["MXU"]),
    ("memory budget", &["OUT OF VMEM", "OUT OF SMEM"]),
    ("grid order", &["PARALLEL", "REVISITED"]),
    ("termination", &["ENDLESS", "ASSERTION"]),
    ("results written", &[]),
];

impl SimulateReport {
    /// Returns the verdicts as JUnit XML. `details` prints a finding.
    pub fn junit(&self, details: impl Fn(&Diagnosis) -> String) -> Result<String> {
        let mut suite = TestSuite::new(&self.kernel);
        suite.add_test_case(self.accepted());
        let case_of = |title: &str| {
            let known = CASES.iter().position(|(_, titles)| titles.contains(&title));
            known.unwrap_or(CASES.len() - 1)
        };
        for (number, (name, _)) in CASES.iter().enumerate() {
            let found: Vec<&Diagnosis> =
                self.findings.iter().filter(|finding| case_of(finding.title) == number).collect();
            let status = match found.first() {
                Some(first) => {
                    let details: Vec<String> = found.iter().map(|finding| details(finding)).collect();
                    failure(&leading(first), &details.join("\n"))
                }
                None if number == 0 && !self.races => skipped("race detection is off"),
                None => TestCaseStatus::success(),
            };
            suite.add_test_case(case(&self.kernel, name, status));
        }
        suite.add_test_case(self.result());
        document(suite)
    }

    /// The case that fails for what the compiler would reject.
    fn accepted(&self) -> TestCase {
        let messages: Vec<&str> = self.violations.iter().map(|found| &*found.violation.message).collect();
        let status = match messages.first() {
            None => TestCaseStatus::success(),
            Some(first) => failure(first, &messages.join("\n")),
        };
        case(&self.kernel, "accepted by the compiler", status)
    }

    /// The case that fails for a wrong result.
    fn result(&self) -> TestCase {
        let status = match &self.comparison {
            None => skipped("the result was not compared"),
            Some(comparison) if comparison.passed => TestCaseStatus::success(),
            Some(comparison) => {
                let message = format!(
                    "the largest difference is {:.3e}, {:.3} of the tolerance",
                    comparison.max_difference, comparison.of_allowed
                );
                failure(&message, &message)
            }
        };
        case(&self.kernel, "result", status)
    }
}

/// The sentence of a finding after its line: `kernel.py:12: RACE: ...`.
fn leading(finding: &Diagnosis) -> String {
    let line = finding.python.as_ref().map(|place| format!("{}:{}: ", place.line.file, place.line.line));
    // One line: file names may contain line breaks, and a line may be a workflow command.
    format!("{}{}", line.unwrap_or_default(), finding.sentence).replace(['\n', '\r'], " ")
}

impl GpuSimulateReport {
    /// Returns the verdicts as JUnit XML.
    pub fn junit(&self) -> Result<String> {
        let mut suite = TestSuite::new(&self.kernel);
        let mut add = |name, problem: Option<String>| {
            let status = match problem {
                None => TestCaseStatus::success(),
                Some(problem) => failure(&problem, &problem),
            };
            suite.add_test_case(case(&self.kernel, name, status));
        };
        add("runs", self.fault.as_ref().map(|fault| format!("line {}: {}", fault.line, fault.problem)));
        let wrong = match &self.comparison {
            Some(comparison) if comparison.passed() => None,
            Some(_) => Some("the result is outside the error bound".to_owned()),
            None => Some("there is no result".to_owned()),
        };
        add("result", wrong);
        let inexact = (self.exact.wrong > 0).then(|| format!("wrong elements: {}", self.exact.wrong));
        add("result on exact operands", inexact);
        let differs = (!self.repeatable).then(|| "schedules give different results".to_owned());
        add("same result in every schedule", differs);
        document(suite)
    }
}

fn document(suite: TestSuite) -> Result<String> {
    let mut document = Document::new("octile simulate");
    document.add_test_suite(suite);
    Ok(document.to_string()?)
}

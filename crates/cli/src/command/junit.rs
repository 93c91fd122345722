//! JUnit XML, the same for every command that writes it.

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus};

/// The status of a check that fails, with a message of one line and the details.
pub(super) fn failure(message: &str, details: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(message).set_description(details);
    status
}

/// The status of a check that was not made.
pub(super) fn skipped(message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(message);
    status
}

/// A case of a class.
pub(super) fn case(class: &str, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(class);
    case
}

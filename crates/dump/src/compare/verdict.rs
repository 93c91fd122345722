//! Checks whose verdict changed.

use serde::Serialize;

use crate::checks::{CheckId, Finding, Verdict};

/// A check whose verdict differs between two dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The claim.
    pub check: CheckId,
    /// Its verdict before.
    pub before: Verdict,
    /// Its verdict after.
    pub after: Verdict,
    /// The reason after.
    pub says: String,
}

/// The checks whose verdicts differ.
pub fn changes(before: &[Finding], after: &[Finding]) -> Vec<Change> {
    let pairs = before.iter().filter_map(|old| Some((old, after.iter().find(|new| new.check == old.check)?)));
    let changed = pairs.filter(|(old, new)| old.verdict != new.verdict);
    changed
        .map(|(old, new)| Change {
            check: old.check,
            before: old.verdict,
            after: new.verdict,
            says: new.says.clone(),
        })
        .collect()
}

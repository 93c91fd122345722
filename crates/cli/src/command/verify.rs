//! `octile verify`: whether every version is what it promises to be.

mod junit;

use anyhow::Result;
use octile_core::Strategy;
use octile_dump::checks::{CheckId, Finding, Verdict};
use serde::Serialize;

use super::{analyze::Version, compare::distinct_names};

/// Verdicts on several versions.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether what cannot be proven fails.
    pub strict: bool,
    /// One per version.
    pub versions: Vec<Judged>,
}

/// The verdict on one version.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// What is judged.
    pub version: Version,
    /// Its required checks that are refuted.
    pub refuted: Vec<CheckId>,
    /// Its required checks that the files do not tell about.
    pub unproven: Vec<CheckId>,
    /// Refuted checks that no version promises to pass: they cost time, and no verdict.
    pub warnings: Vec<CheckId>,
    /// Whether it passes.
    pub passed: bool,
}

impl Report {
    /// Judges versions, and calls those of the same name by their paths.
    pub fn new(mut versions: Vec<Version>, strict: bool) -> Self {
        let names = distinct_names(&versions);
        for (version, name) in versions.iter_mut().zip(names) {
            version.name = name;
        }
        let versions = versions.into_iter().map(|version| Judged::new(version, strict)).collect();
        Self { strict, versions }
    }

    /// Whether there are versions and all of them pass.
    pub fn passed(&self) -> bool {
        !self.versions.is_empty() && self.versions.iter().all(|judged| judged.passed)
    }

    /// The verdicts as a JUnit document.
    pub fn junit(&self) -> Result<String> {
        junit::document(self)
    }
}

impl Judged {
    fn new(version: Version, strict: bool) -> Self {
        let required = |verdict: Verdict| -> Vec<CheckId> {
            let matching =
                |id: &&CheckId| finding(&version, **id).is_some_and(|found| found.verdict == verdict);
            version.promise.required.iter().filter(matching).copied().collect()
        };
        let (refuted, unproven) = (required(Verdict::Fail), required(Verdict::NotObservable));
        // Without a single proof there is nothing to pass on.
        let proven = !required(Verdict::Pass).is_empty();
        let sound = version.troubles.is_empty() && refuted.is_empty();
        let passed = sound && proven && (unproven.is_empty() || !strict);
        let promised = |check: CheckId| Strategy::ALL.iter().any(|s| CheckId::required(*s).contains(&check));
        let warns = |found: &&Finding| {
            found.verdict == Verdict::Fail && !version.is_required(found) && !promised(found.check)
        };
        let warnings = version.findings.iter().filter(warns).map(|found| found.check).collect();
        Self { version, refuted, unproven, warnings, passed }
    }
}

/// What became of one check.
pub fn finding(version: &Version, check: CheckId) -> Option<&Finding> {
    version.findings.iter().find(|finding| finding.check == check)
}

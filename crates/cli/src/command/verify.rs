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
    /// Its required checks that are refuted, and those of the kernels before its own.
    pub refuted: Vec<CheckId>,
    /// Those that the files should tell about, but could not be followed.
    pub obscured: Vec<CheckId>,
    /// Those that the files do not tell about.
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
    fn new(mut version: Version, strict: bool) -> Self {
        // A verdict on something else than what was compiled is none on the files.
        let told_otherwise = version.promise.told_otherwise;
        version.troubles.extend(version.promise.contradiction.take_if(|_| told_otherwise));
        let own = || version.findings.iter().filter(|found| version.is_required(found));
        let of_helpers = || version.helpers.iter().flat_map(|helper| &helper.findings);
        let promised = |verdict: Verdict| -> Vec<CheckId> {
            let all = own().chain(of_helpers()).filter(|found| found.verdict == verdict);
            all.map(|found| found.check).collect()
        };
        let (refuted, obscured) = (promised(Verdict::Fail), promised(Verdict::Obscured));
        let unproven = promised(Verdict::NotObservable);
        // Without a single proof there is nothing to pass on.
        let proven = own().any(|found| found.verdict == Verdict::Pass);
        let sound = version.troubles.is_empty() && refuted.is_empty() && obscured.is_empty();
        let passed = sound && proven && (unproven.is_empty() || !strict);
        let of_others = |check: CheckId| Strategy::ALL.iter().any(|s| CheckId::required(*s).contains(&check));
        let warns = |found: &&Finding| {
            found.verdict == Verdict::Fail && !version.is_required(found) && !of_others(found.check)
        };
        let warnings = version.findings.iter().filter(warns).map(|found| found.check).collect();
        Self { version, refuted, obscured, unproven, warnings, passed }
    }
}

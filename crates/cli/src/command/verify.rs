//! `octile verify`: verifies that every version compiled as intended.

mod junit;

use anyhow::Result;
use octile_core::Strategy;
use octile_dump::checks::{CheckId, Finding, Verdict};
use serde::Serialize;

use super::{
    analyze::{Known, Version},
    compare::distinct_names,
};

/// Verdicts on several versions.
#[derive(Debug, Serialize)]
pub struct VerifyReport {
    /// Whether unproven checks fail.
    pub strict: bool,
    /// One per version.
    pub versions: Vec<Judged>,
}

/// The verdict on one version.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// The version.
    pub version: Version,
    /// Required checks that fail, including those of its helpers.
    pub refuted: Vec<CheckId>,
    /// Required checks on code that could not be followed.
    pub obscured: Vec<CheckId>,
    /// Required checks that the files cannot prove.
    pub unproven: Vec<CheckId>,
    /// Failing checks that no strategy requires, such as spills: they cost time, but do not fail the version.
    pub notes: Vec<CheckId>,
    /// Whether it passes.
    pub passed: bool,
}

impl VerifyReport {
    /// Judges versions. Versions of the same name are called by their paths.
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

    /// Returns the verdicts as JUnit XML.
    pub fn junit(&self) -> Result<String> {
        junit::document(self)
    }
}

impl Judged {
    fn new(mut version: Version, strict: bool) -> Self {
        // If the command line contradicts the manifest, the verdict would be about another kernel.
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
        // A version without any proven check does not pass.
        let proven = own().any(|found| found.verdict == Verdict::Pass);
        let sound = version.troubles.is_empty() && refuted.is_empty() && obscured.is_empty();
        let passed = sound && proven && (unproven.is_empty() || !strict);
        let foreign = version.promise.known == Known::Foreign;
        let of_others =
            |check: CheckId| !foreign && Strategy::ALL.iter().any(|s| CheckId::required(*s).contains(&check));
        let is_note = |found: &&Finding| {
            found.verdict == Verdict::Fail && !version.is_required(found) && !of_others(found.check)
        };
        let notes = version.findings.iter().filter(is_note).map(|found| found.check).collect();
        Self { version, refuted, obscured, unproven, notes, passed }
    }
}

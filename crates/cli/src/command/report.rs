//! `octile report`: everything about the versions on one page.

use octile_harness::record::Provenance;

use super::{
    analyze::Version,
    compare::{Column, Difference},
    verify::{self, Judged},
};

/// What the page shows.
#[derive(Debug)]
pub struct Report {
    /// When it was made, and with what.
    pub provenance: Provenance,
    /// The version table.
    pub columns: Vec<Column>,
    /// From each version to the next.
    pub steps: Vec<Step>,
    /// Every version with its verdict.
    pub versions: Vec<Judged>,
}

/// What is different between a version and the next.
#[derive(Debug)]
pub struct Step {
    /// The name of the one.
    pub before: String,
    /// The name of the other.
    pub after: String,
    /// What is different.
    pub difference: Difference,
}

impl Step {
    fn between(before: &Version, after: &Version) -> Self {
        let difference = Difference::between(before, after);
        Self { before: before.name.clone(), after: after.name.clone(), difference }
    }
}

impl Report {
    /// The page about versions that were judged.
    pub fn new(verdicts: verify::Report) -> Self {
        let versions = verdicts.versions;
        let columns = versions.iter().map(|judged| Column::of(&judged.version)).collect();
        let steps = versions.windows(2).filter_map(|pair| match pair {
            [before, after] => Some(Step::between(&before.version, &after.version)),
            _ => None,
        });
        Self { provenance: Provenance::now(), columns, steps: steps.collect(), versions }
    }

    /// Whether some files cannot be relied on.
    pub fn has_troubles(&self) -> bool {
        self.versions.iter().any(|judged| !judged.version.troubles.is_empty())
    }
}

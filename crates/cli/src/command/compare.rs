//! `octile compare`: versions side by side.

use octile_dump::{
    compare::{Change, OperationChange, Row, changes, operations},
    facts::FileKind,
    llo::Listing,
};
use serde::Serialize;

use super::analyze::Version;

/// Versions side by side.
#[derive(Debug, Serialize)]
pub struct Report {
    /// One per version.
    pub columns: Vec<Column>,
    /// What is different, where two versions were named.
    pub difference: Option<Difference>,
}

/// One version of the table.
#[derive(Debug, Serialize)]
pub struct Column {
    /// What the dumps say.
    #[serde(flatten)]
    pub row: Row,
    /// How far the cycles are from the limit: 1 is the limit itself.
    pub distance: Option<f64>,
    /// Bytes of machine code, where a manifest says.
    pub code_bytes: Option<u64>,
    /// Files that cannot be relied on.
    pub troubles: Vec<String>,
}

/// What is different between two versions.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Checks with another verdict.
    pub checks: Vec<Change>,
    /// Operations that are not as often in the code; none where one of them has no listing.
    pub operations: Option<Vec<OperationChange>>,
}

impl Column {
    /// The column of a version.
    pub fn of(version: &Version) -> Self {
        Self {
            row: Row::of(&version.name, &version.facts, &version.findings),
            distance: version.roofline.map(|roofline| roofline.distance),
            code_bytes: version.manifest.as_ref().map(|manifest| manifest.figures.code_bytes),
            troubles: version.troubles.clone(),
        }
    }
}

/// Compares versions.
pub fn run(versions: &[Version]) -> Report {
    let difference = match versions {
        [before, after] => Some(Difference::between(before, after)),
        _ => None,
    };
    Report { columns: versions.iter().map(Column::of).collect(), difference }
}

impl Difference {
    fn between(before: &Version, after: &Version) -> Self {
        let listing = |version| Some(Listing::parse(code(version)?));
        let listings = listing(before).zip(listing(after));
        Self {
            checks: changes(&before.findings, &after.findings),
            operations: listings.map(|(before, after)| operations(&before, &after)),
        }
    }
}

/// The listing of a version that says most.
fn code(version: &Version) -> Option<&str> {
    let kinds = [FileKind::LloPacked, FileKind::LloFinal, FileKind::LloUnscheduled];
    kinds.into_iter().find_map(|kind| version.text(kind)).map(|text| text.text.as_str())
}

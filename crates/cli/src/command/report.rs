//! `octile report`: everything about the versions on one page.

use super::{
    compare::Column,
    verify::{self, Judged},
};
use crate::record::Provenance;

/// What the page shows.
#[derive(Debug)]
pub struct Report {
    /// When it was made, and with what.
    pub provenance: Provenance,
    /// The version table.
    pub columns: Vec<Column>,
    /// Every version with its verdict.
    pub versions: Vec<Judged>,
}

impl Report {
    /// The page about versions that were judged.
    pub fn new(verdicts: verify::Report) -> Self {
        let columns = verdicts.versions.iter().map(|judged| Column::of(&judged.version)).collect();
        Self { provenance: Provenance::now(), columns, versions: verdicts.versions }
    }
}

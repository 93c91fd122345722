//! Cycles per source line of a version, with the text of the lines.

use octile_dump::{
    facts::Facts,
    llo::{LineCost, LineProfile, ProfileBasis},
};
use serde::Serialize;

use crate::{print::one_line, python::PythonSources};

/// What each source line of a kernel costs.
#[derive(Debug, Serialize)]
pub struct SourceView {
    /// Lines with a cost, by file and number.
    pub rows: Vec<SourceRow>,
    /// Code that belongs to no line.
    pub elsewhere: SourceRow,
    /// Cycles of the kernel, modelled waits included.
    pub total: f64,
    /// Matrix units of the core.
    pub mxus: u32,
    /// How often the bundles count.
    pub basis: ProfileBasis,
    /// Why the listing could not be executed.
    pub not_executed: Option<String>,
}

/// A source line.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SourceRow {
    /// Its file.
    pub file: String,
    /// Its number, from 1.
    pub line: u32,
    /// Its text, where the file is there.
    pub code: Option<String>,
    /// Its cost.
    #[serde(flatten)]
    pub cost: LineCost,
}

impl SourceView {
    /// The view of a kernel; `None` if its listing names no source lines.
    pub fn of(facts: &Facts, sources: &PythonSources) -> Option<Self> {
        let profile = facts.source_profile.as_ref().filter(|profile| !profile.lines.is_empty())?;
        let row = |LineProfile { place, cost }: &LineProfile| {
            let line = sources.single_line(&place.file, place.line);
            let code = line.code.as_deref().map(one_line);
            SourceRow { file: one_line(&line.file), line: place.line, code, cost: *cost }
        };
        Some(Self {
            rows: profile.lines.iter().map(row).collect(),
            elsewhere: SourceRow { cost: profile.elsewhere, ..SourceRow::default() },
            total: profile.total(),
            mxus: facts.cycles.as_ref().map_or(1, |cycles| cycles.mxus),
            basis: profile.basis,
            not_executed: facts.cycles_error.clone(),
        })
    }

    /// What the counts assume, as a sentence without a full stop.
    pub fn caveat(&self) -> Option<String> {
        let counted = match self.basis {
            ProfileBasis::Executed => return None,
            ProfileBasis::Assumed => {
                "branches that depend on data are assumed to run their region, and loops on data to run once"
            }
            ProfileBasis::Code => "every bundle counts once",
        };
        let reason = self.not_executed.as_deref().unwrap_or("the listing could not be executed");
        Some(format!("{counted}: {reason}"))
    }

    /// Fraction of the kernel's cycles, from 0 to 1.
    pub fn share(&self, row: &SourceRow) -> f64 {
        if self.total > 0.0 { row.cost.total() / self.total } else { 0.0 }
    }

    /// Fraction of the matrix units' time in the whole kernel, from 0 to 1.
    pub fn mxu_share(&self, row: &SourceRow) -> f64 {
        let available = f64::from(self.mxus) * self.total;
        if available > 0.0 { row.cost.mxu as f64 / available } else { 0.0 }
    }

    /// The costliest rows in source order, and the number and sum of the others.
    pub fn costliest(&self, count: usize) -> (Vec<&SourceRow>, Option<(usize, SourceRow)>) {
        let mut order: Vec<&SourceRow> = self.rows.iter().collect();
        order.sort_by(|a, b| b.cost.total().total_cmp(&a.cost.total()));
        let rest = order.split_off(count.min(order.len()));
        order.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        let sum = rest.iter().fold(SourceRow::default(), |mut sum, row| {
            sum.cost.add(&row.cost);
            sum
        });
        (order, (!rest.is_empty()).then_some((rest.len(), sum)))
    }
}

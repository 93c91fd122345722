//! Which units the code keeps busy, from its first bundle to its last.

use maud::{Markup, html};
use octile_dump::{
    facts::FileKind,
    llo::{Listing, UnitUse, static_use},
    utilization::Utilization,
};

use super::plot::COLOURS;
use crate::command::analyze::Version;

const WIDTH: f64 = 640.0;
const LEFT: f64 = 104.0;
const ROW: f64 = 22.0;
/// Columns of the plot: each stands for as many bundles as it takes.
const BINS: usize = 160;
/// A row of the plot is a unit of the table; spills and fills are part of stores and loads.
const UNITS: [(usize, &str); 7] = [
    (0, "matrix"),
    (1, "cross-lane"),
    (2, "vector"),
    (4, "transcend."),
    (5, "load"),
    (7, "store"),
    (9, "scalar"),
];

/// One row per unit; the darker, the more of it is in use.
pub fn plot(version: &Version) -> Markup {
    let Some(bundles) = bundles(version) else {
        return html! { p.note { "There is no LLO listing and no utilization table among the files." } };
    };
    let capacity = capacity(version, &bundles);
    let per_bin = bundles.len().div_ceil(BINS).max(1);
    let bins: Vec<&[[u64; 10]]> = bundles.chunks(per_bin).collect();
    let height = ROW * (UNITS.len() as f64 + 2.0);
    let step = (WIDTH - LEFT) / bins.len().max(1) as f64;
    let executions = version.facts.cycles.as_ref().map(|cycles| cycles.executions.as_slice());
    let executions = executions.filter(|executions| executions.len() == bundles.len());
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) role="img" aria-label="Units in use over bundles" {
            @for (row, (unit, name)) in UNITS.into_iter().enumerate() {
                text x="0" y=(ROW * row as f64 + 15.0) { (name) }
                @for (bin, bundles) in bins.iter().enumerate() {
                    @let share = share(bundles, unit, capacity[unit]);
                    @if share > 0.0 { (cell(row, bin, step, COLOURS[row], share)) }
                }
            }
            text x="0" y=(ROW * UNITS.len() as f64 + 15.0) { "times executed" }
            @if let Some(executions) = executions {
                @let most = executions.iter().copied().max().unwrap_or(1).max(2) as f64;
                @for (bin, times) in executions.chunks(per_bin).enumerate() {
                    @let times = times.iter().copied().max().unwrap_or(0) as f64;
                    @if times > 0.0 { (cell(UNITS.len(), bin, step, COLOURS[7], (times + 1.0).ln() / (most + 1.0).ln())) }
                }
            }
            text x=(LEFT) y=(height - 6.0) { "bundle 0" }
            text x=(WIDTH) y=(height - 6.0) text-anchor="end" { (bundles.len()) }
        }
        p.note {
            "Each column stands for " (per_bin) " bundles. The stronger the colour, the more of the unit is in use; for \
             executions the scale is logarithmic."
        }
    }
}

fn cell(row: usize, bin: usize, step: f64, colour: &str, share: f64) -> Markup {
    let opacity = format!("{:.2}", (0.12 + 0.88 * share).min(1.0));
    let x = format!("{:.1}", LEFT + bin as f64 * step);
    html! {
        rect x=(x) y=(ROW * row as f64 + 2.0) width=(format!("{:.1}", step + 0.1)) height=(ROW - 4.0) fill=(colour)
            fill-opacity=(opacity) {}
    }
}

fn share(bundles: &[[u64; 10]], unit: usize, capacity: u64) -> f64 {
    let used: u64 = bundles.iter().map(|bundle| bundle[unit]).sum();
    used as f64 / (capacity.max(1) * bundles.len() as u64) as f64
}

/// What each bundle uses: from the listing with every cycle, else from the compiler's table.
fn bundles(version: &Version) -> Option<Vec<[u64; 10]>> {
    if let Some(text) = version.text(FileKind::LloPacked) {
        let listing = Listing::parse(&text.text);
        let columns = listing.bundles().iter().map(|bundle| static_use(&listing, bundle).columns());
        return Some(columns.collect());
    }
    let table = table(version)?;
    let row = |row: &[u16]| Some(<[u16; 10]>::try_from(row).ok()?.map(u64::from));
    table.rows().map(row).collect()
}

/// How many of each unit there are: as the compiler says, else the most that a bundle uses.
fn capacity(version: &Version, bundles: &[[u64; 10]]) -> [u64; 10] {
    let stated = table(version).filter(|table| table.columns == UnitUse::COLUMNS);
    let stated = stated.and_then(|table| <[u16; 10]>::try_from(table.capacity).ok());
    let most = |unit: usize| bundles.iter().map(|bundle| bundle[unit]).max().unwrap_or_default();
    stated.map_or_else(|| std::array::from_fn(most), |capacity| capacity.map(u64::from))
}

fn table(version: &Version) -> Option<Utilization> {
    version.text(FileKind::Utilization).map(|text| Utilization::parse(&text.text))
}

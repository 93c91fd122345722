//! Unit utilization over the bundles of the code.

use maud::{Markup, html};
use octile_dump::{
    facts::FileKind,
    llo::{Listing, UnitUse, static_use},
    utilization::Utilization,
};

use super::plot::COLOURS;
use crate::command::analyze::Version;

/// Columns of the plot.
const BINS: usize = 160;
/// Units to plot, by column of the table; spills and fills are included in stores and loads.
const UNITS: [(usize, &str); 7] =
    [(0, "MXU"), (1, "XLU"), (2, "VPU"), (4, "EUP"), (5, "load"), (7, "store"), (9, "scalar")];

/// Draws one row per unit. `None` if there is no LLO listing and no utilization table.
pub(super) fn plot(version: &Version) -> Option<Markup> {
    let bundles = bundles(version)?;
    let capacity = capacity(version, &bundles);
    let per_bin = bundles.len().div_ceil(BINS).max(1);
    let bins: Vec<&[[u64; 10]]> = bundles.chunks(per_bin).collect();
    let executions = version.facts.cycles.as_ref().map(|cycles| cycles.executions.as_slice());
    let executions = executions.filter(|executions| executions.len() == bundles.len());
    let used = |unit: usize| bins.iter().map(move |bundles| share(bundles, unit, capacity[unit])).collect();
    Some(html! {
        div.units role="img" aria-label="Units in use over bundles" {
            @for ((unit, name), colour) in UNITS.into_iter().zip(COLOURS) { (row(name, colour, used(unit))) }
            @if let Some(executions) = executions {
                (row("times executed", COLOURS[UNITS.len()], executed(executions, per_bin)))
            }
            span {}
            span.ends { span { "bundle 0" } span { (bundles.len()) } }
        }
        p.note {
            "One column is " (per_bin) " bundles. The stronger the colour, the more of the unit is in use; \
             executions are on a logarithmic scale."
        }
    })
}

/// A name and a strip; the name is outside the SVG, which is squeezed on a phone.
fn row(name: &str, colour: &str, shares: Vec<f64>) -> Markup {
    html! {
        span { (name) }
        svg viewBox={ "0 0 " (shares.len()) " 1" } preserveAspectRatio="none" {
            @for (bin, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                @let opacity = format!("{:.2}", (0.12 + 0.88 * share).min(1.0));
                rect x=(bin) width="1.05" height="1" fill=(colour) fill-opacity=(opacity) {}
            }
        }
    }
}

/// Executions of the busiest bundle of each column, relative to the maximum, on a logarithmic scale.
fn executed(executions: &[u64], per_bin: usize) -> Vec<f64> {
    let scale = |times: &u64| (*times as f64 + 1.0).ln();
    let most = executions.iter().max().map_or(1.0, scale).max(1.0);
    executions.chunks(per_bin).map(|times| times.iter().max().map_or(0.0, scale) / most).collect()
}

fn share(bundles: &[[u64; 10]], unit: usize, capacity: u64) -> f64 {
    let used: u64 = bundles.iter().map(|bundle| bundle[unit]).sum();
    used as f64 / (capacity.max(1) * bundles.len() as u64) as f64
}

/// Units used by each bundle, from the listing or the compiler's table.
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

/// Number of each unit: from the compiler's table, else the maximum of all bundles.
fn capacity(version: &Version, bundles: &[[u64; 10]]) -> [u64; 10] {
    let stated = table(version).filter(|table| table.columns == UnitUse::COLUMNS);
    let stated = stated.and_then(|table| <[u16; 10]>::try_from(table.capacity).ok());
    let most = |unit: usize| bundles.iter().map(|bundle| bundle[unit]).max().unwrap_or_default();
    stated.map_or_else(|| std::array::from_fn(most), |capacity| capacity.map(u64::from))
}

fn table(version: &Version) -> Option<Utilization> {
    version.text(FileKind::Utilization).map(|text| Utilization::parse(&text.text))
}

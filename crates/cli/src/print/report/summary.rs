//! The conclusion: which version is best, by how much, and whether all pass.

use maud::{Markup, html};

use crate::{
    command::{
        report::{Ranking, ReportPage},
        verify::Judged,
    },
    print::analyze::{chip, grouped},
};

/// The conclusion in one or two sentences.
pub(super) fn lead(report: &ReportPage) -> Markup {
    html! {
        p.lead {
            @match &report.ranking {
                Some(ranking) => { (best(ranking, &report.versions)) " " }
                None => @if let Some(subject) = subject(report) { (subject) ": " }
            }
            (verdicts(&report.versions))
        }
    }
}

/// What to call a version where there is little room: `v3`, unless several are that.
pub(super) fn short_name(versions: &[Judged], index: usize) -> &str {
    let name = |judged: &Judged| judged.version.promise.strategy.map(|strategy| strategy.version());
    let own = name(&versions[index]);
    let is_unique = versions.iter().filter(|judged| name(judged) == own).count() == 1;
    own.filter(|_| is_unique).unwrap_or(&versions[index].version.name)
}

fn best(ranking: &Ranking, versions: &[Judged]) -> Markup {
    let Some((&(best, least), others)) = ranking.cycles.split_first() else { return html! {} };
    let rounded = |cycles: f64| grouped(cycles.round() as u64);
    let others: Vec<_> = others
        .iter()
        .map(|&(index, cycles)| {
            format!("{} for {} ({:.1}x)", rounded(cycles), short_name(versions, index), cycles / least)
        })
        .collect();
    html! {
        strong { (versions[best].version.name) }
        " is the fastest on " (ranking.chip) " at " (ranking.shape) ": "
        strong { (rounded(least)) " cycles" } ", modelled waits included, against " (listed(&others)) "."
    }
}

/// Chip and shape, where all versions have the same.
fn subject(report: &ReportPage) -> Option<String> {
    let mut chips = report.versions.iter().map(|judged| chip(&judged.version.promise));
    let mut shapes = report.columns.iter().map(|column| column.shape.as_ref());
    let (first_chip, shape) = (chips.next()?, shapes.next()??);
    let is_common = chips.all(|chip| chip == first_chip) && shapes.all(|other| other == Some(shape));
    is_common.then(|| format!("{first_chip} at {shape}"))
}

fn verdicts(versions: &[Judged]) -> String {
    let failed: Vec<_> = versions.iter().filter(|judged| !judged.passed).map(failure).collect();
    match (failed.len(), versions.len()) {
        (0, 1) => "It passes every required check.".to_owned(),
        (0, all) => format!("All {all} versions pass every required check."),
        (1, 1) => format!("It fails: {}.", failed[0]),
        (1, all) => format!("1 of {all} versions fails: {}.", failed[0]),
        (count, all) => format!("{count} of {all} versions fail: {}.", failed.join("; ")),
    }
}

/// A version that fails, and why.
fn failure(judged: &Judged) -> String {
    let mut checks: Vec<_> = judged.refuted.iter().chain(&judged.obscured).map(ToString::to_string).collect();
    if !judged.version.troubles.is_empty() {
        checks.insert(0, "files".to_owned());
    }
    if checks.is_empty() {
        checks.push("nothing is proven".to_owned());
    }
    format!("{} ({})", judged.version.name, checks.join(", "))
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

//! Renders `octile report` as one self-contained HTML page.

mod dumps;
mod memory;
mod plot;
mod source_lines;
mod steps;
mod summary;
mod timeline;
mod utilization;

use std::{collections::BTreeSet, path::Path};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use octile_dump::checks::{Finding, Verdict};

use super::{
    analyze::{helper_title, resources, roof, title, word},
    compare::{SHAPE, TableRow, rows},
    emit, say, shown,
};
use crate::command::{analyze::Helper, compare::Column, report::ReportPage, simulate, verify::Judged};
use dumps::Marks;

const STYLE: &str = include_str!("report/style.css");

/// Prints path and size of the page.
pub fn written(path: &Path, bytes: usize) {
    emit(&format!("{}: {}\n", shown(path), super::analyze::size(bytes as u64)));
}

/// Prints damaged files to standard error.
pub fn troubles(report: &ReportPage) {
    for Judged { version, .. } in &report.versions {
        for trouble in &version.troubles {
            say(&format!("WARNING {}: {trouble}", version.name));
        }
    }
}

/// Renders the page.
pub fn page(report: &ReportPage) -> String {
    let marks: Vec<_> = report.versions.iter().enumerate().map(|(i, judged)| Marks::new(i, judged)).collect();
    let roofline = plot::roofline(&report.versions);
    let provenance = &report.provenance;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Octile: what the compiler did" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "What the compiler did" }
                    (summary::lead(report))
                    p.note {
                        "Octile " (provenance.version) ", " (provenance.date)
                        ". Nothing here was measured on a chip."
                    }
                }
                nav {
                    a href="#versions" { "Versions" }
                    @if roofline.is_some() { a href="#roofline" { "Roofline" } }
                    @for (index, marks) in marks.iter().enumerate() {
                        a href={ "#" (marks.version_id()) } { (summary::short_name(&report.versions, index)) }
                    }
                }
                main {
                    section id="versions" {
                        h2 { "Versions side by side" }
                        (table(report))
                        (steps::list(&report.steps))
                    }
                    @if let Some(roofline) = roofline {
                        section id="roofline" { h2 { "Roofline" } (roofline) }
                    }
                    @for ((marks, judged), run) in marks.iter().zip(&report.versions).zip(&report.runs) {
                        (version(marks, judged, run.as_ref()))
                    }
                }
            }
        }
    };
    page.into_string()
}

fn table(report: &ReportPage) -> Markup {
    let ranked: &[(usize, f64)] = report.ranking.as_ref().map_or(&[], |ranking| &ranking.cycles);
    // The conclusion above names the shape that is ranked.
    let rows = rows(&report.columns).into_iter().filter(|row| ranked.is_empty() || row.label != SHAPE);
    let has_cycles = report.columns.iter().any(|column| column.row.cycles.is_some());
    html! {
        div.scroll { table {
            thead { tr {
                th {}
                @for (index, column) in report.columns.iter().enumerate() {
                    th { a href={ "#v" (index) } { (breakable(&column.row.name)) } }
                }
            } }
            tbody {
                tr {
                    th { "verdict" }
                    @for judged in &report.versions { td { (badge(judged.passed)) } }
                }
                @for row in rows {
                    @let best = best(&row, &report.columns, ranked);
                    tr {
                        th { (row.label) }
                        @for (index, column) in report.columns.iter().enumerate() {
                            td.best[best.contains(&index)] { ((row.cell)(column)) }
                        }
                    }
                }
            }
        } }
        p.note {
            @if has_cycles {
                "Cycles: the control flow of the LLO listing, executed at one bundle per cycle. Waits: modelled \
                 from the chip's HBM bandwidth. "
            }
            @if !ranked.is_empty() { "Bold: the best of the versions that pass. " }
            "A question mark: the dumps do not say."
        }
    }
}

/// The versions with the least cost in a row, unless all have the same.
fn best(row: &TableRow, columns: &[Column], ranked: &[(usize, f64)]) -> Vec<usize> {
    let Some(cost) = row.cost else { return Vec::new() };
    let costs: Vec<_> =
        ranked.iter().filter_map(|&(index, _)| Some((index, cost(&columns[index])?))).collect();
    let least = costs.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
    let is_best = |(index, cost): &(usize, f64)| (*cost == least).then_some(*index);
    let best: Vec<_> = costs.iter().filter_map(is_best).collect();
    if best.len() == costs.len() { Vec::new() } else { best }
}

/// A name that may break after each of its parts.
fn breakable(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(['_', '-', '/']) { (part) wbr; } }
}

fn badge(passed: bool) -> Markup {
    match passed {
        true => html! { span.badge.pass { "PASS" } },
        false => html! { span.badge.fail { "FAIL" } },
    }
}

fn version(marks: &Marks, judged: &Judged, run: Option<&simulate::SimulateReport>) -> Markup {
    let version = &judged.version;
    let heading = title(version);
    let (name, about) = heading.split_once('\n').unwrap_or((&heading, ""));
    let code = if version.promise.gpu { "PTX and SASS" } else { "Mosaic and LLO" };
    html! {
        section id=(marks.version_id()) {
            h2 { (name) " " (badge(judged.passed)) }
            p.note { (about) }
            @if let Some(roofline) = &version.roofline { p { (roof(roofline)) "." } }
            @for trouble in &version.troubles { p.trouble { (trouble) "." } }
            @if !version.findings.is_empty() {
                h3 { "Findings" }
                ul.findings {
                    @for found in &version.findings { (finding(marks, version.is_required(found), found)) }
                }
            }
            @for waiver in &version.promise.waived {
                p.note { (waiver.check) " is not required: " (waiver.because) "." }
            }
            @if let Some(run) = run { h3 { "Simulated timeline" } (timeline::plot(run)) }
            (part("Cycles by source line", version.source.as_ref().map(source_lines::table)))
            (part("Units in use, over the bundles of the code", utilization::plot(version)))
            (part("Memory, to scale", memory::map(version)))
            (part(code, dumps::panes(marks, version.promise.gpu, &version.texts)))
            @for helper in &version.helpers { (self::helper(marks, helper)) }
        }
    }
}

/// A part of a section, left out where there is nothing to show.
fn part(heading: &str, content: Option<Markup>) -> Markup {
    html! { @if let Some(content) = content { h3 { (heading) } (content) } }
}

/// A kernel that prepares operands, below the version that it belongs to.
fn helper(marks: &Marks, helper: &Helper) -> Markup {
    html! {
        h3 { (helper_title(helper)) }
        p.note { @for (name, what) in resources(&helper.facts) { (name) ": " (what) ". " } }
        ul.findings { @for found in &helper.findings { (finding(marks, true, found)) } }
        @if let Some(panes) = dumps::panes(marks, true, &helper.texts) { (panes) }
    }
}

fn finding(marks: &Marks, required: bool, finding: &Finding) -> Markup {
    let word = word(finding.verdict, required);
    let class = match word {
        "PASS" => "pass",
        "FAIL" => "fail",
        _ => "unknown",
    };
    let places: BTreeSet<_> =
        finding.evidence.iter().map(|evidence| (&evidence.file, evidence.place)).collect();
    html! {
        li {
            span.badge.(class).optional[!required] { (word) } " "
            strong { (finding.check) }
            @if !required { span.note { " not required" } }
            ": " (finding.says) "."
            @for (file, place) in places {
                " " a.place href={ "#" (marks.place_id(file, place)) } { (file) ":" (place) }
            }
            @if finding.verdict == Verdict::Fail && required {
                p.note { "Why it matters: " (finding.why) ". What to do: " (finding.remedy) "." }
            }
        }
    }
}

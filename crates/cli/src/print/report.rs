//! `octile report` as one HTML page that needs nothing from elsewhere.

mod dumps;
mod memory;
mod plot;
mod steps;
mod utilization;

use std::{collections::BTreeSet, path::Path};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use octile_dump::checks::{Finding, Verdict};

use super::{
    analyze::{helper_title, resources, roof, title},
    compare::rows,
    emit, say,
};
use crate::command::{analyze::Helper, report::Report, verify::Judged};
use dumps::Marks;

const STYLE: &str = include_str!("report/style.css");

/// Says where the page is.
pub fn written(path: &Path, bytes: usize) {
    emit(&format!("{}: {}\n", path.display(), super::analyze::size(bytes as u64)));
}

/// Says on standard error which files cannot be relied on.
pub fn troubles(report: &Report) {
    for Judged { version, .. } in &report.versions {
        for trouble in &version.troubles {
            say(&format!("WARNING {}: {trouble}", version.name));
        }
    }
}

/// The page.
pub fn page(report: &Report) -> String {
    let marks: Vec<_> = report.versions.iter().enumerate().map(|(i, judged)| Marks::new(i, judged)).collect();
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
                    p.note { "Octile " (provenance.version) ", " (provenance.date) }
                }
                main {
                    section { h2 { "Versions side by side" } (table(report)) (steps::list(&report.steps)) }
                    section { h2 { "Roofline" } (plot::roofline(&report.versions)) }
                    @for (marks, judged) in marks.iter().zip(&report.versions) {
                        (version(marks, judged))
                    }
                }
            }
        }
    };
    page.into_string()
}

fn table(report: &Report) -> Markup {
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
                @for (label, cell) in rows(&report.columns) {
                    tr { th { (label) } @for column in &report.columns { td { (cell(column)) } } }
                }
            }
        } }
        p.note {
            @if report.columns.iter().any(|column| column.row.cycles.is_some()) {
                "Cycles are counted by executing the control flow of the kernel's listing, one bundle per cycle. Waits are \
                 modelled from the chip's bandwidth. "
            }
            "Nothing here was measured on a chip. A question mark: the dumps do not tell."
        }
    }
}

/// A name that may go on in the next line behind its parts.
fn breakable(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(['_', '-', '/']) { (part) wbr; } }
}

fn badge(passed: bool) -> Markup {
    match passed {
        true => html! { span.badge.pass { "PASS" } },
        false => html! { span.badge.fail { "FAIL" } },
    }
}

fn version(marks: &Marks, judged: &Judged) -> Markup {
    let version = &judged.version;
    let heading = title(version);
    let (name, about) = heading.split_once('\n').unwrap_or((&heading, ""));
    html! {
        section id=(marks.version_id()) {
            h2 { (name) " " (badge(judged.passed)) }
            p.note { (about) }
            @if let Some(roofline) = &version.roofline { p { (roof(roofline)) "." } }
            @for trouble in &version.troubles { p.trouble { (trouble) "." } }
            h3 { "Findings" }
            ul.findings {
                @for found in &version.findings { (finding(marks, version.is_required(found), found)) }
            }
            @for waiver in &version.promise.waived {
                p.note { (waiver.check) " is not required: " (waiver.because) "." }
            }
            @if !version.promise.gpu {
                h3 { "Units in use, over the bundles of the code" }
                (utilization::plot(version))
            }
            h3 { "Memory, to scale" }
            (memory::map(version))
            h3 { @if version.promise.gpu { "PTX and SASS" } @else { "Mosaic and LLO" } }
            (dumps::panes(marks, version.promise.gpu, &version.texts))
            @for helper in &version.helpers { (self::helper(marks, helper)) }
        }
    }
}

/// A kernel that prepares operands, below the version that it belongs to.
fn helper(marks: &Marks, helper: &Helper) -> Markup {
    html! {
        h3 { (helper_title(helper)) }
        p.note { @for (name, what) in resources(&helper.facts) { (name) ": " (what) ". " } }
        ul.findings { @for found in &helper.findings { (finding(marks, true, found)) } }
        (dumps::panes(marks, true, &helper.texts))
    }
}

fn finding(marks: &Marks, required: bool, finding: &Finding) -> Markup {
    let class = match finding.verdict {
        Verdict::Pass => "pass",
        Verdict::Fail | Verdict::Obscured => "fail",
        Verdict::NotObservable => "unknown",
    };
    let places: BTreeSet<_> =
        finding.evidence.iter().map(|evidence| (&evidence.file, evidence.place)).collect();
    html! {
        li {
            span.badge.(class).optional[!required] { (super::analyze::word(finding.verdict)) } " "
            strong { (finding.check) }
            @if !required { span.note { " not required" } }
            ": " (finding.says) "."
            @for (file, place) in places {
                " " a.place href={ "#" (marks.place_id(file, place)) } { (file) ":" (place) }
            }
            @if finding.verdict == Verdict::Fail {
                p.note { "Why it matters: " (finding.why) ". What to do: " (finding.remedy) "." }
            }
        }
    }
}

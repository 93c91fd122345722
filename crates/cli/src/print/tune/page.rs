//! `octile tune --explain --html`: measured against modelled cost of every candidate.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use octile_harness::tune::{CandidateReport, TunedShape};

use super::{by_cost, is_rejected, legend, limit, measured_name, model_name, modelled, shown, verdict};
use crate::command::tune::TuneReport;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 340.0;
const MARGIN: f64 = 56.0;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right}td:first-child,th:first-child,\
    td:last-child,th:last-child{text-align:left}tr.chosen{font-weight:bold}svg{max-width:100%;height:auto}\
    :root{color-scheme:light dark}line,path{stroke:currentColor}text{fill:currentColor;font-size:12px}";

/// The page.
pub fn page(report: &TuneReport) -> String {
    let title = format!("Candidate plans on {}", report.device);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                @for shape in &report.shapes {
                    h2 { (shape.problem.to_string()) ", x " (shape.problem.x) ", out " (shape.problem.out) }
                    (plot(report, shape))
                    (table(report, shape))
                }
            }
        }
    }
    .into_string()
}

fn table(report: &TuneReport, shape: &TunedShape) -> Markup {
    let (candidates, best) = by_cost(shape);
    let unit = report.unit;
    html! {
        table {
            tr {
                th { "candidate" } th { (measured_name(report)) " " (unit) } th { (model_name(report)) " " (unit) }
                th { "% of best" } th { "limited by" }
            }
            @for (index, candidate) in candidates {
                tr class=[(shape.entry.choice == Some(candidate.choice)).then_some("chosen")] {
                    td { (candidate.name) @if index == 0 { " (default)" } }
                    @if is_rejected(candidate) {
                        td { "rejected" }
                    } @else {
                        td { (shown(candidate.median, unit)) }
                    }
                    td { @if let Some(cost) = modelled(candidate) { (shown(cost, unit)) } @else { "-" } }
                    td { @if !is_rejected(candidate) { (format!("{:.1}", 100.0 * best / candidate.median)) } }
                    td { (limit(candidate)) }
                }
            }
        }
        p { (verdict(report, shape)) }
        @for line in legend(report).lines() { p.legend { (line) } }
    }
}

/// Measured over modelled cost on two logarithmic axes, with the line where both agree.
fn plot(report: &TuneReport, shape: &TunedShape) -> Markup {
    let points: Vec<(f64, f64, bool, &CandidateReport)> = by_cost(shape)
        .0
        .into_iter()
        .filter(|(_, candidate)| !is_rejected(candidate))
        .filter_map(|(index, c)| Some((modelled(c)?.max(1e-9), c.median, index == 0, c)))
        .collect();
    let (measured_name, model_name) = (measured_name(report), model_name(report));
    let all = || points.iter().flat_map(|(model, measured, ..)| [*model, *measured]);
    let (low, high) = (all().fold(f64::INFINITY, f64::min) / 1.2, all().fold(0.0, f64::max) * 1.2);
    if points.is_empty() {
        return html! {};
    }
    let part = |cost: f64| (cost / low).ln() / (high / low).ln();
    let x = |cost: f64| MARGIN + part(cost) * (WIDTH - 2.0 * MARGIN);
    let y = |cost: f64| HEIGHT - MARGIN - part(cost) * (HEIGHT - 2.0 * MARGIN);
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) role="img" {
            title { (measured_name) " over " (model_name) }
            line x1=(x(low)) y1=(y(low)) x2=(x(high)) y2=(y(high)) stroke-dasharray="4 4" {}
            line x1=(MARGIN) y1=(HEIGHT - MARGIN) x2=(WIDTH - MARGIN) y2=(HEIGHT - MARGIN) {}
            line x1=(MARGIN) y1=(MARGIN) x2=(MARGIN) y2=(HEIGHT - MARGIN) {}
            @for (model, measured, is_default, candidate) in &points {
                @let chosen = shape.entry.choice == Some(candidate.choice);
                circle cx=(x(*model)) cy=(y(*measured)) r=(if chosen || *is_default { 6 } else { 4 })
                    fill=(if chosen { "#3fa66b" } else if *is_default { "#3b7dd8" } else { "#999" }) {
                    title { (candidate.name) ": " (shown(*measured, report.unit)) " " (report.unit) }
                }
            }
            text x=(WIDTH / 2.0) y=(HEIGHT - 14.0) text-anchor="middle" { (model_name) " " (report.unit) }
            text x=(MARGIN) y=(MARGIN - 12.0) { (measured_name) " " (report.unit) }
            text x=(MARGIN) y=(HEIGHT - MARGIN + 16.0) { (shown(low, report.unit)) }
            text x=(WIDTH - MARGIN) y=(HEIGHT - MARGIN + 16.0) text-anchor="end" { (shown(high, report.unit)) }
        }
        p {
            "One dot per candidate, on logarithmic axes. Blue: default. Green: beat the default. Dashed: "
            (measured_name) " as the " (model_name) " says."
        }
    }
}

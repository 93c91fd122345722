//! `octile tune --explain --html`: measured against modelled cost of every candidate.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use octile_harness::tune::{CandidateReport, TunedShape};

use super::{by_cost, has_failed, legend, limit, lost, measured_name, model_name, modelled, shown, verdict};
use crate::command::tune::TuneReport;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 340.0;
const MARGIN: f64 = 64.0;
/// Length of a tick.
const TICK: f64 = 5.0;

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
                    @if has_failed(candidate) {
                        td { "failed" }
                    } @else {
                        td { (shown(candidate.median, unit)) }
                    }
                    td { @if let Some(cost) = modelled(candidate) { (shown(cost, unit)) } @else { "-" } }
                    td { @if !has_failed(candidate) { (format!("{:.1}", 100.0 * best / candidate.median)) } }
                    td { (limit(candidate)) }
                }
            }
        }
        @for line in lost(shape).lines() { p { (line.trim()) } }
        p { (verdict(report, shape)) }
        @for line in legend(report).lines() { p.legend { (line) } }
    }
}

/// Measured over modelled cost on two logarithmic axes, with the line where both agree.
fn plot(report: &TuneReport, shape: &TunedShape) -> Markup {
    let points: Vec<(f64, f64, bool, &CandidateReport)> = by_cost(shape)
        .0
        .into_iter()
        .filter(|(_, candidate)| !has_failed(candidate))
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
    let (left, bottom) = (x(low), y(low));
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) role="img" {
            title { (measured_name) " over " (model_name) }
            line x1=(left) y1=(bottom) x2=(x(high)) y2=(y(high)) stroke-dasharray="4 4" {}
            line x1=(left) y1=(bottom) x2=(x(high)) y2=(bottom) {}
            line x1=(left) y1=(bottom) x2=(left) y2=(y(high)) {}
            @for (cost, label) in ticks(low, high) {
                line x1=(x(cost)) y1=(bottom) x2=(x(cost)) y2=(bottom + TICK) {}
                text x=(x(cost)) y=(bottom + TICK + 13.0) text-anchor="middle" { (label) }
                line x1=(left - TICK) y1=(y(cost)) x2=(left) y2=(y(cost)) {}
                text x=(left - TICK - 3.0) y=(y(cost) + 4.0) text-anchor="end" { (label) }
            }
            @for (model, measured, is_default, candidate) in &points {
                @let chosen = shape.entry.choice == Some(candidate.choice);
                circle cx=(x(*model)) cy=(y(*measured)) r=(if chosen || *is_default { 6 } else { 4 })
                    fill=(if chosen { "#3fa66b" } else if *is_default { "#3b7dd8" } else { "#999" }) {
                    title { (candidate.name) ": " (shown(*measured, report.unit)) " " (report.unit) }
                }
            }
            text x=(WIDTH / 2.0) y=(HEIGHT - 10.0) text-anchor="middle" { (model_name) " (" (report.unit) ")" }
            text transform={ "translate(14 " (HEIGHT / 2.0) ") rotate(-90)" } text-anchor="middle" {
                (measured_name) " (" (report.unit) ")"
            }
        }
        p {
            "One dot per candidate, on logarithmic axes. Blue: default. Green: beat the default. Dashed: "
            (measured_name) " as the " (model_name) " says."
        }
    }
}

/// Most ticks of an axis.
const MOST_TICKS: usize = 7;

/// Round numbers between two costs, with their labels: as many of 1, 2 and 5 times powers of ten as have
/// room; parts of a decade where two costs are close together.
fn ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let round = |digits: &[f64]| -> Vec<(f64, String)> {
        let decade = |exponent: i32| digits.iter().map(move |digit| (exponent, digit * 10f64.powi(exponent)));
        let inside = (first..=last).flat_map(decade).filter(|(_, cost)| (low..=high).contains(cost));
        let label = |exponent: i32, cost: f64| match exponent {
            1.. => format!("{cost:.0}"),
            _ => format!("{cost:.*}", (1 - exponent) as usize)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
        };
        inside.map(|(exponent, cost)| (cost, label(exponent, cost))).collect()
    };
    let parts = |of: i32| (of..10 * of).map(|part| f64::from(part) / f64::from(of)).collect::<Vec<_>>();
    let [tenths, fifths, halves, ones] = [10, 5, 2, 1].map(parts);
    let choices = [&tenths[..], &fifths, &halves, &ones, &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let most = choices.into_iter().map(round).find(|ticks| ticks.len() <= MOST_TICKS);
    most.unwrap_or_else(|| round(&[1.0]).into_iter().step_by(3).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> Vec<String> {
        ticks(low, high).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(labels(0.08, 1.3), ["0.1", "0.2", "0.5", "1"]);
        assert_eq!(labels(2350.0, 3500.0), ["2400", "2600", "2800", "3000", "3200", "3400"]);
        for low in [1e-6, 3.3e-3, 0.9, 47.0, 123_456.0] {
            for factor in [1.44, 1.6, 2.0, 7.0, 50.0, 1e4, 1e9] {
                let labels = labels(low, low * factor);
                assert!((2..=MOST_TICKS).contains(&labels.len()), "{low} {factor}: {labels:?}");
                let distinct: std::collections::HashSet<_> = labels.iter().collect();
                assert_eq!(distinct.len(), labels.len(), "{labels:?}");
            }
        }
    }
}

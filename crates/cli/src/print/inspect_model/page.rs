//! `octile inspect-model --html`: one self-contained page with plots.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use octile_checkpoint::{Defect, JudgedLayer, ScaleOrder};
use octile_core::E4m3;

use super::{bytes, decibels, format, shape, summary};
use crate::command::inspect_model::ModelReport;

const STYLE: &str = include_str!("../report/style.css");

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 34.0;

/// Most weights in a plot; more would be a page that browsers show slowly.
const MOST_POINTS: usize = 3000;
/// Most rows of the table.
const MOST_ROWS: usize = 2000;

/// Renders the page.
pub fn page(report: &ModelReport) -> String {
    let judgement = &report.judgement;
    let read: Vec<_> = judgement.layers.iter().filter(|layer| layer.codes.is_some()).collect();
    let worst = report.worst_first();
    let unread: Vec<_> = judgement.layers.iter().filter(|layer| layer.codes.is_none()).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Octile: " (report.model) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (report.model) }
                    @for line in summary(report) { p { (line) } }
                    p.note { "Octile " (report.provenance.version) ", " (report.provenance.date) "." }
                }
                main {
                    section {
                        h2 { "Defects" }
                        (defects(&judgement.defects))
                    }
                    @if !read.is_empty() {
                        section { h2 { "Signal to quantization noise" } (ratios(&read)) }
                        section { h2 { "Scales" } (scales(&read)) }
                        section { h2 { "Codes" } (codes(&judgement.summary.codes_by_magnitude)) }
                        section { h2 { "fp8 weights, worst first" } (table(&worst)) }
                    }
                    @if !unread.is_empty() {
                        section { h2 { "Other weights" } (others(&unread)) }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn defects(defects: &[Defect]) -> Markup {
    html! {
        @if defects.is_empty() { p { span.badge.pass { "PASS" } " No defects found." } }
        ul.findings {
            @for defect in defects.iter().take(MOST_ROWS) {
                li {
                    span.badge.fail { "FAIL" } " "
                    @if let Some(tensor) = &defect.tensor { strong { (tensor) } ": " }
                    (defect.evidence) "."
                    p.note { "What to do: " (defect.advice) "." }
                }
            }
        }
        @if defects.len() > MOST_ROWS { p { "And " (defects.len() - MOST_ROWS) " more; --json lists all." } }
    }
}

/// Evenly spaced entries of a long list.
fn sampled<T>(values: &[T]) -> impl Iterator<Item = (usize, &T)> {
    let step = values.len().div_ceil(MOST_POINTS).max(1);
    values.iter().enumerate().step_by(step)
}

fn sampling_note(count: usize) -> Markup {
    html! {
        @if count > MOST_POINTS { p.note { "Every " (count.div_ceil(MOST_POINTS)) "th weight is drawn." } }
    }
}

/// A vertical axis.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn y(&self, value: f64) -> f64 {
        let part = (value - self.low) / (self.high - self.low);
        TOP + (1.0 - part.clamp(0.0, 1.0)) * (HEIGHT - TOP - BOTTOM)
    }
}

fn x(at: usize, count: usize) -> f64 {
    LEFT + (at as f64 + 0.5) / count as f64 * (WIDTH - LEFT - RIGHT)
}

fn fixed(value: f64) -> String {
    format!("{value:.1}")
}

/// A drawing with a title, labelled grid lines and a caption.
fn plot(title: &str, axis: &Axis, ticks: &[(f64, String)], caption: &str, content: &Markup) -> Markup {
    let bottom = HEIGHT - BOTTOM;
    html! {
        div.plot {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(title) style="max-width:60rem" {
                @for (value, label) in ticks {
                    @let y = axis.y(*value);
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(fixed(y)) y2=(fixed(y)) {}
                    text x=(LEFT - 6.0) y=(fixed(y + 4.0)) text-anchor="end" { (label) }
                }
                line.axis x1=(LEFT) x2=(LEFT) y1=(TOP) y2=(bottom) {}
                line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(bottom) y2=(bottom) {}
                text x="0" y="12" { (title) }
                text x=((WIDTH + LEFT) / 2.0) y=(HEIGHT - 10.0) text-anchor="middle" { (caption) }
                (content)
            }
        }
    }
}

/// The ratio of every weight, in the order of the model.
fn ratios(layers: &[&JudgedLayer]) -> Markup {
    let ratio = |layer: &JudgedLayer| layer.snr.and_then(|snr| snr.db).filter(|db| db.is_finite());
    let known: Vec<f64> = layers.iter().filter_map(|layer| ratio(layer)).collect();
    let low = known.iter().copied().fold(f64::INFINITY, f64::min);
    let high = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if known.is_empty() {
        return html! { p { "No weight has a finite ratio." } };
    }
    let axis = Axis { low: (low - 1.0).floor(), high: (high + 1.0).ceil() };
    let step = ((axis.high - axis.low) / 5.0).ceil().max(1.0);
    let count = ((axis.high - axis.low) / step) as usize;
    let ticks: Vec<_> =
        (0..=count).map(|at| axis.low + at as f64 * step).map(|v| (v, format!("{v:.0}"))).collect();
    let dots = html! {
        @for (at, layer) in sampled(layers) {
            @if let Some(db) = ratio(layer) {
                circle cx=(fixed(x(at, layers.len()))) cy=(fixed(axis.y(db))) r="2.5" fill="#3b7dd8" {
                    title { (layer.name) ": " (fixed(db)) " dB" }
                }
            }
        }
    };
    html! { (plot("dB", &axis, &ticks, "weights in the order of the files", &dots)) (sampling_note(layers.len())) }
}

/// Smallest, median and largest scale of every weight.
fn scales(layers: &[&JudgedLayer]) -> Markup {
    let log = |value: f32| f64::from(value).log10();
    let of = |layer: &JudgedLayer| {
        let found = layer.scales.as_ref()?;
        let values = [found.min, found.median, found.max];
        values.iter().all(|value| *value > 0.0 && value.is_finite()).then(|| values.map(log))
    };
    let known: Vec<_> = layers.iter().filter_map(|layer| of(layer)).collect();
    if known.is_empty() {
        return html! { p { "No weight has positive scales." } };
    }
    let low = known.iter().map(|[min, ..]| *min).fold(f64::INFINITY, f64::min).floor();
    let high = known.iter().map(|[.., max]| *max).fold(f64::NEG_INFINITY, f64::max).ceil();
    let axis = Axis { low, high: high.max(low + 1.0) };
    let every = (((axis.high - axis.low) / 8.0).ceil() as usize).max(1);
    let decades = (axis.low as i64..=axis.high as i64).step_by(every);
    let ticks: Vec<_> = decades.map(|power| (power as f64, format!("1e{power}"))).collect();
    let bars = html! {
        @for (at, layer) in sampled(layers) {
            @if let Some([min, median, max]) = of(layer) {
                @let x = fixed(x(at, layers.len()));
                line x1=(x) x2=(x) y1=(fixed(axis.y(min))) y2=(fixed(axis.y(max))) stroke="#e08a2c" stroke-width="2" {}
                circle cx=(x) cy=(fixed(axis.y(median))) r="2.5" fill="#3b7dd8" {
                    title { (layer.name) }
                }
            }
        }
    };
    html! {
        (plot("scale", &axis, &ticks, "weights in the order of the files: range and median", &bars))
        (sampling_note(layers.len()))
    }
}

/// How many codes have each magnitude.
fn codes(counts: &[u64]) -> Markup {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    let parts: Vec<f64> = counts.iter().map(|count| 100.0 * *count as f64 / total).collect();
    let high = parts.iter().copied().fold(0.0, f64::max).max(1e-9);
    let axis = Axis { low: 0.0, high };
    let ticks: Vec<_> =
        (0..=4).map(|at| high * f64::from(at) / 4.0).map(|part| (part, format!("{part:.2} %"))).collect();
    let width = (WIDTH - LEFT - RIGHT) / counts.len().max(1) as f64;
    let value = |code: usize| E4m3::from_bits(code as u8).to_f32();
    let bars = html! {
        @for (code, part) in parts.iter().enumerate() {
            @let y = axis.y(*part);
            rect x=(fixed(LEFT + code as f64 * width)) y=(fixed(y)) width=(fixed(width - 0.5))
                height=(fixed(HEIGHT - BOTTOM - y)) fill="#3fa66b" {
                title { (value(code)) ": " (format!("{part:.4} %")) }
            }
        }
        @for code in [0usize, 8, 24, 40, 56, 72, 88, 104, 120] {
            text x=(fixed(LEFT + (code as f64 + 0.5) * width)) y=(fixed(HEIGHT - BOTTOM + 14.0)) text-anchor="middle" {
                (value(code))
            }
        }
    };
    plot("share of the codes", &axis, &ticks, "", &bars)
}

fn table(layers: &[&JudgedLayer]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "weight" }
                @for title in ["shape", "scales", "SNR dB", "min", "median", "max", "max/min", "% of 448", "% zero",
                    "NaN", "zero blocks", "median max code", "rms", "scale order", "size"] {
                    th { (title) }
                }
            } }
            tbody { @for layer in layers.iter().take(MOST_ROWS) { (row(layer)) } }
        } }
        @if layers.len() > MOST_ROWS { p.note { "The worst " (MOST_ROWS) " of " (layers.len()) "; --json lists all." } }
    }
}

fn row(layer: &JudgedLayer) -> Markup {
    let (Some(scales), Some(codes)) = (&layer.scales, &layer.codes) else { return html! {} };
    let percent = |count: u64| format!("{:.4}", 100.0 * count as f64 / codes.total.max(1) as f64);
    let order = match scales.order {
        ScaleOrder::Confirmed => "confirmed",
        ScaleOrder::Transposed => "transposed",
        ScaleOrder::NotObservable => "not observable",
        ScaleOrder::NotApplicable => "",
    };
    html! {
        tr {
            th { (layer.name) }
            td { (shape(layer)) }
            td { (format(scales)) }
            td { (decibels(layer.snr.as_ref())) }
            @for scale in [scales.min, scales.median, scales.max] { td { (format!("{scale:.3e}")) } }
            td { (format!("{:.1}", scales.max / scales.min)) }
            td { (percent(codes.saturated)) }
            td { (percent(codes.zero)) }
            td { (codes.nan) }
            td { (codes.zero_blocks) " / " (codes.blocks) }
            td { (codes.median_max) }
            td { (format!("{:.3e}", codes.rms)) }
            td { (order) }
            td { (bytes(layer.bytes)) }
        }
    }
}

fn others(layers: &[&JudgedLayer]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "weight" } th { "shape" } th { "dtype" } th { "size" } th { "" } } }
            tbody {
                @for layer in layers.iter().take(MOST_ROWS) {
                    tr {
                        th { (layer.name) }
                        td { (shape(layer)) }
                        td { (layer.dtype) }
                        td { (bytes(layer.bytes)) }
                        td { (layer.not_judged.unwrap_or("not quantized")) }
                    }
                }
            }
        } }
        @if layers.len() > MOST_ROWS { p.note { "The first " (MOST_ROWS) " of " (layers.len()) "." } }
    }
}

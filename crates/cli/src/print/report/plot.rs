//! The roofline, on two logarithmic axes.

use maud::{Markup, html};
use octile_dump::roofline::Roofline;

use super::summary::short_name;
use crate::command::verify::Judged;

/// Colours that can be told apart on light and on dark.
pub(super) const COLOURS: [&str; 8] =
    ["#3b7dd8", "#e08a2c", "#3fa66b", "#c2508f", "#8a6fd1", "#b0a033", "#35a3a8", "#d0584f"];

// About as wide as a phone, so that letters keep their size there.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;
/// Points closer than this share a label.
const NEAR: f64 = 16.0;
/// Height of a line of a label.
const LINE: f64 = 14.0;
/// About the width of a bold letter.
const LETTER: f64 = 7.4;
/// Letters of a version's name in a label.
const NAME: usize = 18;

/// One version on the plot.
struct Point {
    label: String,
    colour: &'static str,
    /// Cycles of the matrix units per byte of device memory.
    intensity: f64,
    /// Part of the matrix units' peak.
    reached: f64,
    roofline: Roofline,
}

/// The plane of the drawing.
struct Axes {
    /// Bytes of device memory per cycle.
    rate: f64,
    low: f64,
    high: f64,
    floor: f64,
}

impl Axes {
    fn new(points: &[Point]) -> Option<Self> {
        let first = points.first()?.roofline;
        let rate = first.hbm_bytes as f64 / first.hbm_cycles;
        let intensities = || points.iter().map(|point| point.intensity);
        let low = intensities().fold(1.0 / rate, f64::min) / 3.0;
        let high = intensities().fold(1.0 / rate, f64::max) * 3.0;
        let floor = points.iter().map(|point| point.reached).chain([low * rate]).fold(0.1, f64::min) / 2.0;
        Some(Self { rate, low, high, floor })
    }

    fn x(&self, intensity: f64) -> f64 {
        LEFT + (intensity / self.low).ln() / (self.high / self.low).ln() * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, reached: f64) -> f64 {
        let height = (reached / self.floor).ln() / (1.0 / self.floor).ln();
        TOP + (1.0 - height) * (HEIGHT - TOP - BOTTOM)
    }

    fn at(&self, point: &Point) -> (f64, f64) {
        (self.x(point.intensity), self.y(point.reached))
    }
}

/// Where each version is below the limits of its chip; `None` where no version has counted cycles and a known
/// chip.
pub(super) fn roofline(versions: &[Judged]) -> Option<Markup> {
    let points: Vec<_> = (0..versions.len()).filter_map(|index| point(versions, index)).collect();
    let axes = Axes::new(&points)?;
    let ridge = 1.0 / axes.rate;
    let corners = [(axes.low, axes.low * axes.rate), (ridge, 1.0), (axes.high, 1.0)];
    let corners = corners.map(|(x, y)| format!("{:.1} {:.1}", axes.x(x), axes.y(y)));
    let bottom = HEIGHT - BOTTOM;
    // Along the slope, which starts at the left edge.
    let slope = (axes.y(1.0) - axes.y(axes.low * axes.rate)).atan2(axes.x(ridge) - LEFT).to_degrees();
    let middle = (LEFT + axes.x(ridge)) / 2.0;
    let halfway = (axes.y(1.0) + axes.y(axes.low * axes.rate)) / 2.0 - 6.0;
    let along_slope = format!("translate({middle:.1} {halfway:.1}) rotate({slope:.1})");
    Some(html! {
        div.plot {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Roofline plot" {
            @for tick in ticks(axes.floor, 1.0) {
                @let (y, below) = (fixed(axes.y(tick)), fixed(axes.y(tick) + 4.0));
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                text x=(LEFT - 6.0) y=(below) text-anchor="end" { (decimal(1e2 * tick)) " %" }
            }
            @for tick in ticks(1024.0 * axes.low, 1024.0 * axes.high) {
                @let x = fixed(axes.x(tick / 1024.0));
                line.grid x1=(x) x2=(x) y1=(TOP) y2=(bottom + 4.0) {}
                text x=(x) y=(bottom + 18.0) text-anchor="middle" { (decimal(tick)) }
            }
            line.axis x1=(LEFT) x2=(LEFT) y1=(TOP) y2=(bottom) {}
            line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(bottom) y2=(bottom) {}
            path.roof d={ "M" (corners.join(" L")) } {}
            text.limit x=(WIDTH - RIGHT) y=(TOP - 8.0) text-anchor="end" { "limit of the MXU" }
            text.limit text-anchor="middle" transform=(along_slope) { "limit of HBM" }
            text x="0" y="12" { "MXU busy" }
            text x=((WIDTH + LEFT) / 2.0) y=(HEIGHT - 10.0) text-anchor="middle" {
                "MXU cycles per KiB of HBM traffic"
            }
            // Smaller and smaller, so that points in one place are rings.
            @for (point, radius) in points.iter().zip(radii(points.len())) {
                @let (x, y) = axes.at(point);
                circle cx=(fixed(x)) cy=(fixed(y)) r=(fixed(radius)) fill=(point.colour) {
                    title { (point.label) }
                }
            }
            @for cluster in clusters(&points, &axes) { (label(&cluster, &axes)) }
        }
        }
        p.note {
            "Each version with the share of time in which the MXU multiplies, modelled waits included, and its \
             cycles as a multiple of the limit."
        }
    })
}

fn point(versions: &[Judged], index: usize) -> Option<Point> {
    let version = &versions[index].version;
    let (roofline, cycles) = (version.roofline?, version.facts.cycles.as_ref()?);
    let name = short_name(versions, index);
    let mut label: String = name.chars().take(NAME).collect();
    if label.len() < name.len() {
        label.push('\u{2026}');
    }
    let reached = cycles.mxu_share();
    label += &format!(": {:.1} %, {:.1}x", 1e2 * reached, roofline.distance);
    let known = roofline.hbm_bytes > 0 && roofline.mxu_cycles > 0.0;
    let intensity = roofline.mxu_cycles / roofline.hbm_bytes as f64;
    let colour = COLOURS[index % COLOURS.len()];
    known.then_some(Point { label, colour, intensity, reached, roofline })
}

/// Points that are too close for labels of their own.
fn clusters<'p>(points: &'p [Point], axes: &Axes) -> Vec<Vec<&'p Point>> {
    let mut clusters: Vec<Vec<&Point>> = Vec::new();
    for point in points {
        let (x, y) = axes.at(point);
        let is_near = |other: &&Point| {
            let (other_x, other_y) = axes.at(other);
            (x - other_x).abs() < 6.0 * NEAR && (y - other_y).abs() < NEAR
        };
        match clusters.iter_mut().find(|cluster| cluster.iter().any(is_near)) {
            Some(cluster) => cluster.push(point),
            None => clusters.push(vec![point]),
        }
    }
    clusters
}

/// One line per point, on the side of the points that has room.
fn label(cluster: &[&Point], axes: &Axes) -> Markup {
    let places = || cluster.iter().map(|point| axes.at(point));
    let (left, right) = places().fold((WIDTH, 0f64), |(left, right), (x, _)| (left.min(x), right.max(x)));
    let y = places().map(|(_, y)| y).sum::<f64>() / cluster.len() as f64;
    let letters = cluster.iter().map(|point| point.label.chars().count()).max().unwrap_or_default();
    let fits = right + 14.0 + LETTER * letters as f64 <= WIDTH;
    let (x, anchor) = if fits { (right + 14.0, "start") } else { (left - 14.0, "end") };
    let top = y + 4.0 - LINE * (cluster.len() - 1) as f64 / 2.0;
    let lowest = HEIGHT - BOTTOM - 4.0 - LINE * (cluster.len() - 1) as f64;
    let top = top.min(lowest);
    html! {
        @for (line, point) in cluster.iter().enumerate() {
            text.name x=(fixed(x)) y=(fixed(top + LINE * line as f64)) text-anchor=(anchor) {
                (point.label)
            }
        }
    }
}

fn radii(points: usize) -> impl Iterator<Item = f64> {
    let step = 6.0 / points.max(1) as f64;
    (0..points).map(move |index| 9.0 - index as f64 * step)
}

/// Round values between two others: 1, 2 and 5 of every decade, or 1 where that would be many.
fn ticks(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let parts: &[f64] = if (high / low).log10() > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let values = (-6..=9).flat_map(move |power| parts.iter().map(move |part| part * 10f64.powi(power)));
    values.filter(move |tick| (low..=1.0001 * high).contains(tick))
}

/// Without the digits that binary fractions add.
fn decimal(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}

fn fixed(value: f64) -> String {
    format!("{value:.1}")
}

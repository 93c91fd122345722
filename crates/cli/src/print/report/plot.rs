//! The roofline, on two logarithmic axes.

use maud::{Markup, html};
use octile_dump::roofline::Roofline;

use crate::command::verify::Judged;

/// Colours that can be told apart on light and on dark.
pub const COLOURS: [&str; 8] =
    ["#3b7dd8", "#e08a2c", "#3fa66b", "#c2508f", "#8a6fd1", "#b0a033", "#35a3a8", "#d0584f"];

// About as wide as a phone, so that letters keep their size there.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;

/// One version on the plot.
struct Point<'a> {
    name: &'a str,
    colour: &'static str,
    /// Cycles of the matrix units per byte of device memory.
    intensity: f64,
    /// Part of the matrix units' peak.
    reached: f64,
    roofline: Roofline,
}

/// Where each version is below the limits of its chip.
pub fn roofline(versions: &[Judged]) -> Markup {
    let points: Vec<_> = versions.iter().zip(COLOURS.iter().cycle()).filter_map(point).collect();
    let Some(rate) = points.first().map(|p| p.roofline.hbm_bytes as f64 / p.roofline.hbm_cycles) else {
        let why = "There is nothing to draw: it takes the listing of a TPU kernel, in which cycles can be counted, and a known chip.";
        return html! { p.note { (why) } };
    };
    let ridge = 1.0 / rate;
    let low = points.iter().map(|point| point.intensity).fold(ridge, f64::min) / 4.0;
    let high = points.iter().map(|point| point.intensity).fold(ridge, f64::max) * 4.0;
    let floor = points.iter().map(|p| p.reached).chain([low * rate]).fold(0.1, f64::min) / 2.0;
    let x = |value: f64| LEFT + (value / low).ln() / (high / low).ln() * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (1.0 - (value / floor).ln() / (1.5 / floor).ln()) * (HEIGHT - TOP - BOTTOM);
    let ticks = [1e-4, 1e-3, 1e-2, 0.1, 1.0].into_iter().filter(|tick| *tick > floor);
    let path = format!(
        "M{:.1} {:.1} L{:.1} {:.1} L{:.1} {:.1}",
        x(low),
        y(low * rate),
        x(ridge),
        y(1.0),
        x(high),
        y(1.0)
    );
    html! {
        div.plot {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Roofline plot" {
            @for tick in ticks {
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y(tick)) y2=(y(tick)) {}
                text x=(LEFT - 6.0) y=(y(tick) + 4.0) text-anchor="end" { (1e2 * tick) " %" }
            }
            line.axis x1=(LEFT) x2=(LEFT) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
            line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(HEIGHT - BOTTOM) y2=(HEIGHT - BOTTOM) {}
            path.roof d=(path) {}
            @for tick in powers(1024.0 * low, 1024.0 * high) {
                text x=(x(tick / 1024.0)) y=(HEIGHT - BOTTOM + 18.0) text-anchor="middle" { (tick) }
            }
            text x=((WIDTH + LEFT) / 2.0) y=(HEIGHT - 10.0) text-anchor="middle" {
                "matrix-unit cycles per KiB of device memory traffic"
            }
            // Smaller and smaller, so that points in one place are rings.
            @for (point, radius) in points.iter().zip(radii(points.len())) {
                circle cx=(x(point.intensity)) cy=(y(point.reached)) r=(format!("{radius:.1}")) fill=(point.colour) {
                    title { (point.name) }
                }
            }
        }
        ul.legend {
            @for point in &points {
                li {
                    span.swatch style={ "background:" (point.colour) } {}
                    (point.name) ": " (format!("{:.1}", 1e2 * point.reached)) " % of the matrix units, "
                    (format!("{:.2}", point.roofline.distance)) " times the limit"
                }
            }
        }
        }
        p.note {
            "The line is what the chip allows: on its slope device memory is the limit, on its top the matrix units. \
             Height is the part of the time that the matrix units multiply, modelled waits included."
        }
    }
}

fn point<'a>((judged, colour): (&'a Judged, &'static &'static str)) -> Option<Point<'a>> {
    let version = &judged.version;
    let (roofline, cycles) = (version.roofline?, version.facts.cycles.as_ref()?);
    let known = roofline.hbm_bytes > 0 && roofline.mxu_cycles > 0.0;
    known.then(|| Point {
        name: &version.name,
        colour,
        intensity: roofline.mxu_cycles / roofline.hbm_bytes as f64,
        reached: cycles.mxu_share(),
        roofline,
    })
}

fn radii(points: usize) -> impl Iterator<Item = f64> {
    let step = 6.0 / points.max(1) as f64;
    (0..points).map(move |index| 9.0 - index as f64 * step)
}

/// Powers of ten between two values.
fn powers(low: f64, high: f64) -> impl Iterator<Item = f64> {
    (-6..=9).map(|power| 10f64.powi(power)).filter(move |tick| (low..=high).contains(tick))
}

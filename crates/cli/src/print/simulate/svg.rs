//! The timeline as an SVG document.

use maud::html;
use octile_mosaic::interpret::Timeline;

use super::timeline::{LEGEND, Layout, caption, colour};
use crate::print::analyze::grouped;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 22.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 40.0;

/// Most events in the drawing.
const MAX_EVENTS: usize = 20_000;

const STYLE: &str = "text { font: 11px sans-serif; fill: #222 } .title { font-size: 14px } \
    .grid { stroke: #d5dae1 } .tick { text-anchor: middle; fill: #555 }";

/// Draws a timeline.
pub fn drawing(timeline: &Timeline, title: &str) -> String {
    let layout = Layout::new(timeline, MAX_EVENTS);
    let bottom = TOP + layout.rows.len() as f64 * ROW;
    let height = bottom + BOTTOM;
    let x = |cycles: f64| LEFT + cycles / layout.end * (WIDTH - LEFT - RIGHT);
    let (end, run_end) = (grouped(layout.end.round() as u64), grouped(layout.run_end.round() as u64));
    let drawn = match layout.end < layout.run_end {
        true => format!("the first {end} of {run_end} modelled cycles"),
        false => format!("{run_end} modelled cycles"),
    };
    let fixed = |value: f64| format!("{value:.2}");
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height=(height)
            viewBox={ "0 0 " (WIDTH) " " (height) } {
            style { (STYLE) }
            rect width="100%" height="100%" fill="white" {}
            text.title x="10" y="20" { (title) ": " (drawn) }
            @for (at, (_, name, colour)) in LEGEND.into_iter().enumerate() {
                @let x = LEFT + 150.0 * at as f64;
                rect x=(x) y="31" width="12" height="12" fill=(colour) {}
                text x=(x + 17.0) y="41" { (name) }
            }
            @for tick in layout.ticks() {
                line.grid x1=(fixed(x(tick))) x2=(fixed(x(tick))) y1=(TOP) y2=(bottom) {}
                text.tick x=(fixed(x(tick))) y=(bottom + 16.0) { (grouped(tick as u64)) }
            }
            text.tick x=((LEFT + WIDTH) / 2.0) y=(bottom + 32.0) { "cycles" }
            @for (row, name) in layout.rows.iter().enumerate() {
                text x="10" y=(TOP + row as f64 * ROW + 14.0) { (name) }
            }
            @for bar in &layout.bars {
                @let (left, right) = (x(bar.start), x(bar.end));
                rect x=(fixed(left)) y=(TOP + bar.row as f64 * ROW) width=(fixed((right - left).max(0.2)))
                    height=(ROW - 4.0) fill=(colour(bar.event.work)) { title { (caption(bar)) } }
            }
        }
    };
    svg.into_string() + "\n"
}

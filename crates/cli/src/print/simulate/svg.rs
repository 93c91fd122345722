//! The timeline as a drawing: one row per unit, copies in as many rows as overlap.

use std::fmt::Write;

use octile_mosaic::interpret::{Event, Timeline, Work};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 22.0;
const LEFT: f64 = 110.0;
const TOP: f64 = 40.0;

/// A drawing with more pieces than this is drawn up to here, and says so.
const MAX_EVENTS: usize = 20_000;

/// An SVG document.
pub fn drawing(timeline: &Timeline, title: &str) -> String {
    let events = &timeline.events[..timeline.events.len().min(MAX_EVENTS)];
    let lanes = copy_lanes(events);
    let copy_rows = lanes.iter().max().map_or(0, |most| most + 1);
    let rows = 3 + copy_rows;
    let end = events.iter().map(|event| event.end).fold(1.0, f64::max);
    let x = |cycles: f64| LEFT + cycles / end * (WIDTH - LEFT - 20.0);
    let height = TOP + rows as f64 * ROW + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let shown = match events.len() < timeline.events.len() {
        true => format!("{title}: the first {end:.0} cycles, modelled"),
        false => format!("{title}: {end:.0} cycles, modelled"),
    };
    let _ = writeln!(svg, "<text x=\"10\" y=\"20\" font-size=\"14\">{}</text>", escape(&shown));
    let names = ["matrix units", "vector unit", "waiting"].map(str::to_owned);
    let names = names.into_iter().chain((0..copy_rows).map(|lane| format!("copies {}", lane + 1)));
    for (row, name) in names.enumerate() {
        let y = TOP + row as f64 * ROW + 14.0;
        let _ = writeln!(svg, "<text x=\"10\" y=\"{y}\">{name}</text>");
    }
    for (event, lane) in events.iter().zip(&lanes) {
        let (row, colour) = match event.work {
            Work::Matmul => (0, "#2b6cb0"),
            Work::Vector => (1, "#68a063"),
            Work::Scalar => (1, "#a0aec0"),
            Work::Wait => (2, "#e53e3e"),
            Work::Copy => (3 + lane, "#dd8f2d"),
        };
        let (left, right) = (x(event.start), x(event.end));
        let y = TOP + row as f64 * ROW;
        let width = (right - left).max(0.2);
        let line = event.line.map(|line| format!(", line {line}")).unwrap_or_default();
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" fill=\"{colour}\">\
             <title>{}{line}: {:.0} to {:.0}</title></rect>",
            ROW - 4.0,
            escape(&event.label),
            event.start,
            event.end
        );
    }
    for tick in 0..=10 {
        let cycles = end * f64::from(tick) / 10.0;
        let (x, y) = (x(cycles), TOP + rows as f64 * ROW + 16.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#555\">{cycles:.0}</text>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// For each event, the first row in which a copy does not overlap an earlier one.
fn copy_lanes(events: &[Event]) -> Vec<usize> {
    let mut busy_until: Vec<f64> = Vec::new();
    let mut lane_of = |event: &Event| {
        if event.work != Work::Copy {
            return 0;
        }
        let free = busy_until.iter().position(|end| *end <= event.start);
        let lane = free.unwrap_or_else(|| {
            busy_until.push(0.0);
            busy_until.len() - 1
        });
        busy_until[lane] = event.end;
        lane
    };
    events.iter().map(&mut lane_of).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

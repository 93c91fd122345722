//! The simulated timeline of a version.

use maud::{Markup, html};

use crate::{
    command::simulate,
    print::{
        analyze::grouped,
        simulate::timeline::{LEGEND, Layout, caption, colour},
    },
};

/// Most events on the page: some grid steps of a kernel.
const EVENTS: usize = 600;

/// One row per unit; grid lines at round numbers of cycles.
pub(super) fn plot(run: &simulate::SimulateReport) -> Markup {
    let layout = Layout::new(&run.timeline, EVENTS);
    let percent = |cycles: f64| format!("{:.3}%", 1e2 * cycles / layout.end);
    let rounded = |cycles: f64| grouped(cycles.round() as u64);
    let share = |part: f64| format!("{:.1} %", 1e2 * part);
    // Labels close to the right edge would stick out.
    let is_labelled = |tick: &f64| *tick < 0.95 * layout.end;
    html! {
        ul.legend {
            @for (_, name, colour) in LEGEND { li { span.swatch style={ "background:" (colour) } {} (name) } }
        }
        div.units role="img" aria-label="Timeline of the simulated kernel" {
            @for (row, name) in layout.rows.iter().enumerate() {
                span { (name) }
                svg viewBox={ "0 0 " (layout.end) " 1" } preserveAspectRatio="none" {
                    @for tick in layout.ticks() { line.grid x1=(tick) x2=(tick) y1="0" y2="1" {} }
                    @for bar in layout.bars.iter().filter(|bar| bar.row == row) {
                        rect x=(format!("{:.1}", bar.start)) width=(format!("{:.1}", bar.end - bar.start))
                            height="1" fill=(colour(bar.event.work)) { title { (caption(bar)) } }
                    }
                }
            }
            span { "cycles" }
            span.ticks {
                @for tick in layout.ticks().filter(is_labelled) {
                    span style={ "left:" (percent(tick)) } { (rounded(tick)) }
                }
            }
        }
        p.note {
            @if layout.end < layout.run_end {
                "The first " (rounded(layout.end)) " of " (rounded(layout.run_end)) " modelled cycles. "
            }
            "Over the whole run the MXU is busy " (share(run.shares.matmul_busy)) " of the time, and "
            (share(run.shares.copy_overlap)) " of the DMA time is hidden behind compute. Random operands, one core; \
             scheduling and memory banks are not modelled, so cycles differ from those of the listing."
        }
        @if !run.findings.is_empty() {
            p.trouble {
                "The simulator reports " (run.findings.len()) " problems: run "
                code { "octile simulate " (run.kernel) } "."
            }
        }
    }
}

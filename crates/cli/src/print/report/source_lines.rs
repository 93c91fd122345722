//! Cycles beside source lines.

use maud::{Markup, html};

use crate::{
    command::analyze::source_view::{SourceRow, SourceView},
    print::{
        analyze::grouped,
        counted,
        source_lines::{ELSEWHERE, LEGEND},
    },
};

/// Most rows of the table.
const ROWS: usize = 200;

/// A table of the lines of a kernel.
pub(super) fn table(view: &SourceView) -> Markup {
    let (rows, rest) = view.costliest(ROWS);
    html! {
        div.scroll { table {
            thead { tr {
                @for name in ["line", "cycles", "%", "waits", "MXU %", "spills", "source"] { th { (name) } }
            } }
            tbody {
                @for (index, row) in rows.iter().enumerate() {
                    @if index == 0 || rows[index - 1].file != row.file {
                        tr { th colspan="7" { (row.file) } }
                    }
                    (line(view, &row.line.to_string(), row, row.code.as_deref().unwrap_or_default()))
                }
                @if let Some((count, sum)) = &rest {
                    (line(view, "...", sum, &counted(*count, "more line")))
                }
                (line(view, "-", &view.elsewhere, ELSEWHERE))
            }
        } }
        p.note { (LEGEND) }
        @if let Some(caveat) = view.caveat() { p.note { (caveat) "." } }
    }
}

fn line(view: &SourceView, name: &str, row: &SourceRow, code: &str) -> Markup {
    let cost = &row.cost;
    html! {
        tr {
            td { (name) }
            td { (grouped(cost.cycles.round() as u64)) }
            td { (format!("{:.1}", 1e2 * view.share(row))) }
            td { (grouped(cost.waits.round() as u64)) }
            td { (format!("{:.1}", 1e2 * view.mxu_share(row))) }
            td { (grouped(cost.spills)) }
            td { code { (code) } }
        }
    }
}

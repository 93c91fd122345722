//! Cycles beside source lines, as text.

use std::fmt::Write;

use super::{analyze::grouped, counted};
use crate::command::analyze::source_view::{SourceRow, SourceView};

/// Most rows of the table; the cheapest lines are summed up.
const ROWS: usize = 40;
/// Most characters of a source line.
const CODE: usize = 72;

/// What the columns are.
pub const LEGEND: &str = "Cycles of the LLO bundles that a line compiles to; bundles of several lines are \
                          shared equally. MXU: its part of the matrix units' time.";
/// What belongs to no line.
pub const ELSEWHERE: &str = "grid loop, block DMAs and other code without a line";

/// The table of a kernel.
pub fn table(view: &SourceView) -> String {
    let mut text = String::from("\n    line      cycles      %     waits  MXU %    spills\n");
    let (rows, rest) = view.costliest(ROWS);
    let mut file = None;
    for row in rows {
        if file != Some(&row.file) {
            let _ = writeln!(text, "{}", row.file);
            file = Some(&row.file);
        }
        let code: String = row.code.as_deref().unwrap_or_default().chars().take(CODE).collect();
        text += &line(view, &row.line.to_string(), row, &code);
    }
    if let Some((count, row)) = rest {
        text += &line(view, "...", &row, &counted(count, "more line"));
    }
    text += &line(view, "-", &view.elsewhere, ELSEWHERE);
    if let Some(caveat) = view.caveat() {
        let _ = writeln!(text, "{caveat}");
    }
    text
}

fn line(view: &SourceView, name: &str, row: &SourceRow, code: &str) -> String {
    let cost = &row.cost;
    let numbers = format!(
        "{name:>8}{:>12}{:>7.1}{:>10}{:>7.1}{:>10}",
        grouped(cost.cycles.round() as u64),
        1e2 * view.share(row),
        grouped(cost.waits.round() as u64),
        1e2 * view.mxu_share(row),
        grouped(cost.spills),
    );
    format!("{}\n", format!("{numbers}  {code}").trim_end())
}

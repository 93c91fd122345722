//! `octile compare` as text.

use std::fmt::Write;

use octile_dump::checks::Verdict;

use super::{
    analyze::{or_unknown, size, word},
    emit, heading,
};
use crate::command::compare::{Column, Difference, Report};

/// Operations to list of a difference.
const OPERATIONS: usize = 24;
const LABEL: usize = 20;

/// A row of the version table: its label, and its cell for one version.
pub type TableRow = (&'static str, fn(&Column) -> String);

/// The rows of the version table.
pub const TABLE: [TableRow; 14] = [
    ("native fp8", |c| {
        or_unknown(c.row.matmul.as_ref().map(|kind| if kind.starts_with("f8") { "yes" } else { "no" }))
    }),
    ("products of", |c| or_unknown(c.row.matmul.as_ref())),
    ("DMA copies", |c| or_unknown(c.row.copies)),
    ("HBM traffic", |c| or_unknown(c.row.hbm_bytes.map(size))),
    ("buffers in turn", |c| or_unknown(c.row.buffers)),
    ("scales in SMEM", |c| yes_no(c.row.scales_in_smem).to_owned()),
    ("cycles", |c| or_unknown(c.row.cycles)),
    ("modelled waits", |c| or_unknown(c.row.stalled.map(|cycles| format!("{cycles:.0}")))),
    ("compiler's estimate", |c| or_unknown(c.row.estimated_cycles)),
    ("MXU busy", |c| or_unknown(c.row.mxu_share.map(|share| format!("{:.1} %", 1e2 * share)))),
    ("times the limit", |c| or_unknown(c.distance.map(|distance| format!("{distance:.2}")))),
    ("VMEM", |c| or_unknown(c.row.vmem.map(size))),
    ("code", code),
    ("vector spills", |c| or_unknown(c.row.spills)),
];

fn yes_no(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "yes",
        Verdict::Fail => "no",
        Verdict::NotObservable => "?",
    }
}

fn code(column: &Column) -> String {
    match (column.code_bytes, column.row.code_bundles) {
        (Some(bytes), _) => size(bytes),
        (None, bundles) => or_unknown(bundles.map(|bundles| format!("{bundles} bundles"))),
    }
}

/// Prints the table, and what is different between two.
pub fn report(report: &Report) {
    emit(&text(report));
}

fn text(report: &Report) -> String {
    let mut text = heading("Versions side by side");
    for column in &report.columns {
        for trouble in &column.troubles {
            let _ = writeln!(text, "WARNING {}: {trouble}", column.row.name);
        }
    }
    let widths: Vec<_> = report.columns.iter().map(width).collect();
    let mut line = |label: &str, cells: Vec<String>| {
        let _ = write!(text, "{label:<LABEL$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    };
    line("", report.columns.iter().map(|column| column.row.name.clone()).collect());
    for (label, cell) in TABLE {
        line(label, report.columns.iter().map(cell).collect());
    }
    if let Some(difference) = &report.difference {
        text.push_str(&changes(difference));
    }
    text
}

fn width(column: &Column) -> usize {
    let cells = TABLE.iter().map(|(_, cell)| cell(column).chars().count());
    cells.chain([column.row.name.chars().count()]).max().unwrap_or_default()
}

fn changes(difference: &Difference) -> String {
    let mut text = "\nVerdicts that differ\n".to_owned();
    if difference.checks.is_empty() {
        text.push_str("  none\n");
    }
    for change in &difference.checks {
        let (before, after) = (word(change.before), word(change.after));
        let _ = writeln!(text, "  {:<16} {before} -> {after}: {}", change.check, change.says);
    }
    text.push_str("\nOperations in the code that differ\n");
    match difference.operations.as_deref() {
        None => text.push_str("  not known: one of the two has no LLO listing\n"),
        Some([]) => text.push_str("  none\n"),
        Some(operations) => {
            for change in operations.iter().take(OPERATIONS) {
                let _ =
                    writeln!(text, "  {:<32} {:>7} -> {:>7}", change.operation, change.before, change.after);
            }
            if let Some(more) = operations.len().checked_sub(OPERATIONS).filter(|more| *more > 0) {
                let _ = writeln!(text, "  and {more} more: see --json");
            }
        }
    }
    text
}

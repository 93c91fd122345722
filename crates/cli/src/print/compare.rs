//! `octile compare` as text.

use std::{fmt::Write, path::Path};

use octile_dump::{
    checks::Verdict,
    compare::{Structure, Subject},
    facts::Evidence,
};

use super::{
    analyze::{or_unknown, place, size, word},
    emit, heading,
};
use crate::command::compare::{Column, Difference, Report};

/// Operations to list of a difference.
const OPERATIONS: usize = 24;
const LABEL: usize = 20;

/// A row of the version table: its label, and its cell for one version.
pub type TableRow = (&'static str, fn(&Column) -> String);

/// The row that is left out where no manifest has it.
const SHAPE: &str = "shape";

/// The rows that every kernel or a TPU kernel has.
const TABLE: [TableRow; 15] = [
    (SHAPE, |c| or_unknown(c.shape.as_ref())),
    ("native fp8", |c| {
        or_unknown(c.row.matmul.as_ref().map(|kind| if kind.starts_with("f8") { "yes" } else { "no" }))
    }),
    ("products of", |c| or_unknown(c.row.matmul.as_ref())),
    ("DMA copies", |c| or_unknown(c.row.copies)),
    ("HBM traffic", |c| or_unknown(c.row.hbm_bytes.map(size))),
    ("buffers in turn", |c| or_unknown(c.row.buffers)),
    ("scales in SMEM", |c| yes_no(c.row.scales_staged).to_owned()),
    ("cycles", |c| or_unknown(c.row.cycles)),
    ("modelled waits", |c| or_unknown(c.row.stalled.map(|cycles| format!("{cycles:.0}")))),
    ("compiler's estimate", |c| or_unknown(c.row.estimated_cycles)),
    ("MXU busy with waits", |c| or_unknown(c.row.mxu_share.map(|share| format!("{:.1} %", 1e2 * share)))),
    ("times the limit", |c| or_unknown(c.distance.map(|distance| format!("{distance:.2}")))),
    ("VMEM", |c| or_unknown(c.row.vmem.map(size))),
    ("code", code),
    ("vector spills", |c| or_unknown(c.row.spills)),
];

/// The rows that a GPU kernel has besides.
const GPU_TABLE: [TableRow; 2] = [
    ("registers", |c| or_unknown(c.row.registers)),
    ("shared memory", |c| or_unknown(c.shared_bytes.map(size))),
];

/// The rows that no GPU kernel has.
const TPU_ROWS: [&str; 7] = [
    "HBM traffic",
    "cycles",
    "modelled waits",
    "compiler's estimate",
    "MXU busy with waits",
    "times the limit",
    "VMEM",
];

/// The rows of the version table.
pub fn rows(columns: &[Column]) -> Vec<TableRow> {
    let only_gpu = columns.iter().all(|column| column.gpu);
    let any_shape = columns.iter().any(|column| column.shape.is_some());
    let is_shown = |label: &str| !(only_gpu && TPU_ROWS.contains(&label)) && (any_shape || label != SHAPE);
    let shown = TABLE.into_iter().filter(|(label, _)| is_shown(label));
    let any_gpu = columns.iter().any(|column| column.gpu);
    shown.chain(GPU_TABLE.into_iter().filter(|_| any_gpu)).collect()
}

fn yes_no(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "yes",
        Verdict::Fail => "no",
        Verdict::NotObservable | Verdict::Obscured => "?",
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

/// Prints the table alone, for what else is said about the same versions to follow.
pub fn facts(columns: &[Column]) {
    emit(&format!("{}\n", table(columns)));
}

fn table(columns: &[Column]) -> String {
    let mut text = heading("Versions side by side");
    for column in columns {
        for trouble in &column.troubles {
            let _ = writeln!(text, "WARNING {}: {trouble}", column.row.name);
        }
    }
    let rows = rows(columns);
    let widths: Vec<_> = columns.iter().map(|column| width(column, &rows)).collect();
    let mut line = |label: &str, cells: Vec<String>| {
        let _ = write!(text, "{label:<LABEL$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    };
    line("", columns.iter().map(|column| column.row.name.clone()).collect());
    for (label, cell) in rows {
        line(label, columns.iter().map(cell).collect());
    }
    text
}

fn text(report: &Report) -> String {
    let mut text = table(&report.columns);
    for difference in &report.differences {
        if report.differences.len() > 1 {
            let (before, after) = (difference.before.display(), difference.after.display());
            text.push_str(&format!("\n{}", heading(format!("{before} -> {after}"))));
        }
        text.push_str(&changes(difference));
    }
    text
}

fn width(column: &Column, rows: &[TableRow]) -> usize {
    let cells = rows.iter().map(|(_, cell)| cell(column).chars().count());
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
    text.push_str(&structure(difference));
    text.push_str("\nOperations in the code that differ\n");
    match difference.operations.as_deref() {
        None => text.push_str("  not known: the two have no listing of the same kind\n"),
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

/// Every part that is not the same, with its line in both dumps.
fn structure(difference: &Difference) -> String {
    let structure = &difference.structure;
    let mut text = String::new();
    let mut last = None;
    for part in &structure.differences {
        if last.replace(part.subject) != Some(part.subject) {
            let _ = writeln!(text, "\n{} that differ", subject(part.subject));
        }
        for says in &part.says {
            let _ = writeln!(text, "  {says}");
        }
        let lines = [("before", &difference.before, &part.before), ("after", &difference.after, &part.after)];
        for (side, path, evidence) in lines {
            if let Some(evidence) = evidence {
                let _ = writeln!(text, "      {side:<6} {}", place_below(path, evidence));
            }
        }
    }
    if is_incomparable(structure) {
        text.push_str("\nNothing is comparable: the two have no part of the structure in common\n");
    } else {
        if structure.differences.is_empty() {
            text.push_str("\nNo part of the structure differs\n");
        }
        let parts = if structure.alike == 1 { "part is" } else { "parts are" };
        let _ = writeln!(text, "\n{} {parts} the same in both", structure.alike);
    }
    for sentence in &structure.not_compared {
        let _ = writeln!(text, "not compared: {sentence}");
    }
    text
}

/// Whether two dumps have nothing that could be the same or differ.
pub fn is_incomparable(structure: &Structure) -> bool {
    structure.differences.is_empty() && structure.alike == 0
}

/// The line that proves a fact, with the folder of its file; a file that was named by itself stands for its folder.
fn place_below(path: &Path, evidence: &Evidence) -> String {
    let named = path.file_name().is_some_and(|name| *name == *evidence.file.as_str());
    let folder = if named { path.parent().unwrap_or(path) } else { path };
    format!("{}", folder.join(place(evidence)).display())
}

fn subject(subject: Subject) -> &'static str {
    match subject {
        Subject::Operand => "Operands",
        Subject::Buffer => "Buffers",
        Subject::Copies => "Copies",
        Subject::Products => "Products",
        Subject::Loop => "Loops",
        Subject::Code => "Figures",
    }
}

//! Prints `octile compare` for dumps.

use std::{fmt::Write, path::Path};

use octile_dump::{
    checks::Verdict,
    compare::{Structure, Subject},
    facts::Evidence,
};

use super::{
    analyze::{grouped, or_unknown, place, size},
    emit, heading, shown,
};
use crate::command::compare::{Column, Difference, DumpComparison};

/// Most operations to list.
const OPERATIONS: usize = 24;
const LABEL: usize = 20;

/// A row of the version table.
pub struct TableRow {
    /// What the cells show.
    pub label: &'static str,
    /// The cell of a version.
    pub cell: fn(&Column) -> String,
    /// What to rank versions by, least first; `None` where no value is better than another.
    pub cost: Option<fn(&Column) -> Option<f64>>,
    /// Which kernels have such a value.
    target: RowTarget,
}

/// Which kernels have a value.
#[derive(Clone, Copy, PartialEq)]
enum RowTarget {
    Any,
    Tpu,
    Gpu,
}

const fn row(label: &'static str, target: RowTarget, cell: fn(&Column) -> String) -> TableRow {
    TableRow { label, cell, cost: None, target }
}

impl TableRow {
    const fn ranked(mut self, cost: fn(&Column) -> Option<f64>) -> Self {
        self.cost = Some(cost);
        self
    }
}

/// The row that is left out where no manifest has it.
pub const SHAPE: &str = "shape";

const TABLE: [TableRow; 17] = [
    row(SHAPE, RowTarget::Any, |c| or_unknown(c.shape.as_ref())),
    row("native fp8", RowTarget::Any, |c| {
        or_unknown(c.row.matmul.as_ref().map(|kind| if kind.starts_with("f8") { "yes" } else { "no" }))
    }),
    row("MMA operands", RowTarget::Any, |c| or_unknown(c.row.matmul.as_ref())),
    row("async copies", RowTarget::Any, |c| or_unknown(c.row.copies.map(grouped))),
    row("HBM traffic", RowTarget::Tpu, |c| or_unknown(c.row.hbm_bytes.map(size)))
        .ranked(|c| c.row.hbm_bytes.map(|bytes| bytes as f64)),
    row("pipeline stages", RowTarget::Any, |c| or_unknown(c.row.buffers)),
    row("scales in SMEM", RowTarget::Any, |c| yes_no(c.row.scales_staged).to_owned()),
    row("cycles", RowTarget::Tpu, |c| or_unknown(c.row.cycles.map(grouped)))
        .ranked(|c| c.row.cycles.map(|cycles| cycles as f64)),
    row("modelled waits", RowTarget::Tpu, |c| {
        or_unknown(c.row.stalled.map(|cycles| grouped(cycles.round() as u64)))
    })
    .ranked(|c| c.row.stalled),
    row("compiler's estimate", RowTarget::Tpu, |c| or_unknown(c.row.estimated_cycles.map(grouped)))
        .ranked(|c| c.row.estimated_cycles.map(|cycles| cycles as f64)),
    row("MXU busy", RowTarget::Tpu, |c| {
        or_unknown(c.row.mxu_share.map(|share| format!("{:.1} %", 1e2 * share)))
    })
    .ranked(|c| c.row.mxu_share.map(|share| -share)),
    row("times the roofline", RowTarget::Tpu, |c| {
        or_unknown(c.distance.map(|distance| format!("{distance:.2}")))
    })
    .ranked(|c| c.distance),
    row("VMEM", RowTarget::Tpu, |c| or_unknown(c.row.vmem.map(size))),
    row("code", RowTarget::Any, code),
    row("vector spills", RowTarget::Any, |c| or_unknown(c.row.spills))
        .ranked(|c| c.row.spills.map(|spills| spills as f64)),
    row("registers", RowTarget::Gpu, |c| or_unknown(c.row.registers)),
    row("shared memory", RowTarget::Gpu, |c| or_unknown(c.shared_bytes.map(size))),
];

/// The rows of the version table.
pub fn rows(columns: &[Column]) -> Vec<TableRow> {
    let any_gpu = columns.iter().any(|column| column.gpu);
    let any_tpu = columns.iter().any(|column| !column.gpu);
    let any_shape = columns.iter().any(|column| column.shape.is_some());
    let is_shown = |row: &TableRow| match row.target {
        RowTarget::Any => any_shape || row.label != SHAPE,
        RowTarget::Tpu => any_tpu,
        RowTarget::Gpu => any_gpu,
    };
    TABLE.into_iter().filter(is_shown).collect()
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

/// Prints the table and the differences.
pub fn report(report: &DumpComparison) {
    emit(&text(report));
}

/// Prints the table alone.
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
    for row in rows {
        line(row.label, columns.iter().map(row.cell).collect());
    }
    text
}

fn text(report: &DumpComparison) -> String {
    let mut text = table(&report.columns);
    for difference in &report.differences {
        if report.differences.len() > 1 {
            let (before, after) = (shown(&difference.before), shown(&difference.after));
            text.push_str(&format!("\n{}", heading(format!("{before} -> {after}"))));
        }
        text.push_str(&changes(difference));
    }
    text
}

fn width(column: &Column, rows: &[TableRow]) -> usize {
    let cells = rows.iter().map(|row| (row.cell)(column).chars().count());
    cells.chain([column.row.name.chars().count()]).max().unwrap_or_default()
}

fn changes(difference: &Difference) -> String {
    let mut text = "\nChecks that differ\n".to_owned();
    if difference.checks.is_empty() {
        text.push_str("  none\n");
    }
    for change in &difference.checks {
        let (before, after) = (yes_no(change.before), yes_no(change.after));
        let _ = writeln!(text, "  {:<16} {before} -> {after}: {}", change.check, change.says);
    }
    text.push_str(&structure(difference));
    text.push_str("\nOperations in the code that differ\n");
    match difference.operations.as_deref() {
        None => text.push_str("  unknown: the two versions have no listing of the same kind\n"),
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

/// Lists every part that differs, with its line in both dumps.
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
        text.push_str("\nNothing is comparable: the two versions have no part of the structure in common\n");
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

/// Whether two dumps have no part in common.
pub fn is_incomparable(structure: &Structure) -> bool {
    structure.differences.is_empty() && structure.alike == 0
}

/// Path, line and excerpt of evidence; `path` is a folder, or the file itself.
fn place_below(path: &Path, evidence: &Evidence) -> String {
    let named = path.file_name().is_some_and(|name| *name == *evidence.file.as_str());
    let folder = if named { path.parent().unwrap_or(path) } else { path };
    shown(&folder.join(place(evidence)))
}

fn subject(subject: Subject) -> &'static str {
    match subject {
        Subject::Operand => "Operands",
        Subject::Buffer => "Buffers",
        Subject::Copies => "Copies",
        Subject::Products => "MMAs",
        Subject::Loop => "Loops",
        Subject::Code => "Figures",
    }
}

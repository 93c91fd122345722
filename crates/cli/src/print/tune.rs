//! `octile tune` as text, and `--explain` as a page.

mod page;

use std::fmt::Write;

use octile_core::tuned::TunedChoice;
use octile_harness::{case::Case, tune::TunedShape};

use super::{counted, emit, heading};
use crate::command::tune::TuneReport;

pub use page::page;

/// Prints the shapes, one per line, as `--shapes-from` reads them.
pub fn list(cases: &[Case]) {
    emit(&cases.iter().map(|case| format!("{}  # {}\n", case.problem, case.label)).collect());
}

/// Prints what was found.
pub fn report(report: &TuneReport) {
    emit(&text(report));
}

/// Prints every candidate of each shape.
pub fn explanation(report: &TuneReport) {
    let mut text = heading(format!("Candidate plans on {}", report.device));
    for shape in &report.shapes {
        text += &candidates(report, shape);
    }
    emit(&text);
}

/// What is done, for a search that is interrupted.
pub fn so_far(report: &TuneReport) -> String {
    let done = report.shapes.len();
    text(report)
        + &format!("Interrupted: {done} of {} shapes are done; run it again to go on.\n", report.asked)
}

fn text(report: &TuneReport) -> String {
    let mut text = heading(format!("Tuned plans for {}", report.device));
    for shape in &report.shapes {
        text += &line(report, shape);
    }
    let searched = report.searched().count();
    let seconds: f64 = report.searched().map(|shape| shape.seconds).sum();
    let faster = report.searched().filter(|shape| shape.entry.choice.is_some()).count();
    let known = report.shapes.len() - searched;
    let _ = write!(text, "{} searched", counted(searched, "shape"));
    if searched > 0 {
        let _ = write!(text, " in {seconds:.1} s ({:.1} s each)", seconds / searched as f64);
    }
    let _ = writeln!(text, "; with a plan faster than the default: {faster}; known before: {known}");
    if let Some(table) = &report.table {
        let _ = writeln!(text, "Table: {table}");
        if !report.is_used {
            text += "It is not used now: OCTILE_TUNED or OCTILE_BATCH_INVARIANT turns tables off\n";
        }
    }
    text
}

fn line(report: &TuneReport, shape: &TunedShape) -> String {
    let entry = &shape.entry;
    let found = match &entry.choice {
        Some(choice) => format!("{:>5.2}x  {}", entry.speedup, describe(choice)),
        None => "default is fastest".to_owned(),
    };
    let cost = match shape.candidates.first() {
        Some(default) => format!("{:>11} {}", shown(default.median, report.unit), report.unit),
        None => format!("{:>14}", "known"),
    };
    let mut line = format!("  {:<24} {cost}  {found}  ({})\n", shape.problem.to_string(), shape.label);
    if let Some(refusal) = &shape.refusal {
        let _ = writeln!(line, "    refused: {refusal}");
    }
    line
}

fn describe(choice: &TunedChoice) -> String {
    match choice {
        TunedChoice::Cpu(choice) => choice.to_string(),
        TunedChoice::Gpu(config) => {
            let swapped = if config.swapped { " swapped" } else { "" };
            format!("{}x{}{swapped} {:?}", config.tile.a, config.tile.b, config.cluster)
        }
        TunedChoice::Tpu(tile) => format!("tile {}x{}x{}", tile.m, tile.n, tile.k),
    }
}

/// A cost; cycles are counted, milliseconds measured.
fn shown(cost: f64, unit: &str) -> String {
    if unit == "cycles" { format!("{cost:.0}") } else { format!("{cost:.4}") }
}

/// The candidates of a shape, the fastest first.
fn candidates(report: &TuneReport, shape: &TunedShape) -> String {
    let problem = &shape.problem;
    let mut text = format!("{problem}, x: {}, out: {}\n", problem.x, problem.out);
    let unit = report.unit;
    let model = if unit == "cycles" { "bound" } else { "model" };
    let _ = writeln!(
        text,
        "  {:<44} {:>13} {:>13} {:>9}  limited by",
        "candidate",
        format!("measured {unit}"),
        format!("{model} {unit}"),
        "% of best"
    );
    let mut sorted: Vec<_> = shape.candidates.iter().enumerate().collect();
    sorted.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let best = sorted.first().map_or(f64::NAN, |(_, best)| best.median);
    for (index, candidate) in sorted {
        let is_chosen = shape.entry.choice == Some(candidate.choice);
        let mark = if is_chosen { '*' } else { ' ' };
        let name = if index == 0 { format!("{} (default)", candidate.name) } else { candidate.name.clone() };
        let measured =
            if candidate.median < 1e300 { shown(candidate.median, unit) } else { "rejected".into() };
        let modelled = candidate.model.cost.map_or_else(|| "-".to_owned(), |cost| shown(cost, unit));
        let _ = writeln!(
            text,
            "{mark} {name:<44} {measured:>13} {modelled:>13} {:>9.1}  {}",
            100.0 * best / candidate.median,
            candidate.model.limit
        );
    }
    text += match shape.entry.choice {
        Some(_) => "  * beat the default in fresh rounds by more than the noise\n",
        None => "  no candidate beat the default by more than the noise\n",
    };
    text
}

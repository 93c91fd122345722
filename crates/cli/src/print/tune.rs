//! `octile tune` as text, and `--explain` as a page.

mod page;

use std::fmt::Write;

use octile_core::tuned::{TunedEntry, TunedSamples, TunedTarget, median};
use octile_harness::{
    case::{Case, UNNAMED},
    tune::{CandidateReport, TunedShape},
};

use super::{Text, counted, emit, emit_document, heading, joined_lines};
use crate::command::tune::TuneReport;

pub use page::page;

/// Prints the shapes, one per line, as `--shapes-from` reads them.
pub fn list(cases: &[Case]) {
    // What `--shapes-from` reads is no report: `--quiet` leaves it.
    let lines = cases.iter().map(|case| format!("{}  # {}\n", case.problem, case.label));
    emit_document(&(forms(cases).to_owned() + &lines.collect::<Text>()));
}

/// What forms of layers are, where a list has several.
fn forms(cases: &[Case]) -> &'static str {
    match cases.iter().any(|case| case.label.contains("fused ")) {
        true => "# single: as checkpoints store it; fused: as vLLM and SGLang run it; others are both\n",
        false => "",
    }
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
        + &format!("Interrupted: {done} of {} done; run it again to go on.\n", counted(report.asked, "shape"))
}

fn text(report: &TuneReport) -> String {
    let mut text = heading(format!("Tuned plans for {}", report.device));
    let unit = report.unit;
    let header = ["shape", &format!("default {unit}"), &format!("tuned {unit}"), "speedup"];
    text += &row(header, "plan (layers)");
    for shape in &report.shapes {
        text += &line(report, shape);
    }
    let calls = report.shapes.first().map_or(&[][..], |shape| &shape.entry.samples);
    if calls.len() > 1 {
        let calls: Vec<&str> = calls.iter().map(|samples| &samples.call[..]).collect();
        let _ = writeln!(text, "  {unit}: geometric mean of the medians of {}", calls.join(" and "));
    }
    let searched = report.searched().count();
    let seconds: f64 = report.searched().map(|shape| shape.seconds).sum();
    let faster = report.shapes.iter().filter(|shape| shape.entry.choice.is_some()).count();
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

fn row([shape, default, tuned, speedup]: [&str; 4], rest: &str) -> String {
    format!("  {shape:<24} {default:>14} {tuned:>14} {speedup:>8}  {rest}\n")
}

fn line(report: &TuneReport, shape: &TunedShape) -> String {
    let entry = &shape.entry;
    let default = shown(cost(entry, |samples| &samples.default), report.unit);
    let known = if shape.is_known { ", known before" } else { "" };
    let label = match &shape.label[..] {
        UNNAMED => String::new(),
        label => format!(" ({label})"),
    };
    let problem = shape.problem.to_string();
    let mut line = match &entry.choice {
        Some(choice) => {
            let tuned = shown(cost(entry, |samples| &samples.tuned), report.unit);
            let speedup = format!("{:.2}x", entry.speedup);
            row([&problem, &default, &tuned, &speedup], &format!("{choice}{label}{known}"))
        }
        None => row([&problem, &default, "-", "-"], &format!("the default is fastest{label}{known}")),
    };
    if let Some(refusal) = &shape.refusal {
        let _ = writeln!(line, "    refused: {refusal}");
    }
    if let Some(name) = &shape.unconfirmed {
        let _ = writeln!(line, "    {}", not_again(name));
    }
    line + &lost(shape)
}

/// The candidates that are missing, a line each.
fn lost(shape: &TunedShape) -> String {
    shape.lost.iter().map(|sentence| format!("    left out: {}\n", joined_lines(sentence))).collect()
}

/// What became of a candidate that won once.
fn not_again(name: &str) -> String {
    format!("not kept: {name} was faster at first, but not when it was timed again")
}

/// Geometric mean over the ways of calling.
fn cost(entry: &TunedEntry, of: impl Fn(&TunedSamples) -> &[f64]) -> f64 {
    let medians = entry.samples.iter().map(|samples| median(of(samples)).ln());
    (medians.sum::<f64>() / entry.samples.len().max(1) as f64).exp()
}

/// A cost; cycles are counted, milliseconds measured, to four digits.
fn shown(cost: f64, unit: &str) -> String {
    if unit == "cycles" {
        return format!("{cost:.0}");
    }
    let decimals = (3 - cost.abs().max(1e-9).log10().floor() as i32).clamp(1, 7);
    format!("{cost:.*}", decimals as usize)
}

/// What the expected cost is.
fn model_name(report: &TuneReport) -> &'static str {
    match report.device.target {
        TunedTarget::Cpu => "roofline",
        TunedTarget::Gpu => "model",
        TunedTarget::Tpu => "bound",
    }
}

/// How to read the columns.
fn legend(report: &TuneReport) -> String {
    let (measured, model) = match report.device.target {
        TunedTarget::Cpu => (
            "median of calls with warm operands",
            "what peak FLOPs and bandwidth of these instructions and threads allow",
        ),
        TunedTarget::Gpu => (
            "median with a cold L2 and in a graph replay, their geometric mean",
            "expected of this plan, by the model that chooses default plans",
        ),
        TunedTarget::Tpu => (
            "static cycles of the compiled kernel, with DMAs and padding",
            "cycles of the MXU, or of HBM where they are more: no tile can need less",
        ),
    };
    format!("{}: {measured}\n{}: {model}\n", measured_name(report), model_name(report))
}

fn measured_name(report: &TuneReport) -> &'static str {
    if report.unit == "cycles" { "counted" } else { "measured" }
}

/// The candidates of a shape, the fastest first.
fn candidates(report: &TuneReport, shape: &TunedShape) -> String {
    let problem = &shape.problem;
    let mut text = format!("{problem}, x: {}, out: {}\n", problem.x, problem.out);
    let unit = report.unit;
    let (sorted, best) = by_cost(shape);
    let name = |index: usize, candidate: &CandidateReport| match index {
        0 => format!("{} (default)", candidate.name),
        _ => candidate.name.clone(),
    };
    let width = sorted.iter().map(|(index, candidate)| name(*index, candidate).len()).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "  {:<width$} {:>14} {:>14} {:>9}  limited by",
        "candidate",
        format!("{} {unit}", measured_name(report)),
        format!("{} {unit}", model_name(report)),
        "% of best"
    );
    for (index, candidate) in sorted {
        let is_chosen = shape.entry.choice == Some(candidate.choice);
        let (mark, name) = (if is_chosen { '*' } else { ' ' }, name(index, candidate));
        let modelled = modelled(candidate).map_or_else(|| "-".to_owned(), |cost| shown(cost, unit));
        let (measured, percent) = match has_failed(candidate) {
            true => ("failed".to_owned(), "-".to_owned()),
            false => (shown(candidate.median, unit), format!("{:.1}", 100.0 * best / candidate.median)),
        };
        let _ = writeln!(
            text,
            "{mark} {name:<width$} {measured:>14} {modelled:>14} {percent:>9}  {}",
            limit(candidate)
        );
    }
    text += &lost(shape);
    text += &verdict(report, shape);
    text += above_roofline(report, shape).unwrap_or_default();
    text += &legend(report);
    text
}

/// Expected cost of a candidate.
fn modelled(candidate: &CandidateReport) -> Option<f64> {
    candidate.model.as_ref()?.cost
}

/// What limits a candidate.
fn limit(candidate: &CandidateReport) -> &str {
    candidate.model.as_ref().map_or("-", |model| &model.limit)
}

/// Why candidates of a CPU are faster than their roofline, where they are.
fn above_roofline(report: &TuneReport, shape: &TunedShape) -> Option<&'static str> {
    let is_above =
        |candidate: &&CandidateReport| modelled(candidate).is_some_and(|cost| candidate.median < cost);
    let above = || shape.candidates.iter().filter(is_above);
    if report.device.target != TunedTarget::Cpu || above().next().is_none() {
        return None;
    }
    Some(match above().any(|candidate| limit(candidate) == "FLOPs") {
        true => "faster than the roofline: peak FLOPs were measured too low, on a machine that was busy\n",
        false => "faster than the roofline: the operands stay in cache between calls\n",
    })
}

/// Whether it could not be compiled.
fn has_failed(candidate: &CandidateReport) -> bool {
    candidate.median >= 1e300
}

/// The candidates with their places, the fastest first, and the least cost.
fn by_cost(shape: &TunedShape) -> (Vec<(usize, &CandidateReport)>, f64) {
    let mut sorted: Vec<_> = shape.candidates.iter().enumerate().collect();
    sorted.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let best = sorted.first().map_or(f64::NAN, |(_, best)| best.median);
    (sorted, best)
}

/// What a search would record.
fn verdict(report: &TuneReport, shape: &TunedShape) -> String {
    if let Some(refusal) = &shape.refusal {
        return format!("the fastest is refused: {refusal}\n");
    }
    if let Some(name) = &shape.unconfirmed {
        return format!("{}: tuning would keep the default\n", not_again(name));
    }
    match shape.entry.choice {
        // Cycles are counted: the same every time.
        Some(choice) if report.unit == "cycles" => {
            format!("* {choice}: the default needs {:.2}x as many cycles\n", shape.entry.speedup)
        }
        None if report.unit == "cycles" => {
            "no candidate is 3 % faster than the default by its cycles: tuning would keep the default\n"
                .to_owned()
        }
        Some(choice) => format!(
            "* {choice}: {:.2}x as fast as the default in further rounds of these two, twice by more than the noise\n",
            shape.entry.speedup
        ),
        None => {
            "no candidate beat the default by more than the noise and 1 %: tuning would keep the default\n"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use octile_core::tuned::{TunedChoice, TunedDevice, TunedWith};
    use octile_harness::tune::Model;

    use super::*;

    /// A search of one candidate beside the default, which took these costs.
    fn report(target: TunedTarget, unit: &'static str, median: f64, model: Option<Model>) -> TuneReport {
        let device = TunedDevice { target, name: "test".to_owned(), units: 1 };
        let problem = "64x256x512:128".parse().unwrap();
        let choice: TunedChoice = serde_json::from_str(r#"{"tpu": {"m": 64, "n": 128, "k": 256}}"#).unwrap();
        let entry = TunedEntry {
            device: device.clone(),
            with: TunedWith::new("0", ""),
            problem,
            choice: Some(choice),
            speedup: 1.25,
            candidates: 1,
            date: String::new(),
            samples: Vec::new(),
        };
        let candidate = CandidateReport { choice, name: "a tile".to_owned(), model, median, rounds: 1 };
        let shape = TunedShape {
            label: UNNAMED.to_owned(),
            problem,
            entry,
            is_known: false,
            candidates: vec![candidate],
            refusal: None,
            unconfirmed: None,
            lost: Vec::new(),
            seconds: 0.0,
        };
        TuneReport {
            device,
            unit,
            shapes: vec![shape],
            failures: Vec::new(),
            asked: 1,
            table: None,
            is_used: true,
        }
    }

    fn explained(report: &TuneReport) -> String {
        candidates(report, &report.shapes[0])
    }

    #[test]
    fn a_roofline_that_is_exceeded_is_explained() {
        let text = |median, limit: &str| {
            let model = Model { cost: Some(1.0), limit: limit.to_owned() };
            explained(&report(TunedTarget::Cpu, "ms", median, Some(model)))
        };
        assert!(text(0.5, "FLOPs").contains("peak FLOPs were measured too low"));
        assert!(text(0.5, "bandwidth").contains("the operands stay in cache"));
        assert!(!text(1.5, "FLOPs").contains("faster than the roofline"));
    }

    #[test]
    fn counted_cycles_have_no_noise_and_no_rounds() {
        let text = explained(&report(TunedTarget::Tpu, "cycles", 100.0, None));
        assert!(text.contains("* tile 64x128x256: the default needs 1.25x as many cycles\n"), "{text}");
        assert!(!text.contains("noise") && !text.contains("rounds"), "{text}");
        assert!(explained(&report(TunedTarget::Gpu, "ms", 1.0, None)).contains("by more than the noise"));
    }

    #[test]
    fn lost_candidates_are_named_on_one_line() {
        let mut report = report(TunedTarget::Tpu, "cycles", 100.0, None);
        report.shapes[0].lost = vec!["tile 1x2x3: died; stderr ends with:\n\nCheck failed\n".to_owned()];
        let says = "    left out: tile 1x2x3: died; stderr ends with: Check failed\n";
        assert!(line(&report, &report.shapes[0]).ends_with(says));
        assert!(explained(&report).contains(says));
        assert!(page(&report).contains("<p>left out: tile 1x2x3: died; stderr ends with: Check failed</p>"));
    }

    #[test]
    fn a_shape_without_a_name_has_none_in_parentheses() {
        let mut report = report(TunedTarget::Tpu, "cycles", 100.0, None);
        assert!(line(&report, &report.shapes[0]).ends_with("  tile 64x128x256\n"));
        report.shapes[0].label = "gate".to_owned();
        assert!(line(&report, &report.shapes[0]).ends_with("  tile 64x128x256 (gate)\n"));
        report.shapes[0].unconfirmed = Some("1 thread".to_owned());
        let says = "    not kept: 1 thread was faster at first, but not when it was timed again\n";
        assert!(line(&report, &report.shapes[0]).ends_with(says));
    }
}

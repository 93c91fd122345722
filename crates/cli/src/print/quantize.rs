//! Prints `octile quantize`, `octile convert` and `octile dequantize`.

use std::{collections::BTreeMap, fmt::Write};

use octile_checkpoint::{BLOCK, KeptBecause, Request, without_numbers};

use super::{Text, counted, emit, one_line, shown};
use crate::command::quantize::CheckpointReport;

/// Prints a report.
pub fn report(report: &CheckpointReport) {
    emit(&text(report));
}

/// Most names to print per group.
const SHOWN: usize = 8;

fn text(report: &CheckpointReport) -> Text {
    let mut text = Text::new();
    match &report.done {
        None => plan(report, &mut text),
        Some(_) => kept_notably(report, &mut text),
    }
    notes(report, &mut text);
    let (done, would) = match report.plan.request {
        Request::Quantize(_) => ("Quantized", "quantize"),
        Request::Convert(_) => ("Converted", "convert"),
        Request::Dequantize(_) => ("Dequantized", "dequantize"),
    };
    let plan = &report.plan;
    let changed = counted(plan.changed.len(), "weight");
    let (from, to) = (bytes(plan.input_bytes), bytes(plan.output_bytes));
    match &report.done {
        None => {
            let output = shown(&report.output);
            let _ = writeln!(
                text,
                "Would {would} {changed}: {from} -> {to}, into {output}; nothing was written."
            );
        }
        Some((outcome, time)) => {
            let seconds = time.as_secs_f64();
            let rate = bytes((plan.input_bytes as f64 / seconds.max(1e-9)) as u64);
            let _ = write!(text, "{done} {changed}: {from} -> {to} in {seconds:.1} s ({rate}/s)");
            if outcome.resumed > 0 {
                let _ = write!(text, ", {} from the interrupted run", counted(outcome.resumed, "shard"));
            }
            let _ = writeln!(text, "\n{}", shown(&report.output));
        }
    }
    text
}

fn plan(report: &CheckpointReport, text: &mut Text) {
    let plan = &report.plan;
    let mut groups: BTreeMap<(String, usize, usize), usize> = BTreeMap::new();
    for weight in &plan.changed {
        *groups.entry((without_numbers(&weight.name), weight.rows, weight.cols)).or_default() += 1;
    }
    let _ = writeln!(text, "Weights to change:");
    for ((name, rows, cols), count) in groups {
        let _ = writeln!(text, "  {count:>6} x {} [{rows}, {cols}]", one_line(&name));
    }
    if !plan.kept.is_empty() {
        let _ = writeln!(text, "Unchanged tensors:");
    }
    let mut reasons: BTreeMap<(String, String), usize> = BTreeMap::new();
    for kept in &plan.kept {
        let name = if kept.because.is_notable() { kept.name.clone() } else { without_numbers(&kept.name) };
        *reasons.entry((kept.because.to_string(), name)).or_default() += 1;
    }
    for ((because, name), count) in reasons {
        let _ = writeln!(text, "  {count:>6} x {}: {}", one_line(&name), one_line(&because));
    }
    let _ = writeln!(text, "Files:");
    for shard in &plan.shards {
        let _ = writeln!(text, "  {:>10}  {}", bytes(shard.bytes), one_line(&shard.name));
    }
    for file in &report.others {
        let _ = writeln!(text, "  {:>10}  {} (copied)", bytes(file.bytes), shown(&file.path));
    }
}

/// Lists tensors that a user would expect to be quantized.
fn kept_notably(report: &CheckpointReport, text: &mut Text) {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for kept in report.plan.kept.iter().filter(|kept| kept.because.is_notable()) {
        groups.entry(kept.because.to_string()).or_default().push(&kept.name);
    }
    for (because, names) in groups {
        let _ = writeln!(text, "Not quantized, {}:", one_line(&because));
        names.iter().take(SHOWN).for_each(|name| {
            let _ = writeln!(text, "  {}", one_line(name));
        });
        if names.len() > SHOWN {
            let _ = writeln!(text, "  and {} more", names.len() - SHOWN);
        }
    }
}

fn notes(report: &CheckpointReport, text: &mut Text) {
    let plan = &report.plan;
    if !plan.split.is_empty() {
        let split = counted(plan.split.len(), "fused expert tensor");
        let _ = writeln!(text, "Note: split per expert: {split}.");
    }
    let already = plan.kept.iter().filter(|kept| kept.because == KeptBecause::AlreadyFp8).count();
    if already > 0 {
        let _ = writeln!(text, "Note: already fp8, with codes kept: {}.", counted(already, "weight"));
    }
    for found in &plan.ruled_out {
        let others = match found.weights {
            1 => String::new(),
            weights => format!(" and {} more", weights - 1),
        };
        let _ = writeln!(
            text,
            "Warning: tensor parallelism of {} is impossible: {} = {} of {}{others} does not split into blocks \
             of 128.",
            found.degree,
            found.axis,
            found.side,
            one_line(&found.example)
        );
    }
    let is_quantized = plan.quantization.is_some();
    if let Some(ragged) =
        plan.changed.iter().find(|weight| is_quantized && !weight.rows.is_multiple_of(BLOCK))
    {
        let _ = writeln!(
            text,
            "Warning: N = {} of {} is not a multiple of 128; transformers cannot dequantize such weights \
             (other engines can): use --skip for transformers.",
            ragged.rows,
            one_line(&ragged.name)
        );
    }
    for file in report.others.iter().filter(|file| file.is_weights()) {
        let _ = writeln!(
            text,
            "Warning: {} looks like weights but is not in the index; it is copied unchanged.",
            shown(&file.path)
        );
    }
    if let (true, Some(quantization)) = (report.is_one_file, &plan.quantization) {
        let json = serde_json::to_string_pretty(quantization).unwrap_or_default();
        let _ = writeln!(text, "Note: add this to the model's config.json:\n\"quantization_config\": {json}");
    }
}

fn bytes(count: u64) -> String {
    indicatif::DecimalBytes(count).to_string()
}

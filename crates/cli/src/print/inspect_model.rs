//! `octile inspect-model` as text.

mod page;

use std::fmt::Write;

use octile_checkpoint::{Defect, Granularity, JudgedLayer, ScaleSummary, Snr, SnrSource};

pub use page::page;

use super::{Text, counted, emit, heading, one_line};
use crate::command::inspect_model::ModelReport;

/// Prints the summary, the worst weights and the defects.
pub fn report(report: &ModelReport, worst: usize) {
    emit(&text(report, worst));
}

/// Most defects of one kind to print.
const SHOWN: usize = 8;

fn text(report: &ModelReport, worst: usize) -> Text {
    let mut text = heading(format!("Checkpoint {}", one_line(&report.model)));
    for line in summary(report) {
        let _ = writeln!(text, "{line}");
    }
    let layers = report.worst_first();
    if !layers.is_empty() && worst > 0 {
        let shown = worst.min(layers.len());
        let _ = writeln!(text, "\nWorst {shown} of {}:", counted(layers.len(), "fp8 weight"));
        let _ = writeln!(
            text,
            "{:>7} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}  weight",
            "SNR dB", "scale min", "median", "max", "max/min", "% +-448", "% zero"
        );
        for layer in &layers[..shown] {
            text += &row(layer);
        }
    }
    text.push('\n');
    text += &defects(&report.judgement.defects);
    text
}

/// The lines of the summary, for text and page.
fn summary(report: &ModelReport) -> Vec<String> {
    let summary = &report.judgement.summary;
    let method = summary.quant_method.as_deref().map(|method| format!("; quant_method {}", one_line(method)));
    let mut lines = vec![format!(
        "{}, {}, {}, {:.3} bits per value{}",
        counted(summary.shards, "shard"),
        counted(summary.tensors, "tensor"),
        bytes(summary.bytes),
        summary.bits_per_value,
        method.unwrap_or_default()
    )];
    if summary.fp8_weights > 0 {
        lines.push(format!(
            "{}: {}, {:.3} bits each with their scales",
            counted(summary.fp8_weights, "fp8 weight"),
            counted(summary.fp8_values as usize, "value"),
            summary.fp8_bits_per_value
        ));
    }
    let others: std::collections::BTreeMap<(&str, &str), usize> =
        report.judgement.layers.iter().filter(|layer| layer.codes.is_none()).fold(
            std::collections::BTreeMap::new(),
            |mut groups, layer| {
                *groups
                    .entry((layer.dtype.as_str(), layer.not_judged.unwrap_or("not quantized")))
                    .or_default() += 1;
                groups
            },
        );
    for ((dtype, why), count) in others {
        lines.push(format!("{}: {why}", counted(count, &format!("{dtype} weight"))));
    }
    if let Some(snr) = &summary.snr {
        let source = match snr.source {
            SnrSource::Codes => "estimated from the codes; --against ORIGINAL measures it",
            SnrSource::Original => "measured against the original",
        };
        lines.push(format!("Signal to quantization noise: {} dB, {source}", decibels(Some(snr))));
    }
    if summary.order_not_observable > 0 {
        lines.push(format!(
            "Not observable: whether the scales of {} are transposed (too few or too uniform blocks; use --against)",
            counted(summary.order_not_observable, "weight")
        ));
    }
    lines
}

fn row(layer: &JudgedLayer) -> String {
    let (Some(scales), Some(codes)) = (&layer.scales, &layer.codes) else { return String::new() };
    let percent = |count: u64| 100.0 * count as f64 / codes.total.max(1) as f64;
    format!(
        "{:>7} {:>9.2e} {:>9.2e} {:>9.2e} {:>8.1} {:>8.4} {:>8.4}  {} {}, {}\n",
        decibels(layer.snr.as_ref()),
        scales.min,
        scales.median,
        scales.max,
        scales.max / scales.min,
        percent(codes.saturated),
        percent(codes.zero),
        one_line(&layer.name),
        shape(layer),
        format(scales)
    )
}

fn shape(layer: &JudgedLayer) -> String {
    let sides: Vec<_> = layer.shape.iter().map(usize::to_string).collect();
    format!("[{}]", sides.join(", "))
}

/// What shares a scale.
fn format(scales: &ScaleSummary) -> String {
    let [rows, cols] = scales.block;
    let unit = match scales.granularity {
        Granularity::Tensor => "per tensor".to_owned(),
        Granularity::Row => "per row".to_owned(),
        Granularity::Block => format!("{rows} x {cols}"),
    };
    let kind = if scales.powers_of_two { ", powers of two" } else { "" };
    format!("{unit}, {} scales{kind}", scales.dtype)
}

fn decibels(snr: Option<&Snr>) -> String {
    match snr {
        None => "n/a".to_owned(),
        Some(Snr { db: None, .. }) => "exact".to_owned(),
        Some(Snr { db: Some(db), .. }) => format!("{db:.1}"),
    }
}

fn defects(defects: &[Defect]) -> Text {
    let mut text = Text::new();
    let mut rest = defects;
    while let Some(first) = rest.first() {
        let (same, others) =
            rest.split_at(rest.iter().take_while(|defect| defect.kind == first.kind).count());
        for defect in same.iter().take(SHOWN) {
            let _ = writeln!(text, "FAIL {}", one_line(&defect.to_string()));
        }
        if same.len() > SHOWN {
            let _ = writeln!(text, "     and {} more of the same kind; --json lists all", same.len() - SHOWN);
        }
        rest = others;
    }
    let _ = match defects.len() {
        0 => writeln!(text, "PASS: no defects found."),
        count => writeln!(text, "{} found.", counted(count, "defect")),
    };
    text
}

fn bytes(count: u64) -> String {
    indicatif::DecimalBytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use octile_checkpoint::{CodeSummary, DefectKind, Judgement, ModelSummary, ScaleOrder, SnrSource};
    use octile_harness::record::Provenance;

    use super::*;

    pub(super) fn example() -> ModelReport {
        let layer = |name: &str, db: f64| JudgedLayer {
            name: format!("model.layers.{name}.weight"),
            shape: vec![256, 512],
            dtype: "F8_E4M3".into(),
            bytes: 256 * 512 + 32,
            not_judged: None,
            scales: Some(ScaleSummary {
                tensor: format!("model.layers.{name}.weight_scale_inv"),
                dtype: "F32".into(),
                granularity: Granularity::Block,
                block: [128, 128],
                count: 8,
                min: 1.0e-4,
                median: 1.5e-4,
                max: 2.0e-4,
                powers_of_two: false,
                order: ScaleOrder::NotObservable,
            }),
            codes: Some(CodeSummary {
                total: 131_072,
                zero: 700,
                saturated: 30,
                nan: 0,
                blocks: 8,
                zero_blocks: 0,
                full_range_blocks: 8,
                median_max: 448.0,
                rms: 0.02,
            }),
            snr: Some(Snr { db: Some(db), source: SnrSource::Codes }),
        };
        let plain = JudgedLayer {
            name: "lm_head.weight<script>".into(),
            dtype: "BF16".into(),
            scales: None,
            codes: None,
            snr: None,
            ..layer("9", 0.0)
        };
        let summary = ModelSummary {
            shards: 1,
            tensors: 5,
            bytes: 524_352,
            values: 393_216,
            bits_per_value: 10.668,
            fp8_weights: 2,
            fp8_values: 262_144,
            fp8_bits_per_value: 8.002,
            other_weights: 1,
            quant_method: Some("fp8".into()),
            snr: Some(Snr { db: Some(31.2), source: SnrSource::Codes }),
            codes_by_magnitude: (0..128).map(|code| if code < 127 { 4000 - 30 * code } else { 0 }).collect(),
            order_not_observable: 2,
        };
        let defect = |layer: usize| Defect {
            kind: DefectKind::ReciprocalScales,
            tensor: Some(format!("model.layers.{layer}.up_proj.weight")),
            evidence: "the median scale 4.000e3 makes weights of up to 1.8e6".into(),
            advice: "store 1 / scale",
        };
        ModelReport {
            provenance: Provenance { date: "2026-01-01T00:00:00Z".into(), version: "0".into() },
            model: "Model-FP8".into(),
            against: None,
            judgement: Judgement {
                summary,
                defects: (0..10).map(defect).collect(),
                layers: vec![layer("0.up_proj", 31.5), layer("1.up_proj", 30.9), plain],
            },
        }
    }

    #[test]
    fn a_model_with_defects() {
        insta::assert_snapshot!(text(&example(), 10));
    }

    #[test]
    fn names_are_escaped_on_the_page() {
        let page = page(&example());
        assert!(page.contains("lm_head.weight&lt;script&gt;") && !page.contains("<script"), "{page}");
        assert!(page.contains("<svg") && !page.contains("http://") && !page.contains("https://"));
        assert_eq!(page.matches("<svg").count(), 3, "three plots");
    }
}

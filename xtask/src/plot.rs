//! `cargo xtask plot`: draws any record of a sample of shapes as ratios against M.
//!
//! Three kinds of records have such ratios: `bench/peers/gpu/compare.py` (TFLOP/s of every library),
//! `bench/peers/torch_cpu.py` (times of every contender), and searches or counts of cycles
//! (`default_over_best` or `default_over_bound` of every shape).

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::chart::STYLE;

/// Plots in the documents, which `cargo xtask chart` redraws: a record, and the drawing.
pub(crate) const PLOTS: [(&str, &str); 4] = [
    ("bench/record/h200/sample_91.json", "docs/h200-sample.svg"),
    ("bench/record/cpu-tune-judge-zen-5-2026-11-19-c.json", "docs/cpu-judge.svg"),
    ("bench/record/torch-cpu-judge-zen5-2026-11-18.json", "docs/torch-cpu-judge.svg"),
    ("bench/record/tpu7x-sample-64-2026-11-20.json", "docs/tpu-sample.svg"),
];

const WIDTH: f64 = 760.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 260.0;
/// Classes of the series, most important first.
const CLASSES: [&str; 4] = ["octile", "third", "second", "fourth"];

/// Colours of the other series: these are peers of equal weight, which greys would not tell apart.
const COLOURS: &str = "  .second { fill: #bf8700 } .third { fill: #8250df } .fourth { fill: #1a7f37 }\n";

/// Ratios by what they are relative to: rows of x, and the ratio.
type Series = BTreeMap<String, Vec<(f64, f64)>>;

/// Draws a record.
pub(crate) fn write(record: &Path, drawing: &Path) -> Result<()> {
    fs::write(drawing, render(record)?).with_context(|| format!("cannot write {}", drawing.display()))?;
    println!("== wrote {}", drawing.display());
    Ok(())
}

/// Renders the SVG text.
pub(crate) fn render(record: &Path) -> Result<String> {
    let name = record.display();
    let text = fs::read_to_string(record).with_context(|| format!("cannot read {name}"))?;
    let record: Value = serde_json::from_str(&text).with_context(|| format!("{name} is no JSON"))?;
    let series = series(&record).with_context(|| format!("{name} has a shape without figures"))?;
    if series.is_empty() {
        bail!("{name} has no ratios: expected `results`, `groups` or `shapes` with default_over_best");
    }
    let title =
        escaped(record["what"].as_str().unwrap_or("Octile's throughput over that of other libraries"));
    let machine = escaped(&machine(&record));
    let ratios = || series.values().flatten();
    let rows = ratios().map(|(rows, _)| *rows).fold(2.0, f64::max);
    let (lowest, highest) =
        ratios().fold((1.0, 1.0), |(low, high): (f64, f64), (_, ratio)| (low.min(*ratio), high.max(*ratio)));
    let ticks = ticks(lowest, highest);
    let (first, last) = (ticks[0].log2(), ticks[ticks.len() - 1].log2());
    let across = |m: f64| LEFT + 12.0 + (RIGHT - LEFT - 24.0) * m.max(1.0).log2() / rows.log2();
    let up = |ratio: f64| BOTTOM - (BOTTOM - TOP) * (ratio.log2() - first) / (last - first);
    let height = BOTTOM + 44.0 + 18.0 * series.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>{STYLE}{COLOURS}</style>\n<text class=\"strong\" x=\"8\" y=\"20\">{title}</text>\n\
         <text class=\"small\" x=\"8\" y=\"40\">{machine}Ratio by rows of x (M), one point per shape; higher is \
         better</text>\n"
    );
    for ratio in ticks {
        let (y, class) = (up(ratio), if ratio == 1.0 { "base" } else { "grid" });
        let bold = if ratio == 1.0 { " stroke-width=\"2\"" } else { "" };
        writeln!(svg, "<path class=\"{class}\"{bold} d=\"M{LEFT} {y:.1}H{RIGHT}\"/>")?;
        writeln!(svg, "<text class=\"small end\" x=\"{}\" y=\"{:.1}\">{ratio}x</text>", LEFT - 6.0, y + 4.0)?;
    }
    let powers = (0..).map(|power| f64::from(4u32.pow(power))).take_while(|m| *m <= rows);
    for m in powers {
        let y = BOTTOM + 18.0;
        writeln!(svg, "<text class=\"small middle\" x=\"{:.1}\" y=\"{y}\">{m}</text>", across(m))?;
    }
    for (at, (name, points)) in series.iter().enumerate() {
        let (name, class) = (escaped(name), CLASSES[at.min(CLASSES.len() - 1)]);
        for (m, ratio) in points {
            writeln!(
                svg,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                across(*m),
                up(*ratio)
            )?;
        }
        let mean = (points.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / points.len() as f64).exp();
        let worst = points.iter().map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
        let y = BOTTOM + 44.0 + 18.0 * at as f64;
        writeln!(svg, "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"5\"/>", LEFT + 16.0, y - 4.0)?;
        writeln!(
            svg,
            "<text class=\"small\" x=\"{}\" y=\"{y}\">{name}: {} shapes, geometric mean {mean:.2}, worst \
             {worst:.2}</text>",
            LEFT + 28.0,
            points.len()
        )?;
    }
    Ok(svg + "</svg>\n")
}

/// The ratios of a record; `None` where a shape lacks its figures.
fn series(record: &Value) -> Option<Series> {
    let mut series = Series::new();
    let mut add = |name: String, m: f64, ratio: f64| series.entry(name).or_default().push((m, ratio));
    for result in record["results"].as_array().into_iter().flatten() {
        let (m, tflops) = (result["m"].as_f64()?, result["tflops"].as_object()?);
        let ours = tflops.get("octile")?.as_f64()?;
        for (name, theirs) in tflops.iter().filter(|(name, _)| *name != "octile") {
            add(format!("over {}", library(name)), m, ours / theirs.as_f64()?);
        }
    }
    for group in record["groups"].as_array().into_iter().flatten() {
        let m = rows(group["shape"].as_str()?)?;
        let times: Option<Vec<(&str, f64)>> = group["times"].as_array()?.iter().map(time).collect();
        let times = times?;
        let (_, ours) = times.iter().find(|(name, _)| name.starts_with("octile"))?;
        for (name, theirs) in times.iter().filter(|(name, _)| !name.starts_with("octile")) {
            add(format!("over {name}"), m, theirs / ours);
        }
    }
    for shape in record["shapes"].as_array().into_iter().flatten() {
        let m = rows(shape["shape"].as_str()?)?;
        let (over_best, over_bound) =
            (shape["default_over_best"].as_f64(), shape["default_over_bound"].as_f64());
        if let Some(ratio) = over_best {
            add("default plan over the fastest candidate".to_owned(), m, ratio);
        }
        if let Some(ratio) = over_bound {
            add("default plan over the larger of the MXU and the HBM bound".to_owned(), m, 1.0 / ratio);
        }
        over_best.or(over_bound)?;
    }
    Some(series)
}

/// Values of the y axis: powers of two, or finer steps where all ratios are near 1.
fn ticks(lowest: f64, highest: f64) -> Vec<f64> {
    let is_fine = lowest > 0.5 && highest < 1.25;
    let ticks: &[f64] = if is_fine {
        &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25]
    } else {
        &[0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    };
    let first = ticks.iter().rposition(|tick| *tick <= lowest).unwrap_or(0);
    let last = ticks.iter().position(|tick| *tick >= highest * 1.02).unwrap_or(ticks.len() - 1);
    ticks[first..=last].to_vec()
}

/// Where and on what a record was made, as far as it says.
fn machine(record: &Value) -> String {
    let machine = &record["machine"];
    let name = machine["cpu"].as_str().or(machine["gpu"].as_str());
    let threads = machine["threads"].as_u64().map(|threads| format!("{threads} threads"));
    let sample = record["sample"].as_str().map(|sample| format!("sample {sample}"));
    let parts = name.map(str::to_owned).into_iter().chain(threads).chain(sample);
    parts.map(|part| part + ". ").collect()
}

/// A library as its users call it.
fn library(name: &str) -> &str {
    match name {
        "deep_gemm" => "DeepGEMM",
        "cublaslt_block" => "cuBLASLt, block scales",
        "cublaslt_tensor" => "cuBLASLt, one scale per tensor",
        other => other,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn time(time: &Value) -> Option<(&str, f64)> {
    Some((time["contender"].as_str()?, time["median_ms"].as_f64()?))
}

/// M of `MxNxK:QB`.
fn rows(shape: &str) -> Option<f64> {
    shape.split('x').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_those_of_their_records() {
        let root = crate::root();
        for (record, drawing) in PLOTS {
            let drawn = fs::read_to_string(root.join(drawing)).unwrap();
            assert!(
                drawn == render(&root.join(record)).unwrap(),
                "{drawing} is old: run `cargo xtask chart`"
            );
        }
    }

    #[test]
    fn every_kind_of_record_has_ratios() {
        let of = |text: &str| series(&serde_json::from_str(text).unwrap());
        let gpu = r#"{"results": [{"m": 4, "n": 1, "k": 1, "tflops": {"octile": 3, "deep_gemm": 2}}]}"#;
        assert_eq!(of(gpu).unwrap()["over DeepGEMM"], [(4.0, 1.5)]);
        let cpu = r#"{"groups": [{"shape": "16x2x3:128", "times": [{"contender": "octile fp8", "median_ms": 2},
            {"contender": "torch bf16", "median_ms": 6}]}]}"#;
        assert_eq!(of(cpu).unwrap()["over torch bf16"], [(16.0, 3.0)]);
        let search = r#"{"shapes": [{"shape": "7x2x3:128", "default_over_best": 0.9}]}"#;
        assert_eq!(of(search).unwrap().into_values().next().unwrap(), [(7.0, 0.9)]);
        let cycles =
            r#"{"shapes": [{"shape": "7x2x3:128", "default_over_best": 1, "default_over_bound": 2}]}"#;
        assert_eq!(
            of(cycles).unwrap()["default plan over the larger of the MXU and the HBM bound"],
            [(7.0, 0.5)]
        );
        assert!(of("{}").unwrap().is_empty());
        assert!(of(r#"{"shapes": [{"shape": "x"}]}"#).is_none());
    }
}

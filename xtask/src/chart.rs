//! `cargo xtask chart`: draws the README's chart from the H200 benchmark record.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The record that is drawn.
const RECORD: &str = "bench/record/h200/peers.json";
/// The drawing.
pub(crate) const CHART: &str = "docs/h200.svg";

/// The N and K of DeepSeek-V3's linear layers.
const LAYERS: [(u64, u64); 7] =
    [(2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)];
/// Rows of the activations, one group of bars each.
const BATCHES: [u64; 5] = [1, 16, 64, 128, 4096];
/// Keys in the record, labels, and CSS classes. Bars are drawn in this order.
const LIBRARIES: [(&str, &str, &str); 4] = [
    ("octile", "Octile", "octile"),
    (BASELINE, "DeepGEMM", "second"),
    ("cublaslt_block", "cuBLASLt, block-scaled", "third"),
    ("triton_block", "plain Triton kernel", "fourth"),
];
const BASELINE: &str = "deep_gemm";

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 336.0;
/// Left edge of the plot.
const LEFT: f64 = 44.0;
/// Where bars begin.
const BOTTOM: f64 = 282.0;
/// Height of a ratio of 1.
const UNIT: f64 = 102.0;
/// Width of a bar with its gap.
const BAR: f64 = 30.0;

pub(crate) const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .small { font-size: 12px } .middle { text-anchor: middle } .end { text-anchor: end }
  .title { font-size: 15px; font-weight: 600 } .strong { font-weight: 600 }
  .grid { stroke: #d0d7de } .base { stroke: #57606a }
  .octile { fill: #0969da } .second { fill: #8c959f } .third { fill: #b6bec7 } .fourth { fill: #d3d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .grid { stroke: #30363d } .base { stroke: #8b949e }
    .octile { fill: #4493f8 } .second { fill: #7d8590 } .third { fill: #59616b } .fourth { fill: #3d444d }
  }
";

/// Draws the chart.
pub(crate) fn write(root: &Path) -> Result<()> {
    let path = root.join(CHART);
    fs::write(&path, render(root)?).with_context(|| format!("cannot write {}", path.display()))?;
    println!("== wrote {}", path.display());
    Ok(())
}

/// Renders the SVG text.
pub(crate) fn render(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join(RECORD)).with_context(|| format!("cannot read {RECORD}"))?;
    let record: Value = serde_json::from_str(&text)?;
    let groups: Vec<_> = BATCHES.iter().map(|&m| ratios(&record, m)).collect::<Result<_>>()?;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Throughput on an H200 relative to DeepGEMM\">\n<style>{STYLE}</style>\n"
    );
    svg += "<text class=\"title\" x=\"8\" y=\"20\">FP8 block-scaled GEMM on one H200: throughput relative to \
            DeepGEMM</text>\n<text class=\"small\" x=\"8\" y=\"40\">Geometric mean over the seven linear layers \
            of DeepSeek-V3, bf16 output; higher is better</text>\n";
    grid(&mut svg)?;
    for (at, (&m, ratios)) in BATCHES.iter().zip(&groups).enumerate() {
        group(&mut svg, LEFT + 16.0 + at as f64 * 142.0, m, ratios)?;
    }
    legend(&mut svg)?;
    Ok(svg + "</svg>\n")
}

/// Geometric mean of each library's throughput over the layers, relative to the baseline's.
fn ratios(record: &Value, m: u64) -> Result<BTreeMap<&'static str, f64>> {
    let results = record["results"].as_array().context("the record has no results")?;
    let layers: Vec<&Value> = results
        .iter()
        .filter(|result| result["m"] == m)
        .filter(|result| LAYERS.iter().any(|&(n, k)| result["n"] == n && result["k"] == k))
        .collect();
    ensure!(layers.len() == LAYERS.len(), "the record has {} layers with M = {m}", layers.len());
    let mean = |library: &str| {
        let logs = layers.iter().map(|layer| layer["tflops"][library].as_f64().map(f64::ln));
        Some((logs.sum::<Option<f64>>()? / layers.len() as f64).exp())
    };
    let baseline = mean(BASELINE).context("the record has no baseline")?;
    let libraries = LIBRARIES.iter().map(|&(key, ..)| key);
    Ok(libraries.filter_map(|key| Some((key, mean(key)? / baseline))).collect())
}

fn grid(svg: &mut String) -> Result<()> {
    for tick in [0.0, 0.5, 1.0, 1.5, 2.0] {
        let y = BOTTOM - tick * UNIT;
        let class = if tick == 0.0 { "base" } else { "grid" };
        writeln!(svg, "<path class=\"{class}\" d=\"M{LEFT} {y}H{}\"/>", WIDTH - 8.0)?;
        writeln!(svg, "<text class=\"small end\" x=\"{}\" y=\"{}\">{tick}x</text>", LEFT - 6.0, y + 4.0)?;
    }
    Ok(())
}

/// The bars of one batch size, each with its ratio above it.
fn group(svg: &mut String, left: f64, m: u64, ratios: &BTreeMap<&str, f64>) -> Result<()> {
    for (at, (key, _, class)) in LIBRARIES.iter().enumerate() {
        let (x, middle) = (left + at as f64 * BAR, left + (at as f64 + 0.5) * BAR - 1.0);
        let Some(ratio) = ratios.get(key) else {
            let y = BOTTOM - 6.0;
            writeln!(
                svg,
                "<text class=\"small\" transform=\"translate({} {y}) rotate(-90)\">not supported</text>",
                middle + 4.0
            )?;
            continue;
        };
        let height = ratio * UNIT;
        let (y, bar) = (BOTTOM - height, BAR - 2.0);
        writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y:.1}\" width=\"{bar}\" height=\"{height:.1}\"/>"
        )?;
        let strong = if at == 0 { " strong" } else { "" };
        let y = y - 5.0;
        writeln!(svg, "<text class=\"small middle{strong}\" x=\"{middle}\" y=\"{y:.1}\">{ratio:.2}</text>")?;
    }
    let middle = left + 2.0 * BAR;
    writeln!(svg, "<text class=\"middle\" x=\"{middle}\" y=\"{}\">M = {m}</text>", BOTTOM + 18.0)?;
    Ok(())
}

fn legend(svg: &mut String) -> Result<()> {
    let mut x = LEFT + 16.0;
    for (_, label, class) in LIBRARIES {
        let y = HEIGHT - 20.0;
        writeln!(svg, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/>")?;
        writeln!(svg, "<text class=\"small\" x=\"{}\" y=\"{}\">{label}</text>", x + 18.0, y + 10.0)?;
        x += 42.0 + 6.4 * label.len() as f64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_shows_the_record() {
        let drawn = fs::read_to_string(crate::root().join(CHART)).unwrap();
        assert!(drawn == render(&crate::root()).unwrap(), "run `cargo xtask chart`");
    }
}

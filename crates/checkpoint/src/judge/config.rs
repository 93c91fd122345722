//! What `config.json` declares, and whether the tensors agree.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    defect::Defect,
    kept_modules::KeptModules,
    wording::{are, counted},
};
use crate::{
    BLOCK, Checkpoint,
    plan::{built_in, module},
    read::{Config, ScaleNaming, without_numbers},
};

/// Declared granularity of the scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Tensor,
    Row,
    Block([usize; 2]),
}

/// What the config says about the weights.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared {
    /// `None` without a config, or without a `quantization_config`.
    pub method: Option<String>,
    has_config: bool,
    /// Whether the weights are declared to be fp8.
    is_fp8: bool,
    /// Granularity, if it is the same for all weights.
    pub expected: Option<Expected>,
    /// Modules that are not quantized.
    kept: Vec<String>,
    /// Suffix of the scales that loaders of this format look for, if they accept only one.
    scales: Option<ScaleNaming>,
    /// Declared type of the codes.
    fmt: Option<String>,
    /// Whether the scales are declared to be powers of two.
    pub is_ue8m0: bool,
}

impl Declared {
    pub(super) fn new(config: Option<&Config>) -> Self {
        let Some(config) = config else { return Self::default() };
        let mut declared = Self { has_config: true, ..Self::default() };
        let Some(Value::Object(found)) = config.get("quantization_config") else { return declared };
        let names = |key: &str| -> Vec<String> {
            let names = found.get(key).and_then(Value::as_array).into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let method = found.get("quant_method").and_then(Value::as_str).unwrap_or("unknown");
        let text = |key: &str| found.get(key).and_then(Value::as_str);
        match method {
            "fp8" => {
                declared.is_fp8 = true;
                declared.fmt = text("fmt").map(str::to_owned);
                declared.is_ue8m0 = text("scale_fmt") == Some("ue8m0");
                declared.kept = names("modules_to_not_convert");
                declared.expected = Some(match found.get("weight_block_size").and_then(sides) {
                    Some(block) => Expected::Block(block),
                    None => Expected::Tensor,
                });
                let is_block = matches!(declared.expected, Some(Expected::Block(_)));
                declared.scales = is_block.then_some(ScaleNaming::ScaleInv);
            }
            "compressed-tensors" => {
                declared.kept = names("ignore");
                let groups: Vec<_> =
                    found.get("config_groups").and_then(Value::as_object).into_iter().flatten().collect();
                let weights = |group: &Value| group.get("weights").cloned().unwrap_or(Value::Null);
                let expected: Vec<_> = groups.iter().map(|(_, group)| strategy(&weights(group))).collect();
                declared.is_fp8 = groups.iter().any(|(_, group)| is_float8(&weights(group)));
                declared.scales = Some(ScaleNaming::Scale);
                if let [first, rest @ ..] = &expected[..]
                    && rest.iter().all(|other| other == first)
                {
                    declared.expected = *first;
                }
            }
            _ => {}
        }
        declared.method = Some(method.to_owned());
        declared
    }

    pub(super) fn is_fp8_or_none(&self) -> bool {
        self.is_fp8 || self.method.is_none()
    }
}

fn sides(value: &Value) -> Option<[usize; 2]> {
    let side =
        |value: &Value| value.as_u64().and_then(|side| usize::try_from(side).ok()).filter(|side| *side > 0);
    match value.as_array().map(Vec::as_slice) {
        Some([rows, cols]) => Some([side(rows)?, side(cols)?]),
        _ => None,
    }
}

fn is_float8(weights: &Value) -> bool {
    weights.get("num_bits") == Some(&8.into()) && weights.get("type").and_then(Value::as_str) == Some("float")
}

/// Whether a format other than fp8 and compressed-tensors can hold fp8 weights.
fn may_hold_fp8(method: &str) -> bool {
    method.contains("fp8")
        || ["modelopt", "quark", "torchao", "quanto", "auto-round", "inc"].contains(&method)
}

/// Granularity of a group of compressed-tensors; `None` if it is not fp8 or not known.
fn strategy(weights: &Value) -> Option<Expected> {
    match weights.get("strategy").and_then(Value::as_str).filter(|_| is_float8(weights))? {
        "tensor" => Some(Expected::Tensor),
        "channel" => Some(Expected::Row),
        "block" => {
            Some(Expected::Block(weights.get("block_structure").and_then(sides).unwrap_or([BLOCK; 2])))
        }
        "group" => {
            let size = weights.get("group_size").and_then(Value::as_u64)?;
            Some(Expected::Block([1, usize::try_from(size).ok().filter(|size| *size > 0)?]))
        }
        _ => None,
    }
}

/// A weight, as far as the config speaks of it.
pub(super) struct Weight<'a> {
    pub name: &'a str,
    pub is_fp8: bool,
    /// Whether its codes are e5m2; otherwise fp8 is e4m3.
    pub is_e5m2: bool,
    /// Block of its scales, if it has some.
    pub block: Option<[usize; 2]>,
    /// Name of its scales, if it has some.
    pub scales: Option<&'a str>,
    /// Whether it is a 2-D float that could have been quantized.
    pub is_plain_matrix: bool,
}

/// Compares the config with the weights.
pub(super) fn compare(
    checkpoint: &Checkpoint,
    declared: &Declared,
    weights: &[Weight<'_>],
    is_whole: bool,
) -> Vec<Defect> {
    let mut defects = Vec::new();
    let fp8 = || weights.iter().filter(|weight| weight.is_fp8);
    let scaled = || fp8().filter(|weight| weight.block.is_some());
    if !declared.has_config {
        return defects;
    }
    if let (None, Some(first)) = (&declared.method, scaled().next()) {
        let count = scaled().count();
        let evidence =
            format!("config.json has no quantization_config, but {count} weights are fp8, the first this");
        defects.push(Defect::of_config(Some(first.name), evidence));
    }
    if let Some((evidence, first)) = contradiction(declared, || scaled()) {
        defects.push(Defect::of_config(Some(first), evidence));
    }
    // Both formats mean e4m3 unless fmt says otherwise.
    let declares_e5m2 = declared.fmt.as_deref().is_some_and(|fmt| fmt.contains("e5m2"));
    let e5m2 = || fp8().filter(|weight| weight.is_e5m2);
    if let (true, false, Some(first)) = (declared.is_fp8, declares_e5m2, e5m2().next()) {
        let count = e5m2().count();
        let evidence =
            format!("config.json declares e4m3 codes, but the codes are e5m2 ({})", counted(count, "weight"));
        defects.push(Defect::of_config(Some(first.name), evidence));
    }
    if declared.is_fp8 && is_whole && fp8().next().is_none() && !checkpoint.shards().is_empty() {
        let evidence = "config.json declares fp8 weights, but no weight is fp8".to_owned();
        defects.push(Defect::of_config(None, evidence));
    }
    if let (true, Some(expected)) = (declared.is_fp8, declared.expected) {
        let other = |weight: &&Weight<'_>| match (expected, weight.block) {
            (Expected::Block(declared), Some(block)) => block != declared,
            (_, Some(block)) => block == [BLOCK, BLOCK],
            _ => false,
        };
        if let Some(first) = scaled().find(other) {
            let (count, block) = (scaled().filter(other).count(), first.block.unwrap_or_default());
            let says = match expected {
                Expected::Block([rows, cols]) => format!("blocks of {rows} x {cols}"),
                Expected::Tensor => "one scale per tensor".to_owned(),
                Expected::Row => "one scale per row".to_owned(),
            };
            let evidence = format!(
                "config.json declares {says}, but the scales have the shape of blocks of {} x {} ({})",
                block[0],
                block[1],
                counted(count, "weight")
            );
            defects.push(Defect::of_config(Some(first.name), evidence));
        }
    }
    if declared.is_fp8 {
        listed(declared, weights, &mut defects);
    }
    defects
}

/// What the declared format says of all weights, if the first of them contradicts it.
fn contradiction<'a, W>(declared: &Declared, scaled: impl Fn() -> W) -> Option<(String, &'a str)>
where
    W: Iterator<Item = &'a Weight<'a>>,
{
    let (first, count, method) = (scaled().next()?, scaled().count(), declared.method.as_deref()?);
    if !declared.is_fp8 && method == "compressed-tensors" {
        let evidence = format!(
            "config.json declares no group with weights of num_bits 8 and type float, but {} {} fp8, the first \
             this",
            counted(count, "weight"),
            are(count as u64)
        );
        return Some((evidence, first.name));
    }
    if !declared.is_fp8 {
        let evidence = format!(
            "config.json declares {method}, but {} {} fp8, the first this",
            counted(count, "weight"),
            are(count as u64)
        );
        return (!may_hold_fp8(method)).then_some((evidence, first.name));
    }
    if let Some(fmt) = declared.fmt.as_deref().filter(|fmt| fmt.contains("e5m2")) {
        let evidence =
            format!("config.json declares fmt {fmt}, but the codes are e4m3 ({})", counted(count, "weight"));
        return Some((evidence, first.name));
    }
    let suffix = declared.scales?.suffix();
    let is_other = |weight: &&Weight<'_>| weight.scales.is_some_and(|name| !name.ends_with(suffix));
    let (other, count) = (scaled().find(is_other)?, scaled().filter(is_other).count());
    let evidence = format!(
        "config.json declares {method}, whose loaders look for {}{suffix}, but the scales are {} ({})",
        other.name,
        other.scales.unwrap_or_default(),
        counted(count, "weight")
    );
    Some((evidence, other.name))
}

/// Compares the list of modules that are not quantized.
fn listed(declared: &Declared, weights: &[Weight<'_>], defects: &mut Vec<Defect>) {
    let kept = KeptModules::new(&declared.kept);
    for weight in weights.iter().filter(|weight| weight.is_fp8 && weight.block.is_some()) {
        if let Some(entry) = kept.find(module(weight.name)) {
            let evidence = format!("it is fp8, but config.json lists {entry} as not quantized");
            defects.push(Defect::of_config(Some(weight.name), evidence));
        }
    }
    // Loaders differ in how they match entries, so a weight counts as listed if any of them would match it.
    if kept.is_unknown {
        return;
    }
    let quantized: HashSet<String> =
        weights.iter().filter(|weight| weight.is_fp8).map(|weight| without_numbers(weight.name)).collect();
    for weight in weights.iter().filter(|weight| weight.is_plain_matrix) {
        let name = module(weight.name);
        let is_expected = built_in(name).is_none() && quantized.contains(&without_numbers(weight.name));
        let is_listed = || declared.kept.iter().any(|entry| name.contains(entry.as_str()));
        if is_expected && !is_listed() && kept.find(name).is_none() {
            let evidence =
                "it is not fp8 as its counterparts in other layers, and config.json does not list it as \
                            not quantized"
                    .to_owned();
            defects.push(Defect::of_config(Some(weight.name), evidence));
        }
    }
}

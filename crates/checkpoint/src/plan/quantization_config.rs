//! The `quantization_config` of a `config.json`.

use serde::Serialize;
use serde_json::Value;

use crate::{
    BLOCK, Format, ScaleKind,
    error::{CheckpointError, Result},
    read::Config,
};

/// Rejects a checkpoint whose config declares an unsupported quantization.
pub(super) fn require_known(config: Option<&Config>) -> Result<()> {
    let Some(Value::Object(found)) = config.and_then(|config| config.get("quantization_config")) else {
        return Ok(());
    };
    let text = |key: &str| found.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    match text("quant_method").as_str() {
        "fp8" => match found.get("weight_block_size") {
            Some(size) if *size != serde_json::json!([BLOCK, BLOCK]) => {
                Err(CheckpointError::BlockSize { found: size.to_string() })
            }
            _ => Ok(()),
        },
        "compressed-tensors" if text("format") == "float-quantized" => Ok(()),
        "compressed-tensors" => {
            let found = format!("compressed-tensors, format {}", text("format"));
            Err(CheckpointError::OtherQuantization { found })
        }
        other => Err(CheckpointError::OtherQuantization { found: other.to_owned() }),
    }
}

/// Whether the config declares power-of-two scales.
pub(super) fn says_ue8m0(config: Option<&Config>) -> bool {
    let quantization = config.and_then(|config| config.get("quantization_config"));
    quantization.is_some_and(|found| found.get("scale_fmt").and_then(Value::as_str) == Some("ue8m0"))
}

/// Tells loaders how the weights are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum QuantizationConfig {
    /// Fine-grained fp8.
    Fp8(Fp8Config),
    /// compressed-tensors.
    CompressedTensors(Box<CompressedTensorsConfig>),
}

/// Entries of the fine-grained fp8 format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fp8Config {
    quant_method: &'static str,
    fmt: &'static str,
    activation_scheme: &'static str,
    weight_block_size: [usize; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    scale_fmt: Option<&'static str>,
    modules_to_not_convert: Vec<String>,
}

/// Entries of the compressed-tensors format, as its preset `FP8_BLOCK` writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompressedTensorsConfig {
    quant_method: &'static str,
    format: &'static str,
    quantization_status: &'static str,
    config_groups: Groups,
    ignore: Vec<String>,
    kv_cache_scheme: Option<()>,
    global_compression_ratio: Option<()>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Groups {
    group_0: Group,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Group {
    targets: [&'static str; 1],
    weights: Arguments,
    input_activations: Arguments,
    output_activations: Option<()>,
    format: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Arguments {
    num_bits: u8,
    r#type: &'static str,
    symmetric: bool,
    strategy: &'static str,
    group_size: Option<usize>,
    block_structure: Option<[usize; 2]>,
    dynamic: bool,
}

impl QuantizationConfig {
    /// Describes a checkpoint in which the modules in `kept` are not quantized.
    pub(super) fn new(format: Format, scales: ScaleKind, kept: Vec<String>) -> Self {
        match format {
            Format::Fp8 => Self::Fp8(Fp8Config {
                quant_method: "fp8",
                fmt: "e4m3",
                activation_scheme: "dynamic",
                weight_block_size: [BLOCK, BLOCK],
                scale_fmt: (scales == ScaleKind::Ue8m0).then_some("ue8m0"),
                modules_to_not_convert: kept,
            }),
            Format::CompressedTensors => {
                let arguments = Arguments {
                    num_bits: 8,
                    r#type: "float",
                    symmetric: true,
                    strategy: "block",
                    group_size: None,
                    block_structure: Some([BLOCK, BLOCK]),
                    dynamic: false,
                };
                let group_0 = Group {
                    targets: ["Linear"],
                    input_activations: Arguments {
                        strategy: "group",
                        group_size: Some(BLOCK),
                        block_structure: None,
                        dynamic: true,
                        ..arguments
                    },
                    weights: arguments,
                    output_activations: None,
                    format: "float-quantized",
                };
                Self::CompressedTensors(Box::new(CompressedTensorsConfig {
                    quant_method: "compressed-tensors",
                    format: "float-quantized",
                    quantization_status: "compressed",
                    config_groups: Groups { group_0 },
                    ignore: kept,
                    kv_cache_scheme: None,
                    global_compression_ratio: None,
                }))
            }
        }
    }
}

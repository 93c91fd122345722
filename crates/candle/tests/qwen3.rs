//! The decoder of the example on a small random checkpoint, quantized by Octile: its logits against those of
//! the original, and its tokens against those of candle's linear layers on the dequantized weights.

#[path = "../examples/qwen3/model.rs"]
mod model;
mod random;

use std::{collections::HashMap, fs, path::Path};

use candle_core::{DType, Device, Result, Tensor, safetensors};
use candle_nn::VarBuilder;
use model::{Config, Linear, Qwen3};
use octile_candle::{Fp8Linear, Scales};
use octile_checkpoint::{Checkpoint, CheckpointPlan, Convert, Format, Output, Quantize, Request};
use octile_core::FloatKind;
use tempfile::TempDir;

const CONFIG: &str = r#"{
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 384,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": false,
    "torch_dtype": "bfloat16"
}"#;

const PROMPT: [u32; 9] = [17, 400, 3, 511, 0, 82, 82, 251, 9];

/// Writes a random checkpoint of two shards.
fn write_checkpoint(folder: &Path) {
    let config: Config = serde_json::from_str(CONFIG).unwrap();
    let mut shards = [HashMap::new(), HashMap::new()];
    let mut weight_map = serde_json::Map::new();
    for (at, (name, shape)) in random::qwen3_shapes(&config).into_iter().enumerate() {
        let shard = at % 2;
        weight_map.insert(name.clone(), format!("model-0000{}-of-00002.safetensors", shard + 1).into());
        let spread = 2.0 / (config.hidden_size as f32).sqrt();
        let tensor = random::weight(at as u64, &shape, spread).unwrap().to_dtype(DType::BF16).unwrap();
        shards[shard].insert(name, tensor);
    }
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("config.json"), CONFIG).unwrap();
    let index = serde_json::json!({ "metadata": {}, "weight_map": weight_map });
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    for (at, tensors) in shards.iter().enumerate() {
        safetensors::save(tensors, folder.join(format!("model-0000{}-of-00002.safetensors", at + 1)))
            .unwrap();
    }
}

/// Does what `octile quantize`, `convert` or `dequantize` does.
fn convert(from: &Path, to: &Path, request: Request) {
    let checkpoint = Checkpoint::open(from).unwrap();
    let plan = CheckpointPlan::new(&checkpoint, &request).unwrap();
    let output = Output { path: to.to_owned(), force: false, threads: None };
    octile_checkpoint::write(&checkpoint, &plan, &output, &()).unwrap();
}

fn quantize(from: &Path, to: &Path, format: Format) {
    convert(from, to, Request::Quantize(Quantize { format, ..Quantize::default() }));
}

fn candle_linear(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<Linear> {
    Ok(Box::new(candle_nn::linear_no_bias(in_dim, out_dim, vb)?))
}

fn octile_linear(scales: Scales) -> impl Fn(usize, usize, VarBuilder<'_>) -> Result<Linear> {
    move |in_dim, out_dim, vb| {
        if vb.contains_tensor("weight_scale_inv") || vb.contains_tensor("weight_scale") {
            return Ok(Box::new(Fp8Linear::load(in_dim, out_dim, vb)?.with_activation_scales(scales)?));
        }
        assert!(vb.prefix().contains("lm_head"), "{} is not quantized", vb.prefix());
        candle_linear(in_dim, out_dim, vb)
    }
}

fn load(
    folder: &Path,
    dtype: DType,
    linear: impl Fn(usize, usize, VarBuilder<'_>) -> Result<Linear>,
) -> Qwen3 {
    let config: Config =
        serde_json::from_str(&fs::read_to_string(folder.join("config.json")).unwrap()).unwrap();
    let shards: Vec<_> =
        (1..=2).map(|at| folder.join(format!("model-0000{at}-of-00002.safetensors"))).collect();
    let mut tensors = HashMap::new();
    for shard in shards {
        tensors.extend(safetensors::load(shard, &Device::Cpu).unwrap());
    }
    let vb = VarBuilder::from_tensors(tensors, dtype, &Device::Cpu);
    Qwen3::load(&config, &vb, &linear).unwrap()
}

fn logits(model: &mut Qwen3) -> Vec<f32> {
    model.reset();
    model.forward(&PROMPT, false).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// Norm of the difference over the norm.
fn error(found: &[f32], expected: &[f32]) -> f32 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>().sqrt();
    norm(&mut found.iter().zip(expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied())
}

#[test]
fn logits_and_tokens_of_a_quantized_checkpoint() {
    let folder = TempDir::new().unwrap();
    let [original, fp8, plain] = ["original", "fp8", "plain"].map(|name| folder.path().join(name));
    write_checkpoint(&original);
    quantize(&original, &fp8, Format::Fp8);
    convert(&fp8, &plain, Request::Dequantize(FloatKind::F32));

    let mut original = load(&original, DType::F32, candle_linear);
    let mut dequantized = load(&plain, DType::F32, candle_linear);
    let mut octile = load(&fp8, DType::F32, octile_linear(Scales::None));
    let expected = logits(&mut dequantized);
    let quantization_error = error(&expected, &logits(&mut original));
    assert!((0.02..0.15).contains(&quantization_error), "{quantization_error}");

    // Activations are not quantized, so only rounding differs.
    let found = logits(&mut octile);
    assert!(error(&found, &expected) < 1e-5, "{}", error(&found, &expected));
    let total = error(&found, &logits(&mut original));
    assert!(total < 1.01 * quantization_error, "{total} against {quantization_error}");

    // In bf16, and with activations quantized as on a GPU, the error stays of that size.
    let mut bf16 = load(&fp8, DType::BF16, octile_linear(Scales::None));
    let mut quantized = load(&fp8, DType::F32, octile_linear(Scales::PerToken));
    for (name, model) in [("bf16", &mut bf16), ("quantized activations", &mut quantized)] {
        let total = error(&logits(model), &logits(&mut original));
        assert!((quantization_error / 2.0..2.0 * quantization_error).contains(&total), "{name}: {total}");
    }

    // The cache continues the sequence as if it were given at once.
    octile.reset();
    octile.forward(&PROMPT[..4], true).unwrap();
    let rest = octile.forward(&PROMPT[4..], true).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(error(&rest, &found[found.len() - rest.len()..]) < 1e-5);

    for model in [&mut octile, &mut dequantized] {
        model.reset();
    }
    let tokens = octile.generate(&PROMPT, 24).unwrap();
    assert_eq!(tokens, dequantized.generate(&PROMPT, 24).unwrap());
    assert!(tokens.iter().any(|token| *token != tokens[0]), "the test needs different tokens: {tokens:?}");
}

#[test]
fn compressed_tensors_checkpoint_gives_the_same_logits() {
    let folder = TempDir::new().unwrap();
    let [original, fp8, compressed, back] =
        ["original", "fp8", "compressed", "back"].map(|name| folder.path().join(name));
    write_checkpoint(&original);
    quantize(&original, &fp8, Format::Fp8);
    quantize(&original, &compressed, Format::CompressedTensors);
    let to_fp8 = Convert { format: Some(Format::Fp8), scales: None, requantize: false };
    convert(&compressed, &back, Request::Convert(to_fp8));
    let [first, second, third] = [fp8, compressed, back]
        .map(|folder| logits(&mut load(&folder, DType::F32, octile_linear(Scales::None))));
    assert_eq!(first, second);
    assert_eq!(first, third);
}

#[test]
fn logits_depend_on_every_layer() {
    let folder = TempDir::new().unwrap();
    let [original, fp8] = ["original", "fp8"].map(|name| folder.path().join(name));
    write_checkpoint(&original);
    quantize(&original, &fp8, Format::Fp8);
    let expected = logits(&mut load(&fp8, DType::F32, octile_linear(Scales::None)));
    let layers = ["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"];
    for layer in layers {
        let without = |in_dim, out_dim, vb: VarBuilder<'_>| -> Result<Linear> {
            if vb.prefix().ends_with(&format!("layers.1.{layer}")) {
                let zeros = Tensor::zeros((out_dim, in_dim), DType::F32, &Device::Cpu)?;
                return Ok(Box::new(Fp8Linear::quantize(&zeros)?));
            }
            octile_linear(Scales::None)(in_dim, out_dim, vb)
        };
        let found = logits(&mut load(&fp8, DType::F32, without));
        assert!(error(&found, &expected) > 0.01, "{layer}");
    }
}

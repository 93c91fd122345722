//! Tokens per second of a Qwen3-0.6B with random weights on the CPU: Octile's layers against candle's in f32,
//! bf16 and GGUF Q8_0.
//!
//!     cargo bench --manifest-path crates/candle/Cargo.toml -- bench/record/cpu/candle.json
//!
//! Each model holds all its linear layers, `lm_head` included, in its format. Octile's layers round
//! activations to bf16, those of Q8_0 to 8 bits with a scale per 256. In every round each model reads
//! a prompt and then generates tokens one at a time, in turn; the median over the rounds counts.

#[path = "../examples/qwen3/model.rs"]
mod model;
#[path = "../tests/random/mod.rs"]
mod random;

use std::{collections::HashMap, fs, path::PathBuf, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use candle_core::{
    DType, Device, Tensor,
    quantized::{GgmlDType, QMatMul, QTensor},
};
use candle_nn::VarBuilder;
use clap::Parser;
use model::{Config, Linear, Qwen3};
use octile_candle::Fp8Linear;

/// Names of the formats.
const FORMATS: [&str; 4] = ["octile-fp8", "candle-f32", "candle-bf16", "candle-q8_0"];

/// Compare tokens per second on the CPU
#[derive(Parser)]
struct Args {
    /// File for the record
    record: Option<PathBuf>,
    /// Number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Tokens of the prompt
    #[arg(long, default_value_t = 512)]
    prompt: usize,
    /// Tokens generated after the prompt
    #[arg(long, default_value_t = 32)]
    generate: usize,
    /// Layers of the model
    #[arg(long, default_value_t = 28)]
    layers: usize,
    /// Formats to measure, instead of all
    #[arg(long, value_delimiter = ',', value_parser = FORMATS)]
    only: Vec<String>,
    /// Given by cargo bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// A model and its samples.
struct Contestant {
    name: &'static str,
    model: Qwen3,
    /// Seconds.
    prefill: Vec<f64>,
    decode: Vec<f64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let config = qwen3_0_6b(args.layers)?;
    let mut tensors = HashMap::new();
    for (at, (name, shape)) in random::qwen3_shapes(&config).into_iter().enumerate() {
        tensors.insert(name, random::weight(at as u64, &shape, 0.02)?.to_dtype(DType::BF16)?);
    }
    let load = |name, dtype, linear: model::LoadLinear<'_>| -> Result<Contestant> {
        let vb = VarBuilder::from_tensors(tensors.clone(), dtype, &Device::Cpu);
        let model = Qwen3::load(&config, &vb, linear)?;
        println!("loaded {name}");
        Ok(Contestant { name, model, prefill: Vec::new(), decode: Vec::new() })
    };
    let mut contestants = Vec::new();
    for name in
        FORMATS.into_iter().filter(|name| args.only.is_empty() || args.only.iter().any(|only| only == name))
    {
        contestants.push(match name {
            "octile-fp8" => load(name, DType::F32, &|in_dim, out_dim, vb| {
                let layer = Fp8Linear::quantize(&vb.get((out_dim, in_dim), "weight")?)?;
                // As Q8_0 rounds them, to 8 bits with a scale.
                Ok(Box::new(layer.with_rounded_activations()?) as Linear)
            })?,
            "candle-q8_0" => load(name, DType::F32, &|in_dim, out_dim, vb| {
                let weight = QTensor::quantize(&vb.get((out_dim, in_dim), "weight")?, GgmlDType::Q8_0)?;
                Ok(Box::new(QMatMul::from_arc(Arc::new(weight))?))
            })?,
            "candle-bf16" => load(name, DType::BF16, &candle_linear)?,
            _ => load(name, DType::F32, &candle_linear)?,
        });
    }
    drop(tensors);
    let prompt: Vec<u32> = (0..args.prompt).map(|at| (at * 7919 % config.vocab_size) as u32).collect();
    for round in 0..=args.rounds {
        for contestant in &mut contestants {
            let Contestant { model, prefill, decode, .. } = contestant;
            model.reset();
            let start = Instant::now();
            let next = argmax(&model.forward(&prompt, true)?)?;
            let prefilled = start.elapsed().as_secs_f64();
            let start = Instant::now();
            let mut token = next;
            for _ in 0..args.generate {
                token = argmax(&model.forward(&[token], true)?)?;
            }
            let decoded = start.elapsed().as_secs_f64();
            // The first round warms up.
            if round > 0 {
                prefill.push(prefilled);
                decode.push(decoded);
            }
        }
    }
    report(&args, &contestants)
}

fn candle_linear(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> candle_core::Result<Linear> {
    Ok(Box::new(candle_nn::linear_no_bias(in_dim, out_dim, vb)?))
}

fn argmax(logits: &Tensor) -> Result<u32> {
    Ok(logits.flatten_all()?.argmax(0)?.to_scalar::<u32>()?)
}

fn qwen3_0_6b(layers: usize) -> Result<Config> {
    Ok(serde_json::from_value(serde_json::json!({
        "vocab_size": 151936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": layers,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": true,
    }))?)
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn report(args: &Args, contestants: &[Contestant]) -> Result<()> {
    println!("{:12} {:>16} {:>16}", "tokens / s", "prefill", "decode");
    let mut models = Vec::new();
    for Contestant { name, prefill, decode, .. } in contestants {
        let prefill_rate = args.prompt as f64 / median(prefill);
        let decode_rate = args.generate as f64 / median(decode);
        println!("{name:12} {prefill_rate:16.1} {decode_rate:16.2}");
        models.push(serde_json::json!({
            "name": name,
            "prefill_tokens_per_second": prefill_rate,
            "decode_tokens_per_second": decode_rate,
            "prefill_seconds": prefill,
            "decode_seconds": decode,
        }));
    }
    let Some(path) = &args.record else { return Ok(()) };
    let record = serde_json::json!({
        "what": "Qwen3-0.6B with random weights, all linear layers in the named format, interleaved rounds",
        "prompt_tokens": args.prompt,
        "generated_tokens": args.generate,
        "layers": args.layers,
        "cpu": cpu_name(),
        "threads": std::thread::available_parallelism()?.get(),
        "date": std::env::var("DATE").ok(),
        "octile": env!("CARGO_PKG_VERSION"),
        "candle": "0.11.1",
        "models": models,
    });
    fs::write(path, format!("{record:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

fn cpu_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split(':').nth(1)?.trim().to_owned())
}

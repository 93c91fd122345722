//! Generates tokens with a Qwen3 checkpoint that `octile quantize` wrote.
//!
//!     octile quantize Qwen3-0.6B -o Qwen3-0.6B-fp8
//!     cargo run --release --example qwen3 -- Qwen3-0.6B-fp8 --prompt "The capital of France is"
//!
//! Layers that the checkpoint keeps in bf16 (the `lm_head`) are candle's own.

mod model;

use std::{fs, path::PathBuf, time::Instant};

use anyhow::{Context, Result, anyhow, ensure};
use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use clap::Parser;
use octile_candle::Fp8Linear;
use tokenizers::Tokenizer;

use model::{Config, Linear, Qwen3};

/// Generate tokens with an fp8 Qwen3 checkpoint
#[derive(Parser)]
struct Args {
    /// Folder with config.json and safetensors files
    checkpoint: PathBuf,
    #[command(flatten)]
    prompt: Prompt,
    /// Number of tokens to generate
    #[arg(long, default_value_t = 16)]
    generate: usize,
    /// Run on the first GPU, in bf16
    #[arg(long)]
    cuda: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Prompt {
    /// Text to continue; needs tokenizer.json
    #[arg(long)]
    prompt: Option<String>,
    /// Token ids to continue
    #[arg(long, value_delimiter = ',')]
    tokens: Vec<u32>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (device, dtype) =
        if args.cuda { (Device::new_cuda(0)?, DType::BF16) } else { (Device::Cpu, DType::F32) };
    let config = args.checkpoint.join("config.json");
    let config = fs::read_to_string(&config).with_context(|| format!("cannot read {}", config.display()))?;
    let config: Config = serde_json::from_str(&config).context("config.json is not of a Qwen3 model")?;
    let tokenizer = match &args.prompt.prompt {
        Some(_) => Some(
            Tokenizer::from_file(args.checkpoint.join("tokenizer.json"))
                .map_err(|error| anyhow!("cannot read tokenizer.json, use --tokens: {error}"))?,
        ),
        None => None,
    };
    let tokens = match (&args.prompt.prompt, &tokenizer) {
        (Some(text), Some(tokenizer)) => {
            let encoded = tokenizer.encode(text.as_str(), false).map_err(|error| anyhow!("{error}"))?;
            encoded.get_ids().to_vec()
        }
        _ => args.prompt.tokens,
    };
    ensure!(!tokens.is_empty(), "the prompt is empty: give at least one token");
    let largest = config.vocab_size.saturating_sub(1);
    for token in &tokens {
        ensure!((*token as usize) <= largest, "token {token} is beyond the vocabulary: at most {largest}");
    }
    let mut shards: Vec<PathBuf> = fs::read_dir(&args.checkpoint)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .collect();
    shards.sort();
    // SAFETY: the files are not changed while they are mapped.
    let vb = unsafe { VarBuilder::from_mmaped_safetensors(&shards, dtype, &device)? };

    let start = Instant::now();
    let mut model = Qwen3::load(&config, &vb, &|in_dim, out_dim, vb| -> candle_core::Result<Linear> {
        Ok(if vb.contains_tensor("weight_scale_inv") {
            Box::new(Fp8Linear::load(in_dim, out_dim, vb)?)
        } else {
            Box::new(candle_nn::linear_no_bias(in_dim, out_dim, vb)?)
        })
    })?;
    println!("loaded in {:.1} s", start.elapsed().as_secs_f64());

    let start = Instant::now();
    let generated = model.generate(&tokens, args.generate)?;
    match &tokenizer {
        Some(tokenizer) => {
            println!("{}", tokenizer.decode(&generated, true).map_err(|error| anyhow!("{error}"))?);
        }
        None => println!("{}", generated.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
    }
    let rate = args.generate as f64 / start.elapsed().as_secs_f64();
    println!("{} tokens after a prompt of {}, {rate:.1} per second", args.generate, tokens.len());
    Ok(())
}

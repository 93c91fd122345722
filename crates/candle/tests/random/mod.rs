//! Random weights that are the same in every run.

#![allow(dead_code, reason = "not every test uses all of it")]

use candle_core::{Device, Result, Tensor};

use crate::model::Config;

/// Roughly normal values with this spread; norms (vectors) are close to one.
pub(crate) fn weight(seed: u64, shape: &[usize], spread: f32) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let (mean, spread) = if shape.len() == 1 { (1.0, 0.1) } else { (0.0, spread) };
    // The sum of four uniform values in -1..1 has a variance of 4 / 3.
    let value = |index: usize| {
        let bits = hash(seed << 40 | index as u64);
        let sum: f32 = (0..4).map(|at| f32::from((bits >> (16 * at)) as u16) / 32768.0 - 1.0).sum();
        mean + spread * sum * 0.75f32.sqrt()
    };
    Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), shape, &Device::Cpu)
}

fn hash(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for multiplier in [0xbf58_476d_1ce4_e5b9u64, 0x94d0_49bb_1331_11eb] {
        x ^= x >> 30;
        x = x.wrapping_mul(multiplier);
    }
    x ^ x >> 31
}

/// Names and shapes of the tensors of a Qwen3 checkpoint.
pub(crate) fn qwen3_shapes(config: &Config) -> Vec<(String, Vec<usize>)> {
    let &Config { vocab_size, hidden_size, intermediate_size, head_dim, .. } = config;
    let (all, shared) = (config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim);
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![vocab_size, hidden_size]),
        ("model.norm.weight".to_owned(), vec![hidden_size]),
    ];
    if !config.tie_word_embeddings {
        shapes.push(("lm_head.weight".to_owned(), vec![vocab_size, hidden_size]));
    }
    for layer in 0..config.num_hidden_layers {
        let tensors = [
            ("input_layernorm", vec![hidden_size]),
            ("post_attention_layernorm", vec![hidden_size]),
            ("self_attn.q_proj", vec![all, hidden_size]),
            ("self_attn.k_proj", vec![shared, hidden_size]),
            ("self_attn.v_proj", vec![shared, hidden_size]),
            ("self_attn.o_proj", vec![hidden_size, all]),
            ("self_attn.q_norm", vec![head_dim]),
            ("self_attn.k_norm", vec![head_dim]),
            ("mlp.gate_proj", vec![intermediate_size, hidden_size]),
            ("mlp.up_proj", vec![intermediate_size, hidden_size]),
            ("mlp.down_proj", vec![hidden_size, intermediate_size]),
        ];
        shapes.extend(tensors.map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)));
    }
    shapes
}

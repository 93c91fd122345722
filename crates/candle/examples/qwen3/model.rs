//! A Qwen3 decoder: RMS norms (also of queries and keys), rotary embedding, grouped-query attention with a
//! cache, SwiGLU. The caller decides how linear layers are loaded.

#![allow(dead_code, reason = "shared by the example, the tests and the benchmark, and none uses all of it")]

use candle_core::{D, DType, Device, Module, Result, Tensor, bail};
use candle_nn::{Embedding, RmsNorm, VarBuilder, kv_cache::KvCache, ops::softmax_last_dim};
use serde::Deserialize;

/// What `config.json` says.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Config {
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) num_key_value_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) rms_norm_eps: f64,
    /// Newer versions of transformers write it into `rope_parameters`.
    pub(crate) rope_theta: Option<f64>,
    pub(crate) rope_parameters: Option<RopeParameters>,
    #[serde(default)]
    pub(crate) tie_word_embeddings: bool,
}

/// The part of `rope_parameters` that Qwen3 uses.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RopeParameters {
    pub(crate) rope_theta: f64,
}

/// A loaded linear layer.
pub(crate) type Linear = Box<dyn Module>;

/// Loads the linear layer of `[out_dim, in_dim]` at a path.
pub(crate) type LoadLinear<'a> = &'a dyn Fn(usize, usize, VarBuilder<'_>) -> Result<Linear>;

/// The model, with a cache of keys and values for one sequence at a time.
pub(crate) struct Qwen3 {
    embeddings: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    lm_head: Linear,
    rotary: Rotary,
    dtype: DType,
}

impl Qwen3 {
    /// Loads a checkpoint in the Hugging Face layout.
    pub(crate) fn load(config: &Config, vb: &VarBuilder<'_>, linear: LoadLinear<'_>) -> Result<Self> {
        let Config { vocab_size, hidden_size, .. } = *config;
        let embeddings = vb.pp("model.embed_tokens");
        let lm_head = if config.tie_word_embeddings { embeddings.clone() } else { vb.pp("lm_head") };
        let layers = (0..config.num_hidden_layers)
            .map(|at| Layer::load(config, &vb.pp("model.layers").pp(at), linear))
            .collect::<Result<_>>()?;
        Ok(Self {
            embeddings: candle_nn::embedding(vocab_size, hidden_size, embeddings)?,
            layers,
            norm: candle_nn::rms_norm(hidden_size, config.rms_norm_eps, vb.pp("model.norm"))?,
            lm_head: linear(hidden_size, vocab_size, lm_head)?,
            rotary: Rotary::new(config, vb.device())?,
            dtype: vb.dtype(),
        })
    }

    /// Forgets the sequence.
    pub(crate) fn reset(&mut self) {
        self.layers.iter_mut().for_each(|layer| layer.attention.cache.reset());
    }

    /// Continues the sequence with these tokens and returns the logits, `[tokens, vocabulary]` or of the last
    /// token only.
    pub(crate) fn forward(&mut self, tokens: &[u32], last_only: bool) -> Result<Tensor> {
        let device = self.embeddings.embeddings().device().clone();
        let past = self.layers.first().map_or(0, |layer| layer.attention.cache.current_seq_len());
        let count = tokens.len();
        let tokens = Tensor::new(tokens, &device)?;
        let mut x = self.embeddings.forward(&tokens)?.unsqueeze(0)?;
        let turn = self.rotary.positions(past, count, self.dtype)?;
        let mask = if count > 1 { Some(causal_mask(past, count, self.dtype, &device)?) } else { None };
        for layer in &mut self.layers {
            x = layer.forward(&x, &turn, mask.as_ref())?;
        }
        let x = if last_only { x.narrow(1, count - 1, 1)? } else { x };
        self.lm_head.forward(&self.norm.forward(&x)?)?.squeeze(0)?.to_dtype(DType::F32)
    }

    /// Continues `prompt` with the most likely token, again and again.
    pub(crate) fn generate(&mut self, prompt: &[u32], count: usize) -> Result<Vec<u32>> {
        let mut generated = Vec::with_capacity(count);
        let mut input = prompt.to_vec();
        for _ in 0..count {
            let logits = self.forward(&input, true)?;
            input = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
            generated.extend(&input);
        }
        Ok(generated)
    }
}

struct Layer {
    attention_norm: RmsNorm,
    attention: Attention,
    mlp_norm: RmsNorm,
    mlp: Mlp,
}

impl Layer {
    fn load(config: &Config, vb: &VarBuilder<'_>, linear: LoadLinear<'_>) -> Result<Self> {
        let norm = |name| candle_nn::rms_norm(config.hidden_size, config.rms_norm_eps, vb.pp(name));
        Ok(Self {
            attention_norm: norm("input_layernorm")?,
            attention: Attention::load(config, &vb.pp("self_attn"), linear)?,
            mlp_norm: norm("post_attention_layernorm")?,
            mlp: Mlp::load(config, &vb.pp("mlp"), linear)?,
        })
    }

    fn forward(&mut self, x: &Tensor, turn: &Turn, mask: Option<&Tensor>) -> Result<Tensor> {
        let x = (x + self.attention.forward(&self.attention_norm.forward(x)?, turn, mask)?)?;
        &x + self.mlp.forward(&self.mlp_norm.forward(&x)?)?
    }
}

/// Positions by which the cache of keys and values grows. Concatenating would copy all of it for every token.
const CACHE_STEP: usize = 1024;

struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    q_norm: RmsNorm,
    k_norm: RmsNorm,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    cache: KvCache,
}

impl Attention {
    fn load(config: &Config, vb: &VarBuilder<'_>, linear: LoadLinear<'_>) -> Result<Self> {
        let Config { hidden_size, num_attention_heads, num_key_value_heads, head_dim, .. } = *config;
        let (all, shared) = (num_attention_heads * head_dim, num_key_value_heads * head_dim);
        if !num_attention_heads.is_multiple_of(num_key_value_heads) {
            bail!("{num_attention_heads} heads cannot share {num_key_value_heads} heads of keys and values");
        }
        let norm = |name| candle_nn::rms_norm(head_dim, config.rms_norm_eps, vb.pp(name));
        Ok(Self {
            q_proj: linear(hidden_size, all, vb.pp("q_proj"))?,
            k_proj: linear(hidden_size, shared, vb.pp("k_proj"))?,
            v_proj: linear(hidden_size, shared, vb.pp("v_proj"))?,
            o_proj: linear(all, hidden_size, vb.pp("o_proj"))?,
            q_norm: norm("q_norm")?,
            k_norm: norm("k_norm")?,
            heads: num_attention_heads,
            kv_heads: num_key_value_heads,
            head_dim,
            cache: KvCache::new(2, CACHE_STEP),
        })
    }

    fn forward(&mut self, x: &Tensor, turn: &Turn, mask: Option<&Tensor>) -> Result<Tensor> {
        let (batch, count, _) = x.dims3()?;
        let split = |x: Tensor, heads| x.reshape((batch, count, heads, self.head_dim));
        let by_head = |x: Tensor| x.transpose(1, 2)?.contiguous();
        let q = by_head(self.q_norm.forward(&split(self.q_proj.forward(x)?, self.heads)?)?)?;
        let k = by_head(self.k_norm.forward(&split(self.k_proj.forward(x)?, self.kv_heads)?)?)?;
        let v = by_head(split(self.v_proj.forward(x)?, self.kv_heads)?)?;
        let (k, v) = self.cache.append(&turn.apply(&k)?, &v)?;
        // The query heads of a group are rows of one product with the keys that they share.
        let group = self.heads / self.kv_heads;
        // Queries are scaled, and not the scores, of which there are more.
        let q = (turn.apply(&q)? * (self.head_dim as f64).powf(-0.5))?;
        let q = q.reshape((batch, self.kv_heads, group * count, self.head_dim))?;
        let scores = q.matmul(&k.t()?)?;
        let past_and_new = k.dim(2)?;
        let scores = match mask {
            None => scores,
            Some(mask) => scores
                .reshape((batch, self.kv_heads, group, count, past_and_new))?
                .broadcast_add(mask)?
                .reshape((batch, self.kv_heads, group * count, past_and_new))?,
        };
        let out = softmax_last_dim(&scores)?.matmul(&v)?;
        let out = out.reshape((batch, self.heads, count, self.head_dim))?.transpose(1, 2)?;
        self.o_proj.forward(&out.reshape((batch, count, self.heads * self.head_dim))?)
    }
}

struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl Mlp {
    fn load(config: &Config, vb: &VarBuilder<'_>, linear: LoadLinear<'_>) -> Result<Self> {
        let Config { hidden_size, intermediate_size, .. } = *config;
        Ok(Self {
            gate_proj: linear(hidden_size, intermediate_size, vb.pp("gate_proj"))?,
            up_proj: linear(hidden_size, intermediate_size, vb.pp("up_proj"))?,
            down_proj: linear(intermediate_size, hidden_size, vb.pp("down_proj"))?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let gated = (self.gate_proj.forward(x)?.silu()? * self.up_proj.forward(x)?)?;
        self.down_proj.forward(&gated)
    }
}

/// Frequencies of the rotary embedding.
struct Rotary(Tensor);

impl Rotary {
    fn new(config: &Config, device: &Device) -> Result<Self> {
        let from_parameters = config.rope_parameters.as_ref().map(|rope| rope.rope_theta);
        let Some(theta) = config.rope_theta.or(from_parameters) else {
            bail!("config.json has no rope_theta");
        };
        let dim = config.head_dim;
        let frequencies: Vec<f32> =
            (0..dim).step_by(2).map(|at| theta.powf(-(at as f64) / dim as f64) as f32).collect();
        Ok(Self(Tensor::from_vec(frequencies, (1, dim / 2), device)?))
    }

    fn positions(&self, past: usize, count: usize, dtype: DType) -> Result<Turn> {
        let positions = Tensor::arange(past as u32, (past + count) as u32, self.0.device())?;
        let angles = positions.to_dtype(DType::F32)?.reshape((count, 1))?.matmul(&self.0)?;
        Ok(Turn { cos: angles.cos()?.to_dtype(dtype)?, sin: angles.sin()?.to_dtype(dtype)? })
    }
}

/// The rotation of some positions.
struct Turn {
    cos: Tensor,
    sin: Tensor,
}

impl Turn {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        candle_nn::rotary_emb::rope(x, &self.cos, &self.sin)
    }
}

/// Minus infinity where a token would look ahead.
fn causal_mask(past: usize, count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let mask: Vec<f32> = (0..count)
        .flat_map(|row| {
            (0..past + count).map(move |col| if col > past + row { f32::NEG_INFINITY } else { 0.0 })
        })
        .collect();
    Tensor::from_vec(mask, (count, past + count), device)?.to_dtype(dtype)
}

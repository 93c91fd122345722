//! Linear layers of a model, from the numbers of its `config.json`.

use serde_json::Value;

/// What determines the shapes of a model's linear layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    hidden: usize,
    attention: Attention,
    /// Widths of the dense feed-forward layers, of one expert, and of the experts that every token passes.
    dense: Option<Width>,
    expert: Option<Width>,
    shared: Option<Width>,
    routing: Option<Routing>,
}

/// One matmul of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfiguredLayer {
    /// What it is. `single` layers are stored in checkpoints; engines run the `fused` ones instead.
    pub name: &'static str,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
    /// How tokens reach it, of one of several experts.
    pub routing: Option<Routing>,
}

/// How many experts a router chooses for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routing {
    /// Experts of a token.
    pub active: usize,
    /// Experts of a layer.
    pub experts: usize,
}

impl Routing {
    /// Rows of one expert, if the router spreads tokens evenly.
    pub fn rows(&self, tokens: usize) -> usize {
        tokens.saturating_mul(self.active).div_ceil(self.experts)
    }

    /// Experts that have rows then.
    pub fn busy_experts(&self, tokens: usize) -> usize {
        tokens.saturating_mul(self.active).min(self.experts)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Width {
    key: &'static str,
    width: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Attention {
    /// Grouped-query attention.
    Grouped { heads: usize, kv_heads: usize, head_dim: usize },
    /// Multi-head latent attention.
    Latent(Latent),
}

/// Multi-head latent attention of DeepSeek, and of the models that adopted it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Latent {
    heads: usize,
    /// Rank of the queries, unless they are computed from the hidden state at once.
    q_rank: Option<usize>,
    kv_rank: usize,
    /// Dimensions of a head with rotary embedding, without, and of its values.
    rope: usize,
    nope: usize,
    value: usize,
    /// Heads of the sparse indexer and their dimension.
    indexer: Option<(usize, usize)>,
}

/// A configuration from which the layers do not follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number is missing.
    #[error("it has no {key}: list the shapes in a file for --shapes-from instead")]
    Missing {
        /// Its key.
        key: &'static str,
    },
    /// A value is no size.
    #[error("its {key} is {value}, and must be a whole number from {least} to {most}")]
    Number {
        /// Its key.
        key: &'static str,
        /// The value.
        value: String,
        /// The least number.
        least: usize,
        /// The largest number.
        most: usize,
    },
    /// The model has layers of other kinds.
    #[error(
        "it has {key}, so it has layers of a kind whose shapes octile does not know: list the shapes in a file \
         for --shapes-from instead"
    )]
    OtherLayers {
        /// The key that shows it.
        key: &'static str,
    },
    /// A side that cannot be divided among devices.
    #[error("its {key} of {size} cannot be divided among {degree} devices")]
    Parallel {
        /// The key.
        key: &'static str,
        /// Its number.
        size: usize,
        /// The number of devices.
        degree: usize,
    },
}

/// Sizes above this are no layer's.
const MOST: usize = 1 << 24;

/// Keys of hybrid models: linear attention and state spaces.
const OTHER_LAYERS: [&str; 6] = [
    "linear_num_value_heads",
    "linear_attn_config",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_state_size",
    "hybrid_override_pattern",
];

/// Key of the kind of each layer, and the kinds whose matmuls are those of attention.
const LAYER_TYPES: &str = "layer_types";
const ATTENTION: [&str; 3] = ["full_attention", "sliding_attention", "chunked_attention"];

/// Names of the number of experts of a layer, and of those that a router chooses for each token.
pub const EXPERTS: [&str; 3] = ["num_experts", "n_routed_experts", "num_local_experts"];
/// See [`EXPERTS`].
pub const ACTIVE_EXPERTS: [&str; 4] =
    ["num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"];

/// A JSON value in an error: short, whatever it is.
fn quoted(value: &Value) -> String {
    const MOST: usize = 40;
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => {
            let text = other.to_string();
            match text.char_indices().nth(MOST) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text,
            }
        }
    }
}

/// Values of a configuration by key. Those of the language model go first where others are beside it.
struct Numbers<'a>(&'a Value);

impl<'a> Numbers<'a> {
    fn value(&self, key: &str) -> Option<&'a Value> {
        let is_given = |value: &&Value| !value.is_null();
        let of_text = self.0.get("text_config").and_then(|text| text.get(key)).filter(is_given);
        of_text.or_else(|| self.0.get(key).filter(is_given))
    }

    /// A number that may be missing.
    fn optional(&self, key: &'static str, least: usize) -> Result<Option<usize>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        match number.filter(|number| (least..=MOST).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(ConfigError::Number { key, value: quoted(value), least, most: MOST }),
        }
    }

    fn size(&self, key: &'static str) -> Result<usize, ConfigError> {
        self.optional(key, 1)?.ok_or(ConfigError::Missing { key })
    }

    fn width(&self, key: &'static str) -> Result<Option<Width>, ConfigError> {
        Ok(self.optional(key, 1)?.map(|width| Width { key, width }))
    }

    /// The first of several names of a count, which may be zero.
    fn count(&self, keys: &[&'static str]) -> Result<usize, ConfigError> {
        let counts = keys.iter().map(|key| self.optional(key, 0));
        counts.into_iter().find_map(Result::transpose).unwrap_or(Ok(0))
    }

    /// How tokens are spread over experts.
    fn routing(&self, experts: usize) -> Result<Routing, ConfigError> {
        let named = ACTIVE_EXPERTS.into_iter().find(|key| self.value(key).is_some());
        let key = named.ok_or(ConfigError::Missing { key: ACTIVE_EXPERTS[0] })?;
        match self.size(key)? {
            active if active <= experts => Ok(Routing { active, experts }),
            active => Err(ConfigError::Number { key, value: active.to_string(), least: 1, most: experts }),
        }
    }
}

impl ModelConfig {
    /// Reads a `config.json`.
    pub fn from_json(config: &Value) -> Result<Self, ConfigError> {
        let numbers = Numbers(config);
        if let Some(key) = OTHER_LAYERS.into_iter().find(|key| numbers.value(key).is_some()) {
            return Err(ConfigError::OtherLayers { key });
        }
        let kinds = numbers.value(LAYER_TYPES).and_then(Value::as_array).into_iter().flatten();
        if kinds.filter_map(Value::as_str).any(|kind| !ATTENTION.contains(&kind)) {
            return Err(ConfigError::OtherLayers { key: LAYER_TYPES });
        }
        let hidden = numbers.size("hidden_size")?;
        let attention = Attention::of(&numbers, hidden)?;
        let width = numbers.width("intermediate_size")?;
        let of_experts = numbers.width("moe_intermediate_size")?;
        let experts = numbers.count(&EXPERTS)?;
        if experts == 0 {
            // Experts that are counted under another name would be left out in silence.
            if of_experts.is_some() && EXPERTS.iter().all(|key| numbers.value(key).is_none()) {
                return Err(ConfigError::Missing { key: EXPERTS[0] });
            }
            let dense = Some(width.ok_or(ConfigError::Missing { key: "intermediate_size" })?);
            return Ok(Self { hidden, attention, dense, expert: None, shared: None, routing: None });
        }
        let key = "moe_intermediate_size";
        let expert = of_experts.or(width).ok_or(ConfigError::Missing { key })?;
        // Models whose layers all have experts keep a width that no layer uses, or none.
        let is_mixed = numbers.count(&["first_k_dense_replace"])? > 0
            || numbers.count(&["decoder_sparse_step", "interleave_moe_layer_step"])? > 1
            || numbers
                .value("mlp_only_layers")
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty());
        let dense = numbers.width("intermediate_size_mlp")?.or(width).filter(|_| is_mixed);
        let shared = match numbers.width("shared_expert_intermediate_size")? {
            Some(shared) => Some(shared),
            None => match numbers.count(&["n_shared_experts"])? {
                0 => None,
                count => Some(Width { width: expert.width * count, ..expert }),
            },
        };
        let routing = Some(numbers.routing(experts)?);
        Ok(Self { hidden, attention, dense, expert: Some(expert), shared, routing })
    }

    /// The layers of one of `degree` tensor-parallel devices, single and fused as inference engines do.
    /// Layers that read the hidden state are split along N, those that write it along K; a device has one
    /// key-value head at least.
    pub fn layers(&self, degree: usize) -> Result<Vec<ConfiguredLayer>, ConfigError> {
        let hidden = self.hidden;
        let mut layers = self.attention.layers(hidden, degree)?;
        let feed_forward = [
            (self.dense, None, ["single gate, up", "fused gate-up", "down"]),
            (self.expert, self.routing, ["single expert gate, up", "fused expert gate-up", "expert down"]),
            (
                self.shared,
                None,
                ["single shared expert gate, up", "fused shared expert gate-up", "shared expert down"],
            ),
        ];
        for (width, routing, [gate, gate_up, down]) in feed_forward {
            if let Some(Width { key, width }) = width {
                let width = divided(key, width, degree)?;
                layers.push(ConfiguredLayer { name: gate, n: width, k: hidden, routing });
                layers.push(ConfiguredLayer { name: gate_up, n: 2 * width, k: hidden, routing });
                layers.push(ConfiguredLayer { name: down, n: hidden, k: width, routing });
            }
        }
        Ok(layers)
    }
}

fn divided(key: &'static str, size: usize, degree: usize) -> Result<usize, ConfigError> {
    match size.is_multiple_of(degree) {
        true => Ok(size / degree),
        false => Err(ConfigError::Parallel { key, size, degree }),
    }
}

impl Attention {
    fn of(numbers: &Numbers<'_>, hidden: usize) -> Result<Self, ConfigError> {
        let heads = numbers.size("num_attention_heads")?;
        let Some(kv_rank) = numbers.optional("kv_lora_rank", 1)? else {
            let kv_heads = numbers.optional("num_key_value_heads", 1)?.unwrap_or(heads);
            let head_dim = match numbers.optional("head_dim", 1)? {
                Some(dim) => dim,
                None => divided("hidden_size", hidden, heads)
                    .map_err(|_| ConfigError::Missing { key: "head_dim" })?,
            };
            return Ok(Self::Grouped { heads, kv_heads, head_dim });
        };
        let indexer = match numbers.count(&["index_n_heads"])? {
            0 => None,
            heads => Some((heads, numbers.size("index_head_dim")?)),
        };
        Ok(Self::Latent(Latent {
            heads,
            q_rank: numbers.optional("q_lora_rank", 1)?,
            kv_rank,
            rope: numbers.size("qk_rope_head_dim")?,
            nope: numbers.size("qk_nope_head_dim")?,
            value: numbers.size("v_head_dim")?,
            indexer,
        }))
    }

    fn layers(&self, hidden: usize, degree: usize) -> Result<Vec<ConfiguredLayer>, ConfigError> {
        let mut layers = Vec::new();
        let mut push = |name, n: usize, k: usize| layers.push(ConfiguredLayer { name, n, k, routing: None });
        match self {
            Self::Grouped { heads, kv_heads, head_dim } => {
                let q = divided("num_attention_heads", *heads, degree)? * head_dim;
                let kv_heads = match degree.is_multiple_of(*kv_heads) {
                    true => 1,
                    false => divided("num_key_value_heads", *kv_heads, degree)?,
                };
                let kv = kv_heads * head_dim;
                push("single q", q, hidden);
                push("single k, v", kv, hidden);
                push("fused qkv", q + 2 * kv, hidden);
                push("o", hidden, q);
            }
            Self::Latent(Latent { heads, q_rank, kv_rank, rope, nope, value, indexer }) => {
                let heads = divided("num_attention_heads", *heads, degree)?;
                // Every device computes the latents.
                let (q, kv_a) = (heads * (nope + rope), kv_rank + rope);
                match q_rank {
                    Some(q_rank) => {
                        push("single q_a", *q_rank, hidden);
                        push("single kv_a", kv_a, hidden);
                        push("fused q_a and kv_a", q_rank + kv_a, hidden);
                        push("q_b", q, *q_rank);
                    }
                    None => {
                        push("q", q, hidden);
                        push("kv_a", kv_a, hidden);
                    }
                }
                push("kv_b", heads * (nope + value), *kv_rank);
                push("o", hidden, heads * value);
                if let Some((heads, dim)) = indexer {
                    push("indexer q_b", heads * dim, q_rank.unwrap_or(hidden));
                    push("indexer k", *dim, hidden);
                }
            }
        }
        Ok(layers)
    }
}

#[cfg(test)]
mod tests;

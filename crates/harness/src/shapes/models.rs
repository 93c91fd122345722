//! Linear layers of published model configurations, under tensor parallelism.

/// One matmul of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// What it is.
    pub name: &'static str,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
}

/// What determines the shapes of a model's linear layers, as in its `config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelConfig {
    pub(super) name: &'static str,
    hidden: usize,
    attention: Attention,
    /// Width of the dense feed-forward layers.
    dense: Option<usize>,
    /// Width of one expert.
    expert: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attention {
    /// Grouped-query attention.
    Grouped { heads: usize, kv_heads: usize, head_dim: usize },
    /// Multi-head latent attention of DeepSeek; `index_heads` is of the sparse indexer of V3.2.
    Latent { heads: usize, q_rank: usize, kv_rank: usize, rope: usize, index_heads: usize },
}

/// Dimensions of a latent head without its rotary part, and of its values.
const LATENT_HEAD: usize = 128;

/// A decoder with grouped-query attention and dense feed-forward layers.
const fn dense(
    name: &'static str,
    hidden: usize,
    width: usize,
    (heads, kv_heads, head_dim): (usize, usize, usize),
) -> ModelConfig {
    let attention = Attention::Grouped { heads, kv_heads, head_dim };
    ModelConfig { name, hidden, attention, dense: Some(width), expert: None }
}

/// The same with experts instead.
const fn experts(
    name: &'static str,
    hidden: usize,
    width: usize,
    (heads, kv_heads, head_dim): (usize, usize, usize),
) -> ModelConfig {
    let attention = Attention::Grouped { heads, kv_heads, head_dim };
    ModelConfig { name, hidden, attention, dense: None, expert: Some(width) }
}

const fn deepseek(name: &'static str, index_heads: usize) -> ModelConfig {
    let attention = Attention::Latent { heads: 128, q_rank: 1536, kv_rank: 512, rope: 64, index_heads };
    ModelConfig { name, hidden: 7168, attention, dense: Some(18432), expert: Some(2048) }
}

/// Configurations as their authors published them.
pub(super) const MODELS: &[ModelConfig] = &[
    deepseek("DeepSeek-V3", 0),
    deepseek("DeepSeek-V3.2", 64),
    dense("Qwen3-0.6B", 1024, 3072, (16, 8, 128)),
    dense("Qwen3-1.7B", 2048, 6144, (16, 8, 128)),
    dense("Qwen3-4B", 2560, 9728, (32, 8, 128)),
    dense("Qwen3-8B", 4096, 12288, (32, 8, 128)),
    dense("Qwen3-14B", 5120, 17408, (40, 8, 128)),
    dense("Qwen3-32B", 5120, 25600, (64, 8, 128)),
    experts("Qwen3-30B-A3B", 2048, 768, (32, 4, 128)),
    experts("Qwen3-235B-A22B", 4096, 1536, (64, 4, 128)),
    dense("Llama-3.2-1B", 2048, 8192, (32, 8, 64)),
    dense("Llama-3.2-3B", 3072, 8192, (24, 8, 128)),
    dense("Llama-3.1-8B", 4096, 14336, (32, 8, 128)),
    dense("Llama-3.1-70B", 8192, 28672, (64, 8, 128)),
    dense("Llama-3.1-405B", 16384, 53248, (128, 8, 128)),
    dense("Mistral-Small-24B", 5120, 32768, (32, 8, 128)),
    dense("Mistral-Large-123B", 12288, 28672, (96, 8, 128)),
    experts("Mixtral-8x7B", 4096, 14336, (32, 8, 128)),
    dense("GLM-4-9B", 4096, 13696, (32, 2, 128)),
    ModelConfig { dense: Some(10944), ..experts("GLM-4.5-Air", 4096, 1408, (96, 8, 128)) },
    ModelConfig { dense: Some(12288), ..experts("GLM-4.5", 5120, 1536, (96, 8, 128)) },
    experts("gpt-oss", 2880, 2880, (64, 8, 64)),
];

/// A configuration from which the layers do not follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration has no usable {key}: name shapes with --shape instead")]
pub struct UnusableConfig {
    key: &'static str,
}

/// Sizes above this are no layer's.
const MOST: usize = 1 << 24;

impl ModelConfig {
    /// The configuration of a `config.json`, whose numbers `number` gives by key.
    pub fn from_numbers(number: impl Fn(&str) -> Option<usize>) -> Result<Self, UnusableConfig> {
        let size = |key: &'static str| {
            number(key).filter(|size| (1..=MOST).contains(size)).ok_or(UnusableConfig { key })
        };
        let (hidden, heads) = (size("hidden_size")?, size("num_attention_heads")?);
        let attention = match size("q_lora_rank").and_then(|q_rank| Ok((q_rank, size("kv_lora_rank")?))) {
            Ok((q_rank, kv_rank)) => Attention::Latent {
                heads,
                q_rank,
                kv_rank,
                rope: size("qk_rope_head_dim")?,
                index_heads: size("index_n_heads").unwrap_or(0),
            },
            Err(_) => Attention::Grouped {
                heads,
                kv_heads: size("num_key_value_heads").unwrap_or(heads),
                head_dim: size("head_dim").unwrap_or(hidden / heads).max(1),
            },
        };
        let experts = ["num_experts", "n_routed_experts", "num_local_experts"];
        let has_experts = experts.iter().any(|key| number(key).is_some_and(|count| count > 0));
        let width = size("intermediate_size");
        let expert = size("moe_intermediate_size").or(width.clone()).ok().filter(|_| has_experts);
        // Models whose layers all have experts keep a width that no layer uses, or none.
        let mixed = size("first_k_dense_replace").is_ok() || size("moe_intermediate_size").is_err();
        let dense = if has_experts && (!mixed || expert == width.clone().ok()) { None } else { Some(width?) };
        Ok(Self { name: "", hidden, attention, dense, expert })
    }

    /// The layers of one of `degree` devices. Layers that read the hidden state are split along N, those that
    /// write it along K; a device has one key-value head at least.
    pub fn layers(&self, degree: usize) -> Vec<Layer> {
        let hidden = self.hidden;
        let mut layers = Vec::new();
        let mut push = |name, n: usize, k: usize| layers.push(Layer { name, n, k });
        match self.attention {
            Attention::Grouped { heads, kv_heads, head_dim } => {
                let (q, kv) = (heads * head_dim / degree, kv_heads.div_ceil(degree) * head_dim);
                push("q", q, hidden);
                push("k", kv, hidden);
                push("qkv", q + 2 * kv, hidden);
                push("o", hidden, q);
            }
            Attention::Latent { heads, q_rank, kv_rank, rope, index_heads } => {
                let heads = heads / degree;
                // Every device computes the latents.
                push("q_a and kv_a", q_rank + kv_rank + rope, hidden);
                push("q_b", heads * (LATENT_HEAD + rope), q_rank);
                push("kv_b", heads * 2 * LATENT_HEAD, kv_rank);
                push("o", hidden, heads * LATENT_HEAD);
                if index_heads > 0 {
                    push("indexer q_b", index_heads * LATENT_HEAD, q_rank);
                }
            }
        }
        let feed_forward = [
            (self.dense, ["gate", "gate-up", "down"]),
            (self.expert, ["expert gate", "expert gate-up", "expert down"]),
        ];
        for (width, [gate, gate_up, down]) in feed_forward {
            if let Some(width) = width.map(|width| width / degree) {
                push(gate, width, hidden);
                push(gate_up, 2 * width, hidden);
                push(down, hidden, width);
            }
        }
        layers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_deepseek_v3_have_their_published_shapes() {
        let layers = MODELS[0].layers(1);
        let shape = |name| layers.iter().find(|layer| layer.name == name).map(|layer| (layer.n, layer.k));
        assert_eq!(shape("q_a and kv_a"), Some((2112, 7168)));
        assert_eq!(shape("q_b"), Some((24576, 1536)));
        assert_eq!(shape("kv_b"), Some((32768, 512)));
        assert_eq!(shape("o"), Some((7168, 16384)));
        assert_eq!(shape("expert gate-up"), Some((4096, 7168)));
        assert_eq!(shape("expert down"), Some((7168, 2048)));
    }

    #[test]
    fn published_configurations_give_the_same_layers() {
        let model = |name: &str| MODELS.iter().find(|model| model.name == name).copied().unwrap();
        let read = |numbers: &[(&str, usize)]| {
            ModelConfig::from_numbers(|key| numbers.iter().find(|(k, _)| *k == key).map(|(_, n)| *n))
        };
        let named = |config: ModelConfig, name| ModelConfig { name, ..config };
        let qwen = [
            ("hidden_size", 2560),
            ("intermediate_size", 9728),
            ("num_attention_heads", 32),
            ("num_key_value_heads", 8),
            ("head_dim", 128),
        ];
        assert_eq!(named(read(&qwen).unwrap(), "Qwen3-4B"), model("Qwen3-4B"));
        let experts = [
            ("hidden_size", 4096),
            ("intermediate_size", 12288),
            ("moe_intermediate_size", 1536),
            ("num_experts", 128),
            ("num_attention_heads", 64),
            ("num_key_value_heads", 4),
            ("head_dim", 128),
        ];
        assert_eq!(named(read(&experts).unwrap(), "Qwen3-235B-A22B"), model("Qwen3-235B-A22B"));
        let mixtral = [
            ("hidden_size", 4096),
            ("intermediate_size", 14336),
            ("num_local_experts", 8),
            ("num_attention_heads", 32),
            ("num_key_value_heads", 8),
        ];
        assert_eq!(named(read(&mixtral).unwrap(), "Mixtral-8x7B"), model("Mixtral-8x7B"));
        let deepseek = [
            ("hidden_size", 7168),
            ("intermediate_size", 18432),
            ("moe_intermediate_size", 2048),
            ("n_routed_experts", 256),
            ("first_k_dense_replace", 3),
            ("num_attention_heads", 128),
            ("num_key_value_heads", 128),
            ("q_lora_rank", 1536),
            ("kv_lora_rank", 512),
            ("qk_rope_head_dim", 64),
        ];
        assert_eq!(named(read(&deepseek).unwrap(), "DeepSeek-V3"), model("DeepSeek-V3"));
        assert_eq!(read(&qwen[1..]).unwrap_err(), UnusableConfig { key: "hidden_size" });
        assert!(read(&[("hidden_size", usize::MAX), ("num_attention_heads", 1)]).is_err());
    }

    #[test]
    fn tensor_parallelism_divides_one_side() {
        let qwen = MODELS.iter().find(|model| model.name == "Qwen3-235B-A22B").unwrap();
        let layers = qwen.layers(8);
        let shape = |name| layers.iter().find(|layer| layer.name == name).map(|layer| (layer.n, layer.k));
        assert_eq!(shape("q"), Some((1024, 4096)));
        // Four key-value heads on eight devices: each has one.
        assert_eq!(shape("qkv"), Some((1024 + 256, 4096)));
        assert_eq!(shape("o"), Some((4096, 1024)));
        assert_eq!(shape("expert down"), Some((4096, 192)));
    }
}

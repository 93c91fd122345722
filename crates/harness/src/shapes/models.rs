//! Linear layers of published model configurations, under tensor parallelism.

/// One matmul of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) name: &'static str,
    /// Outputs.
    pub(super) n: usize,
    /// Inputs.
    pub(super) k: usize,
}

/// What determines the shapes of a published model's linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PublishedModel {
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
) -> PublishedModel {
    let attention = Attention::Grouped { heads, kv_heads, head_dim };
    PublishedModel { name, hidden, attention, dense: Some(width), expert: None }
}

/// The same with experts instead.
const fn experts(
    name: &'static str,
    hidden: usize,
    width: usize,
    (heads, kv_heads, head_dim): (usize, usize, usize),
) -> PublishedModel {
    let attention = Attention::Grouped { heads, kv_heads, head_dim };
    PublishedModel { name, hidden, attention, dense: None, expert: Some(width) }
}

const fn deepseek(name: &'static str, index_heads: usize) -> PublishedModel {
    let attention = Attention::Latent { heads: 128, q_rank: 1536, kv_rank: 512, rope: 64, index_heads };
    PublishedModel { name, hidden: 7168, attention, dense: Some(18432), expert: Some(2048) }
}

/// Configurations as their authors published them.
pub(super) const MODELS: &[PublishedModel] = &[
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
    PublishedModel { dense: Some(10944), ..experts("GLM-4.5-Air", 4096, 1408, (96, 8, 128)) },
    PublishedModel { dense: Some(12288), ..experts("GLM-4.5", 5120, 1536, (96, 8, 128)) },
    experts("gpt-oss", 2880, 2880, (64, 8, 64)),
];

impl PublishedModel {
    /// The layers of one of `degree` devices. Samples are drawn from this list, so it never changes; a
    /// [`super::ModelConfig`] gives more layers.
    pub(super) fn layers(&self, degree: usize) -> Vec<Layer> {
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

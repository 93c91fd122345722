use std::collections::HashMap;

use serde_json::json;

use super::{super::models::MODELS, *};

/// Keys and numbers as the authors published them, without those that no shape depends on.
fn published(name: &str) -> Value {
    let latent = |mut rest: Value| {
        let shared = json!({
            "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
            "v_head_dim": 128, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
            "n_shared_experts": 1, "moe_layer_freq": 1,
        });
        rest.as_object_mut().unwrap().extend(shared.as_object().unwrap().clone());
        rest
    };
    match name {
        "DeepSeek-V3" => latent(json!({
            "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 3,
        })),
        "DeepSeek-V3.2" => latent(json!({
            "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 3, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
        })),
        "Kimi-K2" => latent(json!({
            "num_attention_heads": 64, "num_key_value_heads": 64, "n_routed_experts": 384,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 1,
        })),
        "DeepSeek-V2-Lite" => json!({
            "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
            "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1,
            "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
        }),
        "Qwen3-8B" => json!({
            "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128,
        }),
        "Qwen3-30B-A3B" => json!({
            "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
            "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
            "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
        }),
        "Llama-3.1-8B" => json!({
            "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
            "num_key_value_heads": 8,
        }),
        "Llama-3.1-70B" => json!({
            "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
            "num_key_value_heads": 8,
        }),
        "Mixtral-8x7B" => json!({
            "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
            "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
        }),
        "GLM-4.5" => json!({
            "hidden_size": 5120, "intermediate_size": 12288, "moe_intermediate_size": 1536,
            "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "n_routed_experts": 160,
            "num_experts_per_tok": 8,
            "n_shared_experts": 1, "first_k_dense_replace": 3,
        }),
        "GLM-4.5-Air" => json!({
            "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
            "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "n_routed_experts": 128,
            "num_experts_per_tok": 8,
            "n_shared_experts": 1, "first_k_dense_replace": 1,
        }),
        "gpt-oss" => json!({
            "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64,
            "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 128, "experts_per_token": 4,
        }),
        "Llama-4-Maverick" => json!({"text_config": {
            "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
            "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 128,
            "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
            "layer_types": ["chunked_attention", "full_attention"],
        }, "vision_config": {"hidden_size": 1408}}),
        _ => panic!("{name}"),
    }
}

fn shapes(name: &str, degree: usize) -> HashMap<&'static str, (usize, usize)> {
    let layers = ModelConfig::from_json(&published(name)).unwrap().layers(degree).unwrap();
    layers.into_iter().map(|layer| (layer.name, (layer.n, layer.k))).collect()
}

#[track_caller]
fn require(name: &str, degree: usize, expected: &[(&'static str, (usize, usize))]) {
    let expected: HashMap<_, _> = expected.iter().copied().collect();
    assert_eq!(shapes(name, degree), expected, "{name}");
}

/// N and K of every weight, as in the files of these checkpoints, and of the fused layers of engines.
#[test]
fn layers_have_their_published_shapes() {
    let deepseek = [
        ("single q_a", (1536, 7168)),
        ("single kv_a", (576, 7168)),
        ("fused q_a and kv_a", (2112, 7168)),
        ("q_b", (24576, 1536)),
        ("kv_b", (32768, 512)),
        ("o", (7168, 16384)),
        ("single gate, up", (18432, 7168)),
        ("fused gate-up", (36864, 7168)),
        ("down", (7168, 18432)),
        ("single expert gate, up", (2048, 7168)),
        ("fused expert gate-up", (4096, 7168)),
        ("expert down", (7168, 2048)),
        ("single shared expert gate, up", (2048, 7168)),
        ("fused shared expert gate-up", (4096, 7168)),
        ("shared expert down", (7168, 2048)),
    ];
    require("DeepSeek-V3", 1, &deepseek);
    let indexer = [("indexer q_b", (8192, 1536)), ("indexer k", (128, 7168))];
    require("DeepSeek-V3.2", 1, &[&deepseek[..], &indexer].concat());
    require(
        "Qwen3-8B",
        1,
        &[
            ("single q", (4096, 4096)),
            ("single k, v", (1024, 4096)),
            ("fused qkv", (6144, 4096)),
            ("o", (4096, 4096)),
            ("single gate, up", (12288, 4096)),
            ("fused gate-up", (24576, 4096)),
            ("down", (4096, 12288)),
        ],
    );
    require(
        "Qwen3-30B-A3B",
        1,
        &[
            ("single q", (4096, 2048)),
            ("single k, v", (512, 2048)),
            ("fused qkv", (5120, 2048)),
            ("o", (2048, 4096)),
            ("single expert gate, up", (768, 2048)),
            ("fused expert gate-up", (1536, 2048)),
            ("expert down", (2048, 768)),
        ],
    );
    require(
        "gpt-oss",
        1,
        &[
            ("single q", (4096, 2880)),
            ("single k, v", (512, 2880)),
            ("fused qkv", (5120, 2880)),
            ("o", (2880, 4096)),
            ("single expert gate, up", (2880, 2880)),
            ("fused expert gate-up", (5760, 2880)),
            ("expert down", (2880, 2880)),
        ],
    );
    let glm = shapes("GLM-4.5", 1);
    assert_eq!((glm["fused qkv"], glm["o"]), ((14336, 5120), (5120, 12288)));
    assert_eq!((glm["down"], glm["shared expert down"]), ((5120, 12288), (5120, 1536)));
    let lite = shapes("DeepSeek-V2-Lite", 1);
    assert_eq!((lite["q"], lite["kv_a"], lite["kv_b"]), ((3072, 2048), (576, 2048), (4096, 512)));
    assert_eq!(lite["fused shared expert gate-up"], (5632, 2048));
    let kimi = shapes("Kimi-K2", 1);
    assert_eq!((kimi["q_b"], kimi["o"]), ((12288, 1536), (7168, 8192)));
    let llama = shapes("Llama-3.1-8B", 1);
    assert_eq!((llama["fused qkv"], llama["fused gate-up"]), ((6144, 4096), (28672, 4096)));
    let llama = shapes("Llama-4-Maverick", 1);
    assert_eq!((llama["fused gate-up"], llama["expert down"]), ((32768, 5120), (5120, 8192)));
}

/// The table that samples are drawn from, and configurations, agree on every layer.
#[test]
fn configurations_give_the_layers_of_the_samples() {
    let names = "DeepSeek-V3 DeepSeek-V3.2 Qwen3-8B Qwen3-30B-A3B Llama-3.1-8B Llama-3.1-70B Mixtral-8x7B GLM-4.5 \
         GLM-4.5-Air gpt-oss";
    for name in names.split_whitespace() {
        let model = MODELS.iter().find(|model| model.name == name).unwrap();
        for degree in [1, 2, 4, 8] {
            let shapes = shapes(name, degree);
            for layer in model.layers(degree) {
                let key = match layer.name {
                    "k" => "single k, v",
                    "gate" => "single gate, up",
                    "expert gate" => "single expert gate, up",
                    name => name,
                };
                let shape = ["", "single ", "fused "].map(|form| shapes.get(&*format!("{form}{key}")));
                let shape = shape.into_iter().flatten().next();
                assert_eq!(shape, Some(&(layer.n, layer.k)), "{name} {key} of {degree}");
            }
        }
    }
}

#[test]
fn tensor_parallelism_divides_one_side() {
    let qwen = shapes("Qwen3-30B-A3B", 8);
    // Four key-value heads on eight devices: each has one.
    assert_eq!((qwen["single q"], qwen["fused qkv"], qwen["o"]), ((512, 2048), (768, 2048), (2048, 512)));
    assert_eq!((qwen["fused expert gate-up"], qwen["expert down"]), ((192, 2048), (2048, 96)));
    let deepseek = shapes("DeepSeek-V3", 8);
    assert_eq!((deepseek["fused q_a and kv_a"], deepseek["q_b"]), ((2112, 7168), (3072, 1536)));
    assert_eq!((deepseek["kv_b"], deepseek["o"]), ((4096, 512), (7168, 2048)));
    let error = |degree| {
        ModelConfig::from_json(&published("Qwen3-8B")).unwrap().layers(degree).unwrap_err().to_string()
    };
    assert_eq!(error(3), "its num_attention_heads of 32 cannot be divided among 3 devices");
    let odd = json!({
        "hidden_size": 64, "intermediate_size": 100, "num_attention_heads": 8, "num_key_value_heads": 3,
    });
    let layers =
        |degree| ModelConfig::from_json(&odd).unwrap().layers(degree).map_err(|error| error.to_string());
    assert_eq!(layers(2).unwrap_err(), "its num_key_value_heads of 3 cannot be divided among 2 devices");
    assert!(layers(1).is_ok());
}

/// A router spreads the rows of all tokens over the experts of a layer.
#[test]
fn experts_have_their_share_of_the_rows() {
    let rows = |model: &str, tokens| {
        let layers = ModelConfig::from_json(&published(model)).unwrap().layers(1).unwrap();
        let routed: Vec<_> = layers.iter().filter(|layer| layer.routing.is_some()).collect();
        assert_eq!(routed.len(), 3, "{model}");
        assert!(routed.iter().all(|layer| layer.name.contains("expert ") && !layer.name.contains("shared")));
        routed[0].routing.unwrap().rows(tokens)
    };
    assert_eq!([1, 16, 17, 512, 4096].map(|tokens| rows("Qwen3-30B-A3B", tokens)), [1, 1, 2, 32, 256]);
    assert_eq!([1, 4, 5].map(|tokens| rows("Mixtral-8x7B", tokens)), [1, 1, 2]);
    assert_eq!(rows("gpt-oss", 1024), 32);
    let routing = Routing { active: 8, experts: 128 };
    assert_eq!([1, 4, 16, 512].map(|tokens| routing.busy_experts(tokens)), [8, 32, 128, 128]);
    let error = |changes: Value| {
        let mut config = published("Qwen3-30B-A3B");
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        ModelConfig::from_json(&config).unwrap_err().to_string()
    };
    let says = "its num_experts_per_tok is 129, and must be a whole number from 1 to 128";
    assert_eq!(error(json!({"num_experts_per_tok": 129})), says);
    assert!(error(json!({"num_experts_per_tok": 0})).starts_with("its num_experts_per_tok is 0, and must"));
    assert!(error(json!({"num_experts_per_tok": null})).starts_with("it has no num_experts_per_tok: list"));
    // Experts under a name that is not known must not pass for a dense model.
    assert!(error(json!({"num_experts": null, "moe_num_experts": 64})).starts_with("it has no num_experts:"));
}

/// A value that means nothing is an error that names its key, never another model.
#[test]
fn bad_values_name_their_key() {
    let error = |model: &str, key: &str, value: Value| {
        let mut config = published(model);
        config[key] = value;
        ModelConfig::from_json(&config).err().map(|error| error.to_string())
    };
    let sizes = [
        "hidden_size",
        "intermediate_size",
        "moe_intermediate_size",
        "num_attention_heads",
        "kv_lora_rank",
        "q_lora_rank",
        "qk_rope_head_dim",
        "qk_nope_head_dim",
        "v_head_dim",
        "index_head_dim",
    ];
    for key in sizes {
        for (value, shown) in [
            (json!(0), "0"),
            (json!(-1), "-1"),
            (json!(1.5), "1.5"),
            (json!("4096"), "\"4096\""),
            (json!(true), "true"),
            (json!([1]), "a list"),
            (json!({"a": 1}), "an object"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!("x".repeat(1000)), "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."),
        ] {
            let expected = format!("its {key} is {shown}, and must be a whole number from 1 to 16777216");
            assert_eq!(error("DeepSeek-V3.2", key, value), Some(expected));
        }
    }
    for key in ["num_key_value_heads", "head_dim"] {
        let expected = format!("its {key} is 0, and must be a whole number from 1 to 16777216");
        assert_eq!(error("Qwen3-8B", key, json!(0)), Some(expected));
    }
    for key in ["n_routed_experts", "n_shared_experts", "first_k_dense_replace", "index_n_heads"] {
        let expected = format!("its {key} is -1, and must be a whole number from 0 to 16777216");
        assert_eq!(error("DeepSeek-V3.2", key, json!(-1)), Some(expected));
        assert_eq!(error("DeepSeek-V3.2", key, json!(0)), None, "{key}");
    }
    for key in ["hidden_size", "num_attention_heads", "intermediate_size"] {
        let expected = format!("it has no {key}: list the shapes in a file for --shapes-from instead");
        assert_eq!(error("Qwen3-8B", key, Value::Null), Some(expected));
    }
    assert!(error("Qwen3-8B", "num_attention_heads", json!(33)).is_none(), "head_dim is given");
    assert!(error("Llama-3.1-8B", "num_attention_heads", json!(33)).unwrap().contains("no head_dim"));
    for (key, value) in
        [("linear_num_value_heads", json!(32)), ("layer_types", json!(["full_attention", "conv"]))]
    {
        let message = error("Qwen3-8B", key, value).unwrap();
        assert!(message.starts_with(&format!("it has {key}, so it has layers of a kind whose")), "{message}");
    }
    assert_eq!(error("Qwen3-8B", "layer_types", json!(["sliding_attention", "full_attention"])), None);
    for config in [json!([]), json!(null), json!(3), json!({"text_config": 3})] {
        assert_eq!(ModelConfig::from_json(&config), Err(ConfigError::Missing { key: "hidden_size" }));
    }
}

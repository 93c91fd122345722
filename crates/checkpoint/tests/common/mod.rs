//! Small checkpoints for tests.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

use octile_checkpoint::{Checkpoint, CheckpointPlan, Outcome, Output, Quantize, Request, Result};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use tempfile::TempDir;

/// A tensor that is owned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blob {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// Tensors by name.
pub(crate) type Tensors = BTreeMap<String, Blob>;

/// Hashes seed and index, as in `golden/make.py`.
pub(crate) fn hash32(seed: u64, index: u64) -> u32 {
    let mut x = index.wrapping_add(seed << 32);
    for multiplier in [0xbf58_476d_1ce4_e5b9u64, 0x94d0_49bb_1331_11eb] {
        x ^= x >> 30;
        x = x.wrapping_mul(multiplier);
    }
    (x ^ x >> 31) as u32
}

/// bf16 values between about 1e-5 and 1.
pub(crate) fn bf16(seed: u64, shape: &[usize]) -> Blob {
    let count: usize = shape.iter().product();
    let bits = |index: u64| {
        let h = hash32(seed, index);
        ((h >> 31) << 15 | (110 + (h >> 23 & 0xff) % 16) << 7 | h & 0x7f) as u16
    };
    let data = (0..count as u64).flat_map(|index| bits(index).to_le_bytes()).collect();
    Blob { dtype: Dtype::BF16, shape: shape.to_vec(), data }
}

/// f32 of these values.
pub(crate) fn f32s(values: &[f32], shape: &[usize]) -> Blob {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Blob { dtype: Dtype::F32, shape: shape.to_vec(), data }
}

pub(crate) fn write_file(path: &Path, tensors: &Tensors) {
    let views = tensors.iter().map(|(name, blob)| {
        (name.clone(), TensorView::new(blob.dtype, blob.shape.clone(), &blob.data).unwrap())
    });
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    fs::write(path, safetensors::serialize(views, Some(metadata)).unwrap()).unwrap();
}

/// Reads a whole file with the reference implementation.
pub(crate) fn read_file(path: &Path) -> Tensors {
    let bytes = fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let blob = |view: &TensorView<'_>| Blob {
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        data: view.data().to_vec(),
    };
    tensors.iter().map(|(name, view)| (name.to_owned(), blob(&view))).collect()
}

/// Reads every tensor of a folder; the index must agree.
pub(crate) fn read_folder(folder: &Path) -> Tensors {
    let index: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("model.safetensors.index.json")).unwrap())
            .unwrap();
    let mut all = Tensors::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            for (name, blob) in read_file(&path) {
                assert_eq!(index["weight_map"][&name], path.file_name().unwrap().to_str().unwrap());
                all.insert(name, blob);
            }
        }
    }
    assert_eq!(index["weight_map"].as_object().unwrap().len(), all.len());
    let total: usize = all.values().map(|blob| blob.data.len()).sum();
    assert_eq!(index["metadata"]["total_size"], total);
    all
}

pub(crate) const CONFIG: &str = r#"{
  "architectures": ["Qwen3ForCausalLM"],
  "rms_norm_eps": 1e-06,
  "hidden_size": 256,
  "num_key_value_heads": 2,
  "rope_theta": 1000000.00,
  "torch_dtype": "bfloat16",
  "nested": {"b": 1, "a": [1, 2]}
}
"#;

/// The tensors of a small decoder, in two shards.
pub(crate) fn decoder() -> [Tensors; 2] {
    let first = [
        ("model.embed_tokens.weight", bf16(1, &[512, 256])),
        ("model.layers.0.input_layernorm.weight", bf16(2, &[256])),
        ("model.layers.0.self_attn.q_proj.weight", bf16(3, &[256, 256])),
        ("model.layers.0.self_attn.q_proj.bias", bf16(4, &[256])),
        ("model.layers.0.self_attn.k_proj.weight", bf16(5, &[200, 256])),
        ("model.layers.0.mlp.gate.weight", bf16(6, &[8, 256])),
        ("model.layers.0.mlp.experts.0.up_proj.weight", bf16(7, &[384, 256])),
    ];
    let second = [
        ("lm_head.weight", bf16(8, &[512, 256])),
        ("model.layers.0.mlp.ragged_proj.weight", bf16(9, &[256, 200])),
        ("model.layers.0.mlp.experts.0.down_proj.weight", bf16(10, &[256, 384])),
        ("model.norm.weight", bf16(11, &[256])),
    ];
    let named =
        |tensors: &[(&str, Blob)]| tensors.iter().map(|(n, b)| ((*n).to_owned(), b.clone())).collect();
    [named(&first), named(&second)]
}

/// A folder of shards with index, configuration and other files.
pub(crate) fn write_folder(folder: &Path, shards: &[Tensors]) {
    fs::create_dir_all(folder.join("extra")).unwrap();
    fs::write(folder.join("config.json"), CONFIG).unwrap();
    fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    fs::write(folder.join("extra/readme.md"), "text").unwrap();
    let mut weight_map = BTreeMap::new();
    for (at, tensors) in shards.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", at + 1, shards.len());
        write_file(&folder.join(&name), tensors);
        weight_map.extend(tensors.keys().map(|tensor| (tensor.clone(), name.clone())));
    }
    let total: usize = shards.iter().flat_map(|tensors| tensors.values()).map(|blob| blob.data.len()).sum();
    let metadata = serde_json::json!({"total_size": total, "note": "kept"});
    let index = serde_json::json!({"metadata": metadata, "weight_map": weight_map});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

/// A temporary folder with a checkpoint in `in`.
pub(crate) struct Place(pub TempDir);

impl Place {
    pub(crate) fn new(shards: &[Tensors]) -> Self {
        let place = Self(TempDir::new().unwrap());
        write_folder(&place.input(), shards);
        place
    }

    pub(crate) fn input(&self) -> PathBuf {
        self.0.path().join("in")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.0.path().join("out")
    }

    pub(crate) fn run(&self, request: &Request) -> Result<Outcome> {
        run(&self.input(), &self.output(), request)
    }

    /// Entries of the temporary folder.
    pub(crate) fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(crate) fn run(input: &Path, output: &Path, request: &Request) -> Result<Outcome> {
    let checkpoint = Checkpoint::open(input)?;
    let plan = CheckpointPlan::new(&checkpoint, request)?;
    let output = Output { path: output.to_owned(), force: false, threads: Some(2) };
    octile_checkpoint::write(&checkpoint, &plan, &output, &())
}

pub(crate) fn quantize() -> Request {
    Request::Quantize(Quantize::default())
}

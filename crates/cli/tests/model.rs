//! `octile inspect-model`, and `octile test` and `octile bench` on the layers of a model.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

fn octile(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(arguments).current_dir(folder).output().expect("octile starts")
}

/// Requires an exit code; returns standard output and standard error.
fn ends(code: i32, arguments: &[&str], folder: &Path) -> String {
    let output = octile(arguments, folder);
    let said = String::from_utf8([&output.stdout[..], &output.stderr[..]].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

fn json(arguments: &[&str], folder: &Path) -> serde_json::Value {
    serde_json::from_slice(&octile(arguments, folder).stdout).unwrap()
}

/// A bf16 model in `in`: two layers of three projections each, and an embedding.
fn model() -> TempDir {
    let place = TempDir::new().unwrap();
    let input = place.path().join("in");
    fs::create_dir(&input).unwrap();
    let (mut header, mut data, mut state) = (serde_json::Map::new(), Vec::new(), 1u32);
    let mut add = |name: String, shape: [usize; 2]| {
        let start = data.len();
        data.extend((0..shape[0] * shape[1]).flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Between 2^-9 and 2^-2, both signs.
            ((state >> 16 & 0x807f | (118 + (state >> 8 & 7)) << 7) as u16).to_le_bytes()
        }));
        let entry = serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name, entry);
    };
    for layer in 0..2 {
        add(format!("model.layers.{layer}.mlp.gate_proj.weight"), [384, 256]);
        add(format!("model.layers.{layer}.mlp.up_proj.weight"), [384, 256]);
        add(format!("model.layers.{layer}.mlp.down_proj.weight"), [256, 384]);
    }
    add("model.embed_tokens.weight".to_owned(), [128, 256]);
    let header = serde_json::Value::from(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    fs::write(input.join("model.safetensors"), file).unwrap();
    fs::write(input.join("config.json"), r#"{"model_type": "qwen3", "hidden_size": 256}"#).unwrap();
    ends(0, &["quantize", "in", "-o", "out"], place.path());
    place
}

#[test]
fn an_intact_model_passes() {
    let place = model();
    let folder = place.path();
    let text = ends(0, &["inspect-model", "out"], folder);
    assert!(text.contains("6 fp8 weights: 589824 values, 8.002 bits each"), "{text}");
    assert!(text.contains("estimated from the codes") && text.contains("PASS: no defects found."), "{text}");
    assert!(text.contains("1 BF16 weight: not quantized"), "{text}");
    let page = folder.join("model.html");
    let text =
        ends(0, &["inspect-model", "out", "--against", "in", "--html", "model.html", "--worst", "1"], folder);
    assert!(text.contains("measured against the original") && text.contains("Worst 1 of 6"), "{text}");
    assert!(fs::read_to_string(page).unwrap().starts_with("<!DOCTYPE html>"));
    let document = json(&["inspect-model", "out", "--json", "--threads", "1"], folder);
    assert_eq!((&document["schema"], &document["passed"]), (&"octile-inspect-model/1".into(), &true.into()));
    assert_eq!(document["layers"].as_array().unwrap().len(), 7);
    assert_eq!(document["summary"]["codes_by_magnitude"].as_array().unwrap().len(), 128);
    let two = json(&["inspect-model", "out", "--json", "--threads", "2"], folder);
    assert_eq!(two["layers"], document["layers"], "the number of threads does not matter");
    assert!(ends(0, &["inspect-model", "in"], folder).contains("7 BF16 weights: not quantized"));
}

#[test]
fn defects_and_errors_have_their_exit_codes() {
    let place = model();
    let folder = place.path();
    let shard = folder.join("out/model.safetensors");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() - 1]).unwrap();
    let text = ends(1, &["inspect-model", "out"], folder);
    assert!(text.contains("FAIL ") && text.contains("1 defect found."), "{text}");
    assert!(text.contains("truncated or damaged"), "{text}");
    let document = json(&["inspect-model", "out", "--json"], folder);
    assert_eq!(
        (&document["passed"], &document["defects"][0]["kind"]),
        (&false.into(), &"truncated-shard".into())
    );
    fs::write(&shard, bytes).unwrap();
    for (arguments, part) in [
        (&["inspect-model", "none"][..], "cannot read none"),
        (&["inspect-model", "."], "holds no .safetensors file"),
        (&["inspect-model", "out/config.json"], "is not a safetensors file"),
        (&["inspect-model", "out", "--against", "none"], "cannot read none"),
        (&["inspect-model", "out", "--html", "no/page.html"], "folder no does not exist"),
        (&["inspect-model", "out", "--html", "-", "--json"], "only one of --json and --html"),
        (&["inspect-model", "out", "--json=out/model.safetensors"], "for something else"),
    ] {
        let said = ends(2, arguments, folder);
        assert!(said.contains(part) && said.trim_end().lines().count() == 1, "{said}\nlacks {part}");
    }
}

#[test]
fn the_layers_of_a_model_are_checked_with_their_weights() {
    let place = model();
    for input in ["in", "out"] {
        let work = ["test", "--model", input, "--tokens", "1,3", "--backend", "cpu", "--strategy", "strip"];
        let text = ends(0, &work, place.path());
        assert!(text.contains("2 x model.layers.*.mlp.up_proj [384, 256]"), "{text}");
        assert_eq!(text.contains("The checkpoint is not fp8"), input == "in", "{text}");
        assert!(
            text.contains("(model.layers.0.mlp.down_proj)") && text.contains("ALL TESTS PASSED"),
            "{text}"
        );
        let document = json(&[&work[..], &["--json"]].concat(), place.path());
        let checks = document["suites"][0]["checks"].as_array().unwrap();
        assert_eq!(checks.len(), 6);
        assert!(checks.iter().any(|check| check["label"] == "model.layers.0.mlp.gate_proj"));
    }
    // A NaN code is refused, with the name of the layer.
    let shard = place.path().join("out/model.safetensors");
    let mut bytes = fs::read(&shard).unwrap();
    // The codes of all layers end the file; those of the first layer come first.
    let first = bytes.len() - 6 * 384 * 256;
    bytes[first] = 0x7f;
    fs::write(&shard, bytes).unwrap();
    let said = ends(2, &["test", "--model", "out", "--tokens", "1", "--backend", "cpu"], place.path());
    assert!(said.contains("mlp.") && said.contains("NaN") && said.contains("octile inspect-model"), "{said}");
}

#[test]
fn the_layers_of_a_model_are_timed_and_summed() {
    let place = model();
    let folder = place.path();
    let work = ["bench", "--model", "out", "--tokens", "1,2", "--backend", "cpu", "--iterations", "3"];
    let text = ends(0, &[&work[..], &["--json=times.json"]].concat(), folder);
    for part in
        ["1 token:", "2 tokens:", "model.layers.*.mlp.up_proj", "all linear layers:", "RECOMMENDATION"]
    {
        assert!(text.contains(part), "{text}\nlacks {part}");
    }
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("times.json")).unwrap()).unwrap();
    let passes = document["model"]["passes"].as_array().unwrap();
    assert_eq!((passes.len(), &passes[1]["tokens"]), (2, &2.into()));
    let layers = passes[0]["layers"].as_array().unwrap();
    assert_eq!((layers.len(), &layers[0]["count"]), (3, &2.into()));
    let sum: f64 = layers.iter().map(|layer| layer["all_ms"].as_f64().unwrap()).sum();
    assert!((sum - passes[0]["total_ms"].as_f64().unwrap()).abs() < 1e-9);
    // Layers of one shape are timed once: two shapes, two numbers of tokens, four strategies.
    assert_eq!(document["timings"].as_array().unwrap().len(), 16);
    for (arguments, part) in [
        (&["bench", "--model", "none"][..], "cannot read none"),
        (&["bench", "--tokens", "1"], "--model <MODEL>"),
        (&["bench", "--model", "out", "--tokens", "0"], "expected numbers from 1"),
        (&["bench", "--model", "out", "--shape", "1x128x128:128"], "cannot be used with"),
    ] {
        assert!(ends(2, arguments, folder).contains(part), "{arguments:?}");
    }
}

/// A router gives each expert its share of the tokens, in `bench` as in `tune`, which finds plans for it.
#[test]
fn experts_are_timed_with_their_share_of_the_rows() {
    let place = TempDir::new().unwrap();
    let model = place.path().join("model");
    fs::create_dir(&model).unwrap();
    let size = 128 * 128 * 2;
    let entry = |at: usize, name: String| {
        let offsets = [at * size, (at + 1) * size];
        (name, serde_json::json!({"dtype": "BF16", "shape": [128, 128], "data_offsets": offsets}))
    };
    let names = (0..4).map(|expert| format!("model.layers.0.mlp.experts.{expert}.up_proj.weight"));
    let names = names.chain(["model.layers.0.self_attn.q_proj.weight".to_owned()]);
    let header: serde_json::Map<_, _> = names.enumerate().map(|(at, name)| entry(at, name)).collect();
    let header = serde_json::Value::from(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; 5 * size]].concat();
    fs::write(model.join("model.safetensors"), file).unwrap();
    fs::write(model.join("config.json"), r#"{"num_experts": 4, "num_experts_per_tok": 1}"#).unwrap();
    let work = ["--model", "model", "--tokens", "1,2,16"];
    let expert = "model.layers.*.mlp.experts.*.up_proj";
    for command in ["bench", "tune"] {
        let text = ends(0, &[&[command], &work[..], &["--list"]].concat(), place.path());
        assert!(
            text.contains(&format!("1x128x128:128  # {expert}; model.layers.*.self_attn.q_proj")),
            "{text}"
        );
        assert!(text.contains(&format!("4x128x128:128  # {expert}\n")), "{text}");
        assert!(text.contains("16x128x128:128  # model.layers.*.self_attn.q_proj\n"), "{text}");
    }
    let bench = ["bench", "--backend", "cpu", "--quick", "--json"];
    let document = json(&[&bench[..], &work].concat(), place.path());
    let active = |pass: &serde_json::Value| {
        let layers = pass["layers"].as_array().unwrap();
        layers.iter().find(|layer| layer["name"] == expert).unwrap()["active"].clone()
    };
    let passes = document["model"]["passes"].as_array().unwrap();
    assert_eq!(passes.iter().map(active).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(document["model"]["experts"], serde_json::json!([1, 4]));
}

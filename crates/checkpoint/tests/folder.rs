//! Whole folders: quantized tensors, copied tensors and the files beside them.

mod common;

use std::fs;

use common::{Blob, CONFIG, Place, Tensors, bf16, decoder, f32s, quantize, read_folder, run};
use octile_checkpoint::{
    Checkpoint, CheckpointPlan, Convert, ExpertLayout, Format, KeptBecause, LayerFormat, Quantize, Request,
    ScaleKind,
};
use octile_core::{E4m3, FloatKind};
use safetensors::Dtype;

fn convert(format: Format, scales: ScaleKind, requantize: bool) -> Request {
    Request::Convert(Convert { format: Some(format), scales: Some(scales), requantize })
}

/// Values of a quantized weight.
fn dequantized(tensors: &Tensors, name: &str, suffix: &str) -> Vec<f32> {
    let (codes, scales) = (&tensors[name], &tensors[&format!("{name}{suffix}")]);
    let (rows, cols) = (codes.shape[0], codes.shape[1]);
    assert_eq!(scales.shape, [rows.div_ceil(128), cols.div_ceil(128)]);
    let scale = |row: usize, col: usize| {
        let at = 4 * (row / 128 * scales.shape[1] + col / 128);
        f32::from_le_bytes(scales.data[at..at + 4].try_into().unwrap())
    };
    let value = |at: usize| E4m3::from_bits(codes.data[at]).to_f32() * scale(at / cols, at % cols);
    (0..rows * cols).map(value).collect()
}

fn floats(blob: &Blob) -> Vec<f32> {
    let value = |b: &[u8; 2]| half::bf16::from_le_bytes(*b).to_f32();
    blob.data.as_chunks().0.iter().map(value).collect()
}

#[test]
fn a_folder_is_quantized_in_the_layout_that_loaders_expect() {
    let shards = decoder();
    let place = Place::new(&shards);
    place.run(&quantize()).unwrap();
    let all: Tensors = shards.into_iter().flatten().collect();
    let written = read_folder(&place.output());
    let quantized = [
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.mlp.experts.0.up_proj.weight",
        "model.layers.0.mlp.experts.0.down_proj.weight",
    ];
    assert_eq!(written.len(), all.len() + quantized.len());
    for (name, blob) in &all {
        if !quantized.contains(&name.as_str()) {
            assert_eq!(written[name], *blob, "{name}");
            continue;
        }
        assert_eq!((written[name].dtype, &written[name].shape), (Dtype::F8_E4M3, &blob.shape));
        for (value, back) in floats(blob).into_iter().zip(dequantized(&written, name, "_scale_inv")) {
            assert!((value - back).abs() <= value.abs() / 15.0 + 1e-5, "{name}: {value} {back}");
        }
    }
    let config = fs::read_to_string(place.output().join("config.json")).unwrap();
    let kept = CONFIG.trim_end().trim_end_matches('}').trim_end();
    assert!(config.starts_with(kept), "order and text of all other entries stay:\n{config}");
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(
        config["quantization_config"],
        serde_json::json!({
            "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": [
                "model.embed_tokens", "model.layers.0.mlp.gate", "lm_head", "model.layers.0.mlp.ragged_proj",
            ],
        })
    );
    let index = fs::read_to_string(place.output().join("model.safetensors.index.json")).unwrap();
    assert!(index.contains(r#""note": "kept""#));
    assert_eq!(fs::read_to_string(place.output().join("extra/readme.md")).unwrap(), "text");
    assert!(place.output().join("tokenizer.json").is_file());
    assert_eq!(place.entries(), ["in", "out"]);
}

#[test]
fn what_stays_has_a_reason() {
    let place = Place::new(&decoder());
    let checkpoint = Checkpoint::open(&place.input()).unwrap();
    let plan = CheckpointPlan::new(&checkpoint, &quantize()).unwrap();
    let because =
        |name: &str| plan.kept.iter().find(|kept| kept.name == name).map(|kept| kept.because.clone());
    for (name, expected) in [
        ("model.embed_tokens.weight", Some(KeptBecause::Embedding)),
        ("lm_head.weight", Some(KeptBecause::Head)),
        ("model.layers.0.mlp.gate.weight", Some(KeptBecause::Router)),
        ("model.norm.weight", Some(KeptBecause::Norm)),
        ("model.layers.0.self_attn.q_proj.bias", Some(KeptBecause::NoMatrix)),
        ("model.layers.0.mlp.ragged_proj.weight", Some(KeptBecause::RaggedK(200))),
        ("model.layers.0.self_attn.q_proj.weight", None),
    ] {
        assert_eq!(because(name), expected, "{name}");
    }
    // 384 rows of up_proj, 384 columns of down_proj, 200 rows of k_proj; at degree 4 also 256 rows of q_proj.
    let counts: Vec<_> = plan.ruled_out.iter().map(|found| (found.degree, found.weights)).collect();
    assert_eq!(counts, [(2, 3), (4, 4), (8, 4), (16, 4)]);
    let two = &plan.ruled_out[0];
    assert_eq!(
        (two.example.as_str(), two.axis, two.side),
        ("model.layers.0.mlp.experts.0.up_proj.weight", 'N', 384)
    );
}

#[test]
fn globs_narrow_what_is_quantized() {
    let place = Place::new(&decoder());
    let checkpoint = Checkpoint::open(&place.input()).unwrap();
    let changed = |skip: &[&str], only: &[&str]| {
        let list = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        let request = Quantize { skip: list(skip), only: list(only), ..Quantize::default() };
        let plan = CheckpointPlan::new(&checkpoint, &Request::Quantize(request))
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(plan.changed.into_iter().map(|changed| changed.name).collect::<Vec<_>>())
    };
    assert_eq!(changed(&[], &[]).unwrap().len(), 4);
    assert_eq!(changed(&["*.self_attn.*"], &[]).unwrap().len(), 2);
    assert_eq!(changed(&[], &["model.layers.*.q_proj"]).unwrap(), ["model.layers.0.self_attn.q_proj.weight"]);
    assert_eq!(changed(&["*.up_proj.weight"], &["*experts*"]).unwrap().len(), 1);
    assert!(changed(&[], &["*.nothing"]).unwrap_err().contains("--only '*.nothing' matches no tensor"));
    assert!(changed(&["a{b"], &[]).unwrap_err().starts_with("'a{b' is not a glob"));
    assert!(changed(&["*"], &[]).unwrap_err().starts_with("nothing to do"));
}

#[test]
fn quantized_weights_survive_every_way_back() {
    let place = Place::new(&decoder());
    let at = |name: &str| place.0.path().join(name);
    place.run(&quantize()).unwrap();
    let original = read_folder(&place.output());
    // Quantizing again is a no-op.
    run(&at("out"), &at("again"), &quantize()).unwrap();
    assert_eq!(read_folder(&at("again")), original);
    // To the other format and back.
    run(&at("out"), &at("ct"), &convert(Format::CompressedTensors, ScaleKind::F32, false)).unwrap();
    let renamed = read_folder(&at("ct"));
    assert!(renamed.contains_key("model.layers.0.self_attn.q_proj.weight_scale"));
    assert!(!renamed.keys().any(|name| name.ends_with("_inv")));
    let config = fs::read_to_string(at("ct").join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let group = &config["quantization_config"]["config_groups"]["group_0"];
    assert_eq!(config["quantization_config"]["format"], "float-quantized");
    assert_eq!(group["weights"]["strategy"], "block");
    assert_eq!(group["input_activations"]["group_size"], 128);
    run(&at("ct"), &at("back"), &convert(Format::Fp8, ScaleKind::F32, false)).unwrap();
    assert_eq!(read_folder(&at("back")), original);
    let text = |folder: &str| fs::read_to_string(at(folder).join("config.json")).unwrap();
    assert_eq!(text("back"), text("out"));
    // To floats: exactly code times scale.
    run(&at("ct"), &at("f32"), &Request::Dequantize(FloatKind::F32)).unwrap();
    let wide = read_folder(&at("f32"));
    assert_eq!(wide.len(), 11);
    let name = "model.layers.0.self_attn.k_proj.weight";
    let values = dequantized(&original, name, "_scale_inv");
    assert_eq!(wide[name], f32s(&values, &[200, 256]));
    assert!(
        !text("f32").contains("quantization_config") && text("f32").contains(r#""torch_dtype": "float32""#)
    );
    run(&at("out"), &at("bf16"), &Request::Dequantize(FloatKind::Bf16)).unwrap();
    let narrow: Vec<u8> = values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
    assert_eq!(read_folder(&at("bf16"))[name].data, narrow);
    assert!(text("bf16").contains(r#""torch_dtype": "bfloat16""#));
    let fresh = run(&at("f32"), &at("nothing"), &Request::Dequantize(FloatKind::F32)).unwrap_err();
    assert!(fresh.to_string().contains("no tensor that can be dequantized"), "{fresh}");
}

#[test]
fn scales_become_powers_of_two_only_when_that_is_allowed() {
    let place = Place::new(&decoder());
    let at = |name: &str| place.0.path().join(name);
    place.run(&quantize()).unwrap();
    let error = run(&at("out"), &at("x"), &convert(Format::Fp8, ScaleKind::Ue8m0, false)).unwrap_err();
    assert!(error.to_string().contains("is not a power of two: `octile convert"), "{error}");
    assert_eq!(place.entries(), ["in", "out"]);
    run(&at("out"), &at("rounded"), &convert(Format::Fp8, ScaleKind::Ue8m0, true)).unwrap();
    let (before, after) = (read_folder(&at("out")), read_folder(&at("rounded")));
    let name = "model.layers.0.mlp.experts.0.up_proj.weight";
    let scales = after[&format!("{name}_scale_inv")].data.as_chunks().0.iter();
    assert!(scales.map(|b| f32::from_le_bytes(*b)).all(|scale| scale.log2().fract() == 0.0));
    let [old, new] = [&before, &after].map(|tensors| dequantized(tensors, name, "_scale_inv"));
    for (old, new) in old.into_iter().zip(new) {
        assert!((old - new).abs() <= old.abs() / 15.0 + 1e-5, "{old} {new}");
    }
    let config = fs::read_to_string(at("rounded").join("config.json")).unwrap();
    assert!(config.contains(r#""scale_fmt": "ue8m0""#));
    // Requantizing is idempotent.
    run(&at("rounded"), &at("same"), &convert(Format::Fp8, ScaleKind::Ue8m0, false)).unwrap();
    run(&at("rounded"), &at("same2"), &convert(Format::Fp8, ScaleKind::Ue8m0, true)).unwrap();
    assert_eq!(read_folder(&at("same")), after);
    assert_eq!(read_folder(&at("same2")), after);
    // Without an explicit format or scale kind, those of the input are kept.
    let keep = Convert { format: None, scales: None, requantize: false };
    run(&at("rounded"), &at("kept"), &Request::Convert(keep)).unwrap();
    assert_eq!(fs::read_to_string(at("kept").join("config.json")).unwrap(), config);
    for (from, to) in [(Format::Fp8, "_scale_inv"), (Format::CompressedTensors, "_scale")] {
        let folders = [format!("a{to}"), format!("b{to}")];
        run(&at("rounded"), &at(&folders[0]), &convert(from, ScaleKind::F32, false)).unwrap();
        let keep = Convert { format: None, scales: None, requantize: false };
        run(&at(&folders[0]), &at(&folders[1]), &Request::Convert(keep)).unwrap();
        assert!(read_folder(&at(&folders[1])).contains_key(&format!("{name}{to}")));
        assert!(!fs::read_to_string(at(&folders[1]).join("config.json")).unwrap().contains("ue8m0"));
    }
}

#[test]
fn other_types_of_scales_are_widened() {
    for (dtype, data, expected) in [
        (Dtype::F8_E8M0, vec![127, 126], [1.0, 0.5f32]),
        (Dtype::BF16, [0x3f80u16, 0x3e80].iter().flat_map(|b| b.to_le_bytes()).collect(), [1.0, 0.25]),
        (Dtype::F16, [0x3c00u16, 0x4000].iter().flat_map(|b| b.to_le_bytes()).collect(), [1.0, 2.0]),
    ] {
        let codes = Blob { dtype: Dtype::F8_E4M3, shape: vec![128, 256], data: vec![0x38; 128 * 256] };
        let scales = Blob { dtype, shape: vec![1, 2], data };
        // Scales in a different shard from the weight.
        let shards = [
            Tensors::from([("a.weight_scale".to_owned(), scales)]),
            Tensors::from([("a.weight".to_owned(), codes.clone())]),
        ];
        let place = Place::new(&shards);
        place.run(&convert(Format::Fp8, ScaleKind::Ue8m0, false)).unwrap();
        let written = read_folder(&place.output());
        assert_eq!(written["a.weight"], codes);
        assert_eq!(written["a.weight_scale_inv"], f32s(&expected, &[1, 2]));
    }
}

/// The fused tensor of experts, and each expert's `[rows, cols]`.
fn fused(parts: &[&[Blob]], is_transposed: bool) -> Blob {
    let (rows, cols) = (parts[0][0].shape[0], parts[0][0].shape[1]);
    let (experts, all) = (parts.len(), rows * parts[0].len());
    let mut data = vec![0; experts * all * cols * 2];
    for (expert, parts) in parts.iter().enumerate() {
        for (at, part) in parts.iter().enumerate() {
            for (index, bytes) in part.data.chunks(2).enumerate() {
                let (row, col) = (at * rows + index / cols, index % cols);
                let place = if is_transposed { col * all + row } else { row * cols + col };
                data[2 * (expert * all * cols + place)..][..2].copy_from_slice(bytes);
            }
        }
    }
    let shape = if is_transposed { vec![experts, cols, all] } else { vec![experts, all, cols] };
    Blob { dtype: Dtype::BF16, shape, data }
}

#[test]
fn fused_experts_are_split_in_both_layouts() {
    // Larger than a transposed unit, and N is not a multiple of 128.
    let (inner, hidden) = (1200, 1280);
    let expert = |seed| [bf16(seed, &[inner, hidden]), bf16(seed + 1, &[inner, hidden])];
    let ups = [expert(20), expert(30)];
    let names = [["gate_proj", "up_proj"]; 2];
    let mut single = Tensors::new();
    for (at, (parts, names)) in ups.iter().zip(names).enumerate() {
        for (part, name) in parts.iter().zip(names) {
            single.insert(format!("l.mlp.experts.{at}.{name}.weight"), part.clone());
        }
    }
    let place = Place::new(&[single]);
    place.run(&quantize()).unwrap();
    let expected = read_folder(&place.output());
    for is_transposed in [false, true] {
        let fused = fused(&[&ups[0], &ups[1]], is_transposed);
        let place = Place::new(&[Tensors::from([("l.mlp.experts.gate_up_proj".to_owned(), fused)])]);
        let layout = if is_transposed { ExpertLayout::InOut } else { ExpertLayout::OutIn };
        let request = Quantize { expert_layout: Some(layout), ..Quantize::default() };
        place.run(&Request::Quantize(request)).unwrap();
        assert_eq!(read_folder(&place.output()), expected);
    }
    let place =
        Place::new(&[Tensors::from([("l.mlp.experts.gate_up_proj".to_owned(), fused(&[&ups[0]], true))])]);
    let error = place.run(&quantize()).unwrap_err();
    assert!(error.to_string().starts_with("nothing to do"), "{error}");
    // With both tensors of a layer, their shapes determine the layout.
    let inner = 640;
    let up = [bf16(50, &[inner, hidden]), bf16(51, &[inner, hidden])];
    let down = [bf16(52, &[hidden, inner])];
    for is_transposed in [false, true] {
        let tensors = Tensors::from([
            ("l.mlp.experts.gate_up_proj".to_owned(), fused(&[&up], is_transposed)),
            ("l.mlp.experts.down_proj".to_owned(), fused(&[&down], is_transposed)),
        ]);
        let place = Place::new(&[tensors]);
        place.run(&quantize()).unwrap();
        let written = read_folder(&place.output());
        assert_eq!(written["l.mlp.experts.0.down_proj.weight"].shape, [hidden, inner]);
        let values = floats(&down[0]).into_iter().zip(dequantized(
            &written,
            "l.mlp.experts.0.down_proj.weight",
            "_scale_inv",
        ));
        for (value, back) in values {
            assert!((value - back).abs() <= value.abs() / 15.0 + 1e-5, "{value} {back}");
        }
    }
}

#[test]
fn a_folder_without_index_gets_one() {
    let place = Place::new(&decoder()[..1]);
    fs::remove_file(place.input().join("model.safetensors.index.json")).unwrap();
    fs::rename(
        place.input().join("model-00001-of-00001.safetensors"),
        place.input().join("model.safetensors"),
    )
    .unwrap();
    place.run(&quantize()).unwrap();
    let written = read_folder(&place.output());
    assert_eq!(written["model.layers.0.self_attn.q_proj.weight"].dtype, Dtype::F8_E4M3);
    assert!(place.output().join("model.safetensors").is_file());
}

#[test]
fn weights_outside_of_the_index_are_copied() {
    let place = Place::new(&decoder());
    fs::copy(
        place.input().join("model-00001-of-00002.safetensors"),
        place.input().join("consolidated.safetensors"),
    )
    .unwrap();
    let outcome = place.run(&quantize()).unwrap();
    let copied = outcome.copied.iter().find(|file| file.is_weights()).unwrap();
    assert_eq!(copied.path.to_str(), Some("consolidated.safetensors"));
    let same = |folder: &std::path::Path| fs::read(folder.join("consolidated.safetensors")).unwrap();
    assert_eq!(same(&place.input()), same(&place.output()));
}

#[test]
fn very_wide_weights_are_split_by_columns() {
    let cols = 20480;
    let weight = bf16(60, &[130, cols]);
    let place = Place::new(&[Tensors::from([("a.weight".to_owned(), weight.clone())])]);
    place.run(&quantize()).unwrap();
    let written = read_folder(&place.output());
    for (value, back) in floats(&weight).into_iter().zip(dequantized(&written, "a.weight", "_scale_inv")) {
        assert!((value - back).abs() <= value.abs() / 15.0 + 1e-5, "{value} {back}");
    }
    let back = place.0.path().join("back");
    run(&place.output(), &back, &Request::Dequantize(FloatKind::F32)).unwrap();
    assert_eq!(
        read_folder(&back)["a.weight"],
        f32s(&dequantized(&written, "a.weight", "_scale_inv"), &[130, cols])
    );
}

#[test]
fn layers_are_found_with_their_formats() {
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    let (layers, faults) = Checkpoint::open(&place.output()).unwrap().layers();
    assert!(faults.is_empty());
    let layer = |module: &str| layers.iter().find(|layer| layer.module == module).unwrap();
    assert!(matches!(layer("model.layers.0.self_attn.k_proj").format, LayerFormat::Fp8(_)));
    assert_eq!(layer("lm_head").format, LayerFormat::Plain(Dtype::BF16));
    assert_eq!((layer("lm_head").rows, layer("lm_head").cols), (512, 256));
    // Codes and scales can be read on their own.
    let checkpoint = Checkpoint::open(&place.output()).unwrap();
    let (layer, written) = (layer("model.layers.0.self_attn.k_proj"), read_folder(&place.output()));
    let LayerFormat::Fp8(scales) = &layer.format else { panic!("{layer:?}") };
    let name = "model.layers.0.self_attn.k_proj.weight";
    let values = checkpoint.read_scales(scales).unwrap();
    assert_eq!(f32s(&values, &[2, 2]), written[&format!("{name}_scale_inv")]);
    let (reader, mut rows) = (checkpoint.reader(layer.weight).unwrap(), Vec::new());
    reader.read_rows(128..200, &mut rows).unwrap();
    assert_eq!(rows, written[name].data[128 * 256..]);
}

#[test]
fn an_input_without_anything_to_quantize_says_why() {
    let tensors = [
        ("model.norm.weight".to_owned(), bf16(1, &[256])),
        ("model.layers.0.mlp.up_proj.weight".to_owned(), bf16(2, &[256, 200])),
    ];
    let place = Place::new(&[tensors.into_iter().collect()]);
    let error = place.run(&quantize()).unwrap_err().to_string();
    let why = "model.layers.0.mlp.up_proj.weight is kept: K = 200 is not a multiple of 128";
    assert!(error.starts_with("nothing to do: ") && error.ends_with(why), "{error}");
}

//! Plants every defect in a checkpoint and requires it to be found; intact checkpoints must have none.

mod common;

use std::{fs, path::Path};

use common::{Blob, Place, Tensors, bf16, decoder, f32s, quantize, read_file, run, write_file, write_folder};
use octile_checkpoint::{
    Checkpoint, CheckpointError, Convert, DefectKind, Format, Judge, Judgement, Quantize, Request, ScaleKind,
    ScaleOrder, SnrSource,
};
use octile_core::sample::Rng;
use safetensors::Dtype;

const UP: &str = "model.layers.0.mlp.up_proj.weight";

fn judge(folder: &Path, against: Option<&Path>) -> Result<Judgement, CheckpointError> {
    let against = against.map(|path| Checkpoint::open(path).unwrap());
    Judge::new(Checkpoint::survey(folder)?, against)?.run(Some(2), &())
}

fn kinds(judgement: &Judgement) -> Vec<DefectKind> {
    judgement.defects.iter().map(|defect| defect.kind).collect()
}

/// bf16 weights with the tails of a trained model, so that the largest magnitudes of blocks differ.
fn weights(seed: u64, rows: usize, cols: usize) -> Blob {
    let mut rng = Rng::new(seed, 3);
    // Layers differ in magnitude.
    let mut value = || half::bf16::from_f32(0.01 * 3f32.powi(seed as i32) * rng.bell().powi(3));
    let data = (0..rows * cols).flat_map(|_| value().to_le_bytes()).collect();
    Blob { dtype: Dtype::BF16, shape: vec![rows, cols], data }
}

/// A checkpoint in `in` with one large weight in two layers, quantized into `out`.
fn quantized(scales: ScaleKind) -> Place {
    let layer = |layer: usize| format!("model.layers.{layer}.mlp.up_proj.weight");
    let shard = [
        (layer(0), weights(1, 1536, 1536)),
        (layer(1), weights(2, 1280, 1536)),
        ("model.norm.weight".to_owned(), bf16(3, &[256])),
        ("model.embed_tokens.weight".to_owned(), bf16(4, &[256, 256])),
    ];
    let place = Place::new(&[shard.into_iter().collect()]);
    place.run(&Request::Quantize(Quantize { scales, ..Quantize::default() })).unwrap();
    place
}

const SHARD: &str = "model-00001-of-00001.safetensors";

/// Changes the tensors of the quantized checkpoint; the index follows.
fn change(place: &Place, edit: impl FnOnce(&mut Tensors)) {
    let path = place.output().join(SHARD);
    let mut tensors = read_file(&path);
    edit(&mut tensors);
    write_file(&path, &tensors);
    let map: serde_json::Map<_, _> = tensors.keys().map(|name| (name.clone(), SHARD.into())).collect();
    let index = serde_json::json!({"metadata": {}, "weight_map": map});
    fs::write(place.output().join("model.safetensors.index.json"), index.to_string()).unwrap();
}

fn scales(blob: &Blob) -> Vec<f32> {
    blob.data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Changes the scales of the first layer.
fn change_scales(place: &Place, edit: impl Fn(&[f32]) -> Vec<f32>) {
    change(place, |tensors| {
        let blob = tensors.get_mut(&format!("{UP}_scale_inv")).unwrap();
        *blob = f32s(&edit(&scales(blob)), &blob.shape.clone());
    });
}

fn change_config(place: &Place, edit: impl FnOnce(&mut serde_json::Value)) {
    let path = place.output().join("config.json");
    let mut config = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    edit(&mut config);
    fs::write(path, config.to_string()).unwrap();
}

#[test]
fn intact_checkpoints_have_no_defects() {
    let shards = decoder();
    let requests = [Format::Fp8, Format::CompressedTensors].into_iter().flat_map(|format| {
        [ScaleKind::F32, ScaleKind::Ue8m0].map(|scales| Quantize { format, scales, ..Quantize::default() })
    });
    for request in requests {
        let place = Place::new(&shards);
        place.run(&Request::Quantize(request.clone())).unwrap();
        for against in [None, Some(place.input())] {
            let judgement = judge(&place.output(), against.as_deref()).unwrap();
            assert_eq!(judgement.defects, [], "{request:?}");
            assert_eq!(judgement.summary.fp8_weights, 4);
        }
        // The original, and the way back, are intact too.
        assert_eq!(judge(&place.input(), None).unwrap().defects, []);
        run(
            &place.output(),
            &place.0.path().join("plain"),
            &Request::Dequantize(octile_core::FloatKind::F32),
        )
        .unwrap();
        let plain = judge(&place.0.path().join("plain"), None).unwrap();
        assert_eq!((plain.defects, plain.summary.fp8_weights), (vec![], 0));
    }
}

#[test]
fn statistics_are_those_of_the_weights() {
    let place = quantized(ScaleKind::F32);
    let estimated = judge(&place.output(), None).unwrap();
    let measured = judge(&place.output(), Some(&place.input())).unwrap();
    assert_eq!((&estimated.defects[..], &measured.defects[..]), (&[][..], &[][..]));
    let layer =
        |judgement: &Judgement| judgement.layers.iter().find(|layer| layer.name == UP).unwrap().clone();
    let (from_codes, from_original) = (layer(&estimated), layer(&measured));
    let (a, b) = (from_codes.snr.unwrap(), from_original.snr.unwrap());
    assert_eq!((a.source, b.source), (SnrSource::Codes, SnrSource::Original));
    let (a, b) = (a.db.unwrap(), b.db.unwrap());
    assert!((a - b).abs() < 0.5 && (28.0..36.0).contains(&b), "{a} {b}");
    // Against a direct computation.
    let tensors = read_file(&place.output().join(SHARD));
    let original = read_file(&place.input().join(SHARD));
    let scale = scales(&tensors[&format!("{UP}_scale_inv")]);
    let (mut signal, mut noise, mut zero) = (0.0, 0.0, 0);
    for (at, (code, bytes)) in tensors[UP].data.iter().zip(original[UP].data.as_chunks::<2>().0).enumerate() {
        let value = f64::from(half::bf16::from_le_bytes(*bytes).to_f32());
        let scale = scale[at / 1536 / 128 * 12 + at % 1536 / 128];
        let decoded = f64::from(octile_core::E4m3::from_bits(*code).to_f32() * scale);
        signal += value * value;
        noise += (value - decoded) * (value - decoded);
        zero += u64::from(code & 0x7f == 0);
    }
    assert!((b - 10.0 * f64::log10(signal / noise)).abs() < 1e-3);
    let codes = from_codes.codes.unwrap();
    assert_eq!((codes.total, codes.zero, codes.nan, codes.blocks), (1536 * 1536, zero, 0, 144));
    assert_eq!((codes.full_range_blocks, codes.zero_blocks), (144, 0));
    assert!((codes.rms / (signal / (1536.0 * 1536.0)).sqrt() - 1.0).abs() < 1e-2);
    let found = from_codes.scales.unwrap();
    let (min, max) = scale.iter().fold((f32::MAX, 0f32), |(min, max), s| (min.min(*s), max.max(*s)));
    assert_eq!((found.min, found.max, found.order), (min, max, ScaleOrder::Confirmed));
    assert_eq!(estimated.summary.order_not_observable, 0);
    assert!((estimated.summary.fp8_bits_per_value - 8.0 - 32.0 / 16384.0).abs() < 1e-6);
}

/// Requires one kind of defect, at the first layer, with and without the original.
fn requires(place: &Place, without: Option<DefectKind>, with: Option<DefectKind>) {
    for (against, expected) in [(None, without), (Some(place.input()), with)] {
        let judgement = judge(&place.output(), against.as_deref()).unwrap();
        assert_eq!(kinds(&judgement), Vec::from_iter(expected), "{:?}", judgement.defects);
        assert!(judgement.defects.iter().all(|defect| defect.tensor.as_deref() == Some(UP)));
    }
}

#[test]
fn wrong_scales_are_found() {
    let place = quantized(ScaleKind::F32);
    let intact = fs::read(place.output().join(SHARD)).unwrap();
    let restore = || fs::write(place.output().join(SHARD), &intact).unwrap();

    change_scales(&place, |scales| scales.iter().map(|scale| 1.0 / scale).collect());
    requires(&place, Some(DefectKind::ReciprocalScales), Some(DefectKind::ReciprocalScales));
    restore();
    change_scales(&place, |scales| (0..144).map(|at| scales[at % 12 * 12 + at / 12]).collect());
    requires(&place, Some(DefectKind::TransposedScales), Some(DefectKind::TransposedScales));
    restore();
    for bad in [f32::NAN, f32::INFINITY, -0.001, 0.0] {
        change_scales(&place, |scales| [&scales[..143], &[bad]].concat());
        requires(&place, Some(DefectKind::BadScale), Some(DefectKind::BadScale));
        restore();
    }
    // One wrong scale among many shows only against the original.
    change_scales(&place, |scales| [&[2.0 * scales[0]], &scales[1..]].concat());
    requires(&place, None, Some(DefectKind::WrongScales));
}

#[test]
fn scales_rounded_without_the_codes_are_found() {
    let place = quantized(ScaleKind::F32);
    change(&place, |tensors| {
        for (_, blob) in tensors.iter_mut().filter(|(name, _)| name.ends_with("_scale_inv")) {
            let rounded: Vec<f32> = scales(blob).iter().map(|scale| scale.log2().ceil().exp2()).collect();
            *blob = f32s(&rounded, &blob.shape.clone());
        }
    });
    for against in [None, Some(place.input())] {
        let judgement = judge(&place.output(), against.as_deref()).unwrap();
        assert_eq!(kinds(&judgement), [DefectKind::RoundedScales; 2], "{:?}", judgement.defects);
    }
    // The same scales with the codes to match.
    let proper = quantized(ScaleKind::Ue8m0);
    assert_eq!(judge(&proper.output(), Some(&proper.input())).unwrap().defects, []);
    let again = proper.0.path().join("again");
    let convert = Convert { format: None, scales: Some(ScaleKind::Ue8m0), requantize: true };
    let place = quantized(ScaleKind::F32);
    run(&place.output(), &again, &Request::Convert(convert)).unwrap();
    assert_eq!(judge(&again, Some(&place.input())).unwrap().defects, []);
    // Against the fp8 checkpoint that it was made from.
    let from_fp8 = judge(&again, Some(&place.output())).unwrap();
    assert_eq!(from_fp8.defects, []);
    assert!(from_fp8.summary.snr.unwrap().db.unwrap() > 25.0);
}

#[test]
fn wrong_codes_are_found() {
    let place = quantized(ScaleKind::F32);
    let intact = fs::read(place.output().join(SHARD)).unwrap();
    change(&place, |tensors| tensors.get_mut(UP).unwrap().data[7000] = 0xff);
    let judgement = judge(&place.output(), None).unwrap();
    assert_eq!(kinds(&judgement), [DefectKind::NanCodes]);
    assert!(judgement.defects[0].evidence.starts_with("1 of 2359296 codes"), "{}", judgement.defects[0]);
    // Quantized with scales that are a tenth of what they should be.
    fs::write(place.output().join(SHARD), &intact).unwrap();
    change(&place, |tensors| {
        for code in &mut tensors.get_mut(UP).unwrap().data {
            let value = octile_core::E4m3::from_bits(*code).to_f32() * 10.0;
            *code = octile_core::E4m3::from_f32(value.clamp(-448.0, 448.0)).to_bits();
        }
    });
    change_scales(&place, |scales| scales.iter().map(|scale| scale / 10.0).collect());
    assert_eq!(kinds(&judge(&place.output(), None).unwrap()), [DefectKind::SaturatedCodes]);
    // Codes of another weight.
    fs::write(place.output().join(SHARD), &intact).unwrap();
    change(&place, |tensors| tensors.get_mut(UP).unwrap().data.reverse());
    requires(&place, None, Some(DefectKind::OtherWeight));
}

#[test]
fn missing_and_malformed_scales_are_found() {
    let name = format!("{UP}_scale_inv");
    for (kind, edit) in [
        (
            DefectKind::MissingScales,
            &(|tensors: &mut Tensors| drop(tensors.remove(&name))) as &dyn Fn(&mut Tensors),
        ),
        (DefectKind::TwoScales, &|tensors| {
            let scales = tensors[&name].clone();
            tensors.insert(format!("{UP}_scale"), scales);
        }),
        (DefectKind::ScaleShape, &|tensors| {
            tensors.insert(name.clone(), f32s(&[1.0; 144], &[9, 16]));
        }),
        (DefectKind::ScaleShape, &|tensors| {
            tensors.insert(name.clone(), f32s(&[1.0], &[1]));
        }),
        (DefectKind::ScaleDtype, &|tensors| {
            tensors.insert(name.clone(), Blob { dtype: Dtype::I32, ..f32s(&[1.0; 144], &[12, 12]) });
        }),
        (DefectKind::OrphanScales, &|tensors| drop(tensors.remove(UP))),
    ] {
        let place = quantized(ScaleKind::F32);
        change(&place, edit);
        let judgement = judge(&place.output(), None).unwrap();
        assert_eq!(kinds(&judgement), [kind], "{:?}", judgement.defects);
        assert!(judgement.defects[0].to_string().contains(UP));
    }
    let place = quantized(ScaleKind::F32);
    change(&place, |tensors| {
        let name = "model.layers.1.mlp.up_proj.weight_scale_inv";
        let blob = tensors[name].clone();
        tensors.insert(name.to_owned(), Blob { shape: vec![12, 10], ..blob });
    });
    let judgement = judge(&place.output(), None).unwrap();
    assert_eq!(kinds(&judgement), [DefectKind::ScaleShape]);
    assert!(
        judgement.defects[0].evidence.ends_with("needs [10, 12], the transpose"),
        "{}",
        judgement.defects[0]
    );
}

#[test]
fn damaged_files_are_found() {
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    let index = place.output().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    let second = place.output().join("model-00002-of-00002.safetensors");
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() - 100]).unwrap();
    assert_eq!(kinds(&judge(&place.output(), None).unwrap()), [DefectKind::TruncatedShard]);
    fs::remove_file(&second).unwrap();
    assert_eq!(kinds(&judge(&place.output(), None).unwrap()), [DefectKind::DanglingIndex]);
    fs::write(&second, &bytes).unwrap();
    fs::write(&index, text.replace("model.norm.weight", "model.other.weight")).unwrap();
    let found = kinds(&judge(&place.output(), None).unwrap());
    assert_eq!(found, [DefectKind::DanglingIndex, DefectKind::UnlistedTensor]);
    fs::remove_file(&index).unwrap();
    let judgement = judge(&place.output(), None).unwrap();
    assert_eq!(kinds(&judgement), [DefectKind::DanglingIndex]);
    assert!(judgement.defects[0].evidence.starts_with("2 shards have no"), "{}", judgement.defects[0]);
    fs::remove_file(&second).unwrap();
    let judgement = judge(&place.output(), None).unwrap();
    assert_eq!(kinds(&judgement), [DefectKind::DanglingIndex]);
    let part = "holds no model-00002-of-00002.safetensors, one of 2 shards";
    assert!(judgement.defects[0].evidence.contains(part), "{}", judgement.defects[0]);
    fs::write(&second, &bytes).unwrap();
    fs::copy(&second, place.output().join("model-00003.safetensors")).unwrap();
    assert!(kinds(&judge(&place.output(), None).unwrap()).contains(&DefectKind::DuplicateTensor));
    // One damaged file is a finding; something else is not a checkpoint.
    let file = place.0.path().join("file.safetensors");
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(kinds(&judge(&file, None).unwrap()), [DefectKind::TruncatedShard]);
    fs::write(&file, "no safetensors file").unwrap();
    assert!(judge(&file, None).is_err());
    assert!(judge(&place.0.path().join("none"), None).is_err());
}

#[test]
fn one_fault_is_one_defect() {
    // A tensor in two shards, both listed correctly as far as an index can.
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    let [first, second] =
        [1, 2].map(|at| place.output().join(format!("model-0000{at}-of-00002.safetensors")));
    let (mut tensors, intact) = (read_file(&first), fs::read(&first).unwrap());
    tensors.extend(read_file(&second).into_iter().filter(|(name, _)| name == "model.norm.weight"));
    write_file(&first, &tensors);
    assert_eq!(kinds(&judge(&place.output(), None).unwrap()), [DefectKind::DuplicateTensor]);
    fs::write(&first, intact).unwrap();
    // Scales whose weight is in a missing shard.
    let name = "model.layers.0.mlp.experts.0.down_proj.weight_scale_inv";
    let (mut tensors, moved) = (read_file(&first), read_file(&second)[name].clone());
    tensors.insert(name.to_owned(), moved);
    write_file(&first, &tensors);
    let index = place.output().join("model.safetensors.index.json");
    let mut map: serde_json::Value = serde_json::from_str(&fs::read_to_string(&index).unwrap()).unwrap();
    map["weight_map"][name] = "model-00001-of-00002.safetensors".into();
    fs::write(&index, map.to_string()).unwrap();
    fs::remove_file(&second).unwrap();
    assert_eq!(kinds(&judge(&place.output(), None).unwrap()), [DefectKind::DanglingIndex]);
}

#[test]
fn a_config_that_disagrees_is_found() {
    for (part, edit) in [
        (
            "blocks of 64 x 64",
            &(|q: &mut serde_json::Value| q["weight_block_size"] = [64, 64].into())
                as &dyn Fn(&mut serde_json::Value),
        ),
        ("one scale per tensor", &|q| q["weight_block_size"] = serde_json::Value::Null),
        ("lists model.layers.0 as not quantized", &|q| {
            q["modules_to_not_convert"] = ["model.layers.0"].into()
        }),
        ("declares awq, but 2 weights are fp8", &|q| q["quant_method"] = "awq".into()),
        ("declares fmt e5m2", &|q| q["fmt"] = "e5m2".into()),
        ("declares scale_fmt ue8m0", &|q| q["scale_fmt"] = "ue8m0".into()),
        ("lists 0.mlp.up_proj as", &|q| q["modules_to_not_convert"] = ["0.mlp.up_proj"].into()),
        ("lists model.*.0.mlp.up_proj as", &|q| {
            q["modules_to_not_convert"] = ["model.*.0.mlp.up_proj"].into()
        }),
        ("no quantization_config", &|q| *q = serde_json::Value::Null),
    ] {
        let place = quantized(ScaleKind::F32);
        change_config(&place, |config| edit(&mut config["quantization_config"]));
        let judgement = judge(&place.output(), None).unwrap();
        assert_eq!(kinds(&judgement), [DefectKind::ConfigDisagrees], "{part}: {:?}", judgement.defects);
        assert!(judgement.defects[0].to_string().contains(part), "{}", judgement.defects[0]);
    }
    let place = quantized(ScaleKind::F32);
    let skip = vec!["model.layers.1.*".to_owned()];
    let request = Request::Quantize(Quantize { skip, ..Quantize::default() });
    fs::remove_dir_all(place.output()).unwrap();
    place.run(&request).unwrap();
    assert_eq!(judge(&place.output(), None).unwrap().defects, []);
    change_config(&place, |config| {
        config["quantization_config"]["modules_to_not_convert"] = ["lm_head"].into()
    });
    let judgement = judge(&place.output(), None).unwrap();
    assert_eq!(kinds(&judgement), [DefectKind::ConfigDisagrees]);
    assert_eq!(judgement.defects[0].tensor.as_deref(), Some("model.layers.1.mlp.up_proj.weight"));
}

#[test]
fn a_compressed_tensors_config_that_disagrees_is_found() {
    for (part, edit) in [
        (
            "num_bits 8 and type float",
            &(|q: &mut serde_json::Value| q["config_groups"]["group_0"]["weights"]["num_bits"] = 4.into())
                as &dyn Fn(&mut serde_json::Value),
        ),
        ("num_bits 8 and type float", &|q| q["config_groups"]["group_0"]["weights"]["type"] = "int".into()),
        ("lists re:.*experts.0.up_proj as", &|q| q["ignore"] = ["re:.*experts.0.up_proj"].into()),
        ("look for model.layers.0", &|q| {
            *q = serde_json::json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
        }),
    ] {
        let place = Place::new(&decoder());
        let request = Quantize { format: Format::CompressedTensors, ..Quantize::default() };
        place.run(&Request::Quantize(request)).unwrap();
        change_config(&place, |config| edit(&mut config["quantization_config"]));
        let judgement = judge(&place.output(), None).unwrap();
        assert_eq!(kinds(&judgement), [DefectKind::ConfigDisagrees], "{part}: {:?}", judgement.defects);
        assert!(judgement.defects[0].to_string().contains(part), "{}", judgement.defects[0]);
    }
}

#[test]
fn other_formats_are_described() {
    let codes = |shape: &[usize], dtype| Blob {
        dtype,
        shape: shape.to_vec(),
        data: (0..shape.iter().product::<usize>()).map(|at| (at * 37 % 120) as u8).collect(),
    };
    let one = |name: &str, blob: Blob| (name.to_owned(), blob);
    let tensors = [
        one("tensor.weight", codes(&[256, 256], Dtype::F8_E4M3)),
        one("tensor.weight_scale", f32s(&[0.01], &[])),
        one("tensor.input_scale", f32s(&[0.01], &[])),
        one("row.weight", codes(&[200, 300], Dtype::F8_E4M3)),
        one("row.weight_scale", f32s(&[0.01; 200], &[200, 1])),
        one("mx.weight", codes(&[64, 128], Dtype::F8_E4M3)),
        one("mx.weight_scale", Blob { dtype: Dtype::U8, shape: vec![64, 4], data: vec![120; 256] }),
        one("wide.weight", codes(&[256, 256], Dtype::F8_E5M2)),
        one("wide.weight_scale", f32s(&[0.01], &[])),
        one("packed.weight_packed", Blob { dtype: Dtype::U8, ..codes(&[64, 64], Dtype::U8) }),
        one("packed.weight_scale", f32s(&[0.01; 64], &[64, 1])),
        one("layer.mlp.experts.down_proj", codes(&[3, 256, 128], Dtype::F8_E4M3)),
        one("layer.mlp.experts.down_proj_scale_inv", f32s(&[0.01; 6], &[3, 2, 1])),
        one("empty.weight", codes(&[0, 256], Dtype::F8_E4M3)),
    ];
    let place = Place::new(&[]);
    let file = place.0.path().join("file.safetensors");
    write_file(&file, &tensors.into_iter().collect());
    let judgement = judge(&file, None).unwrap();
    assert_eq!(judgement.defects, []);
    let block = |name: &str| {
        let layer = judgement.layers.iter().find(|layer| layer.name == name).unwrap();
        layer.scales.as_ref().map(|scales| (scales.block, layer.codes.as_ref().unwrap().blocks))
    };
    assert_eq!(block("tensor.weight"), Some(([256, 256], 4)));
    assert_eq!(block("row.weight"), Some(([1, 300], 600)));
    assert_eq!(block("mx.weight"), Some(([1, 32], 256)));
    assert_eq!(block("layer.mlp.experts.down_proj"), Some(([128, 128], 6)));
    assert_eq!(block("wide.weight"), None);
}

#[test]
fn fused_experts_are_compared_with_their_parts() {
    let experts = [
        ("model.layers.0.mlp.experts.gate_up_proj".to_owned(), bf16(1, &[4, 512, 256])),
        ("model.layers.0.mlp.experts.down_proj".to_owned(), bf16(2, &[4, 256, 256])),
    ];
    let place = Place::new(&[experts.into_iter().collect()]);
    place.run(&quantize()).unwrap();
    let judgement = judge(&place.output(), Some(&place.input())).unwrap();
    assert_eq!(judgement.defects, []);
    assert_eq!(judgement.summary.fp8_weights, 12);
    assert!(judgement.layers.iter().all(|layer| layer.snr.unwrap().source == SnrSource::Original));
}

#[test]
fn an_unrelated_original_is_refused() {
    let place = quantized(ScaleKind::F32);
    let other = Place::new(&decoder());
    let error = judge(&place.output(), Some(&other.input())).unwrap_err();
    assert!(error.to_string().contains("holds none of the fp8 weights"), "{error}");
    let some = place.0.path().join("some");
    write_folder(&some, &[[(UP.to_owned(), weights(1, 1536, 1536))].into_iter().collect()]);
    let judgement = judge(&place.output(), Some(&some)).unwrap();
    assert_eq!(kinds(&judgement), [DefectKind::MissingOriginal]);
}

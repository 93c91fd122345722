//! Comparison with the original: what is missing, and what was changed without being quantized.

mod common;

use std::{fs, path::Path};

use common::{Blob, Place, bf16, decoder, f32s, quantize, read_file, run, write_file};
use octile_checkpoint::{Checkpoint, DefectKind, Judge, Judgement, Request};
use octile_core::{E4m3, FloatKind};
use safetensors::Dtype;

fn judge(folder: &Path, against: Option<&Path>) -> Judgement {
    let against = against.map(|path| Checkpoint::open(path).unwrap());
    Judge::new(Checkpoint::survey(folder).unwrap(), against).unwrap().run(Some(2), &()).unwrap()
}

fn kinds(judgement: &Judgement) -> Vec<DefectKind> {
    judgement.defects.iter().map(|defect| defect.kind).collect()
}

/// Changes a tensor of the second shard, or removes it.
fn change(folder: &Path, tensor: &str, edit: impl FnOnce(Blob) -> Option<Blob>) {
    let path = folder.join("model-00002-of-00002.safetensors");
    let mut tensors = read_file(&path);
    let index = folder.join("model.safetensors.index.json");
    let mut map: serde_json::Value = serde_json::from_str(&fs::read_to_string(&index).unwrap()).unwrap();
    map["metadata"].as_object_mut().unwrap().remove("total_size");
    match edit(tensors.remove(tensor).unwrap()) {
        Some(blob) => drop(tensors.insert(tensor.to_owned(), blob)),
        None => drop(map["weight_map"].as_object_mut().unwrap().remove(tensor)),
    }
    fs::write(index, map.to_string()).unwrap();
    write_file(&path, &tensors);
}

#[test]
fn what_is_not_quantized_is_compared() {
    let expects = |tensor: &str, kind, part: &str, edit: &dyn Fn(Blob) -> Option<Blob>| {
        let place = Place::new(&decoder());
        place.run(&quantize()).unwrap();
        change(&place.output(), tensor, edit);
        let judgement = judge(&place.output(), Some(&place.input()));
        assert_eq!(kinds(&judgement), [kind], "{:?}", judgement.defects);
        let text = judgement.defects[0].to_string();
        assert!(text.starts_with(tensor) && text.contains(part), "{text}");
    };
    let negated = |mut blob: Blob| {
        blob.data.iter_mut().skip(1).step_by(2).for_each(|byte| *byte ^= 0x80);
        Some(blob)
    };
    let nan = |mut blob: Blob| {
        blob.data[200..202].copy_from_slice(&[0xff, 0x7f]);
        Some(blob)
    };
    expects("lm_head.weight", DefectKind::MissingTensor, "missing here", &|_| None);
    expects("model.norm.weight", DefectKind::MissingTensor, "missing here", &|_| None);
    expects("lm_head.weight", DefectKind::ChangedTensor, "131072 of 131072 values", &negated);
    expects("lm_head.weight", DefectKind::ChangedTensor, "1 of 131072 values differ", &nan);
    expects("lm_head.weight", DefectKind::ChangedTensor, "the first at 100", &nan);
    expects("model.norm.weight", DefectKind::ChangedTensor, "shape [128]", &|_| Some(bf16(1, &[128])));
    let norm = bf16(11, &[256]);
    let widen = |b: &[u8; 2]| half::bf16::from_le_bytes(*b).to_f32();
    let wide: Vec<f32> = norm.data.as_chunks().0.iter().map(widen).collect();
    let wrong: Vec<f32> = wide.iter().map(|value| -value).collect();
    expects("model.norm.weight", DefectKind::ChangedTensor, "signal-to-noise", &|_| {
        Some(f32s(&wrong, &[256]))
    });
    // The same values in another type.
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    change(&place.output(), "model.norm.weight", |_| Some(f32s(&wide, &[256])));
    assert_eq!(judge(&place.output(), Some(&place.input())).defects, []);
}

#[test]
fn checkpoints_without_fp8_are_compared() {
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    let plain = place.0.path().join("plain");
    run(&place.output(), &plain, &Request::Dequantize(FloatKind::Bf16)).unwrap();
    assert_eq!(judge(&plain, Some(&place.input())).defects, []);
    // Against fp8, the weights are not compared, and listed so.
    let judgement = judge(&plain, Some(&place.output()));
    assert_eq!(judgement.defects, []);
    let reasons = judgement.layers.iter().filter_map(|layer| layer.not_judged);
    assert_eq!(reasons.filter(|why| why.starts_with("not compared")).count(), 4);
    change(&plain, "model.layers.0.mlp.experts.0.down_proj.weight", |blob| Some(bf16(99, &blob.shape)));
    assert_eq!(kinds(&judge(&plain, Some(&place.input()))), [DefectKind::ChangedTensor]);
}

#[test]
fn experts_that_were_split_are_present() {
    let experts = [
        ("model.layers.0.mlp.experts.gate_up_proj".to_owned(), bf16(1, &[2, 512, 256])),
        ("model.layers.0.mlp.experts.down_proj".to_owned(), bf16(2, &[2, 256, 256])),
    ];
    let place = Place::new(&[Default::default(), experts.into_iter().collect()]);
    place.run(&quantize()).unwrap();
    assert_eq!(judge(&place.output(), Some(&place.input())).defects, []);
    let name = "model.layers.0.mlp.experts.1.down_proj.weight";
    change(&place.output(), &format!("{name}_scale_inv"), |_| None);
    change(&place.output(), name, |_| None);
    let judgement = judge(&place.output(), Some(&place.input()));
    assert_eq!(kinds(&judgement), [DefectKind::MissingTensor], "{:?}", judgement.defects);
    assert_eq!(judgement.defects[0].tensor.as_deref(), Some(name));
}

#[test]
fn a_weight_that_was_never_filled_is_found() {
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    let name = "model.layers.0.mlp.experts.0.down_proj.weight";
    for tensor in [name.to_owned(), format!("{name}_scale_inv")] {
        change(&place.output(), &tensor, |mut blob| {
            blob.data.fill(0);
            Some(blob)
        });
    }
    let judgement = judge(&place.output(), None);
    assert_eq!(kinds(&judgement), [DefectKind::BadScale], "{:?}", judgement.defects);
    assert!(judgement.defects[0].evidence.contains("holds only zeros"), "{}", judgement.defects[0]);
}

/// Weights that were clipped before quantization have the tail of clipped codes.
#[test]
fn the_original_decides_whether_codes_are_clipped() {
    let value = |at: usize| {
        let random = f32::from(common::hash32(5, at as u64) as u16) / 32768.0 - 1.0;
        half::bf16::from_f32((random.powi(3) * 3.0).clamp(-0.5, 0.5))
    };
    let data = (0..256 * 256).flat_map(|at| value(at).to_le_bytes()).collect();
    let name = "model.layers.0.mlp.up_proj.weight".to_owned();
    let weight = Blob { dtype: Dtype::BF16, shape: vec![256, 256], data };
    let place = Place::new(&[[(name.clone(), weight)].into_iter().collect()]);
    place.run(&quantize()).unwrap();
    assert_eq!(kinds(&judge(&place.output(), None)), [DefectKind::SaturatedCodes]);
    assert_eq!(judge(&place.output(), Some(&place.input())).defects, []);
    // Clipped by the quantizer.
    let path = place.output().join("model-00001-of-00001.safetensors");
    let mut tensors = read_file(&path);
    for code in &mut tensors.get_mut(&name).unwrap().data {
        *code = E4m3::from_f32((E4m3::from_bits(*code).to_f32() * 4.0).clamp(-448.0, 448.0)).to_bits();
    }
    for scale in tensors.get_mut(&format!("{name}_scale_inv")).unwrap().data.as_chunks_mut::<4>().0 {
        *scale = (f32::from_le_bytes(*scale) / 4.0).to_le_bytes();
    }
    write_file(&path, &tensors);
    let found = kinds(&judge(&place.output(), Some(&place.input())));
    assert!(found.contains(&DefectKind::SaturatedCodes), "{found:?}");
}

#[test]
fn values_that_are_not_finite_are_found_without_the_original() {
    for (bits, what) in [(0x7fc0u16, "1 of 256 values is NaN, the first at [5]"), (0xff80, "is infinite")] {
        let place = Place::new(&decoder());
        place.run(&quantize()).unwrap();
        change(&place.output(), "model.norm.weight", |mut norm| {
            norm.data[10..12].copy_from_slice(&bits.to_le_bytes());
            Some(norm)
        });
        let judgement = judge(&place.output(), None);
        assert_eq!(kinds(&judgement), [DefectKind::NonFiniteValues]);
        assert!(judgement.defects[0].evidence.contains(what), "{}", judgement.defects[0]);
    }
}

#[test]
fn a_wrong_total_size_is_found() {
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    let path = place.output().join("model.safetensors.index.json");
    let mut index: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let total = index["metadata"]["total_size"].as_u64().unwrap();
    let size = |shard| fs::metadata(place.output().join(shard)).unwrap().len();
    let files = size("model-00001-of-00002.safetensors") + size("model-00002-of-00002.safetensors");
    let mut found = |size: serde_json::Value| {
        index["metadata"]["total_size"] = size;
        fs::write(&path, index.to_string()).unwrap();
        kinds(&judge(&place.output(), None))
    };
    for right in [total.into(), files.into(), (total as f64).into()] {
        assert_eq!(found(right), []);
    }
    for wrong in [(total + 1).into(), 0.into(), "many".into(), serde_json::Value::Null] {
        assert_eq!(found(wrong), [DefectKind::WrongTotalSize]);
    }
}

#[test]
fn e5m2_codes_contradict_a_config_that_means_e4m3() {
    let place = Place::new(&decoder());
    place.run(&quantize()).unwrap();
    let path = place.output().join("model-00001-of-00002.safetensors");
    let mut tensors = read_file(&path);
    tensors.get_mut("model.layers.0.self_attn.q_proj.weight").unwrap().dtype = safetensors::Dtype::F8_E5M2;
    write_file(&path, &tensors);
    let judgement = judge(&place.output(), None);
    let is_found = |defect: &octile_checkpoint::Defect| {
        defect.kind == DefectKind::ConfigDisagrees && defect.evidence.contains("the codes are e5m2")
    };
    assert!(judgement.defects.iter().any(is_found), "{:?}", judgement.defects);
}

//! Damaged, inconsistent and malicious inputs: each gives an error, and nothing is written.

mod common;

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use common::{Blob, Place, Tensors, bf16, decoder, f32s, quantize, write_file};
use octile_checkpoint::{Checkpoint, Request};
use octile_core::FloatKind;
use octile_harness::requirement::Requirement;
use safetensors::Dtype;

/// Returns the error of quantizing a damaged decoder; nothing may be left beside the input.
fn refusal(damage: impl FnOnce(&Path)) -> String {
    let place = Place::new(&decoder());
    damage(&place.input());
    let error = place.run(&quantize()).expect_err("this must be refused").to_string();
    assert_eq!(place.entries(), ["in"], "{error}");
    assert!(!error.contains('\n'), "{error}");
    error
}

const FIRST: &str = "model-00001-of-00002.safetensors";

/// A file with this header and this many bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// The error of opening one file.
fn opening(bytes: &[u8]) -> String {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("f.safetensors");
    fs::write(&path, bytes).unwrap();
    let error = Checkpoint::open(&path).expect_err("this must be refused").to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn headers_are_not_trusted() {
    let tensor = |entry: &str, data| opening(&file(&format!("{{{entry}}}"), data));
    let said = |error: &str, part: &str| assert!(error.contains(part), "{error}\nlacks {part}");
    said(&opening(b""), "is not a safetensors file: it has fewer than 8 bytes");
    said(&opening(b"# some text that is no header"), "no JSON header");
    said(&opening(&u64::MAX.to_le_bytes()), "above the limit of 100000000");
    said(&opening(&[b"\xff\xff\xff\x7f\xff\xff\xff\x7f{}".as_slice(), &[0; 9]].concat()), "above the limit");
    said(&opening(&[&1000u64.to_le_bytes()[..], b"{}"].concat()), "truncated or damaged");
    said(&opening(&file("{\"a\":", 0)), "is damaged");
    said(&opening(&file(&"{\"a\":".repeat(1000), 0)), "is damaged");
    said(
        &tensor(r#""a":{"dtype":"F9","shape":[1],"data_offsets":[0,1]}"#, 1),
        "tensor a has the unknown dtype F9",
    );
    let half = r#"{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}"#;
    said(&tensor(&format!("\"a\":{half},\"a\":{half}"), 4), "the name a occurs twice");
    said(&tensor(&format!("\"a\":{half},\"b\":{half}"), 4), "tensor b overlaps the one before it");
    said(&tensor(r#""a":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}"#, 8), "follows a gap");
    said(&tensor(r#""a":{"dtype":"BF16","shape":[2],"data_offsets":[4,0]}"#, 8), "before its start");
    said(&tensor(&format!("\"a\":{half}"), 3), "truncated or damaged");
    said(&tensor(&format!("\"a\":{half}"), 5), "truncated or damaged");
    said(
        &tensor(r#""a":{"dtype":"BF16","shape":[3],"data_offsets":[0,4]}"#, 4),
        "has shape [3] of BF16, but 4 bytes",
    );
    let huge = r#""a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}"#;
    said(&tensor(huge, 0), "has shape");
    let beyond =
        r#""a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]}"#;
    said(&tensor(beyond, 0), "truncated or damaged");
    said(&tensor(r#""a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}"#, 1), "is damaged");
    said(&tensor(r#""a":7"#, 0), "is damaged");
}

#[test]
fn a_truncated_shard_is_refused() {
    for keep in [0, 5, 100, 5000, 300_000] {
        let error = refusal(|folder| {
            let file = fs::OpenOptions::new().write(true).open(folder.join(FIRST)).unwrap();
            file.set_len(keep).unwrap();
        });
        assert!(error.contains(FIRST), "{error}");
    }
}

#[test]
fn an_index_must_agree_with_the_shards() {
    let index = |from: &str, to: &str| {
        let (from, to) = (from.to_owned(), to.to_owned());
        refusal(move |folder| {
            let path = folder.join("model.safetensors.index.json");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(&from));
            fs::write(path, text.replacen(&from, &to, 1)).unwrap();
        })
    };
    let first = "\"lm_head.weight\":\"model-00002-of-00002.safetensors\"";
    let said = |error: String, part: &str| assert!(error.contains(part), "{error}\nlacks {part}");
    for outside in [
        "\"lm_head.weight\":\"../model-00002-of-00002.safetensors\"",
        "\"lm_head.weight\":\"/etc/passwd\"",
        "\"lm_head.weight\":\"a/b.safetensors\"",
        "\"lm_head.weight\":\"..\"",
        "\"lm_head.weight\":\"\"",
        "\"lm_head.weight\":\"c:\\\\x.safetensors\"",
    ] {
        said(index(first, outside), "not a plain file name inside the folder");
    }
    said(index(first, "\"lm_head.weight\":\"no.safetensors\""), "to no.safetensors, which does not exist");
    said(index(first, "\"lm_head.weight\":\"model-00001-of-00002.safetensors\""), "does not list it");
    said(index(first, "\"other.weight\":\"model-00002-of-00002.safetensors\""), "does not list it");
    said(index(&format!("{first},"), ""), "holds lm_head.weight, which");
    said(index("{\"metadata\"", "{\"metadata"), "is damaged");
    said(index(first, &format!("{first},{first}")), "occurs twice");
}

#[test]
fn a_missing_shard_and_a_duplicate_name_are_named() {
    let error = refusal(|folder| fs::remove_file(folder.join(FIRST)).unwrap());
    assert!(error.contains(FIRST) && error.contains("fetch the missing shard"), "{error}");
    let error = refusal(|folder| {
        fs::remove_file(folder.join("model.safetensors.index.json")).unwrap();
        fs::copy(folder.join(FIRST), folder.join("model-00003-of-00003.safetensors")).unwrap();
    });
    assert!(error.contains("is in both model-00001"), "{error}");
    let error = refusal(|folder| fs::write(folder.join("config.json"), "{\"a\": 1").unwrap());
    assert!(error.contains("config.json is damaged"), "{error}");
}

fn fp8(rows: usize, cols: usize) -> Blob {
    Blob { dtype: Dtype::F8_E4M3, shape: vec![rows, cols], data: vec![0x38; rows * cols] }
}

#[test]
fn fp8_needs_its_scales() {
    let said = |tensors: &[(&str, Blob)], part: &str| {
        let tensors =
            tensors.iter().map(|(name, blob)| ((*name).to_owned(), blob.clone())).collect::<Tensors>();
        let place = Place::new(&[tensors]);
        for request in [quantize(), Request::Dequantize(FloatKind::F32)] {
            let error = place.run(&request).expect_err(part).to_string();
            assert!(error.contains(part), "{error}\nlacks {part}");
            assert_eq!(place.entries(), ["in"]);
        }
    };
    let one = f32s(&[1.0], &[1, 1]);
    said(&[("a.weight", fp8(128, 128))], "a.weight is fp8 but has no scales");
    said(&[("a.weight", Blob { shape: vec![128 * 128], ..fp8(128, 128) })], "has no scales");
    let both =
        [("a.weight", fp8(128, 128)), ("a.weight_scale", one.clone()), ("a.weight_scale_inv", one.clone())];
    said(&both, "two sets of scales");
    said(&[("a.weight", fp8(128, 256)), ("a.weight_scale_inv", one.clone())], "needs [1, 2]");
    said(&[("a.weight", fp8(256, 128)), ("a.weight_scale_inv", f32s(&[1.0; 2], &[1, 2]))], "needs [2, 1]");
    let bytes = Blob { dtype: Dtype::I32, ..one.clone() };
    said(&[("a.weight", fp8(128, 128)), ("a.weight_scale_inv", bytes)], "has dtype I32");
    said(&[("a.weight", bf16(1, &[128, 128])), ("a.weight_scale_inv", one.clone())], "a.weight is BF16");
    said(&[("b.weight", bf16(1, &[128, 128])), ("a.weight_scale_inv", one.clone())], "a.weight is missing");
    for bad in [f32::NAN, f32::INFINITY, -1.0] {
        let scales = f32s(&[bad], &[1, 1]);
        said(&[("a.weight", fp8(128, 128)), ("a.weight_scale_inv", scales)], "scales must be finite");
    }
    let e5m2 = Blob { dtype: Dtype::F8_E5M2, ..fp8(128, 128) };
    said(&[("a.weight", e5m2), ("a.weight_scale_inv", one)], "only 2-D F8_E4M3");
}

#[test]
fn what_is_not_finite_is_named() {
    for (bits, value) in [(0x7fc0u16, "NaN"), (0x7f80, "inf"), (0xff80, "-inf")] {
        let mut weight = bf16(1, &[300, 256]);
        weight.data[2 * (290 * 256 + 200)..][..2].copy_from_slice(&bits.to_le_bytes());
        let place = Place::new(&[Tensors::from([("a.weight".to_owned(), weight)])]);
        let error = place.run(&quantize()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("a.weight holds {value} at row 290, column 200")), "{error}");
        assert_eq!(place.entries(), ["in"]);
    }
}

#[test]
fn other_quantizations_are_refused() {
    for (config, part) in [
        (r#"{"quantization_config": {"quant_method": "gptq"}}"#, "quantized with gptq"),
        (r#"{"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}}"#, "[64,64]"),
        (
            r#"{"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}}"#,
            "pack-quantized",
        ),
    ] {
        let error = refusal(|folder| fs::write(folder.join("config.json"), config).unwrap());
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn what_is_no_checkpoint_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let error = |path: &Path| Checkpoint::open(path).unwrap_err().to_string();
    assert!(error(&place.path().join("none")).starts_with("cannot read"));
    assert!(error(place.path()).contains("holds no .safetensors file"));
    #[cfg(unix)]
    assert!(error(Path::new("/dev/null")).contains("not a regular file or a folder"));
}

#[cfg(unix)]
#[test]
fn links_to_files_are_followed_and_links_to_folders_are_not() {
    use std::os::unix::fs::symlink;
    // The layout of the Hugging Face hub cache.
    let place = Place::new(&decoder());
    let blobs = place.0.path().join("blobs");
    fs::create_dir(&blobs).unwrap();
    fs::rename(place.input().join(FIRST), blobs.join("b1")).unwrap();
    symlink("../blobs/b1", place.input().join(FIRST)).unwrap();
    place.run(&quantize()).unwrap();
    assert!(!place.output().join(FIRST).symlink_metadata().unwrap().is_symlink());
    let error = refusal(|folder| symlink("/", folder.join("root")).unwrap());
    assert!(error.contains("is a symbolic link to a folder"), "{error}");
    let error = refusal(|folder| symlink("nowhere", folder.join("dangling")).unwrap());
    assert!(error.contains("dangling"), "{error}");
}

#[test]
fn values_beyond_the_type_are_refused_and_nan_stays() {
    let mut codes = fp8(256, 256);
    (codes.data[5], codes.data[200 * 256 + 130]) = (0x7f, 0x7e);
    let scales = f32s(&[1.0, 1.0, 1.0, 200.0], &[2, 2]);
    let tensors = [("a.weight".to_owned(), codes), ("a.weight_scale_inv".to_owned(), scales)];
    let place = Place::new(&[Tensors::from(tensors)]);
    let error = place.run(&Request::Dequantize(FloatKind::F16)).unwrap_err().to_string();
    assert!(error.contains("a.weight overflows F16 at row 200, column 130"), "{error}");
    assert_eq!(place.entries(), ["in"]);
    place.run(&Request::Dequantize(FloatKind::Bf16)).unwrap();
    let written = common::read_folder(&place.output());
    let bits = u16::from_le_bytes(written["a.weight"].data[10..12].try_into().unwrap());
    assert!(half::bf16::from_bits(bits).is_nan());
}

#[test]
fn damaged_bytes_never_end_the_program() {
    let place = tempfile::tempdir().unwrap();
    let [path, output] = ["f.safetensors", "o.safetensors"].map(|name| place.path().join(name));
    let tensors = [
        ("a.weight".to_owned(), bf16(1, &[4, 128])),
        ("b.weight".to_owned(), fp8(4, 128)),
        ("b.weight_scale".to_owned(), f32s(&[1.0], &[1, 1])),
    ];
    write_file(&path, &Tensors::from(tensors));
    let whole = fs::read(&path).unwrap();
    let (mut refused, mut done) = (0, 0);
    for round in 0..600 {
        let mut bytes = whole.clone();
        for change in 0..1 + round % 3 {
            let h = common::hash32(round, change) as usize;
            // Mostly in the header, and there mostly JSON characters.
            let at = h % if round % 4 == 0 { bytes.len() } else { 400 };
            bytes[at] = if round % 2 == 0 { b"0123456789[]{},:\"-eF"[h >> 16 & 15] } else { (h >> 16) as u8 };
        }
        fs::write(&path, bytes).unwrap();
        match common::run(&path, &output, &quantize()) {
            Ok(_) => {
                done += 1;
                fs::remove_file(&output).unwrap();
            }
            Err(_) => refused += 1,
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
    assert!(refused > 300 && done > 0, "{refused} refused, {done} done");
}

#[test]
fn a_file_that_claims_much_costs_little() {
    // A sparse terabyte whose header lists one tensor of that size.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("f.safetensors");
    let header = r#"{"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}}"#;
    let mut sparse = fs::File::create(&path).unwrap();
    sparse.write_all(&file(header, 0)).unwrap();
    let end = 8 + header.len() as u64 + 1_099_511_627_776;
    if sparse.seek(SeekFrom::Start(end)).and_then(|_| sparse.set_len(end)).is_err() {
        Requirement::SparseFiles.report_absent("a_file_that_claims_much_costs_little", "cannot make one");
        return;
    }
    let checkpoint = Checkpoint::open(&path).unwrap();
    assert_eq!(checkpoint.tensors().count(), 1);
    // Nothing to quantize, and more than the disk could hold.
    let error = common::run(&path, &place.path().join("o.safetensors"), &quantize()).unwrap_err();
    assert!(error.to_string().starts_with("nothing to do"), "{error}");
}

#[test]
fn a_survey_lists_every_fault() {
    let place = Place::new(&decoder());
    fs::remove_file(place.input().join("model-00002-of-00002.safetensors")).unwrap();
    write_file(&place.input().join(FIRST), &Tensors::from([("x.weight".to_owned(), bf16(1, &[4, 4]))]));
    let survey = Checkpoint::survey(&place.input()).unwrap();
    let faults: Vec<_> = survey.faults.iter().map(ToString::to_string).collect();
    assert!(faults.iter().any(|fault| fault.contains("fetch the missing shard")), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.contains("does not list it")), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.contains("holds x.weight, which")), "{faults:?}");
    assert_eq!(survey.checkpoint.tensors().count(), 1);
}

//! `octile tune` for TPUs, with the real compiler.

#[path = "common/mod.rs"]
mod common;
#[path = "common/tune.rs"]
mod tables;

use std::fs;

use common::libtpu;
use octile_core::device::tpu::TpuChip;
use serde_json::{Value, json};
use tables::{octile, refused, stderr, success};

/// With the real compiler: `inspect` compiles the tile of a table. A search alone would record none here,
/// because the default needs hardly more cycles than the best tile.
#[test]
fn tuned_tiles_are_compiled_for_tpus() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let libtpu = libtpu();
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = octile(path, args);
        command.args(["--shape", "16x1536x5120:128", "--out", "bf16"]);
        command.env("OCTILE_LIBTPU", &libtpu).envs(variables.iter().copied());
        success(command.output().unwrap())
    };
    let report: Value = serde_json::from_str(&run(&["tune", "--backend", "tpu", "--json"], &[])).unwrap();
    let shape = &report["shapes"][0];
    let candidates = shape["candidates"].as_array().unwrap();
    let cycles = |candidate: &Value| candidate["median"].as_f64().unwrap();
    let chosen = candidates.iter().min_by(|a, b| cycles(a).total_cmp(&cycles(b))).unwrap();
    let speedup = cycles(&candidates[0]) / cycles(chosen);
    assert!(speedup > 1.001 && speedup < 1.03, "{report}");
    assert_eq!(shape["entry"]["choice"], Value::Null, "{report}");
    let mut entry = shape["entry"].clone();
    let tile = serde_json::from_value(chosen["choice"]["tpu"].clone()).unwrap();
    let problem = serde_json::from_value(entry["problem"].clone()).unwrap();
    let chip = TpuChip::named("tpu7x").unwrap();
    entry["with"]["kernels"] = json!(octile_runtime::pjrt::tuned::kernels(chip, &problem, Some(tile)));
    entry["choice"] = chosen["choice"].clone();
    entry["speedup"] = json!(speedup);
    entry["samples"][0]["tuned"] = json!([cycles(chosen)]);
    let table = json!({"schema": "octile-tuned", "version": 1, "entries": [entry]});
    fs::write(path.join("tpu.json"), table.to_string()).unwrap();
    let compiled = |candidate: &Value, text: &str| {
        let tile = &candidate["choice"]["tpu"];
        text.contains(&format!("tile {}x{}x{}", tile["m"], tile["n"], tile["k"]))
            && text.contains(&format!("; {:.0} cycles with DMAs", cycles(candidate)))
    };
    // A search of fewer candidates is no reason not to search.
    let again = |most: &str, known: usize| {
        let text = run(&["tune", "--backend", "tpu", "--candidates", most], &[]);
        assert!(text.contains(&format!("known before: {known}")), "{most}: {text}");
    };
    again("5", 1);
    let inspect = ["inspect", "--strategy", "strip"];
    let text = run(&inspect, &[]);
    assert!(compiled(chosen, &text) && text.contains(", tuned"), "{text}");
    for off in [("OCTILE_TUNED", "off"), ("OCTILE_BATCH_INVARIANT", "1")] {
        let text = run(&inspect, &[off]);
        assert!(compiled(&candidates[0], &text) && !text.contains(", tuned"), "{text}");
    }
    // A block mode that the user names is not replaced.
    let text = run(&["inspect", "--strategy", "strip", "--mode", "large"], &[]);
    assert!(!text.contains(", tuned"), "{text}");
    fs::remove_file(path.join("tpu.json")).unwrap();
    again("2", 0);
    again("2", 1);
    again("3", 0);
    again("2", 1);
}

#[test]
fn a_tile_that_saves_many_cycles_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["tune", "--chip", "v5e", "--shape", "32x2560x512:128", "--out", "bf16", "--json"];
    let output = octile(folder.path(), &args).env("OCTILE_LIBTPU", libtpu()).output().unwrap();
    let report: Value = serde_json::from_str(&success(output)).unwrap();
    let entry = &report["shapes"][0]["entry"];
    assert!(entry["choice"].is_object() && entry["speedup"].as_f64().unwrap() >= 1.03, "{entry}");
}

/// What is found stays and is reported, and the error names the shape that failed.
#[test]
fn a_shape_that_fails_does_not_discard_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (bad, good) = ("1x262144x262144:128", "16x256x512:128");
    let args = ["tune", "--backend", "tpu", "--candidates", "2", "--shape", bad, "--shape", good];
    let libtpu = libtpu();
    let run = |args: &[&str]| octile(folder.path(), args).env("OCTILE_LIBTPU", &libtpu).output().unwrap();
    let alone = run(&args[..7]);
    refused(&alone, &format!("cannot tune {bad}: "));
    assert!(alone.stdout.is_empty());
    let output = run(&args);
    let (message, text) = (stderr(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(&format!("cannot tune {bad}: ")), "{message}");
    assert!(message.contains("1 of 2 shapes are not tuned"), "{message}");
    assert!(text.contains(good) && text.contains("1 shape searched"), "{text}");
    assert!(fs::read_to_string(folder.path().join("tpu.json")).unwrap().contains("\"n\":256"));
}

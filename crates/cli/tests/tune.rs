//! `octile tune`: tables that survive kills, concurrent writers and damage, and when they are used.

#[path = "common/tune.rs"]
mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use common::{octile, refused, success};
use octile_harness::requirement::Requirement;
use serde_json::{Value, json};

/// Why a test cannot tell a tuned plan from the default one.
const ONE_ISA: &str = "a search tries the kernels of one ISA only";
/// Small enough for a search to take some milliseconds.
const SHAPES: [&str; 6] =
    ["1x64x256:128", "2x96x128:128", "3x64x128:128", "5x128x128:128", "8x64x64:128", "17x32x128:128"];

fn tune(folder: &Path, shapes: &[&str]) -> Command {
    let mut command = octile(folder, &["tune", "--backend", "cpu", "--threads", "2", "--budget", "0.01"]);
    command.args(shapes.iter().flat_map(|shape| ["--shape", shape]));
    command
}

/// The entries of the table; it must be whole at any time.
fn entries(folder: &Path) -> Vec<Value> {
    let Ok(text) = fs::read_to_string(folder.join("cpu.json")) else { return Vec::new() };
    let table: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((&table["schema"], &table["version"]), (&json!("octile-tuned"), &json!(1)));
    table["entries"].as_array().unwrap().clone()
}

#[test]
fn a_shape_is_searched_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = success(tune(folder.path(), &SHAPES[..2]).output().unwrap());
    assert!(first.contains("2 shapes searched in ") && first.contains("known before: 0"), "{first}");
    let found = entries(folder.path());
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|entry| entry["samples"][0]["default"].as_array().unwrap().len() >= 3));
    let second = success(tune(folder.path(), &SHAPES[..3]).output().unwrap());
    assert!(second.contains("1 shape searched in ") && second.contains("known before: 2"), "{second}");
    let again = success(tune(folder.path(), &SHAPES[..1]).arg("--again").output().unwrap());
    assert!(again.contains("1 shape searched in "), "{again}");
    assert_eq!(entries(folder.path()).len(), 3);
}

/// What was found stays, whenever the process is killed: each kill loses the shape in progress at most.
#[cfg(unix)]
#[test]
fn a_killed_search_loses_one_shape_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let mut done = 0;
    for delay in [5, 40, 80, 120, 160, 240] {
        let mut child =
            tune(folder.path(), &SHAPES).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = entries(folder.path()).len();
        assert!(found >= done, "{found} entries after {done}");
        done = found;
    }
    let last = success(tune(folder.path(), &SHAPES).output().unwrap());
    let known = format!("known before: {done}");
    assert!(last.contains(&known), "{last}");
    assert_eq!(entries(folder.path()).len(), SHAPES.len());
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("draft")), "{names:?}");
}

#[test]
fn two_searches_at_once_keep_what_both_find() {
    let folder = tempfile::tempdir().unwrap();
    let (left, right) = SHAPES.split_at(3);
    let spawn = |shapes: &[&str]| tune(folder.path(), shapes).stdout(Stdio::null()).spawn().unwrap();
    for mut child in [spawn(left), spawn(right)] {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(entries(folder.path()).len(), SHAPES.len());
}

/// The ISA that `octile bench` used.
fn bench_isa(folder: &Path, shape: &str, args: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let common = ["bench", "--backend", "cpu", "--threads", "2", "--iterations", "1", "--warmup", "0"];
    let mut command = octile(folder, &common);
    command
        .args(["--strategy", "strip", "--json", "--shape", shape])
        .args(args)
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let record: Value = serde_json::from_str(&success(output)).unwrap();
    (record["timings"][0]["isa"].as_str().unwrap_or_default().to_owned(), stderr)
}

/// An ISA of this machine that multiplies a shape only where it is named, by a table for instance.
fn other_isa(folder: &Path, shape: &str) -> Option<String> {
    let args =
        ["tune", "--backend", "cpu", "--threads", "2", "--budget", "0.01", "--json", "--explain", shape];
    let report: Value = serde_json::from_str(&success(octile(folder, &args).output().unwrap())).unwrap();
    let candidates = report["shapes"][0]["candidates"].as_array().unwrap();
    let isa = |candidate: &Value| candidate["choice"]["cpu"]["isa"].as_str().unwrap().to_owned();
    candidates.iter().map(isa).find(|name| *name != isa(&candidates[0]))
}

/// Makes the only entry of the table choose an ISA, with one thread.
fn choose(folder: &Path, isa: &str, change: impl FnOnce(&mut Value)) {
    let mut entry = entries(folder).remove(0);
    entry["choice"] = json!({"cpu": {"isa": isa, "threads": 1}});
    entry["speedup"] = json!(2.0);
    entry["samples"] = json!([{"call": "warm", "unit": "ms", "default": [2.0], "tuned": [1.0]}]);
    change(&mut entry);
    let table = json!({"schema": "octile-tuned", "version": 1, "entries": [entry]});
    fs::write(folder.join("cpu.json"), table.to_string()).unwrap();
}

#[test]
fn a_table_is_used_unless_it_is_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    let (path, shape) = (folder.path(), SHAPES[0]);
    success(tune(path, &[shape]).output().unwrap());
    let Some(other) = other_isa(path, shape) else {
        Requirement::VectorIsa.report_absent("a_table_is_used_unless_it_is_turned_off", ONE_ISA);
        return;
    };
    choose(path, &other, |_| ());
    let isa = |args: &[&str], variables: &[(&str, &str)]| bench_isa(path, shape, args, variables).0;
    let default = isa(&["--untuned"], &[]);
    assert_eq!(isa(&[], &[]), other);
    assert_eq!(isa(&["--tuned"], &[]), other);
    assert_eq!(isa(&[], &[("OCTILE_TUNED", "off")]), default);
    // Other problems, threads and kernels are none of its business.
    assert_eq!(isa(&["--x", "bf16"], &[]), isa(&["--x", "bf16", "--untuned"], &[]));
    let invariant = [("OCTILE_BATCH_INVARIANT", "1")];
    assert_eq!(isa(&[], &invariant), isa(&["--untuned"], &invariant));
    choose(path, &other, |entry| entry["device"]["units"] = json!(3));
    assert_eq!(isa(&[], &[]), default);
    choose(path, &other, |entry| entry["device"]["units"] = json!(2));
    assert_eq!(isa(&[], &[]), other);
    choose(path, &other, |entry| entry["with"]["kernels"] = json!("0123456789abcdef"));
    let (used, note) = bench_isa(path, shape, &[], &[]);
    assert_eq!(used, default);
    assert!(note.contains("ignoring 1 tuned entry") && note.contains("other kernels"), "{note}");
    assert_eq!(note.lines().count(), 1, "{note}");
    for (shape, args, variable) in [
        (SHAPES[1], &[][..], ""),
        (shape, &["--untuned"], ""),
        (shape, &["--isa", "portable"], ""),
        (shape, &[], "off"),
    ] {
        let (_, note) = bench_isa(path, shape, args, &[("OCTILE_TUNED", variable)]);
        assert!(!note.contains("ignoring"), "{shape} {args:?} {variable}: {note}");
    }
    let output = tune(path, &[shape]).output().unwrap();
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("ignoring 1 tuned entry") && note.contains("other kernels"), "{note}");
    assert!(success(output).contains("1 shape searched"));
}

#[test]
fn a_bench_shows_both_plans_where_there_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let (path, shape) = (folder.path(), SHAPES[0]);
    success(tune(path, &[shape]).output().unwrap());
    let Some(other) = other_isa(path, shape) else {
        Requirement::VectorIsa.report_absent("a_bench_shows_both_plans_where_there_are_two", ONE_ISA);
        return;
    };
    choose(path, &other, |_| ());
    let bench = |args: &[&str], variables: &[(&str, &str)]| {
        let common = ["bench", "--backend", "cpu", "--threads", "2", "--iterations", "3", "--shape", shape];
        let args = [&["--strategy", "strip"], args].concat();
        let output = octile(path, &common).args(args).envs(variables.iter().copied()).output();
        success(output.unwrap())
    };
    let untuned = |args: &[&str], variables: &[(&str, &str)]| {
        let record: Value = serde_json::from_str(&bench(args, variables)).unwrap();
        record["timings"][0]["untuned"].clone()
    };
    let both = untuned(&["--tuned", "--json"], &[]);
    assert_eq!(both["samples_ms"].as_array().unwrap().len(), 3, "{both}");
    assert!(both["tuned_speedup"].as_f64().unwrap() > 0.0);
    assert!(bench(&["--tuned"], &[]).contains("v4 with its default plan: median "));
    // There is one plan only.
    assert_eq!(untuned(&["--json"], &[]), Value::Null);
    assert_eq!(untuned(&["--tuned", "--json"], &[("OCTILE_TUNED", "off")]), Value::Null);
    choose(path, &other, |entry| entry["with"]["kernels"] = json!("0123456789abcdef"));
    assert_eq!(untuned(&["--tuned", "--json"], &[]), Value::Null);
}

/// It is ignored with a note, and searched again.
#[test]
fn a_choice_that_no_search_makes_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (path, shape) = (folder.path(), SHAPES[0]);
    success(tune(path, &[shape]).output().unwrap());
    let default = bench_isa(path, shape, &["--untuned"], &[]).0;
    let missing = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
    for (isa, rest) in [
        (&default[..], json!({"threads": 0})),
        (&default, json!({"threads": 3})),
        (&default, json!({"threads": 1, "blocking": {"rows": 0}})),
        (&default, json!({"threads": 1, "blocking": {"rows": 999_999_999}})),
        (&default, json!({"threads": 1, "blocking": {"rows": u64::MAX}})),
        (missing, json!({"threads": 1})),
        ("portable", json!({"threads": 1})),
    ] {
        if isa == "portable" && default == "portable" {
            continue;
        }
        choose(path, isa, |entry| {
            entry["choice"]["cpu"].as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        });
        let (used, note) = bench_isa(path, shape, &[], &[]);
        assert_eq!(used, default, "{isa} {rest}");
        assert!(note.contains("plans that no search makes here"), "{isa} {rest}: {note}");
        let output = tune(path, &[shape]).output().unwrap();
        let note = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(note.contains("plans that no search makes here"), "{isa} {rest}: {note}");
        let text = success(output);
        assert!(
            text.contains("1 shape searched") && text.contains("known before: 0"),
            "{isa} {rest}: {text}"
        );
    }
}

/// What beats the default plans of one process must not count in another that has other ones.
#[test]
fn a_variable_that_changes_default_plans_stops_a_search() {
    let folder = tempfile::tempdir().unwrap();
    for (variable, value) in [("OCTILE_ISA", "portable"), ("OCTILE_BATCH_INVARIANT", "1")] {
        let output = tune(folder.path(), &SHAPES[..1]).env(variable, value).output().unwrap();
        refused(&output, variable);
        refused(&output, "unset it");
    }
    assert_eq!(entries(folder.path()).len(), 0);
    success(tune(folder.path(), &SHAPES[..1]).env("OCTILE_BATCH_INVARIANT", "0").output().unwrap());
}

/// Entries for other problems are not judged: one of an absurd size would take for ever, and a note about it
/// would be of no use.
#[test]
fn only_entries_for_the_shapes_at_hand_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    success(tune(folder.path(), &SHAPES[..1]).output().unwrap());
    let mut foreign = entries(folder.path()).remove(0);
    foreign["problem"]["m"] = json!(1_u64 << 40);
    foreign["with"]["kernels"] = json!("0123456789abcdef");
    let table = json!({"schema": "octile-tuned", "version": 1, "entries": [foreign]});
    fs::write(folder.path().join("cpu.json"), table.to_string()).unwrap();
    let output = tune(folder.path(), &SHAPES[..1]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    success(output);
}

#[test]
fn a_damaged_table_is_one_sentence_and_stops_no_multiplication() {
    let folder = tempfile::tempdir().unwrap();
    let (path, shape) = (folder.path(), SHAPES[0]);
    success(tune(path, &[shape]).output().unwrap());
    let whole = fs::read_to_string(path.join("cpu.json")).unwrap();
    let other_version = whole.replace("\"version\":1", "\"version\":2");
    for damaged in [&whole[..whole.len() / 2], "", "[]", "\u{0}", other_version.as_str()] {
        fs::write(path.join("cpu.json"), damaged).unwrap();
        let (_, note) = bench_isa(path, shape, &[], &[]);
        assert!(note.contains("ignoring your tuned plans: cannot use "), "{damaged:?}: {note}");
        assert_eq!(note.lines().count(), 1, "{note}");
        let output = tune(path, &[shape]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{damaged:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
        assert_eq!(fs::read_to_string(path.join("cpu.json")).unwrap(), damaged);
    }
}

#[test]
fn shapes_come_from_samples_lists_and_configurations() {
    let folder = tempfile::tempdir().unwrap();
    let list = |args: &[&str]| success(octile(folder.path(), args).output().unwrap());
    let judge = list(&["bench", "--sample", "judge", "--list"]);
    assert_eq!(judge.lines().count(), 100);
    assert_eq!(judge.lines().next(), Some("1x1024x2048:128  # Llama-3.2-1B gate, TP 8"));
    assert_eq!(list(&["tune", "--sample", "fit", "--list"]).lines().count(), 200);
    assert!(list(&["tune", "--sample", "fit", "--max-gflop", "1", "--list"]).lines().count() < 150);
    fs::write(folder.path().join("shapes.txt"), &judge).unwrap();
    assert_eq!(list(&["tune", "--shapes-from", "shapes.txt", "--list"]), judge);
    let config = json!({
        "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128,
    });
    fs::create_dir(folder.path().join("model")).unwrap();
    fs::write(folder.path().join("model/config.json"), config.to_string()).unwrap();
    let layers = list(&["tune", "--model", "model", "--tokens", "1,64", "--list"]);
    assert_eq!(layers.lines().count(), 15, "{layers}");
    assert!(layers.starts_with("# single: as checkpoints store it; fused: as vLLM"), "{layers}");
    assert!(layers.contains("64x6144x1024:128  # fused gate-up\n"), "{layers}");
    assert!(layers.contains("1x3072x1024:128  # single gate, up\n"), "{layers}");
    fs::write(folder.path().join("layers.txt"), &layers).unwrap();
    assert_eq!(list(&["tune", "--shapes-from", "layers.txt", "--list"]), layers);
    let half = list(&["tune", "--model", "model", "--tokens", "64,64", "--tp", "2", "--list"]);
    assert_eq!(half.lines().count(), 7, "{half}");
    assert!(
        half.contains("64x2048x1024:128  # fused qkv\n") && half.contains("64x1024x1536:128  # down\n"),
        "{half}"
    );
    // As an editor on Windows writes it.
    fs::write(folder.path().join("windows.txt"), "\u{feff}1x2x3:128 # one\r\n\r\n  4X5x6:256\r\n").unwrap();
    let windows = list(&["tune", "--shapes-from", "windows.txt", "--list"]);
    assert_eq!(windows, "1x2x3:128  # one\n4x5x6:256  # Custom\n");
}

/// Fused layers are searched beside those that a checkpoint stores.
#[test]
fn weights_and_configuration_are_both_read() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    let config = json!({
        "hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 2, "num_key_value_heads": 1,
    });
    let write_weights = |dtype: &str| {
        let header = json!({"model.layers.0.self_attn.q_proj.weight": {
            "dtype": dtype, "shape": [128, 128], "data_offsets": [0, 32768],
        }});
        let header = header.to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend([0; 32768]);
        fs::write(model.join("model.safetensors"), file).unwrap();
    };
    write_weights("BF16");
    let list = |args: &[&str]| {
        let args = [&["tune", "--model", "model", "--tokens", "3", "--list"], args].concat();
        octile(folder.path(), &args).output().unwrap()
    };
    let stored = success(list(&[]));
    assert_eq!(stored, "3x128x128:128  # model.layers.*.self_attn.q_proj\n");
    assert_eq!(list(&["--tp", "2"]).status.code(), Some(2));
    fs::write(model.join("config.json"), config.to_string()).unwrap();
    let both = success(list(&[]));
    assert!(both.contains("\n3x128x128:128  # model.layers.*.self_attn.q_proj; single q; o\n"), "{both}");
    assert!(both.contains("3x256x128:128  # fused qkv\n"), "{both}");
    assert!(both.contains("3x384x128:128  # fused gate-up\n"), "{both}");
    assert!(success(list(&["--tp", "2"])).contains("3x192x128:128  # fused qkv; fused gate-up\n"));
    fs::write(model.join("config.json"), format!("\u{feff}{config}")).unwrap();
    assert_eq!(success(list(&[])), both, "an editor may begin it with a byte order mark");
    // One that tells no layers leaves those of the weights, with a note.
    fs::write(model.join("config.json"), "{\"hidden_size\": 0}").unwrap();
    let output = list(&[]);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("leaving out the fused layers: ") && note.contains("config.json"), "{note}");
    assert_eq!((note.lines().count(), success(output)), (1, stored));
    // Weights in a format that octile does not read have layers all the same.
    fs::write(model.join("config.json"), config.to_string()).unwrap();
    write_weights("I3");
    let output = list(&[]);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("leaving out the stored layers: ") && note.contains("model.safetensors"), "{note}");
    assert!(success(output).contains("\n3x128x128:128  # single q; o\n"));
    // Damaged ones are an error, as a damaged configuration is.
    for (file, bytes) in [("model.safetensors", "not weights"), ("config.json", "{")] {
        write_weights("BF16");
        fs::write(model.join(file), bytes).unwrap();
        let output = list(&[]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{file}: {message}");
        assert!(message.contains(file) && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn bad_requests_are_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.txt"), "16x16x16:128\n16x16\n").unwrap();
    fs::write(folder.path().join("empty.txt"), "# nothing\n").unwrap();
    fs::write(folder.path().join("binary.txt"), [0xff, 0xfe, 0x31, 0]).unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::create_dir(folder.path().join("zero")).unwrap();
    let config = json!({
        "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 0,
    });
    fs::write(folder.path().join("zero/config.json"), config.to_string()).unwrap();
    for (args, says) in [
        (&["tune", "--model", "empty"][..], "empty has neither a config.json nor .safetensors files"),
        (&["tune", "--model", "zero"], "config.json: its num_key_value_heads is 0, and must be"),
        (&["tune", "--model", "missing"], "missing"),
        (&["tune", "--model", "zero", "--tokens", "0"], "expected numbers from 1 to"),
        (&["tune", "--model", "zero", "--tokens", ","], "expected numbers from 1 to"),
        (&["tune", "--model", "zero", "--tp", "0"], "--tp"),
        (&["tune", "--tp", "2", "--shape", "1x1x1:128"], "--tp"),
        (&["tune", "--budget", "0", "--shape", "1x1x1:128"], "a number of seconds above 0"),
        (&["tune", "--budget=-1", "--shape", "1x1x1:128"], "a number of seconds above 0"),
        (&["tune", "--budget", "-1", "--shape", "1x1x1:128"], "a number of seconds above 0"),
        (&["tune", "--budget", "nan", "--shape", "1x1x1:128"], "a number of seconds above 0"),
        (&["tune", "--sample", "-1"], "unknown sample '-1': expected fit, judge, or a number"),
        (&["tune", "--threads", "-1", "--shape", "1x1x1:128"], "-1 is not in 1..=1024"),
        (&["tune", "--candidates", "-1", "--shape", "1x1x1:128"], "-1 is not in 2.."),
        (&["tune", "--sample", "3", "--max-gflop", "-1"], "expected a positive number, such as 20"),
        (&["tune", "--sample", "3", "--max-gflop", "inf"], "expected a positive number, such as 20"),
        (&["tune", "--model", "zero", "--tokens", "-1"], "expected numbers from 1 to"),
        (&["tune", "--shapes-from", "binary.txt"], "binary.txt is not UTF-8 text: list one shape per line"),
        (&["tune", "--shapes-from", "empty"], "it is a folder"),
        (&["tune"][..], "no shape is named: use --shape"),
        (&["tune", "--shapes-from", "bad.txt"], "bad.txt:2"),
        (&["tune", "--shapes-from", "empty.txt"], "has no shape"),
        (&["tune", "--backend", "cpu", "--chip", "tpu7x", "--shape", "1x1x1:128"], "--chip has no effect"),
        (&["tune", "--backend", "tpu", "--chip", "h200", "--shape", "1x1x1:128"], "needs a TPU"),
        (&["tune", "--backend", "tpu", "--candidates", "1", "--shape", "1x1x1:128"], "1 is not in 2.."),
        (&["tune", "--sample", "all"], "expected fit, judge, or a number"),
        (&["tune", "--tokens", "1", "--shape", "1x1x1:128"], "--tokens has no effect here"),
    ] {
        let output = octile(folder.path(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
    assert!(!folder.path().join("cpu.json").exists());
}

/// A misspelled switch must not look as if it had an effect.
#[test]
fn variables_that_mean_nothing_are_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let bench = ["bench", "--backend", "cpu", "--quick", "--shape", "1x1x1:128"];
    for (variable, value, says) in [
        ("OCTILE_TUNED", "of", "OCTILE_TUNED is 'of': set it to on or off, or remove it"),
        ("OCTILE_BATCH_INVARIANT", "ture", "OCTILE_BATCH_INVARIANT is 'ture': set it to on or off"),
        ("OCTILE_ISA", "nonsense", "OCTILE_ISA: unknown"),
    ] {
        for args in [&bench[..], &["devices"]] {
            let output = octile(folder.path(), args).env(variable, value).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{variable} {args:?}: {stderr}");
            assert!(stderr.contains(says) && stderr.lines().count() == 1, "{args:?}: {stderr}");
        }
        let help = octile(folder.path(), &["completions", "bash"]).env(variable, value).output().unwrap();
        assert!(help.status.success());
    }
}

#[test]
fn explaining_shows_every_candidate_and_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let args =
        ["tune", "--backend", "cpu", "--threads", "2", "--budget", "0.01", "--explain", "8x64x256:128"];
    let text = success(octile(folder.path(), &args).arg("--html").arg("page.html").output().unwrap());
    assert!(text.contains("(default)") && text.contains("limited by"), "{text}");
    assert!(text.contains("FLOPs") || text.contains("bandwidth"), "{text}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("<circle"), "{page}");
    // Both axes have a name with a unit, and ticks.
    for axis in [">roofline (ms)</text>", ">measured (ms)</text>"] {
        assert!(page.contains(axis), "{axis}: {page}");
    }
    for anchor in ["text-anchor=\"middle\">0.", "text-anchor=\"end\">0."] {
        assert!(page.matches(anchor).count() >= 2, "{anchor}: {page}");
    }
    assert!(entries(folder.path()).is_empty());
}

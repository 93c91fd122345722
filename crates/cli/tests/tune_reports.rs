//! What `octile tune`, `octile bench` and `octile test` say about tables, and which requests they refuse.

#[path = "common/tune.rs"]
mod common;

use std::{
    fs::{self, File},
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use common::{octile, refused, stderr, success};
use octile_harness::requirement::Requirement;
use serde_json::{Value, json};

const SHAPE: &str = "1x64x256:128";

fn tune(folder: &Path, args: &[&str]) -> Output {
    let common = ["tune", "--backend", "cpu", "--threads", "2", "--budget", "0.01"];
    octile(folder, &[&common, args].concat()).output().unwrap()
}

/// The entry of the table.
fn entry(folder: &Path) -> Value {
    let table: Value = serde_json::from_str(&fs::read_to_string(folder.join("cpu.json")).unwrap()).unwrap();
    table["entries"][0].clone()
}

fn write_entry(folder: &Path, entry: &Value) {
    let table = json!({"schema": "octile-tuned", "version": 1, "entries": [entry]});
    fs::write(folder.join("cpu.json"), table.to_string()).unwrap();
}

/// Makes the table choose an ISA that is not the default one; `None` where there is no other.
fn choose_other_isa(folder: &Path) -> Option<(String, String)> {
    let report: Value =
        serde_json::from_str(&success(tune(folder, &["--explain", SHAPE, "--json"]))).unwrap();
    let candidates = report["shapes"][0]["candidates"].as_array().unwrap();
    assert!(candidates.iter().all(|candidate| candidate["model"]["cost"].is_number()), "{report}");
    let isa = |candidate: &Value| candidate["choice"]["cpu"]["isa"].as_str().unwrap().to_owned();
    let default = isa(&candidates[0]);
    let other = candidates.iter().map(isa).find(|name| *name != default)?;
    success(tune(folder, &["--shape", SHAPE]));
    let mut entry = entry(folder);
    entry["choice"] = json!({"cpu": {"isa": other, "threads": 1}});
    entry["speedup"] = json!(2.0);
    entry["samples"] = json!([{"call": "warm", "unit": "ms", "default": [2.0], "tuned": [1.0]}]);
    write_entry(folder, &entry);
    Some((default, other))
}

/// Only `strip` uses tables: the other strategies keep the ISA of their default plans.
#[test]
fn strategies_are_labelled_with_their_own_plans() {
    let folder = tempfile::tempdir().unwrap();
    let Some((default, other)) = choose_other_isa(folder.path()) else {
        let why = "a search tries the kernels of one ISA only";
        Requirement::VectorIsa.report_absent("strategies_are_labelled_with_their_own_plans", why);
        return;
    };
    let common = ["--backend", "cpu", "--threads", "2", "--shape", SHAPE, "--strategy", "all"];
    let run = |command: &[&str], rest: &[&str]| {
        success(octile(folder.path(), &[command, &common, rest].concat()).output().unwrap())
    };
    let bench = ["bench", "--iterations", "1", "--warmup", "0"];
    let record: Value = serde_json::from_str(&run(&bench, &["--json"])).unwrap();
    let checks: Value = serde_json::from_str(&run(&["test"], &["--json"])).unwrap();
    for strategies in [&record["timings"], &checks["suites"][0]["checks"]] {
        for strategy in strategies.as_array().unwrap() {
            let is_strip = strategy["strategy"] == "strip";
            assert_eq!(strategy["isa"], if is_strip { &other[..] } else { &default }, "{strategy}");
            let tuned = json!({"plan": format!("{other}, 1 thread"), "table": "user"});
            assert_eq!(strategy["tuned"], if is_strip { tuned } else { Value::Null }, "{strategy}");
        }
    }
    let line = format!("v4 with the tuned plan of your table: {other}, 1 thread\n");
    for text in [run(&bench, &[]), run(&["test"], &[])] {
        assert!(text.contains(&line) && text.contains(&format!("{other} (v4)")), "{text}");
    }
    let note = |rest: &[&str], variables: &[(&str, &str)]| {
        let args = [&bench[..], &common, &["--tuned"], rest].concat();
        let output = octile(folder.path(), &args).envs(variables.iter().copied()).output().unwrap();
        let note = stderr(&output);
        success(output);
        note
    };
    assert_eq!(note(&[], &[]), "");
    for (rest, variables, reason) in [
        (&[][..], &[("OCTILE_TUNED", "off")][..], "OCTILE_TUNED turns tables off"),
        (&[], &[("OCTILE_BATCH_INVARIANT", "1")], "OCTILE_BATCH_INVARIANT turns tables off"),
        (&[], &[("OCTILE_ISA", "portable")], "OCTILE_ISA turns tables off"),
        (&["--isa", "portable"], &[], "--isa turns tables off"),
        (&["--x", "bf16"], &[], "no table has a faster plan for these shapes"),
    ] {
        let expected = format!("octile: --tuned has no effect here: {reason}\n");
        assert_eq!(note(rest, variables), expected, "{rest:?} {variables:?}");
    }
    let args = [&bench[..], &["--backend", "cpu", "--shape", SHAPE, "--strategy", "v1", "--tuned"]].concat();
    let output = octile(folder.path(), &args).output().unwrap();
    assert!(stderr(&output).contains("only strip (v4) has tuned plans"), "{}", stderr(&output));
}

#[test]
fn documents_do_not_replace_tables() {
    let folder = tempfile::tempdir().unwrap();
    success(tune(folder.path(), &["--shape", SHAPE]));
    let before = fs::read(folder.path().join("cpu.json")).unwrap();
    let says = "the same command uses that file for something else";
    refused(&tune(folder.path(), &["--shape", SHAPE, "--json=cpu.json"]), says);
    refused(&tune(folder.path(), &["--explain", SHAPE, "--html", "./cpu.json"]), says);
    refused(&tune(folder.path(), &["--explain", SHAPE, "--json=gpu.json"]), says);
    assert_eq!(fs::read(folder.path().join("cpu.json")).unwrap(), before);
    assert!(!folder.path().join("gpu.json").exists());
}

#[test]
fn options_without_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let says = "--html has no effect here and only applies to --explain";
    refused(&tune(folder.path(), &["--shape", SHAPE, "--html", "page.html"]), says);
    let output = tune(folder.path(), &["--shape", SHAPE, "--list", "--json=list.json"]);
    refused(&output, "--json has no effect here and only applies to a search, not --list");
    assert!(!folder.path().join("page.html").exists() && !folder.path().join("list.json").exists());
    let bench = octile(folder.path(), &["bench", "--shape", SHAPE, "--list", "--json"]).output().unwrap();
    refused(&bench, "--list");
    // A list is for programs, not a report.
    for command in ["tune", "bench"] {
        let list = octile(folder.path(), &[command, "--shape", SHAPE, "--list", "--quiet"]).output().unwrap();
        assert_eq!(success(list), format!("{SHAPE}  # Custom\n"));
    }
    let gpu = octile(folder.path(), &["tune", "--backend", "gpu", "--shape", SHAPE]);
    let output = { gpu }.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    refused(&output, "`octile tune --backend cpu`");
}

#[test]
fn text_of_a_table_stays_on_one_line_and_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    success(tune(path, &["--shape", SHAPE]));
    let (good, evil) = (entry(path), format!("1\n\u{1b}[31mFAIL\u{202e}{}", "A".repeat(5000)));
    let notes = || {
        let bench = ["bench", "--backend", "cpu", "--threads", "2", "--quick", "--shape", SHAPE];
        let output = octile(path, &bench).output().unwrap();
        let note = stderr(&output);
        success(output);
        for note in [note, stderr(&tune(path, &["--shape", SHAPE]))] {
            assert!(note.starts_with("octile: ") || note.starts_with("error: "), "{note}");
            assert!(note.lines().count() == 1 && note.len() < 400, "{note}");
            assert!(!note.contains("struct") && !note.contains('\u{1b}'), "{note}");
        }
    };
    for key in ["library", "driver"] {
        let mut entry = good.clone();
        entry["with"][key] = json!(evil);
        write_entry(path, &entry);
        notes();
    }
    let mut table: Value = serde_json::from_str(&fs::read_to_string(path.join("cpu.json")).unwrap()).unwrap();
    table[&evil] = json!(1);
    for damaged in [table.to_string(), "[]".to_owned()] {
        fs::write(path.join("cpu.json"), damaged).unwrap();
        notes();
    }
}

/// A search that waits for a lock says so, and goes on when it is free.
#[test]
fn waiting_for_a_lock_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let lock = File::create(folder.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    let args = ["tune", "--backend", "cpu", "--threads", "2", "--budget", "0.01", "--shape", SHAPE];
    let mut command = octile(folder.path(), &args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    lock.unlock().unwrap();
    let output = child.wait_with_output().unwrap();
    let note = stderr(&output);
    assert!(
        note.contains("waiting for another process that has locked ") && note.contains(".lock"),
        "{note}"
    );
    assert!(success(output).contains("1 shape searched"));
}

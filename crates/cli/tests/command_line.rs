//! The program as a user meets it: what it prints, what it writes, and how it says no.

use std::{
    path::Path,
    process::{Command, Output},
};

fn octile(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_octile")).args(arguments).output().expect("octile starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("reports are UTF-8")
}

/// What the program says when it cannot do what was asked.
fn refusal(arguments: &[&str]) -> String {
    let output = octile(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a report");
    String::from_utf8(output.stderr).expect("errors are UTF-8")
}

#[test]
fn test_checks_every_strategy_and_writes_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("checks.json");
    let output =
        octile(&["test", "--shape", "70x130x300:128", "--seed", "5", "--json", json.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = stdout(&output);
    for version in ["v1", "v2", "v3", "v4"] {
        assert!(text.contains(&format!("{version}: PASS\n  Passed: 1/1")), "{text}");
    }
    let records: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(records.as_array().unwrap().len(), 4);
    assert_eq!(records[3]["strategy"], "strip");
    assert_eq!((&records[0]["m"], &records[0]["seed"]), (&70.into(), &5.into()));
    assert!(records[0]["worst_of_bound"].as_f64().unwrap() <= 1.0);
}

#[test]
fn bench_times_what_passed_and_writes_every_field() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("timings.json");
    let path = json.to_str().unwrap();
    let shape = ["--shape", "64x128x256:128", "--iterations", "4", "--warmup", "1", "--threads", "1"];
    let output =
        octile(&[&["bench", "--strategy", "v4", "--strategy", "auto", "--json", path], &shape[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("RECOMMENDATION"));
    let records: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    for key in [
        "backend",
        "strategy",
        "m",
        "n",
        "k",
        "quant_block",
        "threads",
        "samples_ms",
        "mean_ms",
        "min_ms",
        "max_ms",
        "std_ms",
        "median_ms",
        "tflops_mean",
        "tflops_best",
        "isa",
        "cpu_model",
        "date",
        "version",
    ] {
        assert!(!records[0][key].is_null(), "{key} is missing");
    }
    assert_eq!(records[0]["samples_ms"].as_array().unwrap().len(), 4);
}

#[test]
fn bad_requests_get_a_sentence_and_exit_code_2() {
    for (arguments, sentence) in [
        (&["test", "--shape", "5x5"][..], "shape '5x5' is not of the form MxNxK:QB"),
        (&["test", "--shape", "5x5x5:100"], "quantization block 100 is not supported: use 128, 256 or 512"),
        (&["bench", "--shape", "0x5x5:128"], "M, N and K must be at least 1"),
        (&["test", "--strategy", "v9"], "expected auto, dma, smem or strip"),
        (&["test", "--isa", "sse9"], "unknown instruction set 'sse9'"),
        (&["test", "--threads", "0", "--shape", "1x1x1:128"], "thread"),
        (&["test", "--threads", "100000", "--shape", "1x1x1:128"], "--threads"),
        (&["test", "--shape", "1000000x1000000x128:128"], "ask for a smaller one"),
        (&["test", "--shape", "1x1x1:128", "--json", "/dev/null"], "is not a regular file"),
        (&["bench", "--iterations", "0"], "0 is not in 1.."),
        (&["test", "--shape", "1x1x1:128", "--json", "no/such/folder/x.json"], "no/such/folder"),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
    ] {
        let said = refusal(arguments);
        assert!(said.contains(sentence), "{arguments:?} said: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn devices_names_every_target() {
    let text = stdout(&octile(&["devices"]));
    for target in ["cpu", "tpu", "gpu", "portable", "avx512bf16"] {
        assert!(text.contains(target), "{text}");
    }
}

/// A command line that a document shows must at least be understood.
#[test]
fn command_lines_in_the_documents_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for document in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        for line in text.lines().map(str::trim) {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let Some(arguments) =
                line.strip_prefix("octile ").or(line.strip_prefix("cargo run --release -- "))
            else {
                continue;
            };
            let arguments =
                arguments.split("  ").next().unwrap_or_default().split('#').next().unwrap_or_default();
            let words = std::iter::once("octile").chain(arguments.split_whitespace());
            if let Err(error) = <octile_cli::args::Args as clap::Parser>::try_parse_from(words) {
                let harmless = [clap::error::ErrorKind::DisplayHelp, clap::error::ErrorKind::DisplayVersion];
                assert!(harmless.contains(&error.kind()), "{document}: {line}\n{error}");
            }
            seen += 1;
        }
    }
    assert!(seen > 0, "the documents show no command line");
}

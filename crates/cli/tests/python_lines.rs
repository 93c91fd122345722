//! Defects of Pallas kernels, reported at the lines of their Python programs.
//!
//! `tests/pallas` holds kernels with a planted defect: the program, what JAX lowers it to, and its Mosaic
//! text with locations. In `helpers` the DMA is started by a function of another file; it was lowered by two
//! versions of JAX, which record calls differently.

#[path = "common/corpus.rs"]
mod corpus;

use std::{
    fs,
    path::{Path, PathBuf},
};

use corpus::{octile, outcome};
use serde_json::Value;

/// Folder of a kernel.
fn folder(kernel: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pallas").join(kernel)
}

/// The findings that a report prints.
fn findings(kernel: &str, file: &str) -> String {
    let (code, said) = outcome(&["simulate", file], &folder(kernel));
    assert_eq!(code, 1, "{said}");
    let (_, rest) = said.rsplit_once("====\n").expect("a heading");
    let (findings, _) = rest.split_once("\noperands ").expect("operands");
    findings.to_owned()
}

/// The JSON document of a run.
fn json(kernel: &str, file: &str) -> Value {
    let output = octile(&["simulate", file, "--json"], &folder(kernel));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_dma_that_is_not_started_is_a_deadlock_at_the_wait() {
    insta::assert_snapshot!(findings("deadlock", "kernel.loc.mlir"));
}

#[test]
fn a_missing_wait_is_a_race_at_the_read() {
    insta::assert_snapshot!(findings("missing_wait_w", "kernel.loc.mlir"));
}

#[test]
fn an_accumulator_without_zeros_is_found_where_it_is_read() {
    insta::assert_snapshot!(findings("no_init", "kernel.loc.mlir"));
}

#[test]
fn a_wait_on_the_other_semaphore_is_a_deadlock() {
    insta::assert_snapshot!(findings("same_sem_small_wait", "kernel.loc.mlir"));
}

#[test]
fn lines_are_known_without_the_program() {
    // JAX recorded the name of a file that is not there, so operands have the names of the Mosaic text.
    for (kernel, line, operand) in [
        ("deadlock", 19, "arg9     scratch 4, memref<2x2x!tpu.dma_semaphore"),
        ("missing_wait_w", 20, "arg6     scratch 1, memref<2x128x128xbf16"),
        ("no_init", 19, "arg7     scratch 2, memref<128x128xf32"),
        ("same_sem_small_wait", 19, "arg9     scratch 4, memref<2x2x!tpu.dma_semaphore"),
    ] {
        let said = findings(kernel, "lowered.mlir");
        let first = said.lines().next().unwrap_or_default();
        assert!(first.starts_with("1. ") && first.ends_with(&format!("/{kernel}.py:{line}")), "{said}");
        assert!(said.contains(operand), "{said}");
    }
}

#[test]
fn a_helper_follows_the_line_that_calls_it() {
    let newer = findings("helpers", "jax-0.10.2.mlir");
    insta::assert_snapshot!(newer);
    let lines = |said: &str| -> Vec<String> {
        said.lines().filter(|line| line.contains(".py:")).map(str::to_owned).collect()
    };
    assert_eq!(lines(&findings("helpers", "jax-0.7.2.mlir")), lines(&newer));
}

#[test]
fn json_has_the_python_line_and_the_names_of_the_program() {
    let document = json("helpers", "jax-0.10.2.mlir");
    assert_eq!((&document["schema"], &document["passed"]), (&"octile-simulate/1".into(), &false.into()));
    let finding = &document["findings"][0];
    assert_eq!(finding["kind"], "read_during_copy_in");
    assert_eq!(finding["remedy"], "wait on sem first");
    assert_eq!(finding["step"], serde_json::json!([0]));
    let python = &finding["python"];
    assert_eq!((&python["file"], &python["line"]), (&"kernel.py".into(), &22.into()));
    assert_eq!(python["code"], "o_ref[...] = buffer[...] * 2.0");
    assert_eq!(python["function"], "kernel.<locals>.body");
    let copy = &finding["sites"][1];
    assert_eq!((&copy["role"], &copy["python"]["line"]), (&"DMA".into(), &19.into()));
    assert_eq!(copy["python"]["helpers"][0]["file"], "copies.py");
    assert!(copy["mosaic"]["text"].as_str().is_some_and(|text| text.contains("tpu.enqueue_dma")));
}

#[test]
fn junit_and_annotations_name_the_python_line() {
    let place = tempfile::tempdir().expect("a folder");
    for file in ["kernel.py", "kernel.loc.mlir"] {
        fs::copy(folder("deadlock").join(file), place.path().join(file)).expect("copied");
    }
    let arguments = ["simulate", "kernel.loc.mlir", "--github", "--junit", "out.xml", "--quiet"];
    let (code, said) = outcome(&arguments, place.path());
    assert_eq!(code, 1, "{said}");
    let start = "::error file=kernel.py,line=19,title=DEADLOCK::kernel.py:19  cw(k, slot).wait()%0A";
    assert!(said.starts_with(start) && said.lines().count() == 1, "{said}");
    let junit = fs::read_to_string(place.path().join("out.xml")).expect("written");
    assert!(junit.contains(r#"<testcase name="deadlocks" classname="kernel.loc.mlir">"#), "{junit}");
    assert!(junit.contains("kernel.py:19: DEADLOCK: the wait on sems[1, 0] got 0 of 32768 bytes"), "{junit}");
    // Documents keep standard output for themselves.
    let output = octile(&["simulate", "kernel.loc.mlir", "--github", "--json"], place.path());
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("::error file=kernel.py"));
    let (code, said) = outcome(&["simulate", "kernel.loc.mlir", "--json", "--junit", "-"], place.path());
    assert_eq!((code, said.contains("only one of --json, --junit")), (2, true), "{said}");
}

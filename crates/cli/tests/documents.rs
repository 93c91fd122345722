//! Runs the commands in the documents, and compares what they print.
//!
//! In a `console` block, lines after `$ ` are commands, which run in order in one temporary folder per
//! document, with `examples/` and `bench/` of the repository. The other lines are the output, in which `...`
//! stands for any lines and `[..]` for any text within a line. Commands in other blocks must parse.

mod common;
#[path = "common/gpu_tools.rs"]
mod gpu_tools;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every document of the repository, with its text.
fn documents() -> Vec<(String, String)> {
    let mut documents = Vec::new();
    for folder in ["", "docs/", "fuzz/"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = format!("{folder}{}", entry.unwrap().file_name().to_str().unwrap());
            if name.ends_with(".md") {
                documents.push((name.clone(), fs::read_to_string(root().join(name)).unwrap()));
            }
        }
    }
    documents
}

/// Contents of the `console` blocks of a document.
fn console_blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n```console\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or(rest))
}

/// A command and the output that the document shows.
struct Example<'a> {
    command: &'a str,
    output: Vec<&'a str>,
}

fn examples(text: &str) -> Vec<Example<'_>> {
    let mut examples: Vec<Example<'_>> = Vec::new();
    for line in console_blocks(text).flat_map(str::lines) {
        match line.strip_prefix("$ ") {
            Some(command) => examples.push(Example { command, output: Vec::new() }),
            None => examples.last_mut().expect("a block begins with a command").output.push(line),
        }
    }
    examples
}

/// Whether a line is as shown, where `[..]` stands for any text.
fn line_matches(shown: &str, printed: &str) -> bool {
    let Some((head, rest)) = shown.split_once("[..]") else { return shown.trim_end() == printed.trim_end() };
    let Some(printed) = printed.strip_prefix(head) else { return false };
    (0..=printed.len())
        .filter(|at| printed.is_char_boundary(*at))
        .any(|at| line_matches(rest, &printed[at..]))
}

/// Whether the output is as shown, where a line `...` stands for any lines.
fn output_matches(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], printed) => printed.is_empty(),
        (["...", rest @ ..], _) => (0..=printed.len()).any(|at| output_matches(rest, &printed[at..])),
        ([line, rest @ ..], [first, others @ ..]) => {
            line_matches(line, first) && output_matches(rest, others)
        }
        (_, []) => false,
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        match path.is_dir() {
            true => copy_folder(&path, &to.join(name)),
            false => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// Runs the examples of a document.
fn run_examples(document: &str) {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let place = tempfile::tempdir().unwrap();
    for folder in ["examples", "bench/peers/harness"] {
        copy_folder(&root().join(folder), &place.path().join(folder));
    }
    let octile = Path::new(env!("CARGO_BIN_EXE_octile"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", octile.parent().unwrap().display());
    let tools = gpu_tools::assembler();
    for Example { command, output } in examples(&text) {
        let result = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(place.path())
            .env("PATH", &path)
            .env("OCTILE_TUNED_DIR", place.path().join("tuned"))
            .env("OCTILE_LIBTPU", common::libtpu())
            .env("OCTILE_PTXAS", &tools.ptxas.path)
            .env("OCTILE_NVDISASM", &tools.nvdisasm.path)
            .output()
            .expect("a shell starts");
        let printed = String::from_utf8(result.stdout).expect("the program prints UTF-8");
        let code = result.status.code().unwrap_or(2);
        assert!(code < 2, "{document}: `{command}` failed with {code}:\n{printed}");
        assert!(
            output_matches(&output, &printed.lines().collect::<Vec<_>>()),
            "{document}: `{command}` prints something else than shown:\n{printed}"
        );
    }
}

/// Documents with examples, each with a test below.
const RUN: [&str; 8] = [
    "README.md",
    "docs/checkpoints.md",
    "docs/commands.md",
    "docs/inspect.md",
    "docs/records.md",
    "docs/simulate.md",
    "docs/pallas.md",
    "docs/tuning.md",
];

#[cfg(unix)]
#[test]
fn readme() {
    run_examples(RUN[0]);
}

#[cfg(unix)]
#[test]
fn checkpoints() {
    run_examples(RUN[1]);
}

#[cfg(unix)]
#[test]
fn commands() {
    run_examples(RUN[2]);
}

#[cfg(unix)]
#[test]
fn inspect() {
    run_examples(RUN[3]);
}

#[cfg(unix)]
#[test]
fn records() {
    run_examples(RUN[4]);
}

#[cfg(unix)]
#[test]
fn simulate() {
    run_examples(RUN[5]);
}

#[cfg(unix)]
#[test]
fn pallas() {
    run_examples(RUN[6]);
}

#[cfg(unix)]
#[test]
fn tuning() {
    run_examples(RUN[7]);
}

#[test]
fn every_document_with_examples_is_run() {
    for (name, text) in documents() {
        assert_eq!(!examples(&text).is_empty(), RUN.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn every_command_parses() {
    let mut seen = 0;
    for (name, text) in documents() {
        for line in text.lines().map(str::trim) {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let arguments = line.strip_prefix("octile ").or(line.strip_prefix("cargo run --release -- "));
            let Some(arguments) = arguments.and_then(|line| line.split(['#']).next()) else { continue };
            let arguments = arguments.split("  ").next().unwrap_or_default();
            let words = std::iter::once("octile").chain(arguments.split_whitespace());
            if let Err(error) = <octile_cli::args::Args as clap::Parser>::try_parse_from(words) {
                let harmless = [clap::error::ErrorKind::DisplayHelp, clap::error::ErrorKind::DisplayVersion];
                assert!(harmless.contains(&error.kind()), "{name}: {line}\n{error}");
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "the documents show {seen} commands");
}

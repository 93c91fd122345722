//! Runs the files of `filetests/dumps`: each holds compiler output and what is read from it. `runner`
//! describes the form of a file. `run: cycles` counts the cycles of an LLO listing, `run: check ID...` gives
//! the verdicts of checks for a tpu7x.

#[path = "../../../filetests/runner.rs"]
mod runner;

use octile_core::device::tpu::TpuChip;
use octile_dump::{
    checks::check,
    facts::{Facts, Source},
    llo::{Cycles, Listing, SemaphoreLedger, SimOptions, simulate},
};

const MAX_CYCLES: u64 = 1000;

/// Runs the file as compiler output of this name.
fn outcome(name: &str, run: &str, lines: &[&str]) -> String {
    // Comments of the test are no part of the dump; line numbers stay.
    let line = |line: &&str| if line.trim_start().starts_with("//") { "" } else { *line }.to_owned();
    let text = lines.iter().map(line).collect::<Vec<_>>().join("\n") + "\n";
    match run.split_once(' ').unwrap_or((run, "")) {
        ("cycles", "") => cycles(&text),
        ("check", ids) => checked(name, &text, ids),
        _ => panic!("`run: {run}` is neither `cycles` nor `check ID...`"),
    }
}

fn cycles(text: &str) -> String {
    let listing = Listing::parse(text);
    match simulate(&listing, &SimOptions { max_cycles: MAX_CYCLES, ..SimOptions::default() }) {
        Ok(cycles) => described(&cycles),
        Err(error) => error.to_string(),
    }
}

fn described(cycles: &Cycles) -> String {
    let mut parts = vec![format!("{} cycles", cycles.issued)];
    parts.extend(cycles.loops.iter().map(|found| format!("loop of {} iterations", found.iterations)));
    parts.extend(cycles.routes.iter().map(|route| {
        let race = if route.race.is_some() { ", races" } else { "" };
        format!("{} {} -> {}, {} bytes{race}", route.kind, route.source, route.destination, route.bytes)
    }));
    parts.extend(cycles.semaphores.iter().map(semaphore));
    parts.join("; ")
}

fn semaphore(found: &SemaphoreLedger) -> String {
    let state = match found.starved_at {
        Some(bundle) => format!("deadlock at bundle {bundle:#x}"),
        None if found.is_balanced() => "balanced".to_owned(),
        None => format!("{} granules left", found.left),
    };
    format!("semaphore {} {state}", found.semaphore)
}

fn checked(name: &str, text: &str, ids: &str) -> String {
    let findings =
        check(&Facts::gather(&[Source { name, bytes: text.as_bytes() }]), TpuChip::named("tpu7x").ok());
    let verdict = |id: &str| {
        let found = findings.iter().find(|finding| finding.check.name() == id);
        let found = found.unwrap_or_else(|| panic!("there is no check {id}"));
        format!("{id} {:?}: {}", found.verdict, found.says)
    };
    ids.split_whitespace().map(verdict).collect::<Vec<_>>().join("; ")
}

#[test]
fn files_behave_as_stated() {
    for (extension, name, least) in [
        ("llo", "packed-bundles-post-ra.txt", 3),
        ("mlir", "mosaic.mlir", 3),
        ("hlo", "optimized.hlo.txt", 2),
    ] {
        runner::check_files("dumps", extension, least, |run, lines| outcome(name, run, lines));
    }
}

//! The recorded dumps, compressed, that every test of this crate reads.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{fs, io::Read, path::PathBuf};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Every recorded case.
pub(crate) fn cases() -> Vec<String> {
    let entries = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap());
    let directories = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let mut cases: Vec<_> = directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
    cases.sort();
    assert!(cases.len() >= 10, "the corpus is incomplete");
    cases
}

/// One file of a case, decompressed; `None` where the case has no such file.
pub(crate) fn try_load(case: &str, file: &str) -> Option<String> {
    let compressed = fs::read(corpus().join(case).join(format!("{file}.gz"))).ok()?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
    Some(text)
}

/// One file of a case, decompressed.
pub(crate) fn load(case: &str, file: &str) -> String {
    try_load(case, file).unwrap_or_else(|| panic!("{case} has no {file}"))
}

/// Recorded expectations.
pub(crate) fn expectations(file: &str) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(corpus().join(file)).unwrap()).unwrap()
}

/// The scheduled listing that cycles are counted on.
pub(crate) const PACKED: &str = "packed-bundles-post-ra.txt";
/// The listing that is encoded.
pub(crate) const FINAL: &str = "final_bundles.txt";

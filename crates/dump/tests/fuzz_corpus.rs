//! What fuzzing kept, read again: no reader may panic on it.

#[path = "../fuzz/fuzz_targets/readers.rs"]
mod readers;

use std::{fs, path::Path};

#[test]
fn inputs_of_the_fuzzer_are_read_without_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/read");
    let mut files: Vec<_> = fs::read_dir(&corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 100, "the corpus is incomplete");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        if std::panic::catch_unwind(|| readers::read(&bytes)).is_err() {
            panic!("a reader panics on {}", file.display());
        }
    }
}

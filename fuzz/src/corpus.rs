//! What fuzzing kept, read again with the ordinary compiler.

use std::{collections::BTreeMap, fs::File, io::Read, panic::catch_unwind, path::Path, thread};

use crate::TARGETS;
use flate2::read::GzDecoder;

/// The inputs of every target, with their names.
fn corpus() -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus.tar.gz");
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let mut corpus: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().expect("names are hashes").to_owned();
        let (target, input) = path.split_once('/').expect("inputs lie in the folder of their target");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        corpus.entry(target.to_owned()).or_default().push((input.to_owned(), bytes));
    }
    corpus
}

#[test]
fn every_target_takes_its_inputs() {
    let corpus = corpus();
    let targets: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(corpus.keys().collect::<Vec<_>>(), targets, "every target has inputs");
    thread::scope(|scope| {
        for (name, target) in TARGETS {
            let inputs = &corpus[name];
            scope.spawn(move || {
                assert!(inputs.len() >= 10, "the corpus of {name} is incomplete");
                for (input, bytes) in inputs {
                    assert!(catch_unwind(|| target(bytes)).is_ok(), "{name} panics on {input}");
                }
            });
        }
    });
}

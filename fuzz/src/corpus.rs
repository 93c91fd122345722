//! Replays the corpus without instrumentation.

use std::{collections::BTreeMap, fs::File, io::Read, panic::catch_unwind, path::Path, thread};

use crate::TARGETS;
use flate2::read::GzDecoder;

/// Reads the named inputs of every target.
fn corpus() -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus.tar.gz");
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let mut corpus: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().expect("names are hashes").to_owned();
        let (target, input) = path.split_once('/').expect("inputs are stored as TARGET/INPUT");
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
                let is_read = |(input, bytes): &&(String, Vec<u8>)| {
                    catch_unwind(|| target(bytes)).unwrap_or_else(|_| panic!("{name} panics on {input}"))
                };
                let read = inputs.iter().filter(is_read).count();
                println!("{name}: {read} of {} inputs are accepted", inputs.len());
                // A corpus that is rejected early, say after a change of format, tests nothing.
                assert!(read >= 3, "{name} rejects all but {read} of its inputs");
            });
        }
    });
}

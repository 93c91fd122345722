//! Recorded dumps, unpacked into folders.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dump/tests/corpus")
}

/// Lists the recorded cases.
pub(crate) fn cases() -> Vec<String> {
    let entries = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries.filter(|path| path.is_dir());
    let mut cases: Vec<_> =
        folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    cases.sort();
    assert!(cases.len() >= 10, "the corpus is incomplete");
    cases
}

/// Unpacks a case into a folder of its name below `place`.
pub(crate) fn unpack(case: &str, place: &Path) -> PathBuf {
    let folder = place.join(case);
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(corpus().join(case)).unwrap() {
        let packed = entry.unwrap().path();
        let name = packed.file_stem().unwrap();
        fs::write(folder.join(name), read(&packed)).unwrap();
    }
    folder
}

/// Unpacks a recorded file.
pub(crate) fn read(packed: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&fs::read(packed).unwrap()[..]).read_to_string(&mut text).unwrap();
    text
}

/// A recorded program without a kernel.
pub(crate) fn transformer() -> String {
    read(&corpus().join("transformer-step-tpu7x.hlo.txt.gz"))
}

/// Runs the program in a folder.
pub(crate) fn octile(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(arguments).current_dir(folder).output().expect("octile starts")
}

/// Runs the program; returns exit code and output.
pub(crate) fn outcome(arguments: &[&str], folder: &Path) -> (i32, String) {
    let output = octile(arguments, folder);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).expect("the program writes UTF-8");
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    (output.status.code().expect("an exit code"), said)
}

//! Runs a folder of test files: each holds its input, how to run it, and what is expected.
//!
//! The first line is `// run: ...`, the second `// expect: ...`. Below a line of input, `// without => ...`
//! states the outcome with that line deleted, and `// instead X => ...` the outcome with X in its place.
//! `BLESS=1` rewrites the expectations.

use std::{
    fs,
    path::{Path, PathBuf},
};

const RUN: &str = "// run: ";
const EXPECT: &str = "// expect: ";

/// Checks every file with this extension in a folder of `filetests`, at least `least` of them. `outcome`
/// receives the words after `run:` and the lines of the file, whose numbers it may use; line 1 is empty.
pub(crate) fn check_files(
    folder: &str,
    extension: &str,
    least: usize,
    outcome: impl Fn(&str, &[&str]) -> String,
) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests").join(folder);
    let files = files(&folder, extension);
    assert!(files.len() >= least, "only {} files in {}", files.len(), folder.display());
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("the file can be read");
        let current = blessed(&text, &outcome);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &current).expect("the file can be written");
        } else if current != text {
            wrong.push(format!("{}:\n{current}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{} files behave differently now:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the file with the expectations that hold.
fn blessed(text: &str, outcome: &impl Fn(&str, &[&str]) -> String) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(EXPECT)).collect();
    let directive = *lines.first().expect("a file is not empty");
    let run = directive.strip_prefix(RUN).expect("the first line is `// run: ...`");
    // The directive and the expectation take a line each.
    lines[0] = "";
    lines.insert(1, "");
    let mut out = format!("{directive}\n{EXPECT}{}\n", outcome(run, &lines));
    let mut instruction = 0;
    for (at, line) in lines.iter().enumerate().skip(2) {
        match mutation(line) {
            Some((head, replacement)) => {
                let mut mutant = lines.clone();
                mutant[instruction] = replacement;
                out += &format!("{head} => {}\n", outcome(run, &mutant));
            }
            None => {
                out += &format!("{line}\n");
                instruction = if line.trim_start().starts_with("//") { instruction } else { at };
            }
        }
    }
    out
}

/// Splits `// instead X => outcome` into all before the arrow, and X.
fn mutation(line: &str) -> Option<(&str, &str)> {
    let head = line.split(" =>").next().unwrap_or_default();
    match head.trim_start() {
        "// without" => Some((head, "")),
        comment => Some((head, comment.strip_prefix("// instead ")?)),
    }
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

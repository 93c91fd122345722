//! Tidy rules: every line in its crate, every link in the documents valid.

mod documents;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// A crate, and the crates of this workspace that it may depend on.
const CRATES: [(&str, &[&str]); 12] = [
    ("core", &[]),
    ("mosaic", &["octile-core"]),
    ("ptx", &["octile-core"]),
    ("kernels", &["octile-core", "octile-mosaic", "octile-ptx"]),
    ("dump", &["octile-core", "octile-mosaic", "octile-ptx"]),
    ("runtime", &["octile-core", "octile-kernels"]),
    ("checkpoint", &["octile-core", "octile-runtime"]),
    ("octile", &["octile-core", "octile-mosaic", "octile-ptx", "octile-kernels", "octile-runtime"]),
    ("candle", &["octile"]),
    (
        "harness",
        &["octile-core", "octile-mosaic", "octile-ptx", "octile-kernels", "octile-dump", "octile-runtime"],
    ),
    (
        "cli",
        &[
            "octile-core",
            "octile-mosaic",
            "octile-ptx",
            "octile-kernels",
            "octile-dump",
            "octile-runtime",
            "octile-checkpoint",
            "octile-harness",
        ],
    ),
    ("python", &["octile", "octile-cli", "octile-core", "octile-kernels"]),
];

/// Longer files hold more than one concept.
const LONGEST_FILE: usize = 500;

/// Widest line, as in rustfmt.toml.
const WIDEST_LINE: usize = 110;

/// Folders that parse untrusted text, where bad input must never panic.
const UNTRUSTED_TEXT: [&str; 5] = [
    "crates/dump/src",
    "crates/mosaic/src/parse",
    "crates/ptx/src/parse",
    "crates/ptx/src/simulate/decode",
    "crates/checkpoint/src/read",
];

/// Checks every rule and reports every violation.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut violations = Vec::new();
    for folder in fs::read_dir(root.join("crates"))? {
        check_dependencies(&folder?.path(), &mut violations)?;
    }
    check_dependencies(&root.join("python"), &mut violations)?;
    for file in files(root, &["crates", "examples", "fuzz", "python", "xtask"], "rs")? {
        check_source(&relative(root, &file), &read(&file)?, &mut violations);
    }
    for file in files(root, &["bench", "crates", "examples", "python"], "py")? {
        let (name, text) = (relative(root, &file), read(&file)?);
        check_length(&name, &text, &mut violations);
        check_width(&name, text.lines().enumerate(), &mut violations);
    }
    documents::check(root, &mut violations)?;
    if violations.is_empty() {
        return Ok(());
    }
    bail!("{} violations of tidy rules:\n  {}", violations.len(), violations.join("\n  "));
}

fn check_dependencies(folder: &Path, violations: &mut Vec<String>) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
        violations
            .push(format!("crate {name} is not listed: add it to xtask/src/tidy.rs and ARCHITECTURE.md"));
        return Ok(());
    };
    let manifest: toml::Table = read(&folder.join("Cargo.toml"))?.parse()?;
    let dependencies = manifest.get("dependencies").and_then(|d| d.as_table()).into_iter().flatten();
    for (dependency, _) in dependencies {
        if dependency.starts_with("octile") && !allowed.contains(&dependency.as_str()) {
            violations.push(format!("crate {name} must not depend on {dependency}"));
        }
        if dependency == "anyhow" && name != "cli" {
            violations.push(format!(
                "crate {name} must not depend on anyhow: libraries return error enums, only the cli uses it"
            ));
        }
    }
    Ok(())
}

fn check_source(name: &Path, text: &str, violations: &mut Vec<String>) {
    check_length(name, text, violations);
    let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
    check_width(name, comments, violations);
    let crate_root = name.ends_with("src/lib.rs") || name.ends_with("src/main.rs");
    // These pass raw pointers and streams of their callers on to the runtime.
    let borders = ["crates/octile", "crates/candle", "python"];
    let lint = if borders.iter().any(|folder| name.starts_with(folder)) { "deny" } else { "forbid" };
    let attribute = format!("#![{lint}(unsafe_code)]");
    if crate_root && !name.starts_with("crates/runtime") && !text.contains(&attribute) {
        violations.push(format!("{}: {attribute} is missing; only crates/runtime is exempt", name.display()));
    }
    let untrusted =
        UNTRUSTED_TEXT.iter().any(|folder| name.starts_with(folder)) && !name.ends_with("tests.rs");
    for (at, line) in production_lines(text).filter(|_| untrusted) {
        if [".unwrap()", ".expect(", "panic!(", "unreachable!("].iter().any(|call| line.contains(call)) {
            violations.push(format!("{}:{at}: a parser of untrusted text must not panic", name.display()));
        }
    }
}

fn check_length(name: &Path, text: &str, violations: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        violations
            .push(format!("{}: {lines} lines, more than {LONGEST_FILE}: split the file", name.display()));
    }
}

/// Of Rust only comments are checked: rustfmt wraps code, and string literals may hold other languages.
fn check_width<'a>(name: &Path, lines: impl Iterator<Item = (usize, &'a str)>, violations: &mut Vec<String>) {
    for (at, line) in lines {
        let width = line.chars().count();
        if width > WIDEST_LINE && !line.contains("://") {
            let place = format!("{}:{}", name.display(), at + 1);
            violations.push(format!("{place}: {width} columns, more than {WIDEST_LINE}"));
        }
    }
}

/// Numbered lines before the unit tests, without comments.
fn production_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn relative(root: &Path, file: &Path) -> PathBuf {
    file.strip_prefix(root).unwrap_or(file).to_owned()
}

/// Every file below these folders with this extension.
fn files(root: &Path, folders: &[&str], extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            // A crate outside the workspace has build outputs of its own.
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(name: &str, text: &str) -> Vec<String> {
        let mut violations = Vec::new();
        check_source(Path::new(name), text, &mut violations);
        violations
    }

    #[test]
    fn each_rule_finds_its_violation() {
        assert_eq!(violations("crates/core/src/lib.rs", "#![forbid(unsafe_code)]").len(), 0);
        assert_eq!(violations("crates/core/src/lib.rs", "pub mod a;").len(), 1);
        assert_eq!(violations("crates/runtime/src/lib.rs", "pub mod a;").len(), 0);
        assert_eq!(violations("crates/dump/src/a.rs", "a.unwrap();\n#[cfg(test)]\nb.unwrap();").len(), 1);
        assert_eq!(violations("crates/core/src/a.rs", "a.unwrap();").len(), 0);
        assert_eq!(violations("crates/core/src/a.rs", &"\n".repeat(LONGEST_FILE + 1)).len(), 1);
        assert_eq!(violations("crates/core/src/a.rs", &"/".repeat(WIDEST_LINE + 1)).len(), 1);
    }
}

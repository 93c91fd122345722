//! Rules that keep every line in its room.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// A crate, and the crates of this workspace that it may depend on.
const ROOMS: [(&str, &[&str]); 10] = [
    ("core", &[]),
    ("mosaic", &["octile-core"]),
    ("ptx", &["octile-core"]),
    ("kernels", &["octile-core", "octile-mosaic"]),
    ("dump", &["octile-core", "octile-mosaic"]),
    ("runtime", &["octile-core", "octile-kernels"]),
    ("checkpoint", &["octile-core", "octile-runtime"]),
    ("octile", &["octile-core", "octile-mosaic", "octile-ptx", "octile-kernels", "octile-runtime"]),
    ("harness", &["octile-core", "octile-mosaic", "octile-ptx", "octile-kernels", "octile-runtime"]),
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
];

/// Longer files hide more than one noun.
const LONGEST_FILE: usize = 500;

/// Folders whose code reads text that others wrote, where bad input must never end the program.
const FOREIGN_TEXT: [&str; 4] =
    ["crates/dump/src", "crates/mosaic/src/parse", "crates/ptx/src/parse", "crates/checkpoint/src/read"];

/// Checks every rule and reports every breach.
pub fn run(root: &Path) -> Result<()> {
    let mut breaches = Vec::new();
    for room in fs::read_dir(root.join("crates"))? {
        check_dependencies(&room?.path(), &mut breaches)?;
    }
    for file in sources(root)? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file);
        check_source(name, &text, &mut breaches);
    }
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{} tidy rules are broken:\n  {}", breaches.len(), breaches.join("\n  "));
}

fn check_dependencies(room: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let name = room.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((_, allowed)) = ROOMS.iter().find(|(room, _)| *room == name) else {
        breaches.push(format!(
            "crates/{name} is not a known room: add it to xtask/src/tidy.rs and ARCHITECTURE.md"
        ));
        return Ok(());
    };
    let manifest: toml::Table = fs::read_to_string(room.join("Cargo.toml"))?.parse()?;
    let dependencies = manifest.get("dependencies").and_then(|d| d.as_table()).into_iter().flatten();
    for (dependency, _) in dependencies {
        if dependency.starts_with("octile-") && !allowed.contains(&dependency.as_str()) {
            breaches.push(format!("crates/{name} must not depend on {dependency}"));
        }
        if dependency == "anyhow" && name != "cli" {
            breaches.push(format!(
                "crates/{name} must not depend on anyhow: only the cli gives up on error types"
            ));
        }
    }
    Ok(())
}

fn check_source(name: &Path, text: &str, breaches: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        breaches.push(format!(
            "{}: {lines} lines, more than {LONGEST_FILE}: split it along its nouns",
            name.display()
        ));
    }
    let crate_root = name.ends_with("src/lib.rs") || name.ends_with("src/main.rs");
    // The library hands raw pointers and streams of its callers on to the runtime.
    let lint = if name.starts_with("crates/octile") { "deny" } else { "forbid" };
    let attribute = format!("#![{lint}(unsafe_code)]");
    if crate_root && !name.starts_with("crates/runtime") && !text.contains(&attribute) {
        breaches.push(format!("{}: only crates/runtime may do without {attribute}", name.display()));
    }
    let foreign = FOREIGN_TEXT.iter().any(|folder| name.starts_with(folder)) && !name.ends_with("tests.rs");
    for (at, line) in production_lines(text) {
        let place = format!("{}:{at}", name.display());
        if foreign
            && [".unwrap()", ".expect(", "panic!(", "unreachable!("].iter().any(|call| line.contains(call))
        {
            breaches.push(format!("{place}: a parser of foreign text must not be able to panic"));
        }
    }
}

/// The numbered lines before the unit tests, without comments.
fn production_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
}

/// Every Rust file of the workspace.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["crates", "examples", "fuzz", "xtask"].iter().map(|f| root.join(f)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
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

    fn breaches(name: &str, text: &str) -> Vec<String> {
        let mut breaches = Vec::new();
        check_source(Path::new(name), text, &mut breaches);
        breaches
    }

    #[test]
    fn each_rule_finds_its_breach() {
        assert_eq!(breaches("crates/core/src/lib.rs", "#![forbid(unsafe_code)]").len(), 0);
        assert_eq!(breaches("crates/core/src/lib.rs", "pub mod a;").len(), 1);
        assert_eq!(breaches("crates/runtime/src/lib.rs", "pub mod a;").len(), 0);
        assert_eq!(breaches("crates/dump/src/a.rs", "a.unwrap();\n#[cfg(test)]\nb.unwrap();").len(), 1);
        assert_eq!(breaches("crates/core/src/a.rs", "a.unwrap();").len(), 0);
        assert_eq!(breaches("crates/core/src/a.rs", &"\n".repeat(LONGEST_FILE + 1)).len(), 1);
    }
}

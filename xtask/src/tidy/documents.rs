//! Documents: links lead somewhere, the book lists every chapter, lines are not too wide.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{check_width, files, read, relative};

/// Documents in the root of the repository.
const ROOT: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks every document of the repository.
pub(super) fn check(root: &Path, violations: &mut Vec<String>) -> Result<()> {
    let mut documents: Vec<PathBuf> = ROOT.iter().map(|name| root.join(name)).collect();
    documents.extend(files(root, &["bench", "docs", "fuzz"], "md")?);
    for document in &documents {
        let text = read(document)?;
        let name = relative(root, document);
        // Tables cannot be wrapped, and links cannot be broken.
        let can_wrap = |line: &str| !line.starts_with('|') && !line.contains("](");
        let lines = text.lines().enumerate().filter(|(_, line)| can_wrap(line));
        check_width(&name, lines, violations);
        for task in tasks(&text).filter(|task| !crate::is_task(task)) {
            violations.push(format!("{}: there is no `cargo xtask {task}`", name.display()));
        }
        for link in links(&text) {
            if let Err(why) = check_link(document, link) {
                violations.push(format!("{}: {why}", name.display()));
            }
        }
    }
    let summary = read(&root.join(SUMMARY))?;
    for chapter in files(root, &["docs"], "md")? {
        let chapter = relative(&root.join("docs"), &chapter);
        let is_listed = links(&summary).any(|link| Path::new(link) == chapter);
        if !is_listed && chapter != Path::new("SUMMARY.md") {
            violations.push(format!("docs/{} is not listed in {SUMMARY}", chapter.display()));
        }
    }
    Ok(())
}

/// Names after `cargo xtask`.
fn tasks(text: &str) -> impl Iterator<Item = &str> {
    let names = text.split("cargo xtask ").skip(1);
    names.filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next())
}

/// Targets of Markdown links outside of code blocks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("\n```").step_by(2);
    blocks.flat_map(|block| block.split("](").skip(1)).filter_map(|rest| rest.split(')').next())
}

fn check_link(document: &Path, link: &str) -> Result<(), String> {
    if link.contains("://") {
        return Ok(());
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => document.to_owned(),
        _ => document.with_file_name(path),
    };
    if !target.exists() {
        return Err(format!("the link to {link} leads nowhere"));
    }
    if anchor.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&target).map_err(|error| format!("{link}: {error}"))?;
    let mut headings = text.lines().filter(|line| line.starts_with('#')).map(slug);
    headings.any(|slug| slug == anchor).then_some(()).ok_or(format!("{link}: there is no such heading"))
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_found() {
        let text = "See [a](b.md#c) and [d](https://e).\n```text\n[f](g)\n```\n[h](i.md)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md#c", "https://e", "i.md"]);
        assert_eq!(slug("## What `a` is, in B"), "what-a-is-in-b");
        assert_eq!(
            tasks("run `cargo xtask test`\n    cargo xtask no-such --x").collect::<Vec<_>>(),
            ["test", "no-such"]
        );
        assert!(crate::is_task("test") && !crate::is_task("no-such"));
        let readme = crate::root().join("README.md");
        assert!(check_link(&readme, "ARCHITECTURE.md#no-such-heading").is_err());
        assert!(check_link(&readme, "no-such-file.md").is_err());
        assert!(check_link(&readme, "ARCHITECTURE.md").is_ok());
    }
}

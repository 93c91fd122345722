//! The lines of dumps: Mosaic and LLO side by side, and what other files findings point into.

use std::collections::BTreeSet;

use maud::{Markup, html};
use octile_dump::facts::FileKind;

use crate::command::{
    analyze::{Text, Version},
    verify::Judged,
};

/// A file up to so many lines is shown whole.
const WHOLE: usize = 400;
/// Of a longer one, so many lines at its beginning and around each line that a finding points to.
const AROUND: usize = 12;
/// Columns of a line; HLO holds whole kernels in one.
const COLUMNS: usize = 300;

/// Lines that findings of a version point to, and the names of their places on the page.
pub struct Marks {
    version: usize,
    lines: BTreeSet<(String, u32)>,
}

impl Marks {
    /// The lines that the findings of the `version`-th version point to.
    pub fn new(version: usize, judged: &Judged) -> Self {
        let findings = judged.version.findings.iter();
        let evidence = findings.flat_map(|finding| &finding.evidence);
        let lines = evidence.map(|evidence| (evidence.file.clone(), evidence.place.line)).collect();
        Self { version, lines }
    }

    /// The place of the version.
    pub fn version_id(&self) -> String {
        format!("v{}", self.version)
    }

    /// The place of a line.
    pub fn line_id(&self, file: &str, line: u32) -> String {
        let slug: String = file.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("v{}-{slug}-{line}", self.version)
    }

    fn has(&self, file: &str, line: u32) -> bool {
        self.lines.contains(&(file.to_owned(), line))
    }

    fn of_file(&self, file: &str) -> impl Iterator<Item = usize> {
        self.lines.iter().filter(move |(name, _)| name == file).map(|(_, line)| *line as usize)
    }
}

/// Both stages side by side, then the lines of other files that findings point to.
pub fn panes(marks: &Marks, version: &Version) -> Markup {
    let llo = version.text(FileKind::LloPacked).or(version.text(FileKind::LloFinal));
    let pair = [version.text(FileKind::Mosaic), llo];
    let in_pair = |text: &&Text| pair.iter().flatten().any(|shown| shown.name == text.name);
    let pointed_to = |text: &&Text| marks.of_file(&text.name).next().is_some();
    let others = version.texts.iter().filter(|text| !in_pair(text) && pointed_to(text));
    html! {
        @if pair.iter().flatten().next().is_none() { p.note { "Neither is among the files." } }
        div.panes { @for text in pair.into_iter().flatten() { (pane(marks, text, WHOLE)) } }
        @for text in others { (pane(marks, text, 0)) }
    }
}

fn pane(marks: &Marks, text: &Text, whole: usize) -> Markup {
    let lines: Vec<&str> = text.text.lines().collect();
    let shown = shown(marks, &text.name, lines.len(), whole);
    let class = if shown.len() < 20 { "code short" } else { "code" };
    // The line before each one that is shown: 0 before the first.
    let previous = std::iter::once(0).chain(shown.iter().copied());
    let last = shown.last().copied().unwrap_or(0);
    html! {
        div.pane {
            h4 { (text.name) ", " (lines.len()) " lines" }
            // Reachable by keyboard, because it scrolls by itself.
            div class=(class) tabindex="0" {
                @for (before, number) in previous.zip(shown.iter().copied()) {
                    @if number > before + 1 { (gap(number - before - 1)) }
                    (line(marks, &text.name, number, lines[number - 1]))
                }
                @if lines.len() > last { (gap(lines.len() - last)) }
            }
        }
    }
}

fn gap(lines: usize) -> Markup {
    html! { div.gap { (lines) " more lines" } }
}

fn line(marks: &Marks, file: &str, number: usize, text: &str) -> Markup {
    let hit = marks.has(file, number as u32);
    let clipped = text.char_indices().nth(COLUMNS).map(|(end, _)| &text[..end]);
    let id = hit.then(|| marks.line_id(file, number as u32));
    html! {
        div.hit[hit] id=[id] { span.n { (number) } (clipped.unwrap_or(text)) @if clipped.is_some() { " ..." } }
    }
}

/// Numbers of the lines to show, from 1.
fn shown(marks: &Marks, file: &str, lines: usize, whole: usize) -> BTreeSet<usize> {
    if lines <= whole {
        return (1..=lines).collect();
    }
    let near = |line: usize, around: usize| line.saturating_sub(around).max(1)..=(line + around).min(lines);
    let around = if whole > 0 { AROUND } else { 1 };
    let begin = (whole > 0).then(|| 1..=(4 * AROUND).min(lines));
    marks
        .of_file(file)
        .map(|line| near(line, around))
        .chain(begin)
        .flatten()
        .filter(|n| *n <= lines)
        .collect()
}

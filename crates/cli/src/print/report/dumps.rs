//! Lines of dumps: two levels side by side, and lines of other files that findings refer to.

use std::collections::BTreeSet;

use maud::{Markup, html};
use octile_dump::{Place, facts::FileKind};

use crate::command::{analyze::TextFile, verify::Judged};

/// Files up to this many lines are shown whole.
const WHOLE: usize = 400;
/// Lines shown around each line that a finding refers to, in longer files.
const AROUND: usize = 12;
/// Characters shown after each place in a line; a line of HLO may contain a whole kernel.
const COLUMNS: usize = 300;
/// Most characters to mark as a place.
const WORD: usize = 48;

/// Places that the findings of a version refer to, and their anchors.
pub(super) struct Marks {
    version: usize,
    places: BTreeSet<(String, Place)>,
}

impl Marks {
    /// Collects the places of a version's findings.
    pub(super) fn new(version: usize, judged: &Judged) -> Self {
        let of_helpers = judged.version.helpers.iter().flat_map(|helper| &helper.findings);
        let findings = judged.version.findings.iter().chain(of_helpers);
        let evidence = findings.flat_map(|finding| &finding.evidence);
        let places = evidence.map(|evidence| (evidence.file.clone(), evidence.place)).collect();
        Self { version, places }
    }

    /// Returns the anchor of the version.
    pub(super) fn version_id(&self) -> String {
        format!("v{}", self.version)
    }

    /// Returns the anchor of a place.
    pub(super) fn place_id(&self, file: &str, place: Place) -> String {
        let slug: String = file.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("v{}-{slug}-{}-{}", self.version, place.line, place.column)
    }

    /// Lists the places in a file, sorted.
    fn of_file(&self, file: &str) -> impl Iterator<Item = Place> {
        self.places.iter().filter(move |(name, _)| name == file).map(|(_, place)| *place)
    }
}

/// Two levels side by side, then lines of other files that findings refer to; `None` if there are neither.
pub(super) fn panes(marks: &Marks, gpu: bool, texts: &[TextFile]) -> Option<Markup> {
    let first =
        |kinds: &[FileKind]| kinds.iter().find_map(|kind| texts.iter().find(|text| text.kind == *kind));
    let pair = match gpu {
        true => [first(&[FileKind::Ptx]), first(&[FileKind::Sass])],
        false => [first(&[FileKind::Mosaic]), first(&[FileKind::LloPacked, FileKind::LloFinal])],
    };
    let in_pair = |text: &&TextFile| pair.iter().flatten().any(|shown| shown.name == text.name);
    let pointed_to = |text: &&TextFile| marks.of_file(&text.name).next().is_some();
    let others: Vec<_> = texts.iter().filter(|text| !in_pair(text) && pointed_to(text)).collect();
    let is_empty = others.is_empty() && pair.iter().flatten().next().is_none();
    (!is_empty).then(|| {
        html! {
            div.panes { @for text in pair.into_iter().flatten() { (pane(marks, text, WHOLE)) } }
            @for text in others { (pane(marks, text, 0)) }
        }
    })
}

fn pane(marks: &Marks, text: &TextFile, whole: usize) -> Markup {
    let lines: Vec<&str> = text.text.lines().collect();
    let shown = shown(marks, &text.name, lines.len(), whole);
    let class = if shown.len() < 20 { "code short" } else { "code" };
    // The line shown before each one; 0 before the first.
    let previous = std::iter::once(0).chain(shown.iter().copied());
    let last = shown.last().copied().unwrap_or(0);
    html! {
        div.pane {
            h4 { (text.name) ", " (lines.len()) " lines" }
            // Scrollable panes must be reachable by keyboard.
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
    let mut places: Vec<_> = marks.of_file(file).filter(|place| place.line as usize == number).collect();
    // A place beyond the line is moved to its end.
    let start = |place: &Place| boundary(text, (place.column as usize).saturating_sub(1));
    places.sort_by_key(start);
    let end = boundary(text, places.last().map_or(0, start) + COLUMNS);
    let starts: Vec<_> = places.iter().map(start).collect();
    let ends = starts.iter().skip(1).copied().chain([end]);
    html! {
        div.hit[!places.is_empty()] {
            span.n { (number) } (text[..starts.first().copied().unwrap_or(end)])
            @for ((place, start), end) in places.iter().zip(&starts).zip(ends) {
                @let (word, rest) = text[*start..end].split_at(word(&text[*start..end]));
                mark id=(marks.place_id(file, *place)) { (word) } (rest)
            }
            @if end < text.len() { " ..." }
        }
    }
}

/// Largest character boundary up to an offset.
fn boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Length of a marked place: up to the next boundary between operations or operands.
fn word(text: &str) -> usize {
    let end = text.find([',', ';', '=', '(', '{']).unwrap_or(text.len());
    boundary(text, end.clamp(1, WORD))
}

/// Line numbers to show, from 1.
fn shown(marks: &Marks, file: &str, lines: usize, whole: usize) -> BTreeSet<usize> {
    if lines <= whole {
        return (1..=lines).collect();
    }
    let near = |line: usize, around: usize| line.saturating_sub(around).max(1)..=(line + around).min(lines);
    let around = if whole > 0 { AROUND } else { 1 };
    let begin = (whole > 0).then(|| 1..=(4 * AROUND).min(lines));
    marks
        .of_file(file)
        .map(|place| near(place.line as usize, around))
        .chain(begin)
        .flatten()
        .filter(|n| *n <= lines)
        .collect()
}

//! Positions in dumped text, and damage found there.

use std::{fmt, ops::Range};

use memchr::memchr_iter;
use serde::Serialize;

/// A byte range of the text; 32 bits each, because a tree holds millions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From byte offsets; every parser rejects text beyond 4 GiB.
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { start: clamp(start), end: clamp(end.max(start)) }
    }

    /// The bytes as a range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The text of this span; empty if it is not inside `text`.
    pub fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// A line and a column, both counted from 1, the column in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Byte in the line, from 1.
    pub column: u32,
}

impl From<octile_mosaic::Place> for Place {
    fn from(place: octile_mosaic::Place) -> Self {
        Self { line: place.line, column: place.column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Text that a parser could not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Line and column.
    pub place: Place,
    /// What is wrong, as a sentence without a full stop.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Offsets of the lines of a text.
#[derive(Clone, Debug, Default)]
pub struct LineIndex {
    starts: Vec<u32>,
}

impl LineIndex {
    /// Finds the lines of `text`.
    pub fn new(text: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr_iter(b'\n', text.as_bytes()).map(|newline| newline as u32 + 1));
        Self { starts }
    }

    /// The place of a byte offset.
    pub fn place(&self, offset: u32) -> Place {
        let line = self.starts.partition_point(|&start| start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        Place { line: line as u32, column: offset - start.min(offset) + 1 }
    }

    /// The byte offset of a place.
    pub fn offset(&self, place: Place) -> u32 {
        let line = place.line.saturating_sub(1) as usize;
        let start = self.starts.get(line).copied().unwrap_or_default();
        start.saturating_add(place.column.saturating_sub(1))
    }
}

/// Lookup table of the bytes in a set, for fast scanning.
pub const fn byte_set(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
}

/// The line around `offset`, shortened for display.
pub fn excerpt(text: &str, offset: u32) -> String {
    const LIMIT: usize = 160;
    let offset = (offset as usize).min(text.len());
    let bytes = text.as_bytes();
    let head = bytes.get(..offset).unwrap_or_default();
    let tail = bytes.get(offset..).unwrap_or_default();
    let start = memchr::memrchr(b'\n', head).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', tail).map_or(text.len(), |newline| offset + newline);
    // A long line starts shortly before the offset.
    let from = if end - start > LIMIT { offset.saturating_sub(40).max(start) } else { start };
    let shown = String::from_utf8_lossy(bytes.get(from..end.min(from + LIMIT)).unwrap_or_default());
    let cut = |there: bool| if there { "..." } else { "" };
    let (before, after) = (cut(from > start), cut(end > from + LIMIT));
    format!("{before}{}{after}", shown.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one() {
        let index = LineIndex::new("ab\n\ncd");
        let at = |offset| index.place(offset).to_string();
        assert_eq!([at(0), at(1), at(3), at(5), at(99)], ["1:1", "1:2", "2:1", "3:2", "3:96"]);
    }

    #[test]
    fn excerpts_are_the_line_and_stay_short() {
        assert_eq!(excerpt("one\n  two\nthree", 6), "two");
        let long = format!("{}needle{}", "a".repeat(500), "b".repeat(500));
        let shown = excerpt(&long, 500);
        assert!(shown.contains("needle") && shown.len() < 180, "{shown}");
        assert_eq!(excerpt("", 7), "");
    }
}

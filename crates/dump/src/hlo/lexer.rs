//! Balanced scanning of HLO text: strings, comments and brackets are skipped as a whole.

use crate::source::{Span, byte_set};

/// Where a balanced scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// At a requested byte outside all brackets.
    Byte(u8),
    /// The end of a line, outside every bracket.
    Newline,
    /// At an unmatched closing bracket.
    Closing(u8),
    /// The end of the text, outside every bracket.
    End,
    /// The end of the text inside a bracket or a string.
    Unclosed,
}

/// A position in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// The next byte.
    pub at: usize,
}

impl<'a> Lexer<'a> {
    /// At the beginning of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// The next byte; 0 at the end.
    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or_default()
    }

    /// Whether it is at the end.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The remaining text.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips white space within the line.
    pub(super) fn skip_blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// Skips white space and line ends.
    pub(super) fn skip_whitespace(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// Takes a word, if it is next.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let found = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        if found {
            self.at += word.len();
        }
        found
    }

    /// Takes bytes as long as `belongs` holds.
    pub(super) fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> Span {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        self.at += rest.iter().position(|&byte| !belongs(byte)).unwrap_or(rest.len());
        Span::new(start, self.at)
    }

    /// The rest of the line, without its end.
    pub(super) fn take_line(&mut self) -> Span {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        self.at = memchr::memchr(b'\n', rest).map_or(self.bytes.len(), |newline| start + newline);
        Span::new(start, self.at)
    }

    /// Advances to the first of `stops` outside brackets, strings and comments, and stays before it.
    pub(super) fn balanced(&mut self, stops: &[u8], stop_at_newline: bool) -> Stop {
        const STRUCTURAL: [bool; 256] = byte_set(b"\"/()[]{}\n,=#");
        debug_assert!(stops.iter().all(|&stop| STRUCTURAL[stop as usize]), "a stop that is never seen");
        let mut depth = 0usize;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let skipped = rest.iter().position(|&byte| STRUCTURAL[byte as usize]);
            self.at += skipped.unwrap_or(rest.len());
            let Some(&byte) = self.bytes.get(self.at) else { break };
            if depth == 0 && stops.contains(&byte) {
                return Stop::Byte(byte);
            }
            match byte {
                b'"' => {
                    if !self.skip_string() {
                        return Stop::Unclosed;
                    }
                    continue;
                }
                b'/' if self.bytes.get(self.at + 1) == Some(&b'*') => self.skip_comment(),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth == 0 => return Stop::Closing(byte),
                b')' | b']' | b'}' => depth -= 1,
                b'\n' if depth == 0 && stop_at_newline => return Stop::Newline,
                _ => {}
            }
            self.at += 1;
        }
        if depth == 0 { Stop::End } else { Stop::Unclosed }
    }

    /// Skips a string; a backslash escapes the next byte.
    fn skip_string(&mut self) -> bool {
        let mut at = self.at + 1;
        loop {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at = self.bytes.len();
                return false;
            };
            at += found + 1;
            if rest.get(found) == Some(&b'"') {
                self.at = at;
                return true;
            }
            at += 1;
        }
    }

    /// Advances to the last byte of a comment such as `/*index=5*/`; an unclosed comment is only its first
    /// byte.
    fn skip_comment(&mut self) {
        let rest = self.bytes.get(self.at + 2..).unwrap_or_default();
        if let Some(length) = memchr::memmem::find(rest, b"*/") {
            self.at += 2 + length + 1;
        }
    }
}

/// Splits at the commas outside every bracket, and trims the parts. An empty text has no parts.
pub(super) fn split_commas(text: &str, span: Span) -> Vec<Span> {
    let inside = span.of(text);
    let mut lexer = Lexer::new(inside);
    let mut parts = Vec::new();
    let base = span.start as usize;
    loop {
        let start = lexer.at;
        while !matches!(lexer.balanced(b",", false), Stop::Byte(_) | Stop::End | Stop::Unclosed) {
            // An unmatched closing bracket belongs to the part.
            lexer.at += 1;
        }
        let part = trimmed(text, Span::new(base + start, base + lexer.at));
        let last = lexer.is_done();
        if !(part.is_empty() && last && parts.is_empty()) {
            parts.push(part);
        }
        if last {
            return parts;
        }
        lexer.at += 1;
    }
}

/// The span without white space around it.
pub(super) fn trimmed(text: &str, span: Span) -> Span {
    let inside = text.as_bytes().get(span.range()).unwrap_or_default();
    let start = span.start as usize + (inside.len() - inside.trim_ascii_start().len());
    Span::new(start, start + inside.trim_ascii().len())
}

//! A position in the text and the token readers built on it.

use super::{ParseError, ParseErrorKind};
use crate::ir::Place;

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// Reads forward through the text, skipping white space and comments before every token.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Line and column of byte `counted`, cached so that earlier lines are not counted again.
    counted: usize,
    place: Place,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self::within(text, Place { line: 1, column: 1 })
    }

    /// Creates a cursor over a piece of text that begins at `origin`.
    pub(super) fn within(text: &'a str, origin: Place) -> Self {
        Self { text, at: 0, counted: 0, place: origin }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            if !self.rest().starts_with("//") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Line and column of the next token.
    pub(super) fn place(&mut self) -> Place {
        self.skip();
        for c in self.text[self.counted..self.at].chars() {
            self.place = match c {
                '\n' => Place { line: self.place.line + 1, column: 1 },
                _ => Place { column: self.place.column + 1, ..self.place },
            };
        }
        self.counted = self.at;
        self.place
    }

    pub(super) fn error(&mut self, message: impl Into<String>) -> ParseError {
        ParseError { place: self.place(), kind: ParseErrorKind::Malformed, message: message.into() }
    }

    /// An error about a form that MLIR has and this parser has not.
    pub(super) fn unsupported(&mut self, message: impl Into<String>) -> ParseError {
        ParseError { kind: ParseErrorKind::Unsupported, ..self.error(message) }
    }

    /// Makes an "expected X, found Y" error.
    pub(super) fn expected(&mut self, what: &str) -> ParseError {
        self.skip();
        let rest = self.rest();
        let found: String = match self.clone().word() {
            Some(word) => word.chars().take(40).collect(),
            None => rest.chars().take(1).collect(),
        };
        match found.is_empty() {
            true => self.error(format!("expected {what}, but the text ends here")),
            false => self.error(format!("expected {what}, found '{found}'")),
        }
    }

    pub(super) fn at_end(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    /// Returns the next character without consuming it.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip();
        self.rest().chars().next()
    }

    pub(super) fn looking_at(&mut self, text: &str) -> bool {
        self.skip();
        self.rest().starts_with(text)
    }

    /// Consumes `text` if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.looking_at(text);
        if found {
            self.at += text.len();
        }
        found
    }

    pub(super) fn require(&mut self, text: &str) -> Result<()> {
        match self.eat(text) {
            true => Ok(()),
            false => Err(self.expected(&format!("'{text}'"))),
        }
    }

    /// Reads a bare identifier: letters, digits, `_`, `$`, `.`, not starting with a digit.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.skip();
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return None;
        }
        Some(self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.')))
            .filter(|w| !w.is_empty())
    }

    /// Returns the next word without consuming it.
    pub(super) fn peek_word(&mut self) -> Option<&'a str> {
        self.clone().word()
    }

    /// Consumes `word` if it is the whole next identifier.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let mut ahead = self.clone();
        let found = ahead.word() == Some(word);
        if found {
            self.at = ahead.at;
        }
        found
    }

    /// Reads the name after `%`, `^`, `@`, `#` or `!`, which may start with a digit.
    pub(super) fn suffix(&mut self) -> Result<&'a str> {
        let name = self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-'));
        // `-` is part of a name unless it begins an arrow.
        let name_only = match name.strip_suffix('-') {
            Some(shorter) if self.rest().starts_with('>') => {
                self.at -= 1;
                shorter
            }
            _ => name,
        };
        match name_only.is_empty() {
            true => Err(self.expected("a name")),
            false => Ok(name_only),
        }
    }

    /// Reads the longest run of characters that `accept` allows, without skipping white space first.
    pub(super) fn run(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let run = &rest[..rest.find(|c| !accept(c)).unwrap_or(rest.len())];
        self.at += run.len();
        run
    }

    /// Reads an unsigned integer.
    pub(super) fn unsigned(&mut self) -> Result<usize> {
        self.skip();
        let mut ahead = self.clone();
        let digits = ahead.run(|c| c.is_ascii_digit());
        match digits.parse() {
            Ok(value) => {
                self.at = ahead.at;
                Ok(value)
            }
            Err(_) => Err(self.expected("a number")),
        }
    }

    /// Reads a signed integer.
    pub(super) fn signed(&mut self) -> Result<i64> {
        let negative = self.eat("-");
        let magnitude = self.unsigned()?;
        let value = i64::try_from(magnitude).map_err(|_| self.error("number does not fit in 64 bits"))?;
        Ok(if negative { -value } else { value })
    }

    /// Reads a quoted string and resolves its escapes.
    pub(super) fn string(&mut self) -> Result<String> {
        self.require("\"")?;
        let mut bytes = Vec::new();
        loop {
            let rest = self.rest().as_bytes();
            let (taken, byte) = match rest {
                [b'"', ..] => {
                    self.at += 1;
                    break;
                }
                [b'\\', b'n', ..] => (2, b'\n'),
                [b'\\', b't', ..] => (2, b'\t'),
                [b'\\', c @ (b'"' | b'\\'), ..] => (2, *c),
                [b'\\', high, low, ..] => match (hex(*high), hex(*low)) {
                    (Some(high), Some(low)) => (3, high << 4 | low),
                    _ => {
                        return Err(self.error(
                            "a text holds an escape that is not \\\", \\\\, \\n, \\t or two hex digits",
                        ));
                    }
                },
                _ => match self.rest().chars().next() {
                    // Consume the whole character: the cursor must stay on a character boundary.
                    Some(c) => {
                        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                        self.at += c.len_utf8();
                        continue;
                    }
                    None => return Err(self.error("unterminated string")),
                },
            };
            bytes.push(byte);
            self.at += taken;
        }
        String::from_utf8(bytes).map_err(|_| self.error("string is not UTF-8"))
    }

    /// Reads the verbatim text up to the bracket matching the next one, inclusive.
    pub(super) fn balanced(&mut self) -> Result<&'a str> {
        if !matches!(self.peek(), Some('<' | '(' | '[' | '{')) {
            return Err(self.expected("a bracket"));
        }
        let start = self.clone();
        let mut open = Vec::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(start.clone().error("unclosed bracket"));
            };
            match c {
                '"' => {
                    self.string()?;
                    continue;
                }
                '<' => open.push('>'),
                '(' => open.push(')'),
                '[' => open.push(']'),
                '{' => open.push('}'),
                '-' if self.rest().starts_with("->") => {
                    self.at += 2;
                    continue;
                }
                '>' if self.text[..self.at].ends_with(['=', '>']) && open.last() != Some(&'>') => {}
                '>' | ')' | ']' | '}' if open.pop() != Some(c) => {
                    return Err(self.error(format!("'{c}' has no matching opening bracket")));
                }
                _ => {}
            }
            self.at += c.len_utf8();
            if open.is_empty() {
                return Ok(&start.text[start.at..self.at]);
            }
        }
    }

    /// Returns the text between an earlier cursor state and now.
    pub(super) fn since(&self, earlier: &Self) -> &'a str {
        self.text[earlier.at..self.at].trim()
    }
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_hold_any_character() {
        let text = |text: &str| Cursor::new(text).string();
        assert_eq!(text("\"a\u{e9}\u{8c191}\\22\\n\" rest").unwrap(), "a\u{e9}\u{8c191}\"\n");
        assert_eq!(text("\"\\C3\\A9\"").unwrap(), "\u{e9}");
        assert_eq!(text("\"\u{8c191}").unwrap_err().message, "unterminated string");
        assert_eq!(text("\"\\FF\"").unwrap_err().message, "string is not UTF-8");
        assert_eq!(text("\"\\\u{e9}\u{e9}\"").unwrap_err().place.column, 2);
    }
}

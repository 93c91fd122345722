//! Text to IR: statements that end in `;`, in blocks.
//!
//! The parser accepts PTX of any compiler and any target. It reports what it cannot read and continues after
//! it.

mod header;
mod operand;

use std::borrow::Cow;

use memchr::memchr;
use thiserror::Error;

use crate::ir::{Guard, Instruction, Label, Module, Position};

/// Text that is not PTX.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("PTX line {}: {message}", position.line)]
pub struct ParseError {
    /// Where.
    pub position: Position,
    /// What is wrong.
    pub message: String,
}

impl<'a> Module<'a> {
    /// Reads a module; fails with the first error.
    pub fn parse(text: &'a str) -> Result<Self, ParseError> {
        let (module, errors) = Self::parse_lossy(text);
        errors.into_iter().next().map_or(Ok(module), Err)
    }

    /// Reads what can be read of a module, with every error.
    pub fn parse_lossy(text: &'a str) -> (Self, Vec<ParseError>) {
        match blank_comments(text) {
            Cow::Borrowed(text) => Parser::new(text).run(),
            Cow::Owned(text) => {
                let (module, errors) = Parser::new(&text).run();
                (module.into_owned(), errors)
            }
        }
    }
}

/// Replaces comments by spaces, so that offsets stay; borrows a text without comments.
fn blank_comments(text: &str) -> Cow<'_, str> {
    let (mut clean, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(slash) = memchr(b'/', text.as_bytes().get(at..).unwrap_or_default()) {
        let start = at + slash;
        let rest = text.get(start..).unwrap_or_default();
        let length = match rest.as_bytes().get(1) {
            Some(b'/') => rest.find('\n').unwrap_or(rest.len()),
            Some(b'*') => rest.get(2..).and_then(|body| body.find("*/")).map_or(rest.len(), |end| end + 4),
            _ => {
                at = start + 1;
                continue;
            }
        };
        at = start + length;
        clean += text.get(copied..start).unwrap_or_default();
        clean.extend(rest.bytes().take(length).map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        copied = at;
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(clean + text.get(copied..).unwrap_or_default()) }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Open braces.
    depth: usize,
    /// The last place that a line was computed for; places come in order.
    last: Position,
    module: Module<'a>,
    errors: Vec<ParseError>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            depth: 0,
            last: Position { offset: 0, line: 1 },
            module: Module::default(),
            errors: Vec::new(),
        }
    }

    fn run(mut self) -> (Module<'a>, Vec<ParseError>) {
        if u32::try_from(self.bytes.len()).is_err() {
            self.error(0, "the file is larger than 4 GiB");
            return (self.module, self.errors);
        }
        while self.statement() {}
        if self.depth > 0 {
            self.error(self.bytes.len(), "the file ends inside a function: it is truncated");
        }
        (self.module, self.errors)
    }

    fn error(&mut self, at: usize, message: &str) {
        let position = self.position(at);
        self.errors.push(ParseError { position, message: message.to_owned() });
    }

    /// Offset and line of a byte.
    fn position(&mut self, at: usize) -> Position {
        let at = at.min(self.bytes.len());
        let last = if at < self.last.offset as usize { Position { offset: 0, line: 1 } } else { self.last };
        let between = self.bytes.get(last.offset as usize..at).unwrap_or_default();
        let line = last.line + memchr::memchr_iter(b'\n', between).count() as u32;
        self.last = Position { offset: at as u32, line };
        self.last
    }

    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or_default()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Reads one statement; `false` at the end of the text.
    fn statement(&mut self) -> bool {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
        match self.peek() {
            _ if self.at >= self.bytes.len() => return false,
            b'{' => {
                self.depth += 1;
                self.at += 1;
            }
            b'}' => {
                if self.depth == 0 {
                    self.error(self.at, "this `}` closes nothing");
                }
                self.depth = self.depth.saturating_sub(1);
                self.at += 1;
            }
            b'.' => self.directive(),
            _ if self.label() => {}
            _ => self.instruction(),
        }
        true
    }

    /// `L1:`, if one is next.
    fn label(&mut self) -> bool {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%');
        let length = self.rest().bytes().take_while(is_name).count();
        let after = self.rest().get(length..).unwrap_or_default();
        // `a::b` is a modifier.
        if length == 0 || !after.starts_with(':') || after.starts_with("::") {
            return false;
        }
        let (name, position) = (self.slice(self.at, self.at + length), self.position(self.at));
        match self.module.functions.last_mut() {
            Some(function) if self.depth > 0 => {
                let target = function.instructions.len();
                function.labels.push(Label { name: name.into(), target, position });
            }
            _ => self.error(self.at, "this label is outside a function"),
        }
        self.at += length + 1;
        true
    }

    /// `@!%p1 wgmma.mma_async... {%f0, %f1}, %rd1;`
    fn instruction(&mut self) {
        let start = self.at;
        let Some(length) = memchr(b';', self.bytes.get(start..).unwrap_or_default()) else {
            self.error(start, "this instruction has no `;` at its end");
            self.at = self.bytes.len();
            return;
        };
        let text = self.slice(start, start + length);
        self.at = start + length + 1;
        let (guard, opcode, operands) = split_guard(text);
        if !operand::brackets_match(operands) {
            return self.error(start, "the brackets of this statement do not match");
        }
        if opcode.is_empty() {
            return self.error(start, "this is not a PTX statement");
        }
        if self.depth == 0 || self.module.functions.is_empty() {
            return self.error(start, "this instruction is outside a function");
        }
        let position = self.position(self.offset_of(opcode));
        let instruction =
            Instruction { guard, opcode: opcode.into(), operands: operand::operands(operands), position };
        if let Some(function) = self.module.functions.last_mut() {
            function.instructions.push(instruction);
        }
    }
}

/// Separates guard, opcode and operands of a statement. SASS is written like that, too.
pub fn split_guard(statement: &str) -> (Option<Guard<'_>>, &str, &str) {
    let word = |text: &'_ str| text.find(char::is_whitespace).unwrap_or(text.len());
    let statement = statement.trim();
    let (guard, rest) = match statement.strip_prefix('@') {
        Some(guarded) => {
            let (guard, rest) = guarded.split_at(word(guarded));
            let predicate = guard.trim_start_matches('!');
            (Some(Guard { predicate: predicate.into(), negated: guard.starts_with('!') }), rest.trim_start())
        }
        None => (None, statement),
    };
    let (opcode, operands) = rest.split_at(word(rest));
    (guard, opcode, operands.trim_start())
}

//! Parses HLO text into the tree of a module.

use std::sync::OnceLock;

use super::{
    Attribute, Computation, Instruction, Item, Module,
    lexer::{Lexer, Stop, trimmed},
};
use crate::source::{Damage, LineIndex, Span, byte_set};

/// Reads a whole module.
pub(super) fn parse(text: &str) -> Module<'_> {
    let module = Module {
        text,
        lines: LineIndex::default(),
        items: Vec::new(),
        damage: Vec::new(),
        names: OnceLock::new(),
        scoped: OnceLock::new(),
    };
    let (spans, attributes) = (Vec::new(), Vec::new());
    let mut parser =
        Parser { text, lexer: Lexer::new(text), foreign: false, wasted: 0, spans, attributes, module };
    if u32::try_from(text.len()).is_err() {
        parser.damage(0, "the file is larger than 4 GiB");
        return parser.module;
    }
    parser.module.lines = LineIndex::new(text);
    parser.module.items = parser.top_level();
    let has_code = parser.module.items.iter().any(|item| !matches!(item, Item::Verbatim(_)));
    if !has_code && parser.module.damage.is_empty() {
        parser.damage(0, "there is no computation in this file");
    }
    parser.module
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// Whether the previous line was unreadable too, so that a run of them is one report.
    foreign: bool,
    /// Bytes scanned by failed attempts: text full of unclosed brackets must not take quadratic time.
    wasted: usize,
    /// Scratch space for the instruction being read.
    spans: Vec<Span>,
    attributes: Vec<Attribute>,
    module: Module<'a>,
}

impl<'a> Parser<'a> {
    fn damage(&mut self, at: usize, what: &str) {
        let place = self.module.lines.place(Span::new(at, at).start);
        self.module.damage.push(Damage { place, what: what.to_owned() });
    }

    /// Backtracks after a failed attempt.
    fn give_up(&mut self, before: Lexer<'a>) {
        self.wasted += self.lexer.at - before.at;
        self.lexer = before;
    }

    /// Whether failed attempts used up the budget, so that the rest is kept verbatim.
    fn is_hopeless(&self) -> bool {
        self.wasted > 16 * self.text.len() + (1 << 20)
    }

    fn top_level(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            self.lexer.skip_whitespace();
            if self.lexer.is_done() {
                return items;
            }
            if let Some(computation) = self.computation() {
                self.foreign = false;
                items.push(Item::Computation(computation));
            } else if let Some(instruction) = self.instruction() {
                self.foreign = false;
                items.push(Item::Instruction(instruction));
            } else {
                items.push(self.verbatim());
            }
        }
    }

    /// Keeps a line verbatim; reports it unless modules have such lines around their computations.
    fn verbatim(&mut self) -> Item {
        let start = self.lexer.at;
        let header = self.lexer.rest().starts_with("HloModule");
        if header {
            // The entry layout may hold line ends inside its braces.
            self.lexer.balanced(b"", true);
            self.lexer.take_line();
        } else {
            self.lexer.take_line();
        }
        let span = trimmed(self.text, Span::new(start, self.lexer.at));
        let known = header || is_known_line(span.of(self.text));
        if !known && !self.foreign {
            self.damage(start, "this is not a line of an HLO module");
        }
        self.foreign = !known;
        Item::Verbatim(span)
    }

    /// `ENTRY %main (x: f32[4]) -> f32[4] {` with its body; backtracks if it is not one.
    fn computation(&mut self) -> Option<Computation> {
        if self.is_hopeless() {
            return None;
        }
        let before = self.lexer;
        let found = self.computation_header();
        let Some((entry, name, signature)) = found else {
            self.give_up(before);
            return None;
        };
        let mut items = Vec::new();
        loop {
            self.lexer.skip_whitespace();
            if self.lexer.is_done() {
                self.damage(self.lexer.at, "the file ends inside a computation");
                return Some(Computation {
                    entry,
                    name,
                    signature,
                    items,
                    trailer: Span::default(),
                    closed: false,
                });
            }
            if self.lexer.eat("}") {
                let trailer = self.lexer.take_line();
                let trailer = trimmed(self.text, trailer);
                return Some(Computation { entry, name, signature, items, trailer, closed: true });
            }
            match self.instruction() {
                Some(instruction) => items.push(Item::Instruction(instruction)),
                None => {
                    let line = self.lexer.take_line();
                    let span = trimmed(self.text, line);
                    if !is_comment(span.of(self.text)) {
                        self.damage(span.start as usize, "an instruction is expected here");
                    }
                    items.push(Item::Verbatim(span));
                }
            }
        }
    }

    fn computation_header(&mut self) -> Option<(bool, Span, Span)> {
        let entry = self.lexer.eat("ENTRY ");
        self.lexer.skip_blanks();
        let name = self.name()?;
        self.lexer.skip_blanks();
        let start = self.lexer.at;
        if self.lexer.peek() == b'(' {
            // `(x: f32[4]) -> f32[4]{0} {`: the brace that opens the body is the one after a blank.
            self.lexer.at += 1;
            (self.lexer.balanced(b"", false) == Stop::Closing(b')')).then_some(())?;
            self.lexer.at += 1;
            self.lexer.skip_blanks();
            if self.lexer.eat("->") {
                self.lexer.skip_blanks();
                self.result_shape()?;
            }
        }
        let signature = trimmed(self.text, Span::new(start, self.lexer.at));
        self.lexer.skip_blanks();
        let opened = self.lexer.eat("{");
        // Table rows have a brace there too, but not at the end of the line.
        self.lexer.skip_blanks();
        let opened = opened && (self.lexer.peek() == b'\n' || self.lexer.is_done());
        opened.then_some((entry, name, signature))
    }

    /// `f32[4]{0:T(128)}` or a tuple of such, without the blank and the brace that follow.
    fn result_shape(&mut self) -> Option<Span> {
        let start = self.lexer.at;
        if self.lexer.eat("(") {
            (self.lexer.balanced(b"", false) == Stop::Closing(b')')).then_some(())?;
            self.lexer.at += 1;
            return Some(Span::new(start, self.lexer.at));
        }
        let element = self.lexer.take_while(|b| b.is_ascii_alphanumeric() || b == b'_');
        if element.is_empty() || !self.lexer.eat("[") {
            return None;
        }
        (self.lexer.balanced(b"", false) == Stop::Closing(b']')).then_some(())?;
        self.lexer.at += 1;
        if self.lexer.eat("{") {
            (self.lexer.balanced(b"", false) == Stop::Closing(b'}')).then_some(())?;
            self.lexer.at += 1;
        }
        Some(Span::new(start, self.lexer.at))
    }

    fn name(&mut self) -> Option<Span> {
        const NAME: [bool; 256] =
            byte_set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%_.-<>");
        let name = self.lexer.take_while(|byte| NAME[byte as usize]);
        (!name.is_empty()).then_some(name)
    }

    /// `ROOT %y = f32[4]{0} copy(%x), metadata={..}`; backtracks if it is not one.
    fn instruction(&mut self) -> Option<Instruction> {
        if self.is_hopeless() {
            return None;
        }
        let before = self.lexer;
        let instruction = self.instruction_parts(before.at);
        if instruction.is_none() {
            self.give_up(before);
        }
        instruction
    }

    fn instruction_parts(&mut self, start: usize) -> Option<Instruction> {
        let root = self.lexer.eat("ROOT ");
        self.lexer.skip_blanks();
        let name = self.name()?;
        self.lexer.skip_blanks();
        self.lexer.eat("=").then_some(())?;
        self.lexer.skip_blanks();
        let shape = self.result_shape()?;
        self.lexer.skip_blanks();
        let opcode = self.lexer.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if opcode.is_empty() {
            return None;
        }
        let operands = if self.lexer.eat("(") { Some(self.operands()?) } else { None };
        let attributes = self.attributes();
        let span = trimmed(self.text, Span::new(start, self.lexer.at));
        Some(Instruction { root, name, shape, opcode, operands, attributes, span })
    }

    fn operands(&mut self) -> Option<Box<[Span]>> {
        self.spans.clear();
        loop {
            let start = self.lexer.at;
            let stop = self.lexer.balanced(b",", false);
            let last = match stop {
                Stop::Byte(_) => false,
                Stop::Closing(b')') => true,
                _ => return None,
            };
            let operand = trimmed(self.text, Span::new(start, self.lexer.at));
            self.lexer.at += 1;
            if !(last && operand.is_empty() && self.spans.is_empty()) {
                self.spans.push(operand);
            }
            if last {
                return Some(self.spans.as_slice().into());
            }
        }
    }

    /// `, key=value` up to the end of the line.
    fn attributes(&mut self) -> Box<[Attribute]> {
        self.attributes.clear();
        loop {
            self.lexer.skip_blanks();
            if self.lexer.peek() != b',' {
                break;
            }
            self.lexer.at += 1;
            self.lexer.skip_blanks();
            let key_start = self.lexer.at;
            let stop = self.lexer.balanced(b",=#", true);
            let key = trimmed(self.text, Span::new(key_start, self.lexer.at));
            let mut value = None;
            if stop == Stop::Byte(b'=') {
                self.lexer.at += 1;
                let value_start = self.lexer.at;
                let stop = self.lexer.balanced(b",", true);
                if stop == Stop::Unclosed {
                    self.damage(value_start, "this value is never closed");
                }
                value = Some(trimmed(self.text, self.before_comment(value_start)));
            }
            self.attributes.push(Attribute { key, value });
        }
        self.attributes.as_slice().into()
    }

    /// Hand-written guides end a line with `# remark`; a `#` inside a word belongs to it.
    fn before_comment(&mut self, start: usize) -> Span {
        let span = Span::new(start, self.lexer.at);
        let value = span.of(self.text);
        let remark = memchr::memchr(b'#', value.as_bytes()).filter(|_| !value.contains('"'));
        let Some(remark) = remark.and_then(|_| value.find(" #")) else { return span };
        self.lexer.at = start + remark;
        Span::new(start, self.lexer.at)
    }
}

fn is_comment(line: &str) -> bool {
    line.starts_with('#') || line.starts_with("//") || line.starts_with("/*") || line == "..."
}

/// The tables of file names, functions, locations and stack frames, and comments.
fn is_known_line(line: &str) -> bool {
    let table = ["FileNames", "FunctionNames", "FileLocations", "StackFrames"].contains(&line);
    let row = || {
        let (number, rest) = line.split_once(' ')?;
        let known = rest.starts_with('"') || rest.starts_with('{');
        (known && number.bytes().all(|b| b.is_ascii_digit())).then_some(())
    };
    table || is_comment(line) || row().is_some()
}

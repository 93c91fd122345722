//! PTX: statements that end in `;`, in blocks.

use super::{Code, Function, Instruction, Language};
use crate::source::Span;

/// Reads a whole file.
pub fn parse(text: &str) -> Code<'_> {
    let mut parser =
        Parser { bytes: text.as_bytes(), text, at: 0, depth: 0, code: Code::new(text, Language::Ptx) };
    if u32::try_from(text.len()).is_err() {
        parser.code.complain(0, "the file is larger than 4 GiB");
        return parser.code;
    }
    while parser.statement() {}
    if parser.depth > 0 {
        parser.code.complain(text.len(), "the file ends inside a function");
    }
    parser.code
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Open blocks.
    depth: usize,
    code: Code<'a>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or_default()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Past white space and comments.
    fn skip_trivia(&mut self) {
        loop {
            while self.peek().is_ascii_whitespace() {
                self.at += 1;
            }
            let end = match self.rest() {
                rest if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                rest if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
                _ => return,
            };
            self.at += end;
        }
    }

    /// Reads one statement; `false` at the end.
    fn statement(&mut self) -> bool {
        self.skip_trivia();
        match self.peek() {
            _ if self.at >= self.bytes.len() => return false,
            b'{' => {
                self.depth += 1;
                self.at += 1;
            }
            b'}' => {
                if self.depth == 0 {
                    self.code.complain(self.at, "this brace closes nothing");
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
        let name = self
            .rest()
            .bytes()
            .take_while(|&b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'%'))
            .count();
        let after = self.rest().get(name..).unwrap_or_default();
        // `a::b` is no label.
        let is_label = name > 0 && after.starts_with(':') && !after.starts_with("::");
        if is_label {
            self.code.label(Span::new(self.at, self.at + name));
            self.at += name + 1;
        }
        is_label
    }

    /// `.version 8.3`, `.reg .b32 %r<9>;`, `.visible .entry name(..) .maxntid 384, 1, 1`
    fn directive(&mut self) {
        let start = self.at;
        let line = self.rest().lines().next().unwrap_or_default();
        let by_line = [".version", ".target", ".address_size", ".file", ".loc", ".section", ".pragma"];
        if by_line.iter().any(|name| line.starts_with(name)) {
            let value = line.strip_prefix(".target").map(|value| value.trim().trim_end_matches(';'));
            if let Some(value) = value.and_then(|value| value.split([',', ' ', '/']).next()) {
                let at = start + line.find(value).unwrap_or_default();
                self.code.target = Span::new(at, at + value.len());
            }
            self.at += line.len();
            return;
        }
        let end = self.rest().find([';', '{', '}']).map_or(self.bytes.len(), |end| start + end);
        let text = Span::new(start, end).of(self.text);
        if text.contains('=') {
            // `.global .b8 table[4] = {1, 2, 3, 4};`: this brace opens no block.
            let after = memchr::memchr(b';', self.bytes.get(end..).unwrap_or_default());
            self.at = after.map_or(self.bytes.len(), |semicolon| end + semicolon + 1);
            return;
        }
        if let Some(function) = self.code.functions.last_mut().filter(|_| text.starts_with(".reg")) {
            function.registers.push(Span::new(start, end));
        }
        let opens = self.bytes.get(end) == Some(&b'{');
        // A declaration without a body names a function too, but has no code.
        let named = text.find(".entry").map(|at| at + 6).or_else(|| text.find(".func").map(|at| at + 5));
        if let Some(after) = named.filter(|_| opens) {
            let rest = text.get(after..).unwrap_or_default();
            // `.func (.reg .b32 result) name(..)`: the result stands before the name.
            let skipped = match rest.trim_start().starts_with('(') {
                true => rest.find(')').map_or(0, |close| close + 1),
                false => 0,
            };
            let rest = rest.get(skipped..).unwrap_or_default();
            let name_start = start + after + skipped + (rest.len() - rest.trim_start().len());
            let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$');
            let name_len = rest.trim_start().bytes().take_while(is_name).count();
            let name = Span::new(name_start, name_start + name_len);
            let header = Span::new(name_start + name_len, end);
            let is_entry = text.contains(".entry");
            self.code.functions.push(Function {
                name,
                header,
                registers: Vec::new(),
                is_entry,
                instructions: Vec::new(),
                labels: Vec::new(),
            });
        }
        let closes = matches!(self.bytes.get(end), Some(b'{' | b'}'));
        self.at = if closes { end } else { end + 1 };
    }

    /// `@!%p1 wgmma.mma_async... {%f0, %f1}, %rd1;`
    fn instruction(&mut self) {
        let start = self.at;
        let Some(end) = memchr::memchr(b';', self.bytes.get(start..).unwrap_or_default()) else {
            self.code.complain(start, "this instruction has no end");
            self.at = self.bytes.len();
            return;
        };
        let end = start + end;
        self.at = end + 1;
        let instruction = split_guard(self.text, start, end);
        if !brackets_match(instruction.operands.of(self.text)) {
            self.code.complain(start, "the brackets of this statement do not match");
            return;
        }
        if instruction.op.is_empty() || self.depth == 0 {
            self.code.complain(start, "this is no PTX statement");
            return;
        }
        self.code.push(instruction);
    }
}

/// Whether every bracket is closed by one of its kind. Operands nest three deep at most: `(%r1, {%r2, [%rd1]})`.
fn brackets_match(operands: &str) -> bool {
    const DEEPEST: usize = 8;
    let mut open = Vec::new();
    operands.bytes().all(|byte| match byte {
        b'(' | b'[' | b'{' => {
            open.push(byte);
            open.len() <= DEEPEST
        }
        b')' => open.pop() == Some(b'('),
        b']' => open.pop() == Some(b'['),
        b'}' => open.pop() == Some(b'{'),
        _ => true,
    }) && open.is_empty()
}

/// Separates guard, operation and operands of the text between two offsets.
pub fn split_guard(text: &str, start: usize, end: usize) -> Instruction {
    let word = |from: usize| {
        let rest = text.get(from..end).unwrap_or_default();
        let begin = from + (rest.len() - rest.trim_start().len());
        let length = rest.trim_start().find(char::is_whitespace).unwrap_or(rest.trim_start().len());
        Span::new(begin, begin + length)
    };
    let first = word(start);
    let guarded = first.of(text).starts_with('@');
    let guard = if guarded { first } else { Span::default() };
    let op = if guarded { word(first.end as usize) } else { first };
    let rest = text.get(op.end as usize..end).unwrap_or_default();
    let operands = op.end as usize + (rest.len() - rest.trim_start().len());
    Instruction { guard, op, operands: Span::new(operands, operands + rest.trim().len()) }
}

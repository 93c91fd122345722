//! PTX as Rust values: what [`build`](crate::build) makes, the printer prints, the parser reads, the
//! simulator runs and dump analysis inspects.
//!
//! Registers, labels and numbers are text, because foreign PTX names and writes them in many ways. Parsed
//! modules borrow from their source; built modules own their names. Nested scopes of a function are
//! flattened.

mod owned;
pub(crate) mod registers;

use std::borrow::Cow;

pub use registers::RegisterSet;

/// Text borrowed from the source, or owned by a module that was built.
pub type Name<'a> = Cow<'a, str>;

/// A place in the source; line 0 in modules that were built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Byte offset, from 0.
    pub offset: u32,
    /// Line, from 1.
    pub line: u32,
}

/// A translation unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module<'a> {
    /// PTX ISA version, for example `8.3`.
    pub version: Name<'a>,
    /// Target architecture, for example `sm_90a`.
    pub target: Name<'a>,
    /// Bits of an address.
    pub address_size: Name<'a>,
    /// Module-scope declarations.
    pub variables: Vec<Variable<'a>>,
    /// Functions with a body, in order.
    pub functions: Vec<Function<'a>>,
}

/// A kernel, or a device function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Function<'a> {
    /// `.visible`, `.weak` or empty.
    pub linkage: Name<'a>,
    /// Whether it is a kernel (`.entry`), as opposed to a device function (`.func`).
    pub is_entry: bool,
    /// Its name.
    pub name: Name<'a>,
    /// Where the name is.
    pub position: Position,
    /// Parameters in order.
    pub parameters: Vec<ParameterDecl<'a>>,
    /// Performance directives between the parameters and the body.
    pub directives: Vec<Directive<'a>>,
    /// Declarations of the body other than registers.
    pub variables: Vec<Variable<'a>>,
    /// Register declarations.
    pub registers: Vec<RegisterDecl<'a>>,
    /// Instructions in order.
    pub instructions: Vec<Instruction<'a>>,
    /// Labels in order.
    pub labels: Vec<Label<'a>>,
}

/// A declaration: `.extern .shared .align 1024 .b8 shared_memory[]`, `.local .b8 depot[16]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable<'a> {
    /// All of it, without the semicolon.
    pub text: Name<'a>,
    /// Where it is.
    pub position: Position,
}

/// A parameter declaration: `.param .align 64 .b8 map_a[128]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterDecl<'a> {
    /// State space, alignment and type: `.param .align 64 .b8`.
    pub kind: Name<'a>,
    /// Its name.
    pub name: Name<'a>,
    /// Elements of an array parameter: `128`.
    pub elements: Option<Name<'a>>,
    /// Where the declaration is.
    pub position: Position,
}

/// A directive of a function: `.maxntid 384, 1, 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive<'a> {
    /// `.maxntid`
    pub name: Name<'a>,
    /// `384`, `1` and `1`
    pub arguments: Vec<Name<'a>>,
    /// Where the name is.
    pub position: Position,
}

/// A register declaration: `.reg .b32 %r<17>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterDecl<'a> {
    /// Type: `.b32`.
    pub kind: Name<'a>,
    /// Name, or prefix of numbered registers: `%r`.
    pub name: Name<'a>,
    /// Number of numbered registers: `17`.
    pub count: Option<Name<'a>>,
    /// Where the declaration is.
    pub position: Position,
}

/// A label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label<'a> {
    /// Its name, without the colon.
    pub name: Name<'a>,
    /// Index of the instruction that follows it.
    pub target: usize,
    /// Where it is.
    pub position: Position,
}

/// An instruction: `@!%p1 ld.global.nc.v2.b32 {%r1, %r2}, [%rd1+8]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// The predicate that it is executed under.
    pub guard: Option<Guard<'a>>,
    /// Mnemonic and modifiers: `ld.global.nc.v2.b32`.
    pub opcode: Name<'a>,
    /// Operands in order.
    pub operands: Vec<Operand<'a>>,
    /// Where the opcode is.
    pub position: Position,
}

/// The guard predicate of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard<'a> {
    /// The predicate register.
    pub predicate: Name<'a>,
    /// Whether the instruction is executed where the predicate is false.
    pub negated: bool,
}

/// An operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand<'a> {
    /// A register, a number, a label, a symbol, or text of another form.
    Word(Name<'a>),
    /// Two destinations: `%p1|%p2`.
    Pair(Name<'a>, Name<'a>),
    /// Base and offset inside an address: `%r1+16`.
    Offset(Name<'a>, Name<'a>),
    /// `[%r1+16]`, or with coordinates: `[%rd1, {%r2, %r3}]`.
    Address(Vec<Operand<'a>>),
    /// `{%f1, %f2}`
    Vector(Vec<Operand<'a>>),
    /// Arguments or results of a call: `(%r1, %r2)`.
    List(Vec<Operand<'a>>),
}

impl Guard<'_> {
    /// The predicate register, and whether it is negated.
    pub fn parts(&self) -> (&str, bool) {
        (&self.predicate, self.negated)
    }
}

impl<'a> Operand<'a> {
    /// A register, number or symbol.
    pub fn word(text: impl Into<Name<'a>>) -> Self {
        Self::Word(text.into())
    }

    /// The text of a single word; `None` for other forms.
    pub fn as_word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Identifiers and numbers in it, in order, however nested.
    pub fn words(&self) -> Vec<&str> {
        let mut words = Vec::new();
        self.collect_words(&mut words);
        words
    }

    fn collect_words<'s>(&'s self, words: &mut Vec<&'s str>) {
        let mut add =
            |text: &'s str| words.extend(text.split(|c| !is_name_char(c)).filter(|w| !w.is_empty()));
        match self {
            Self::Word(word) => add(word),
            Self::Pair(first, second) | Self::Offset(first, second) => {
                add(first);
                add(second);
            }
            Self::Address(items) | Self::Vector(items) | Self::List(items) => {
                items.iter().for_each(|item| item.collect_words(words));
            }
        }
    }
}

impl<'a> Instruction<'a> {
    /// The opcode before its first modifier: `ld`.
    pub fn mnemonic(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// Whether the opcode has this modifier.
    pub fn has_modifier(&self, modifier: &str) -> bool {
        self.opcode.split('.').skip(1).any(|part| part == modifier)
    }

    /// Operand `index` as a single word; empty where there is none, or one of another form.
    pub fn word(&self, index: usize) -> &str {
        self.operands.get(index).and_then(Operand::as_word).unwrap_or_default()
    }

    /// Registers that it writes: its first operand, where that is a destination.
    pub fn written(&self) -> Vec<&str> {
        let writes = match self.mnemonic() {
            "bar" | "barrier" => self.has_modifier("red"),
            "st" | "red" | "bra" | "brx" | "ret" | "exit" | "nanosleep" | "stackrestore" => false,
            _ => true,
        };
        let first = self.operands.first().filter(|first| writes && !matches!(first, Operand::Address(_)));
        let mut words = first.map(Operand::words).unwrap_or_default();
        words.retain(|word| is_register(word));
        words
    }

    /// Registers that it reads, without its guard.
    pub fn read(&self) -> Vec<&str> {
        let skipped = usize::from(!self.written().is_empty());
        let mut words = Vec::new();
        self.operands.iter().skip(skipped).for_each(|operand| operand.collect_words(&mut words));
        words.retain(|word| is_register(word));
        words
    }
}

/// Whether a word can name a register or a symbol, as opposed to a number or the sink `_`.
pub fn is_register(word: &str) -> bool {
    word.starts_with(|c: char| c == '%' || c == '_' || c.is_ascii_alphabetic()) && word != "_"
}

/// Whether a character belongs to an identifier or a number; `.` selects a component: `%tid.x`.
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

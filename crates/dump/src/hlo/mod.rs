//! HLO text of the XLA compiler.
//!
//! ```text
//! ENTRY %main (x: f32[4]) -> f32[4] {
//!   %x = f32[4]{0} parameter(0)
//!   ROOT %y = f32[4]{0:S(1)} copy(%x), metadata={op_name="f"}
//! }
//! ```
//!
//! The notation of hand-written guides, bare instructions such as `%x = f8e4m3fn[2,512,512]{2,1,0} scratch,
//! memory_space=1`, is read by the same parser.

mod kernel;
mod lexer;
mod parse;
mod print;
mod shape;

pub use kernel::{KernelBody, KernelCall};
pub use shape::{Layout, Shape};

use std::{collections::HashMap, sync::OnceLock};

use crate::source::{Damage, LineIndex, Place, Span};

/// `key=value` after the operands; a flag has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The key.
    pub key: Span,
    /// The value, verbatim.
    pub value: Option<Span>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Whether it is the result of its computation.
    pub root: bool,
    /// Its name, with `%` where the text has one.
    pub name: Span,
    /// Its shape, see [`Module::shape`].
    pub shape: Span,
    /// For example `custom-call`.
    pub opcode: Span,
    /// The operands; `None` where there are no parentheses.
    pub operands: Option<Box<[Span]>>,
    /// All attributes, in order.
    pub attributes: Box<[Attribute]>,
    /// All of it.
    pub span: Span,
}

/// A function of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computation {
    /// Whether it is the entry computation.
    pub entry: bool,
    /// Its name, with `%` where the text has one.
    pub name: Span,
    /// `(x: f32[4]) -> f32[4]`, verbatim; may be empty.
    pub signature: Span,
    /// What is in the braces.
    pub items: Vec<Item>,
    /// What follows the closing brace on its line, verbatim.
    pub trailer: Span,
    /// Whether there is a closing brace.
    pub closed: bool,
}

/// A piece of a module or of a computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A function.
    Computation(Computation),
    /// An instruction; outside of a computation only in hand-written text.
    Instruction(Instruction),
    /// A verbatim line: the module header, name tables, comments, and text that was not understood.
    Verbatim(Span),
}

/// A parsed program. It borrows the text and holds spans into it.
#[derive(Clone, Debug)]
pub struct Module<'a> {
    text: &'a str,
    lines: LineIndex,
    items: Vec<Item>,
    damage: Vec<Damage>,
    /// Lazy index from names to instructions: item, and position in a computation.
    names: OnceLock<HashMap<&'a str, (usize, usize)>>,
    /// The same within each item.
    scoped: OnceLock<HashMap<(usize, &'a str), usize>>,
}

impl<'a> Module<'a> {
    /// Reads a program. Never fails: what cannot be read is kept verbatim and is in [`Module::damage`].
    pub fn parse(text: &'a str) -> Self {
        parse::parse(text)
    }

    /// The text it was read from.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Everything in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The functions in order.
    pub fn computations(&self) -> impl Iterator<Item = &Computation> {
        self.items.iter().filter_map(|item| match item {
            Item::Computation(computation) => Some(computation),
            _ => None,
        })
    }

    /// Every instruction, in order, of all functions.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.items.iter().flat_map(members).filter_map(|item| match item {
            Item::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    }

    /// The first instruction of a name, given without `%`.
    pub fn named(&self, name: &str) -> Option<&Instruction> {
        let names = self.names.get_or_init(|| {
            let mut names = HashMap::new();
            for (at, item) in self.items.iter().enumerate() {
                for (inner, item) in members(item).iter().enumerate() {
                    if let Item::Instruction(instruction) = item {
                        names.entry(self.name(instruction)).or_insert((at, inner));
                    }
                }
            }
            names
        });
        let &(at, inner) = names.get(name)?;
        match members(self.items.get(at)?).get(inner)? {
            Item::Instruction(instruction) => Some(instruction),
            _ => None,
        }
    }

    /// The instruction of a name in the computation of `user`; names such as `param_0` occur in many.
    pub fn in_scope(&self, user: &Instruction, name: &str) -> Option<&Instruction> {
        let start = |item: &Item| match item {
            Item::Computation(computation) => computation.name.start,
            Item::Instruction(instruction) => instruction.span.start,
            Item::Verbatim(span) => span.start,
        };
        let at = self.items.partition_point(|item| start(item) <= user.span.start).checked_sub(1)?;
        // Hand-written text has instructions outside of computations.
        let Item::Computation(computation) = self.items.get(at)? else { return self.named(name) };
        let scoped = self.scoped.get_or_init(|| {
            let mut names = HashMap::new();
            for (at, item) in self.items.iter().enumerate() {
                for (inner, item) in members(item).iter().enumerate() {
                    if let Item::Instruction(instruction) = item {
                        names.entry((at, self.name(instruction))).or_insert(inner);
                    }
                }
            }
            names
        });
        match computation.items.get(*scoped.get(&(at, name))?)? {
            Item::Instruction(instruction) => Some(instruction),
            _ => None,
        }
    }

    /// What could not be read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Line and column of a span.
    pub fn place(&self, span: Span) -> Place {
        self.lines.place(span.start)
    }

    /// The text of a span.
    pub fn str(&self, span: Span) -> &'a str {
        span.of(self.text)
    }

    /// The name of an instruction without `%`.
    pub fn name(&self, instruction: &Instruction) -> &'a str {
        self.str(instruction.name).trim_start_matches('%')
    }

    /// The shape of an instruction, if it can be parsed.
    pub fn shape(&self, instruction: &Instruction) -> Option<Shape> {
        Shape::parse(self.str(instruction.shape))
    }

    /// The value of an attribute, verbatim.
    pub fn attribute(&self, instruction: &Instruction, key: &str) -> Option<&'a str> {
        let attribute = instruction.attributes.iter().find(|attribute| self.str(attribute.key) == key)?;
        attribute.value.map(|value| self.str(value))
    }

    /// The name in an operand such as `%x` or `f32[4]{0} %x`, without `%`.
    pub fn operand_name(&self, operand: Span) -> &'a str {
        let word = self.str(operand).rsplit(|c: char| c.is_whitespace() || c == '/').next();
        word.unwrap_or_default().trim_start_matches('%')
    }

    /// Prints the program: the text that was parsed, up to white space.
    pub fn print(&self) -> String {
        print::print(self)
    }
}

/// The items of a computation, or the item itself.
fn members(item: &Item) -> &[Item] {
    match item {
        Item::Computation(computation) => &computation.items,
        other => std::slice::from_ref(other),
    }
}

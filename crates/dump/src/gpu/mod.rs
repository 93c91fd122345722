//! NVIDIA code as text: PTX, what a kernel is written in, and SASS, what the assembler made of it.

mod block;
mod defined;
mod interval;
mod ptx;
mod reach;
mod report;
mod sass;
mod scalar;
mod step;

pub use defined::Undefined;
pub use reach::{Dead, Reach};
pub use report::AssemblerReport;
pub use scalar::first_product;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::source::{Damage, LineIndex, Place, Span};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// The virtual instruction set.
    Ptx,
    /// The instructions of the chip, as `nvdisasm -c` prints them.
    Sass,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// `@!%p1` or `@P0`; empty without one.
    pub guard: Span,
    /// For example `wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3`.
    pub op: Span,
    /// All that follows.
    pub operands: Span,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: Span,
    /// Parameters and how it is launched: what stands between its name and its body. Empty in SASS, which does not say.
    pub header: Span,
    /// What it declares as registers: each `.reg` statement. Empty in SASS, which does not say.
    pub registers: Vec<Span>,
    /// Whether it is a kernel, as opposed to a function that kernels call.
    pub is_entry: bool,
    /// Its instructions in order.
    pub instructions: Vec<Instruction>,
    /// Labels, each with the number of the instruction behind it.
    pub labels: Vec<(Span, usize)>,
}

/// A parsed file. It borrows the text and holds spans into it.
#[derive(Clone, Debug)]
pub struct Code<'a> {
    text: &'a str,
    lines: LineIndex,
    language: Language,
    /// The chip, for example `sm_90a`; empty where the text does not say.
    target: Span,
    functions: Vec<Function>,
    damage: Vec<Damage>,
}

impl<'a> Code<'a> {
    fn new(text: &'a str, language: Language) -> Self {
        let lines = LineIndex::new(text);
        Self { text, lines, language, target: Span::default(), functions: Vec::new(), damage: Vec::new() }
    }

    /// Reads PTX. Never fails: what cannot be read is in [`Code::damage`].
    pub fn parse_ptx(text: &'a str) -> Self {
        ptx::parse(text).finish()
    }

    /// Reads SASS. Never fails: what cannot be read is in [`Code::damage`].
    pub fn parse_sass(text: &'a str) -> Self {
        sass::parse(text).finish()
    }

    fn finish(mut self) -> Self {
        if self.functions.is_empty() && self.damage.is_empty() {
            self.complain(0, "there is no function in this file");
        }
        self
    }

    fn complain(&mut self, at: usize, what: &str) {
        let place = self.lines.place(Span::new(at, at).start);
        self.damage.push(Damage { place, what: what.to_owned() });
    }

    /// Adds to the last function; an instruction before any function is damage.
    fn push(&mut self, instruction: Instruction) {
        match self.functions.last_mut() {
            Some(function) => function.instructions.push(instruction),
            None => self.complain(instruction.op.start as usize, "this instruction is in no function"),
        }
    }

    /// Names a place in the last function.
    fn label(&mut self, name: Span) {
        if let Some(function) = self.functions.last_mut() {
            function.labels.push((name, function.instructions.len()));
        }
    }

    /// PTX or SASS.
    pub fn language(&self) -> Language {
        self.language
    }

    /// The chip, for example `sm_90a`.
    pub fn target(&self) -> &'a str {
        self.target.of(self.text)
    }

    /// The functions in order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Whether each function can be executed: kernels, and what they call along code that can be executed.
    pub fn reach(&self) -> Vec<Option<Reach<'a>>> {
        let roots = |function: &Function| function.is_entry;
        let any_entry = self.functions.iter().any(roots);
        let mut found: Vec<Option<Reach<'a>>> = vec![None; self.functions.len()];
        let mut open: Vec<_> =
            (0..found.len()).filter(|at| !any_entry || self.functions.get(*at).is_some_and(roots)).collect();
        while let Some(at) = open.pop() {
            let (Some(function), Some(reach @ None)) = (self.functions.get(at), found.get_mut(at)) else {
                continue;
            };
            let calls = Reach::of(self, function);
            let called = function.instructions.iter().enumerate().filter(|(number, instruction)| {
                self.str(instruction.op).starts_with("call") && calls.dead(*number).is_none()
            });
            let called: Vec<_> = called.map(|(_, instruction)| self.str(instruction.operands)).collect();
            *reach = Some(calls);
            let names = self.functions.iter().map(|function| self.str(function.name)).enumerate();
            open.extend(
                names.filter(|(_, name)| called.iter().any(|call| call.contains(name))).map(|(at, _)| at),
            );
        }
        found
    }

    /// Every instruction of every function.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.functions.iter().flat_map(|function| &function.instructions)
    }

    /// How often each operation occurs, by the part of its name before the first point: `QGMMA`, `UTMALDG`.
    pub fn mnemonics(&self) -> BTreeMap<&'a str, usize> {
        let mut counts = BTreeMap::new();
        for instruction in self.instructions() {
            let name = self.str(instruction.op).split('.').next().unwrap_or_default();
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    /// The text of a span.
    pub fn str(&self, span: Span) -> &'a str {
        span.of(self.text)
    }

    /// Line and column of a span.
    pub fn place(&self, span: Span) -> Place {
        self.lines.place(span.start)
    }

    /// What could not be read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }
}

//! NVIDIA code as text: PTX, and the SASS that the assembler makes of it.

mod block;
mod defined;
mod interval;
mod reach;
mod report;
mod sass;
mod scalar;

pub use defined::Undefined;
pub use reach::{Dead, Reach};
pub use report::AssemblerReport;
pub use scalar::first_product;

use std::collections::BTreeMap;

use octile_ptx::ir::{Function, Instruction, Label, Module, Position};
use serde::Serialize;

use crate::source::{Damage, LineIndex};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// The virtual instruction set.
    Ptx,
    /// The instructions of the chip, as `nvdisasm -c` prints them.
    Sass,
}

/// A parsed file. SASS is read into the IR of PTX: functions, labels, guards and opcodes.
#[derive(Clone, Debug)]
pub struct Code<'a> {
    lines: LineIndex,
    language: Language,
    module: Module<'a>,
    damage: Vec<Damage>,
}

impl<'a> Code<'a> {
    fn new(text: &'a str, language: Language) -> Self {
        Self { lines: LineIndex::new(text), language, module: Module::default(), damage: Vec::new() }
    }

    /// Reads PTX. Never fails: what cannot be read is in [`Code::damage`].
    pub fn parse_ptx(text: &'a str) -> Self {
        let (module, errors) = Module::parse_lossy(text);
        let mut code = Self { module, ..Self::new(text, Language::Ptx) };
        for error in errors {
            code.complain(error.position.offset as usize, &error.message);
        }
        code.finish()
    }

    /// Reads SASS. Never fails: what cannot be read is in [`Code::damage`].
    pub fn parse_sass(text: &'a str) -> Self {
        sass::parse(text).finish()
    }

    fn finish(mut self) -> Self {
        if self.module.functions.is_empty() && self.damage.is_empty() {
            self.complain(0, "there is no function in this file");
        }
        self
    }

    fn complain(&mut self, at: usize, what: &str) {
        let place = self.lines.place(self.position(at).offset);
        self.damage.push(Damage { place, what: what.to_owned() });
    }

    fn position(&self, at: usize) -> Position {
        let offset = u32::try_from(at).unwrap_or(u32::MAX);
        Position { offset, line: self.lines.place(offset).line }
    }

    /// Appends to the last function; an instruction before any function is damage.
    fn push(&mut self, instruction: Instruction<'a>) {
        match self.module.functions.last_mut() {
            Some(function) => function.instructions.push(instruction),
            None => self.complain(instruction.position.offset as usize, "this instruction is in no function"),
        }
    }

    /// Places a label in the last function.
    fn label(&mut self, name: &'a str, at: usize) {
        let position = self.position(at);
        if let Some(function) = self.module.functions.last_mut() {
            let target = function.instructions.len();
            function.labels.push(Label { name: name.into(), target, position });
        }
    }

    /// PTX or SASS.
    pub fn language(&self) -> Language {
        self.language
    }

    /// The target architecture, for example `sm_90a`; empty where the text does not say.
    pub fn target(&self) -> &str {
        &self.module.target
    }

    /// The functions in order.
    pub fn functions(&self) -> &[Function<'a>] {
        &self.module.functions
    }

    /// What can be executed in each function that kernels reach; `None` for functions that no kernel calls.
    pub fn reach(&self) -> Vec<Option<Reach<'_>>> {
        let functions = self.functions();
        let any_entry = functions.iter().any(|function| function.is_entry);
        let mut found: Vec<Option<Reach<'_>>> = vec![None; functions.len()];
        let roots = functions.iter().enumerate().filter(|(_, function)| !any_entry || function.is_entry);
        let mut open: Vec<_> = roots.map(|(at, _)| at).collect();
        while let Some(at) = open.pop() {
            let (Some(function), Some(reach @ None)) = (functions.get(at), found.get_mut(at)) else {
                continue;
            };
            let calls = Reach::of(self.language, function);
            let called = function.instructions.iter().enumerate().filter(|(number, instruction)| {
                instruction.opcode.starts_with("call") && calls.dead(*number).is_none()
            });
            let called: Vec<_> =
                called.flat_map(|(_, instruction)| &instruction.operands).flat_map(|o| o.words()).collect();
            *reach = Some(calls);
            let names = functions.iter().enumerate();
            open.extend(names.filter(|(_, function)| called.contains(&&*function.name)).map(|(at, _)| at));
        }
        found
    }

    /// Every instruction of every function.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction<'a>> {
        self.functions().iter().flat_map(|function| &function.instructions)
    }

    /// How often each mnemonic occurs: `QGMMA`, `UTMALDG`.
    pub fn mnemonics(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for instruction in self.instructions() {
            *counts.entry(instruction.mnemonic()).or_default() += 1;
        }
        counts
    }

    /// What could not be read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }
}

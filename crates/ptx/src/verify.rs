//! Whether a module refers only to what it declares.

use std::collections::HashSet;

use thiserror::Error;

use crate::ir::{Function, Instruction, Module, Position, RegisterSet, registers::is_special};

/// A reference to something that does not exist, or a second declaration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("PTX line {}: {message}", position.line)]
pub struct VerifyError {
    /// Where.
    pub position: Position,
    /// What is wrong.
    pub message: String,
}

impl Module<'_> {
    /// Finds every undefined or doubly defined name, in order.
    pub fn verify(&self) -> Vec<VerifyError> {
        let mut errors = Vec::new();
        for function in &self.functions {
            Verifier::new(function, &mut errors).run();
        }
        errors
    }
}

struct Verifier<'v, 'f> {
    function: &'f Function<'f>,
    registers: RegisterSet<'f>,
    labels: HashSet<&'f str>,
    errors: &'v mut Vec<VerifyError>,
}

impl<'v, 'f> Verifier<'v, 'f> {
    fn new(function: &'f Function<'f>, errors: &'v mut Vec<VerifyError>) -> Self {
        let labels = function.labels.iter().map(|label| &*label.name).collect();
        Self { function, registers: RegisterSet::new(function), labels, errors }
    }

    fn run(mut self) {
        let function = self.function;
        let parameters = function.parameters.iter().map(|decl| (&*decl.name, decl.position));
        self.require_unique("parameter", parameters.filter(|(name, _)| !name.is_empty()));
        for parameter in function.parameters.iter().filter(|parameter| parameter.name.is_empty()) {
            self.error(parameter.position, "a parameter is missing before or after a comma".to_owned());
        }
        self.require_unique("register", function.registers.iter().map(|decl| (&*decl.name, decl.position)));
        self.require_unique("label", function.labels.iter().map(|label| (&*label.name, label.position)));
        function.instructions.iter().for_each(|instruction| self.instruction(instruction));
    }

    fn error(&mut self, position: Position, message: String) {
        self.errors.push(VerifyError { position, message });
    }

    fn require_unique(&mut self, what: &str, names: impl Iterator<Item = (&'f str, Position)>) {
        let mut seen = HashSet::new();
        for (name, position) in names {
            if !seen.insert(name) {
                self.error(position, format!("{what} `{}` is declared twice", clipped(name)));
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) {
        let operands = instruction.operands.iter().flat_map(|operand| operand.words());
        let guard = instruction.guard.iter().map(|guard| &*guard.predicate);
        for name in guard.chain(operands) {
            let is_register = name.starts_with('%') && !is_special(name);
            // `%v.x` is a component of a vector.
            let base = name.split('.').next().unwrap_or_default();
            if is_register && !self.registers.is_declared(name) && !self.registers.is_declared(base) {
                self.error(instruction.position, format!("register `{}` is not declared", clipped(name)));
            }
        }
        let target = instruction.operands.first().and_then(|operand| operand.as_word());
        if let ("bra", Some(target)) = (instruction.mnemonic(), target)
            && !self.labels.contains(target)
        {
            self.error(instruction.position, format!("label `{}` is not defined", clipped(target)));
        }
    }
}

/// The start of a name, so that messages stay short.
fn clipped(name: &str) -> &str {
    const SHOWN: usize = 64;
    name.char_indices().nth(SHOWN).map_or(name, |(end, _)| name.get(..end).unwrap_or(name))
}

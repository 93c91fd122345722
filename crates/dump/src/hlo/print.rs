//! Prints the tree as text.

use super::{Computation, Instruction, Item, Module};

/// Prints a module from its tree.
pub(super) fn print(module: &Module<'_>) -> String {
    let mut printer = Printer { module, out: String::with_capacity(module.text().len()) };
    for item in module.items() {
        printer.item(item, "");
    }
    printer.out
}

struct Printer<'m, 'a> {
    module: &'m Module<'a>,
    out: String,
}

impl Printer<'_, '_> {
    fn item(&mut self, item: &Item, indent: &str) {
        match item {
            Item::Verbatim(span) => {
                self.out.push_str(self.module.str(*span));
                self.out.push('\n');
            }
            Item::Instruction(instruction) => self.instruction(instruction, indent),
            Item::Computation(computation) => self.computation(computation),
        }
    }

    fn computation(&mut self, computation: &Computation) {
        self.out.push('\n');
        if computation.entry {
            self.out.push_str("ENTRY ");
        }
        self.out.push_str(self.module.str(computation.name));
        if !computation.signature.is_empty() {
            self.out.push(' ');
            self.out.push_str(self.module.str(computation.signature));
        }
        self.out.push_str(" {\n");
        for item in &computation.items {
            self.item(item, "  ");
        }
        if computation.closed {
            self.out.push('}');
        }
        self.out.push_str(self.module.str(computation.trailer));
        self.out.push('\n');
    }

    fn instruction(&mut self, instruction: &Instruction, indent: &str) {
        let str = |span| self.module.str(span);
        let out = &mut self.out;
        out.push_str(indent);
        if instruction.root {
            out.push_str("ROOT ");
        }
        for part in [str(instruction.name), " = ", str(instruction.shape), " ", str(instruction.opcode)] {
            out.push_str(part);
        }
        if let Some(operands) = &instruction.operands {
            let operands: Vec<_> = operands.iter().map(|operand| str(*operand)).collect();
            out.push('(');
            out.push_str(&operands.join(", "));
            out.push(')');
        }
        for attribute in &instruction.attributes {
            out.push_str(", ");
            out.push_str(str(attribute.key));
            if let Some(value) = attribute.value {
                out.push('=');
                out.push_str(str(value));
            }
        }
        out.push('\n');
    }
}

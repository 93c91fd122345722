//! Modules that own their names instead of borrowing from the source.

use super::{
    Directive, Function, Guard, Instruction, Label, Module, Name, Operand, ParameterDecl, RegisterDecl,
    Variable,
};

fn own(name: Name<'_>) -> Name<'static> {
    Name::Owned(name.into_owned())
}

fn all<T, U>(items: Vec<T>, owned: fn(T) -> U) -> Vec<U> {
    items.into_iter().map(owned).collect()
}

impl Module<'_> {
    /// The same module, with names of its own.
    pub fn into_owned(self) -> Module<'static> {
        Module {
            version: own(self.version),
            target: own(self.target),
            address_size: own(self.address_size),
            variables: all(self.variables, variable),
            functions: all(self.functions, function),
        }
    }
}

fn function(function: Function<'_>) -> Function<'static> {
    Function {
        linkage: own(function.linkage),
        is_entry: function.is_entry,
        name: own(function.name),
        position: function.position,
        parameters: all(function.parameters, |decl| ParameterDecl {
            kind: own(decl.kind),
            name: own(decl.name),
            elements: decl.elements.map(own),
            position: decl.position,
        }),
        directives: all(function.directives, |Directive { name, arguments, position }| Directive {
            name: own(name),
            arguments: all(arguments, own),
            position,
        }),
        variables: all(function.variables, variable),
        registers: all(function.registers, |decl| RegisterDecl {
            kind: own(decl.kind),
            name: own(decl.name),
            count: decl.count.map(own),
            position: decl.position,
        }),
        instructions: all(function.instructions, instruction),
        labels: all(function.labels, |Label { name, target, position }| Label {
            name: own(name),
            target,
            position,
        }),
    }
}

fn variable(Variable { text, position }: Variable<'_>) -> Variable<'static> {
    Variable { text: own(text), position }
}

fn instruction(instruction: Instruction<'_>) -> Instruction<'static> {
    let guard =
        instruction.guard.map(|Guard { predicate, negated }| Guard { predicate: own(predicate), negated });
    Instruction {
        guard,
        opcode: own(instruction.opcode),
        operands: all(instruction.operands, operand),
        position: instruction.position,
    }
}

fn operand(operand: Operand<'_>) -> Operand<'static> {
    match operand {
        Operand::Word(word) => Operand::Word(own(word)),
        Operand::Pair(first, second) => Operand::Pair(own(first), own(second)),
        Operand::Offset(base, offset) => Operand::Offset(own(base), own(offset)),
        Operand::Address(items) => Operand::Address(all(items, self::operand)),
        Operand::Vector(items) => Operand::Vector(all(items, self::operand)),
        Operand::List(items) => Operand::List(all(items, self::operand)),
    }
}

//! The IR as text.

use std::fmt::{self, Display, Formatter};

use crate::ir::{Directive, Function, Guard, Instruction, Module, Operand, ParameterDecl, RegisterDecl};

impl Display for Module<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { version, target, address_size, variables, functions } = self;
        writeln!(f, ".version {version}\n.target {target}\n.address_size {address_size}\n")?;
        variables.iter().try_for_each(|variable| writeln!(f, "{};", variable.text))?;
        functions.iter().try_for_each(|function| write!(f, "\n{function}"))
    }
}

impl Display for Function<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.linkage.is_empty() {
            write!(f, "{} ", self.linkage)?;
        }
        writeln!(f, "{} {}(", if self.is_entry { ".entry" } else { ".func" }, self.name)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            let comma = if index + 1 < self.parameters.len() { "," } else { "" };
            writeln!(f, "\t{parameter}{comma}")?;
        }
        writeln!(f, ")")?;
        self.directives.iter().try_for_each(|directive| writeln!(f, "{directive}"))?;
        writeln!(f, "{{")?;
        self.variables.iter().try_for_each(|variable| writeln!(f, "\t{};", variable.text))?;
        self.registers.iter().try_for_each(|registers| writeln!(f, "\t{registers};"))?;
        let mut labels = self.labels.iter().peekable();
        for (index, instruction) in self.instructions.iter().enumerate() {
            while let Some(label) = labels.next_if(|label| label.target <= index) {
                writeln!(f, "{}:", label.name)?;
            }
            writeln!(f, "\t{instruction};")?;
        }
        labels.try_for_each(|label| writeln!(f, "{}:", label.name))?;
        writeln!(f, "}}")
    }
}

impl Display for ParameterDecl<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        self.elements.iter().try_for_each(|elements| write!(f, "[{elements}]"))
    }
}

impl Display for Directive<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let separators = [" "].into_iter().chain(std::iter::repeat(", "));
        f.write_str(&self.name)?;
        separators
            .zip(&self.arguments)
            .try_for_each(|(separator, argument)| write!(f, "{separator}{argument}"))
    }
}

impl Display for RegisterDecl<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".reg {} {}", self.kind, self.name)?;
        self.count.iter().try_for_each(|count| write!(f, "<{count}>"))
    }
}

impl Display for Guard<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "@{}{}", if self.negated { "!" } else { "" }, self.predicate)
    }
}

impl Display for Instruction<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.guard.iter().try_for_each(|guard| write!(f, "{guard} "))?;
        f.write_str(&self.opcode)?;
        if !self.operands.is_empty() {
            f.write_str(" ")?;
        }
        list(f, &self.operands)
    }
}

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut enclosed = |open: &str, items: &[Operand<'_>], close: &str| {
            f.write_str(open)?;
            list(f, items)?;
            f.write_str(close)
        };
        match self {
            Self::Address(items) => enclosed("[", items, "]"),
            Self::Vector(items) => enclosed("{", items, "}"),
            Self::List(items) => enclosed("(", items, ")"),
            Self::Word(word) => f.write_str(word),
            Self::Pair(first, second) => write!(f, "{first}|{second}"),
            Self::Offset(base, offset) => write!(f, "{base}+{offset}"),
        }
    }
}

fn list(f: &mut Formatter<'_>, items: &[Operand<'_>]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

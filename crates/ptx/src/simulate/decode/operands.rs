//! Operands: registers, numbers, addresses and vectors.

use super::Names;
use crate::{
    ir::Operand,
    simulate::program::{At, GlobalAt, Predicate, SharedAt, Value, Wide, Word},
};

/// What is wrong with an instruction.
pub(super) type Problem = String;

impl Names<'_> {
    fn word(&self, name: &str) -> Result<Word, Problem> {
        let kinds = [
            ("%h", 0, self.halves),
            ("%r", self.halves, self.integers),
            ("%f", self.halves + self.integers, self.floats),
        ];
        let found =
            kinds.iter().find_map(|&(prefix, start, count)| Some(start + indexed(name, prefix, count)?));
        found.ok_or_else(|| format!("`{name}` is not a 16-bit or 32-bit register"))
    }

    pub(super) fn wide(&self, name: &str) -> Result<Wide, Problem> {
        indexed(name, "%rd", self.wides).ok_or_else(|| format!("`{name}` is not a 64-bit register"))
    }

    pub(super) fn predicate(&self, name: &str) -> Result<Predicate, Problem> {
        indexed(name, "%p", self.predicates).ok_or_else(|| format!("`{name}` is not a predicate register"))
    }

    pub(super) fn value(&self, text: &str) -> Result<Value, Problem> {
        if text.starts_with('%') {
            self.word(text).map(Value::Register)
        } else {
            number(text).map(Value::Number)
        }
    }

    pub(super) fn parameter(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| *parameter == name)
    }
}

fn indexed(name: &str, prefix: &str, count: usize) -> Option<usize> {
    name.strip_prefix(prefix)?.parse().ok().filter(|&index| index < count)
}

/// An integer, or the bits of a float.
fn number(text: &str) -> Result<u32, Problem> {
    let value = match text.strip_prefix("0f") {
        Some(bits) => u32::from_str_radix(bits, 16).ok(),
        None => text.parse().ok().or_else(|| text.parse::<i32>().ok().map(|value| value as u32)),
    };
    value.ok_or_else(|| format!("`{text}` is not a 32-bit number"))
}

/// An integer, which may be negative.
fn wide_number(text: &str) -> Result<u64, Problem> {
    let value: Result<i64, _> = text.parse();
    value.map(|value| value as u64).map_err(|_| format!("`{text}` is not a 64-bit number"))
}

/// The operands of one instruction, taken one after the other.
pub(super) struct Operands<'m> {
    pub(super) names: &'m Names<'m>,
    rest: std::slice::Iter<'m, Operand<'m>>,
}

impl<'m> Operands<'m> {
    pub(super) fn new(names: &'m Names<'m>, operands: &'m [Operand<'m>]) -> Self {
        Self { names, rest: operands.iter() }
    }

    pub(super) fn next(&mut self) -> Result<&'m Operand<'m>, Problem> {
        self.rest.next().ok_or_else(|| "an operand is missing".to_owned())
    }

    pub(super) fn text(&mut self) -> Result<&'m str, Problem> {
        text(self.next()?)
    }

    pub(super) fn word(&mut self) -> Result<Word, Problem> {
        self.text().and_then(|text| self.names.word(text))
    }

    pub(super) fn wide(&mut self) -> Result<Wide, Problem> {
        self.text().and_then(|text| self.names.wide(text))
    }

    pub(super) fn predicate(&mut self) -> Result<Predicate, Problem> {
        self.text().and_then(|text| self.names.predicate(text))
    }

    pub(super) fn value(&mut self) -> Result<Value, Problem> {
        self.text().and_then(|text| self.names.value(text))
    }

    pub(super) fn number(&mut self) -> Result<u32, Problem> {
        self.text().and_then(number)
    }

    pub(super) fn wide_number(&mut self) -> Result<u64, Problem> {
        self.text().and_then(wide_number)
    }

    /// Whether all were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.len() == 0
    }

    /// Takes all, for an instruction that ignores them.
    pub(super) fn skip_all(&mut self) {
        self.rest = [].iter();
    }

    /// Refuses what was not taken.
    pub(super) fn end(&mut self) -> Result<(), Problem> {
        self.rest.next().map_or(Ok(()), |operand| Err(format!("`{operand}` is one operand too many")))
    }

    pub(super) fn values<const N: usize>(&mut self) -> Result<[Value; N], Problem> {
        let mut values = [Value::Number(0); N];
        for value in &mut values {
            *value = self.value()?;
        }
        Ok(values)
    }

    /// `{a, b}`, or one register.
    pub(super) fn word_list(&mut self) -> Result<Vec<Word>, Problem> {
        items(self.next()?).iter().map(|item| self.names.word(text(item)?)).collect()
    }

    /// `{a, b}`, or one value.
    pub(super) fn value_list(&mut self) -> Result<Vec<Value>, Problem> {
        items(self.next()?).iter().map(|item| self.names.value(text(item)?)).collect()
    }

    fn address(&mut self) -> Result<&'m [Operand<'m>], Problem> {
        match self.next()? {
            Operand::Address(items) => Ok(items),
            other => Err(format!("`{other}` is not an address in brackets")),
        }
    }

    /// Base and offset of an address.
    fn base(&mut self) -> Result<(&'m str, &'m str), Problem> {
        match self.address()? {
            [Operand::Word(base)] => Ok((base, "0")),
            [Operand::Offset(base, offset)] => Ok((base, offset)),
            _ => Err("an address is a register with an offset".to_owned()),
        }
    }

    /// `[name]`
    pub(super) fn parameter(&mut self) -> Result<usize, Problem> {
        match self.address()? {
            [Operand::Word(name)] => {
                self.names.parameter(name).ok_or_else(|| format!("there is no parameter `{name}`"))
            }
            _ => Err("the simulator loads whole parameters: `[name]`".to_owned()),
        }
    }

    pub(super) fn shared(&mut self) -> Result<SharedAt, Problem> {
        let (base, offset) = self.base()?;
        Ok(SharedAt { base: self.names.word(base)?, offset: number(offset)? })
    }

    pub(super) fn global(&mut self) -> Result<GlobalAt, Problem> {
        let (base, offset) = self.base()?;
        Ok(GlobalAt { base: self.names.wide(base)?, offset: wide_number(offset)? })
    }

    pub(super) fn at(&mut self, in_global: bool) -> Result<At, Problem> {
        if in_global { self.global().map(At::Global) } else { self.shared().map(At::Shared) }
    }

    /// `[map, {column, row}]`
    pub(super) fn tile(&mut self) -> Result<(Wide, Value, Value), Problem> {
        let [Operand::Word(map), Operand::Vector(coordinates)] = self.address()? else {
            return Err("a tile is `[map, {column, row}]`".to_owned());
        };
        let [Operand::Word(column), Operand::Word(row)] = &coordinates[..] else {
            return Err("a tile has two coordinates, column and row".to_owned());
        };
        Ok((self.names.wide(map)?, self.names.value(column)?, self.names.value(row)?))
    }
}

fn text<'m>(operand: &'m Operand<'m>) -> Result<&'m str, Problem> {
    operand.as_word().ok_or_else(|| format!("`{operand}` is not a register or a number"))
}

/// The items of a vector, or the operand itself.
fn items<'m>(operand: &'m Operand<'m>) -> &'m [Operand<'m>] {
    match operand {
        Operand::Vector(items) => items,
        one => std::slice::from_ref(one),
    }
}

//! Operands: registers, numbers, addresses and lists.

use super::Names;
use crate::program::{At, GlobalAt, Predicate, SharedAt, Value, Wide, Word};

/// What is wrong with an instruction.
pub(super) type Problem = String;

impl Names {
    pub(super) fn word(&self, name: &str) -> Result<Word, Problem> {
        let kinds = [
            ("%h", 0, self.halves),
            ("%r", self.halves, self.integers),
            ("%f", self.halves + self.integers, self.floats),
        ];
        let found = kinds.iter().find_map(|&(prefix, start, count)| {
            let index: usize = name.strip_prefix(prefix)?.parse().ok()?;
            (index < count).then_some(start + index)
        });
        found.ok_or_else(|| format!("`{name}` is not a declared register of up to 32 bits"))
    }

    pub(super) fn wide(&self, name: &str) -> Result<Wide, Problem> {
        indexed(name, "%rd", self.wides).ok_or_else(|| format!("`{name}` is not a declared 64-bit register"))
    }

    pub(super) fn predicate(&self, name: &str) -> Result<Predicate, Problem> {
        indexed(name, "%p", self.predicates).ok_or_else(|| format!("`{name}` is not a declared predicate"))
    }

    pub(super) fn value(&self, text: &str) -> Result<Value, Problem> {
        if text.starts_with('%') {
            self.word(text).map(Value::Register)
        } else {
            number(text).map(Value::Number)
        }
    }

    pub(super) fn parameter(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter == name)
    }

    pub(super) fn label(&self, name: &str) -> Result<usize, Problem> {
        self.labels.get(name).copied().ok_or_else(|| format!("there is no label `{name}`"))
    }

    fn shared(&self, address: &str) -> Result<SharedAt, Problem> {
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        Ok(SharedAt { base: self.word(base)?, offset: number(offset)? })
    }

    fn global(&self, address: &str) -> Result<GlobalAt, Problem> {
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        Ok(GlobalAt { base: self.wide(base)?, offset: wide_number(offset)? })
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
pub(super) struct Operands<'a> {
    pub(super) names: &'a Names,
    rest: std::vec::IntoIter<&'a str>,
}

impl<'a> Operands<'a> {
    /// Splits at the commas outside of brackets.
    pub(super) fn split(names: &'a Names, text: &'a str) -> Self {
        Self { names, rest: split(text).into_iter() }
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Problem> {
        self.rest.next().ok_or_else(|| "an operand is missing".to_owned())
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

    /// Takes all, for an instruction that does nothing with them.
    pub(super) fn skip_all(&mut self) {
        self.rest = Vec::new().into_iter();
    }

    /// Refuses what was not taken.
    pub(super) fn end(&mut self) -> Result<(), Problem> {
        self.rest.next().map_or(Ok(()), |text| Err(format!("`{text}` is one operand too many")))
    }

    pub(super) fn values<const N: usize>(&mut self) -> Result<[Value; N], Problem> {
        let mut values = [Value::Number(0); N];
        for value in &mut values {
            *value = self.value()?;
        }
        Ok(values)
    }

    /// `{a, b}`, or one operand.
    fn list(&mut self) -> Result<Vec<&'a str>, Problem> {
        let text = self.text()?;
        Ok(match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(items) => split(items),
            None => vec![text],
        })
    }

    pub(super) fn word_list(&mut self) -> Result<Vec<Word>, Problem> {
        self.list()?.into_iter().map(|text| self.names.word(text)).collect()
    }

    pub(super) fn value_list(&mut self) -> Result<Vec<Value>, Problem> {
        self.list()?.into_iter().map(|text| self.names.value(text)).collect()
    }

    /// What stands between brackets.
    pub(super) fn bracketed(&mut self) -> Result<&'a str, Problem> {
        let text = self.text()?;
        text.strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .ok_or_else(|| format!("`{text}` is not an address in brackets"))
    }

    pub(super) fn shared(&mut self) -> Result<SharedAt, Problem> {
        self.bracketed().and_then(|address| self.names.shared(address))
    }

    pub(super) fn global(&mut self) -> Result<GlobalAt, Problem> {
        self.bracketed().and_then(|address| self.names.global(address))
    }

    pub(super) fn at(&mut self, in_global: bool) -> Result<At, Problem> {
        if in_global { self.global().map(At::Global) } else { self.shared().map(At::Shared) }
    }

    /// `[map, {column, row}]`
    pub(super) fn tile(&mut self) -> Result<(Wide, Value, Value), Problem> {
        let parts = split(self.bracketed()?);
        let &[map, place] = parts.as_slice() else { return Err("a tile is a map and a place".to_owned()) };
        let place = place.strip_prefix('{').and_then(|place| place.strip_suffix('}')).unwrap_or_default();
        let &[column, row] = split(place).as_slice() else {
            return Err("the place of a tile is a column and a row".to_owned());
        };
        Ok((self.names.wide(map)?, self.names.value(column)?, self.names.value(row)?))
    }
}

fn split(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let pieces = text.split(|character| {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    pieces.map(str::trim).filter(|piece| !piece.is_empty()).collect()
}

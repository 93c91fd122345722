//! Parses Mosaic and StableHLO modules in MLIR text, in generic or custom form, into the values that
//! [`FunctionBuilder`](crate::FunctionBuilder) builds. Every error has a position.

mod attributes;
mod cursor;
mod dma;
mod forms;
mod generic;
mod locations;
mod ops;
mod stablehlo;
mod tpu_forms;
mod types;

use std::collections::HashMap;

pub(crate) use attributes::float_from_bits;
use cursor::{Cursor, Result};

use crate::{
    attribute::Attr,
    ir::{Module, Place},
    limits::{ALIAS_BYTES_PER_BYTE, MAX_ALIAS_BYTES, MAX_NESTING},
    source::Trace,
    types::Type,
    upgrade::upgrade,
};

/// Why a text could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text is not MLIR: malformed, truncated, or beyond the limits of the parser.
    Malformed,
    /// The text may be valid MLIR, but uses a form that this parser does not support.
    Unsupported,
}

/// A text that is not a module, or not one that this parser supports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ParseError {
    /// Line and column.
    pub place: Place,
    /// Whether the text or the parser is at fault.
    pub kind: ParseErrorKind,
    /// What is wrong there.
    pub message: String,
}

/// Parses one module, upgraded to the current dialects.
pub fn parse(text: &str) -> std::result::Result<Module, ParseError> {
    let mut module = Parser::new(text).module()?;
    upgrade(&mut module);
    Ok(module)
}

/// Parses one attribute.
pub(crate) fn attribute_from_text(text: &str) -> Result<Attr> {
    Parser::new(text).whole(Parser::attribute)
}

/// Parses one type.
pub(crate) fn type_from_text(text: &str) -> Result<Type> {
    Parser::new(text).whole(Parser::ty)
}

/// Parses the argument and result types of a function type.
pub(crate) fn function_types_from_text(text: &str) -> Result<(Vec<Type>, Vec<Type>)> {
    Parser::new(text).whole(Parser::function_types)
}

/// An alias: its verbatim text and position.
#[derive(Clone)]
struct Alias<'a> {
    text: &'a str,
    place: Place,
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    aliases: HashMap<String, Alias<'a>>,
    /// Locations behind aliases, as far as they were used.
    locations: HashMap<String, Trace>,
    /// The function being parsed.
    function: ops::Scope,
    depth: usize,
    /// Remaining alias expansion budget in bytes: nested aliases grow exponentially.
    alias_bytes: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(text),
            aliases: aliases(text),
            locations: HashMap::new(),
            function: ops::Scope::default(),
            depth: 0,
            alias_bytes: text.len().saturating_mul(ALIAS_BYTES_PER_BYTE).saturating_add(MAX_ALIAS_BYTES),
        }
    }

    /// Parses a text that holds one thing and nothing after it.
    fn whole<T>(mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let value = read(&mut self)?;
        match self.cursor.at_end() {
            true => Ok(value),
            false => Err(self.cursor.expected("the end of the text")),
        }
    }

    fn module(mut self) -> Result<Module> {
        self.skip_aliases();
        let mut module = Module::default();
        if self.cursor.eat("\"builtin.module\"") {
            self.generic_module(&mut module)?;
            return self.end(module);
        }
        let wrapped = self.cursor.eat_word("module") || self.cursor.eat_word("builtin.module");
        if wrapped {
            if self.cursor.looking_at("@") {
                module.name = Some(self.symbol_name()?);
            }
            if self.cursor.eat_word("attributes") {
                module.attributes = self.dict("{", "}")?;
            }
            self.cursor.require("{")?;
        }
        while !(wrapped && self.cursor.eat("}")) {
            if !wrapped && self.at_end() {
                return Ok(module);
            }
            self.symbol_op(&mut module)?;
        }
        self.location()?;
        self.end(module)
    }

    fn end(&mut self, module: Module) -> Result<Module> {
        match self.at_end() {
            true => Ok(module),
            false => Err(self.cursor.expected("the end of the text after the module")),
        }
    }

    fn at_end(&mut self) -> bool {
        self.skip_aliases();
        self.cursor.at_end()
    }

    /// Skips `#map = ...` and `!alias = ...`, which were collected in a first pass.
    fn skip_aliases(&mut self) {
        while matches!(self.cursor.peek(), Some('#' | '!')) {
            self.cursor.run(|c| c != '\n');
        }
    }

    /// Parses comma-separated items between `open` and `close`.
    fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.cursor.require(open)?;
        let mut items = Vec::new();
        if self.cursor.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.cursor.eat(close) {
                return Ok(items);
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.expected(&format!("',' or '{close}'")));
            }
        }
    }

    /// Parses a recursive construct, bounding its depth.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_NESTING {
            return Err(self.cursor.error(format!("nesting exceeds {MAX_NESTING} levels")));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Charges one use of an alias to the budget.
    fn expand(&mut self, alias: &Alias<'a>) -> Result<()> {
        match self.alias_bytes.checked_sub(alias.text.len()) {
            Some(left) => {
                self.alias_bytes = left;
                Ok(())
            }
            None => Err(self.cursor.error("aliases expand to far more than the text itself: inline them")),
        }
    }

    /// Parses the text behind an alias.
    fn elsewhere<T>(&mut self, alias: Alias<'a>, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.expand(&alias)?;
        let here = std::mem::replace(&mut self.cursor, Cursor::within(alias.text, alias.place));
        let value = self.nested(read);
        self.cursor = here;
        value
    }
}

/// Collects every line of the form `#name = ...` or `!name = ...`: aliases may be used before their
/// definition.
fn aliases(text: &str) -> HashMap<String, Alias<'_>> {
    let define = |(number, line): (usize, &'_ str)| -> Option<(String, usize, usize)> {
        if !line.starts_with(['#', '!']) {
            return None;
        }
        let (name, value) = line.split_once('=')?;
        let column = line.len() - value.len();
        Some((name.trim_end().to_owned(), number, column))
    };
    text.lines()
        .enumerate()
        .filter_map(|(number, line)| {
            let (name, number, column) = define((number, line))?;
            let place = Place { line: number as u32 + 1, column: column as u32 + 1 };
            Some((name, Alias { text: &line[column..], place }))
        })
        .collect()
}

#[cfg(test)]
mod tests;

//! Parses `loc(...)`: where an operation comes from in the program that was lowered.

use super::{
    Parser,
    cursor::{Cursor, Result},
};
use crate::source::Trace;

impl Parser<'_> {
    /// Parses `loc(...)`, if present. A location of an unknown form says nothing.
    pub(super) fn location(&mut self) -> Result<Trace> {
        if self.cursor.peek_word() != Some("loc") {
            return Ok(Trace::default());
        }
        self.cursor.word();
        let text = self.cursor.balanced()?;
        let Some(inside) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
            return Ok(Trace::default());
        };
        Ok(self.location_in(inside).unwrap_or_default())
    }

    /// Parses a text that holds one location.
    fn location_in(&mut self, text: &str) -> Result<Trace> {
        let mut cursor = Cursor::new(text);
        let trace = self.inner_location(&mut cursor)?;
        match cursor.at_end() {
            true => Ok(trace),
            false => Err(cursor.expected("the end of the location")),
        }
    }

    fn inner_location(&mut self, cursor: &mut Cursor<'_>) -> Result<Trace> {
        self.nested(|p| match cursor.peek() {
            Some('"') => p.named_location(cursor),
            Some('#') => p.location_alias(cursor),
            _ if cursor.eat_word("unknown") => Ok(Trace::default()),
            _ if cursor.eat_word("loc") => {
                cursor.require("(")?;
                let trace = p.inner_location(cursor)?;
                cursor.require(")")?;
                Ok(trace)
            }
            _ if cursor.eat_word("callsite") => {
                cursor.require("(")?;
                let callee = p.inner_location(cursor)?;
                if !cursor.eat_word("at") {
                    return Err(cursor.expected("'at'"));
                }
                let caller = p.inner_location(cursor)?;
                cursor.require(")")?;
                Ok(callee.called_from(&caller))
            }
            _ if cursor.eat_word("fused") => p.fused_location(cursor),
            _ => Err(cursor.expected("a location")),
        })
    }

    /// Parses `"file":3:7`, `"file":3:7 to 4:9`, `"name"` or `"name"(location)`.
    fn named_location(&mut self, cursor: &mut Cursor<'_>) -> Result<Trace> {
        let name = cursor.string()?;
        if cursor.eat(":") {
            let line = cursor.unsigned()?;
            cursor.require(":")?;
            let column = cursor.unsigned()?;
            if cursor.eat_word("to") {
                if !cursor.looking_at(":") {
                    cursor.unsigned()?;
                }
                cursor.require(":")?;
                cursor.unsigned()?;
            }
            return Ok(Trace::file(&name, line as u64, column as u64));
        }
        if !cursor.eat("(") {
            return Ok(Trace::default().named(&name));
        }
        let trace = self.inner_location(cursor)?;
        cursor.require(")")?;
        Ok(trace.named(&name))
    }

    /// Parses `<metadata>[location, ...]`.
    fn fused_location(&mut self, cursor: &mut Cursor<'_>) -> Result<Trace> {
        if cursor.looking_at("<") {
            cursor.balanced()?;
        }
        cursor.require("[")?;
        let mut traces = vec![self.inner_location(cursor)?];
        while cursor.eat(",") {
            traces.push(self.inner_location(cursor)?);
        }
        cursor.require("]")?;
        Ok(Trace::fused(traces))
    }

    /// Parses `#loc12`. Each alias is parsed once: they refer to one another.
    fn location_alias(&mut self, cursor: &mut Cursor<'_>) -> Result<Trace> {
        cursor.require("#")?;
        let name = format!("#{}", cursor.suffix()?);
        if let Some(known) = self.locations.get(&name) {
            return Ok(known.clone());
        }
        let Some(alias) = self.aliases.get(&name).cloned() else {
            return Err(cursor.error(format!("the location '{name}' is not defined")));
        };
        self.expand(&alias)?;
        let trace = self.location_in(alias.text).unwrap_or_default();
        self.locations.insert(name, trace.clone());
        Ok(trace)
    }
}

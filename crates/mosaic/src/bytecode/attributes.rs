//! Attributes: the builtin dialect's encodings, and text for those of other dialects.

use super::{
    Result,
    bytes::Bytes,
    elements,
    tables::{Entry, Tables, get},
    types::{integer_width, is_unsigned},
};
use crate::{
    attribute::{Attr, Attributes},
    limits::{BYTECODE_NODES_PER_BYTE, MAX_BYTECODE_NODES, MAX_NESTING},
    parse::attribute_from_text,
    types::{Type, join},
};

/// A decoded attribute or type, with the number of values that a copy of it holds.
#[derive(Clone)]
pub(super) struct Decoded<T> {
    pub(super) value: T,
    pub(super) nodes: usize,
}

/// Decodes attributes and types on demand, each once.
pub(super) struct Pool<'a> {
    pub(super) tables: Tables<'a>,
    attributes: Vec<Option<Decoded<Attr>>>,
    pub(super) types: Vec<Option<Decoded<Type>>>,
    pub(super) traces: Vec<Option<crate::source::Trace>>,
    depth: usize,
    /// Remaining copies: attributes that share others grow exponentially when they are copied.
    nodes: usize,
}

impl<'a> Pool<'a> {
    pub(super) fn new(tables: Tables<'a>, file_size: usize) -> Self {
        Self {
            attributes: vec![None; tables.attributes.len()],
            types: vec![None; tables.types.len()],
            traces: vec![None; tables.attributes.len()],
            tables,
            depth: 0,
            nodes: file_size.saturating_mul(BYTECODE_NODES_PER_BYTE).saturating_add(MAX_BYTECODE_NODES),
        }
    }

    /// Charges a copy to the budget.
    pub(super) fn charge(&mut self, nodes: usize, start: Bytes<'_>) -> Result<()> {
        match self.nodes.checked_sub(nodes) {
            Some(left) => {
                self.nodes = left;
                Ok(())
            }
            None => Err(start.error("attributes and types expand to far more than the file itself")),
        }
    }

    /// Decodes a recursive construct, bounding its depth.
    pub(super) fn nested<T>(
        &mut self,
        start: Bytes<'_>,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.enter(start)?;
        let value = read(self);
        self.leave();
        value
    }

    /// Enters a nested construct.
    pub(super) fn enter(&mut self, start: Bytes<'_>) -> Result<()> {
        if self.depth == MAX_NESTING {
            return Err(start.error(format!("nesting exceeds {MAX_NESTING} levels")));
        }
        self.depth += 1;
        Ok(())
    }

    /// Leaves a nested construct.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Reads the number of an attribute and decodes it.
    pub(super) fn attribute(&mut self, bytes: &mut Bytes<'a>) -> Result<Attr> {
        let start = *bytes;
        let number = bytes.varint()?;
        self.attribute_at(start, number)
    }

    pub(super) fn attribute_at(&mut self, start: Bytes<'a>, number: u64) -> Result<Attr> {
        let decoded = match get(&self.attributes, number) {
            None => return Err(start.error(format!("no attribute {number}"))),
            Some(Some(known)) => known.clone(),
            Some(None) => {
                let before = self.nodes;
                let value = self.nested(start, |pool| pool.decode(start, number))?;
                let decoded = Decoded { value, nodes: 1 + before.saturating_sub(self.nodes) };
                if let Some(place) = usize::try_from(number).ok().and_then(|n| self.attributes.get_mut(n)) {
                    *place = Some(decoded.clone());
                }
                decoded
            }
        };
        self.charge(decoded.nodes, start)?;
        Ok(decoded.value)
    }

    fn decode(&mut self, start: Bytes<'a>, number: u64) -> Result<Attr> {
        let Some(&entry) = get(&self.tables.attributes, number) else {
            return Err(start.error(format!("no attribute {number}")));
        };
        if !entry.is_encoded {
            let text = text(&entry)?;
            self.charge(text.len() / 8, start)?;
            return attribute_from_text(text).map_err(|error| {
                entry.data.error(format!("the attribute '{}': {}", shortened(text), error.message))
            });
        }
        match self.tables.dialect(&entry) {
            "builtin" => self.builtin(entry.data),
            dialect => Err(entry.data.unsupported(format!(
                "attributes of the dialect '{dialect}' in its own encoding are not supported"
            ))),
        }
    }

    fn builtin(&mut self, mut bytes: Bytes<'a>) -> Result<Attr> {
        let start = bytes;
        match bytes.varint()? {
            0 => Ok(Attr::Array(self.attributes(&mut bytes)?)),
            1 => Ok(Attr::Dict(self.dictionary(&mut bytes)?)),
            2 => {
                let text = self.tables.string(&mut bytes)?;
                self.charge(text.len() / 8, start)?;
                Ok(Attr::String(text.to_owned()))
            }
            3 => Err(start.unsupported("strings with a type are not supported")),
            4 => Ok(Attr::Symbol(self.name(&mut bytes)?)),
            5 => self.symbol(&mut bytes),
            6 => Ok(Attr::Type(self.ty(&mut bytes)?)),
            7 => Ok(Attr::Unit),
            8 => self.integer(&mut bytes),
            9 => self.float(&mut bytes),
            10..=15 | 22 => Err(start.unsupported("a location as an attribute is not supported")),
            16 => self.resource(&mut bytes),
            17 => self.dense_array(&mut bytes),
            18 => self.dense(&mut bytes),
            19 => Err(start.unsupported("constants of strings are not supported")),
            20 => Err(start.unsupported("sparse constants are not supported")),
            21 => self.attribute(&mut bytes),
            code => Err(start.unsupported(format!("builtin attribute code {code} is not supported"))),
        }
    }

    fn attributes(&mut self, bytes: &mut Bytes<'a>) -> Result<Vec<Attr>> {
        (0..bytes.count("attributes")?).map(|_| self.attribute(bytes)).collect()
    }

    fn dictionary(&mut self, bytes: &mut Bytes<'a>) -> Result<Attributes> {
        let mut entries = Attributes::new();
        let mut names = std::collections::HashSet::new();
        for _ in 0..bytes.count("attributes")? {
            let start = *bytes;
            let name = self.name(bytes)?;
            if !names.insert(name.clone()) {
                return Err(start.error(format!("the attribute '{name}' is given twice")));
            }
            let value = self.attribute(bytes)?;
            entries = entries.with(name, value);
        }
        Ok(entries)
    }

    /// Reads a string attribute.
    pub(super) fn name(&mut self, bytes: &mut Bytes<'a>) -> Result<String> {
        let start = *bytes;
        match self.attribute(bytes)? {
            Attr::String(name) => Ok(name),
            other => {
                Err(start.error(format!("expected a string, found '{}'", shortened(&other.to_string()))))
            }
        }
    }

    fn symbol(&mut self, bytes: &mut Bytes<'a>) -> Result<Attr> {
        let mut name = self.name(bytes)?;
        for _ in 0..bytes.count("symbols")? {
            let start = *bytes;
            match self.attribute(bytes)? {
                Attr::Symbol(part) => name = format!("{name}::@{part}"),
                _ => return Err(start.error("expected a symbol")),
            }
        }
        Ok(Attr::Symbol(name))
    }

    fn integer(&mut self, bytes: &mut Bytes<'a>) -> Result<Attr> {
        let start = *bytes;
        let ty = self.ty(bytes)?;
        let value = match integer_width(&ty) {
            Some(width @ 0..=8) => elements::extended(u64::from(bytes.byte()?), width, is_unsigned(&ty)),
            Some(width @ 9..=64) => {
                elements::extended(bytes.signed_varint()? as u64, width, is_unsigned(&ty))
            }
            Some(width) => {
                return Err(start.unsupported(format!("integers of {width} bits are not supported")));
            }
            None => return Err(start.error(format!("an integer cannot have the type {ty}"))),
        };
        Ok(match ty {
            Type::Integer(1) => Attr::Bool(value != 0),
            ty => Attr::Integer(value, ty),
        })
    }

    fn float(&mut self, bytes: &mut Bytes<'a>) -> Result<Attr> {
        let start = *bytes;
        let ty = self.ty(bytes)?;
        let value = match &ty {
            Type::Float(float) if float.bits() <= 8 => elements::float(u64::from(bytes.byte()?), *float),
            Type::Float(float) => elements::float(bytes.signed_varint()? as u64, *float),
            Type::Other(name) if name == "f64" => f64::from_bits(bytes.signed_varint()? as u64),
            ty => return Err(start.unsupported(format!("constants of type {ty} are not supported"))),
        };
        Ok(Attr::Float(value, ty))
    }

    fn resource(&mut self, bytes: &mut Bytes<'a>) -> Result<Attr> {
        let ty = self.ty(bytes)?;
        let start = *bytes;
        let number = bytes.varint()?;
        let Some(key) = get(&self.tables.resources, number).filter(|key| is_key(key)) else {
            return Err(start.error(format!("no resource {number}, or its name is not an identifier")));
        };
        Ok(Attr::Other(format!("dense_resource<{key}> : {ty}")))
    }

    /// Reads `array<i32: 1, 2>`.
    fn dense_array(&mut self, bytes: &mut Bytes<'a>) -> Result<Attr> {
        let start = *bytes;
        let ty = self.ty(bytes)?;
        let count = bytes.varint()?;
        let size = bytes.varint()?;
        let data = bytes.take(size)?.rest();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let values = elements::unpacked(data, &ty, Some(count)).map_err(|message| start.error(message))?;
        self.charge(values.len(), start)?;
        let integers = || values.iter().map(elements::integer).collect::<Option<Vec<i64>>>();
        Ok(match (&ty, integers()) {
            (Type::Integer(64), Some(items)) => Attr::I64s(items),
            (Type::Integer(32), Some(items)) => {
                Attr::I32s(items.into_iter().map(|item| item as i32).collect())
            }
            _ if values.is_empty() => Attr::Other(format!("array<{ty}>")),
            _ => Attr::Other(format!("array<{ty}: {}>", join(values.iter().map(elements::spelled), ", "))),
        })
    }

    /// Reads `dense<...>` of numbers; one element stands for all.
    fn dense(&mut self, bytes: &mut Bytes<'a>) -> Result<Attr> {
        let start = *bytes;
        let ty = self.ty(bytes)?;
        let size = bytes.varint()?;
        let data = bytes.take(size)?.rest();
        let values = elements::dense(data, &ty).map_err(|message| start.error(message))?;
        self.charge(values.len(), start)?;
        Ok(match <[Attr; 1]>::try_from(values) {
            Ok([value]) => Attr::Splat(Box::new(value), ty),
            Err(values) => Attr::Dense(values, ty),
        })
    }
}

/// Returns whether a resource name needs no quotes in text.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-'))
}

/// The text of an entry that its dialect did not encode.
pub(super) fn text<'a>(entry: &Entry<'a>) -> Result<&'a str> {
    let bytes = entry.data.rest();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|_| entry.data.error("an attribute or type is not UTF-8"))
}

/// The beginning of a text, for an error message.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

//! Types: the builtin dialect's encodings, and text for those of other dialects.

use super::{
    Result,
    attributes::{Decoded, Pool, shortened, text},
    bytes::Bytes,
    tables::get,
};
use crate::{
    attribute::Attr,
    parse::type_from_text,
    types::{DYNAMIC, Float, Type, extents_to_text, join},
};

impl<'a> Pool<'a> {
    /// Reads the number of a type and decodes it.
    pub(super) fn ty(&mut self, bytes: &mut Bytes<'a>) -> Result<Type> {
        let start = *bytes;
        let number = bytes.varint()?;
        self.type_at(start, number)
    }

    pub(super) fn type_at(&mut self, start: Bytes<'a>, number: u64) -> Result<Type> {
        let decoded = match get(&self.types, number) {
            None => return Err(start.error(format!("no type {number}"))),
            Some(Some(known)) => known.clone(),
            Some(None) => {
                let value = self.nested(start, |pool| pool.decode_type(start, number))?;
                let decoded = Decoded { nodes: nodes(&value), value };
                if let Some(place) = usize::try_from(number).ok().and_then(|n| self.types.get_mut(n)) {
                    *place = Some(decoded.clone());
                }
                decoded
            }
        };
        self.charge(decoded.nodes, start)?;
        Ok(decoded.value)
    }

    fn decode_type(&mut self, start: Bytes<'a>, number: u64) -> Result<Type> {
        let Some(&entry) = get(&self.tables.types, number) else {
            return Err(start.error(format!("no type {number}")));
        };
        if !entry.is_encoded {
            let text = text(&entry)?;
            return type_from_text(text).map_err(|error| {
                entry.data.error(format!("the type '{}': {}", shortened(text), error.message))
            });
        }
        match self.tables.dialect(&entry) {
            "builtin" => self.builtin_type(entry.data),
            dialect => Err(entry.data.unsupported(format!(
                "types of the dialect '{dialect}' in its own encoding are not supported"
            ))),
        }
    }

    fn builtin_type(&mut self, mut bytes: Bytes<'a>) -> Result<Type> {
        let start = bytes;
        let other = |name: &str| Ok(Type::Other(name.to_owned()));
        match bytes.varint()? {
            0 => integer(&mut bytes),
            1 => Ok(Type::Index),
            2 => {
                let inputs = self.type_list(&mut bytes)?;
                let results = self.type_list(&mut bytes)?;
                Ok(Type::Other(format!("({}) -> ({})", join(&inputs, ", "), join(&results, ", "))))
            }
            3 => Ok(Float::Bf16.into()),
            4 => Ok(Float::F16.into()),
            5 => Ok(Float::F32.into()),
            6 => other("f64"),
            7 => other("f80"),
            8 => other("f128"),
            9 => Ok(Type::Other(format!("complex<{}>", self.ty(&mut bytes)?))),
            10 => self.memref(&mut bytes, None),
            11 => {
                let space = self.attribute(&mut bytes)?;
                self.memref(&mut bytes, Some(space))
            }
            12 => other("none"),
            13 => {
                let shape = shape(&mut bytes)?;
                Ok(Type::tensor(shape, self.ty(&mut bytes)?))
            }
            14 => Err(start.unsupported("tensors with an encoding are not supported")),
            15 => Ok(Type::Other(format!("tuple<{}>", join(self.type_list(&mut bytes)?, ", ")))),
            16..=18 => Err(start.unsupported("memrefs and tensors without a rank are not supported")),
            19 => {
                let shape = shape(&mut bytes)?;
                Ok(Type::vector(shape, self.ty(&mut bytes)?))
            }
            20 => Err(start.unsupported("scalable vectors are not supported")),
            code @ 21..=32 => Ok(narrow_float(code)),
            code => Err(start.unsupported(format!("builtin type code {code} is not supported"))),
        }
    }

    fn type_list(&mut self, bytes: &mut Bytes<'a>) -> Result<Vec<Type>> {
        (0..bytes.count("types")?).map(|_| self.ty(bytes)).collect()
    }

    /// Reads a memref. Layout and memory space are attributes of dialects, which only their text defines: the
    /// text parser decides what they mean.
    fn memref(&mut self, bytes: &mut Bytes<'a>, space: Option<Attr>) -> Result<Type> {
        let start = *bytes;
        let shape = shape(bytes)?;
        let element = self.ty(bytes)?;
        let layout = self.attribute(bytes)?.to_string();
        let mut text = format!("memref<{}{element}", extents_to_text(&shape));
        if !is_identity(&layout) {
            text.push_str(&format!(", {layout}"));
        }
        if let Some(space) = space {
            text.push_str(&format!(", {space}"));
        }
        text.push('>');
        type_from_text(&text)
            .map_err(|error| start.error(format!("the type '{}': {}", shortened(&text), error.message)))
    }
}

/// Reads extents; the smallest integer stands for a dynamic one.
fn shape(bytes: &mut Bytes<'_>) -> Result<Vec<usize>> {
    let mut shape = Vec::new();
    for _ in 0..bytes.count("extents")? {
        let start = *bytes;
        shape.push(match bytes.signed_varint()? {
            i64::MIN => DYNAMIC,
            extent => usize::try_from(extent)
                .map_err(|_| start.error(format!("an extent of {extent} is negative")))?,
        });
    }
    Ok(shape)
}

/// Reads an integer type: its width, and in the lowest two bits its sign.
fn integer(bytes: &mut Bytes<'_>) -> Result<Type> {
    let start = *bytes;
    let code = bytes.varint()?;
    let width = u32::try_from(code >> 2).map_err(|_| start.error("an integer is too wide"))?;
    match code & 3 {
        0 => Ok(Type::Integer(width)),
        1 => Ok(Type::Other(format!("si{width}"))),
        2 => Ok(Type::Other(format!("ui{width}"))),
        sign => Err(start.error(format!("there is no integer sign {sign}"))),
    }
}

/// Floats of 8 bits and fewer, and TF32.
fn narrow_float(code: u64) -> Type {
    const NAMES: [&str; 12] = [
        "tf32",
        "f8E5M2",
        "f8E4M3",
        "f8E4M3FN",
        "f8E5M2FNUZ",
        "f8E4M3FNUZ",
        "f8E4M3B11FNUZ",
        "f8E3M4",
        "f4E2M1FN",
        "f6E2M3FN",
        "f6E3M2FN",
        "f8E8M0FNU",
    ];
    let name = get(&NAMES, code.saturating_sub(21)).copied().unwrap_or_default();
    type_from_text(name).unwrap_or_else(|_| Type::Other(name.to_owned()))
}

/// Returns whether a layout is the row-major one, which a memref leaves out.
fn is_identity(layout: &str) -> bool {
    let inside = layout.strip_prefix("affine_map<(").and_then(|rest| rest.strip_suffix(")>"));
    inside.and_then(|inside| inside.split_once(") -> (")).is_some_and(|(from, to)| from == to)
}

/// Width of an integer type; an index has 64 bits.
pub(super) fn integer_width(ty: &Type) -> Option<u32> {
    match ty {
        Type::Index => Some(64),
        Type::Integer(width) => Some(*width),
        Type::Other(name) => name.strip_prefix("si").or(name.strip_prefix("ui"))?.parse().ok(),
        _ => None,
    }
}

/// Returns whether values of an integer type have no sign.
pub(super) fn is_unsigned(ty: &Type) -> bool {
    matches!(ty, Type::Other(name) if name.starts_with("ui"))
}

/// Number of values that a copy of the type holds.
fn nodes(ty: &Type) -> usize {
    match ty {
        Type::Other(text) => 1 + text.len() / 8,
        Type::Vector(shape, element) | Type::Tensor(shape, element) => 1 + shape.len() / 4 + nodes(element),
        Type::MemRef(memref) => 2 + memref.shape.len() / 4 + nodes(&memref.element),
        _ => 1,
    }
}

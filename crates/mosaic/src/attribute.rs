//! Attributes: compile-time parameters of operations.

use std::fmt::{self, Display};

use crate::types::{Float, Type, join};

/// Whether the steps of a grid dimension may run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DimensionSemantics {
    /// Parallel: steps may run in any order.
    Parallel,
    /// Arbitrary: steps run in sequence.
    Arbitrary,
}

/// The kind of core that a function runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoreType {
    /// The TensorCore, which has the MXU.
    TensorCore,
}

/// Dimension numbers of a matmul.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DotDimensions {
    /// Contracting dimensions of the left operand.
    pub lhs_contracting: Vec<usize>,
    /// Contracting dimensions of the right operand.
    pub rhs_contracting: Vec<usize>,
    /// Non-contracting dimensions of the left operand.
    pub lhs_kept: Vec<usize>,
    /// Non-contracting dimensions of the right operand.
    pub rhs_kept: Vec<usize>,
    /// Batch dimensions of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Batch dimensions of the right operand.
    pub rhs_batch: Vec<usize>,
}

impl DotDimensions {
    /// `lhs * rhs^T`: contracts the last dimension of both operands.
    pub fn rows_by_rows() -> Self {
        Self {
            lhs_contracting: vec![1],
            rhs_contracting: vec![1],
            lhs_kept: vec![0],
            rhs_kept: vec![0],
            lhs_batch: Vec::new(),
            rhs_batch: Vec::new(),
        }
    }

    /// `lhs * rhs`: contracts the last dimension of the left operand with the first of the right one.
    pub fn rows_by_columns() -> Self {
        Self { rhs_contracting: vec![0], rhs_kept: vec![1], ..Self::rows_by_rows() }
    }

    /// Output dimension order as pairs of (operand, dimension).
    pub fn output(&self) -> Vec<usize> {
        let of = |operand: usize, kept: &[usize]| -> Vec<usize> {
            kept.iter().flat_map(|&dimension| [operand, dimension]).collect()
        };
        [of(0, &self.lhs_batch), of(0, &self.lhs_kept), of(1, &self.rhs_kept)].concat()
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// A unit attribute.
    Unit,
    /// A boolean.
    Bool(bool),
    /// An integer with its type.
    Integer(i64, Type),
    /// A float with its type.
    Float(f64, Type),
    /// A string.
    String(String),
    /// A type.
    Type(Type),
    /// A symbol reference.
    Symbol(String),
    /// An array.
    Array(Vec<Attr>),
    /// A dense `i64` array, `array<i64: 1, 2>`.
    I64s(Vec<i64>),
    /// A dense `i32` array, `array<i32: 1, 2>`.
    I32s(Vec<i32>),
    /// A dictionary.
    Dict(Attributes),
    /// A splat constant of a vector or tensor.
    Splat(Box<Attr>, Type),
    /// A dense constant of a vector or tensor, row-major.
    Dense(Vec<Attr>, Type),
    /// A dimension semantics.
    DimensionSemantics(DimensionSemantics),
    /// A core type.
    CoreType(CoreType),
    /// Dimension numbers of a matmul.
    Dot(DotDimensions),
    /// An unknown attribute, kept verbatim.
    Other(String),
}

/// An attribute dictionary in print order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(String, Attr)>);

impl Attributes {
    /// Creates an empty dictionary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an attribute.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Attr>) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// Looks up an attribute by name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Returns whether the dictionary is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates in print order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the attributes not in `spelled`: those that a custom form prints in braces.
    pub(crate) fn without(&self, spelled: &[&str]) -> Self {
        let left = |(name, _): &&(String, Attr)| !spelled.contains(&name.as_str());
        Self(self.0.iter().filter(left).cloned().collect())
    }
}

impl From<bool> for Attr {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Attr {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<Attributes> for Attr {
    fn from(value: Attributes) -> Self {
        Self::Dict(value)
    }
}

impl Attr {
    /// Creates a dense `i64` array from extents.
    pub fn extents(extents: &[usize]) -> Self {
        Self::I64s(extents.iter().map(|&extent| extent as i64).collect())
    }

    /// Creates an `i32` integer.
    pub fn i32(value: usize) -> Self {
        Self::Integer(value as i64, Type::I32)
    }

    /// Creates an `i64` integer.
    pub fn i64(value: usize) -> Self {
        Self::Integer(value as i64, Type::I64)
    }
}

impl Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |(name, value): &(String, Attr)| match value {
            Attr::Unit => Name(name).to_string(),
            value => format!("{} = {value}", Name(name)),
        };
        write!(f, "{{{}}}", join(self.0.iter().map(entry), ", "))
    }
}

/// An attribute name, quoted unless it is a bare identifier.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        let is_word = self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if is_word && self.0.chars().all(bare) { f.write_str(self.0) } else { quote(self.0, f) }
    }
}

/// A symbol reference; nested parts are joined by `::@`, and quoted unless they are bare identifiers.
pub(crate) struct Symbol<'a>(pub &'a str);

impl Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |part: &str| {
            // A trailing `-` would form an arrow with a following `>`.
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-');
            !part.is_empty() && !part.ends_with('-') && part.chars().all(is_name)
        };
        for (at, part) in self.0.split("::@").enumerate() {
            f.write_str(if at == 0 { "@" } else { "::@" })?;
            if is_plain(part) { f.write_str(part)? } else { quote(part, f)? }
        }
        Ok(())
    }
}

/// A quoted MLIR string.
pub(crate) fn quote(text: &str, f: &mut impl fmt::Write) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\0A")?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// A float that MLIR reads back exactly; NaN and infinities are printed as bits.
struct Number<'a>(f64, &'a Type);

impl Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() {
            return fmt_exponent(self.0, f);
        }
        let bits = (self.0 as f32).to_bits();
        match self.1 {
            Type::Float(Float::Bf16) => write!(f, "0x{:04X}", bits >> 16),
            Type::Float(Float::F16) => write!(f, "0x{:04X}", (bits >> 16) & 0x8000 | (bits >> 13) & 0x7fff),
            Type::Float(Float::F8E4M3FN) => write!(f, "0x{:02X}", (bits >> 24) & 0x80 | 0x7f),
            Type::Float(Float::F8E5M2) => write!(f, "0x{:02X}", (bits >> 24) & 0x80 | (bits >> 21) & 0x7f),
            Type::Other(name) if name == "f64" => write!(f, "0x{:016X}", self.0.to_bits()),
            _ => write!(f, "0x{bits:08X}"),
        }
    }
}

/// Formats like MLIR (`4.480000e+02`), with more digits where six would not round-trip.
fn fmt_exponent(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let reads_back = |digits: &usize| format!("{value:.digits$e}").parse() == Ok(value);
    let digits = (6..17).find(reads_back).unwrap_or(17);
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').expect("the exponent form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    write!(f, "{mantissa}e{exponent:+03}")
}

/// An element inside `dense<...>`, where the type follows the list.
struct Element<'a>(&'a Attr);

impl Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Attr::Integer(value, Type::Integer(1)) => write!(f, "{}", *value != 0),
            Attr::Integer(value, _) => write!(f, "{value}"),
            Attr::Float(value, element) => Number(*value, element).fmt(f),
            other => other.fmt(f),
        }
    }
}

/// Elements in nested brackets, one level per dimension.
struct Nested<'a>(&'a [Attr], &'a [usize]);

impl Display for Nested<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            [] | [_] => write!(f, "[{}]", join(self.0.iter().map(Element), ", ")),
            [rows, inner @ ..] => {
                let rows = self.0.chunks((self.0.len() / rows.max(&1)).max(1));
                write!(f, "[{}]", join(rows.map(|row| Nested(row, inner)), ", "))
            }
        }
    }
}

impl Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("unit"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value, Type::Integer(1)) => write!(f, "{}", *value != 0),
            Self::Integer(value, ty) => write!(f, "{value} : {ty}"),
            Self::Float(value, ty) => write!(f, "{} : {ty}", Number(*value, ty)),
            Self::String(text) => quote(text, f),
            Self::Type(ty) => ty.fmt(f),
            Self::Symbol(name) => Symbol(name).fmt(f),
            Self::Array(items) => write!(f, "[{}]", join(items, ", ")),
            Self::I64s(items) if items.is_empty() => f.write_str("array<i64>"),
            Self::I64s(items) => write!(f, "array<i64: {}>", join(items, ", ")),
            Self::I32s(items) if items.is_empty() => f.write_str("array<i32>"),
            Self::I32s(items) => write!(f, "array<i32: {}>", join(items, ", ")),
            Self::Dict(attributes) => attributes.fmt(f),
            Self::Splat(value, ty) => write!(f, "dense<{}> : {ty}", Element(value)),
            Self::Dense(values, ty) => write!(f, "dense<{}> : {ty}", Nested(values, ty.shape())),
            Self::DimensionSemantics(semantics) => {
                let name = match semantics {
                    DimensionSemantics::Parallel => "parallel",
                    DimensionSemantics::Arbitrary => "arbitrary",
                };
                write!(f, "#tpu.dimension_semantics<{name}>")
            }
            Self::CoreType(CoreType::TensorCore) => f.write_str("#tpu.core_type<tc>"),
            Self::Dot(dot) => dot.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Display for DotDimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[usize]| format!("[{}]", join(items, ", "));
        write!(
            f,
            "#tpu.dot_dimension_numbers<{}, {}, {}, {}, {}, {}, {}>",
            list(&self.lhs_contracting),
            list(&self.rhs_contracting),
            list(&self.lhs_kept),
            list(&self.rhs_kept),
            list(&self.output()),
            list(&self.lhs_batch),
            list(&self.rhs_batch)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_spelled_as_mlir_spells_them() {
        assert_eq!(
            Attr::Dot(DotDimensions::rows_by_rows()).to_string(),
            "#tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>"
        );
        let attributes = Attributes::new()
            .with("bounds", Attr::extents(&[2, 3]))
            .with("mhlo.kind", "a \"b\"")
            .with("odd name", Attr::Unit);
        assert_eq!(
            attributes.to_string(),
            r#"{bounds = array<i64: 2, 3>, mhlo.kind = "a \"b\"", "odd name"}"#
        );
    }

    #[test]
    fn floats_read_back_exactly() {
        let spelled = |value: f32| Attr::Float(f64::from(value), Type::F32).to_string();
        assert_eq!(spelled(448.0), "4.480000e+02 : f32");
        assert_eq!(spelled(f32::NEG_INFINITY), "0xFF800000 : f32");
        let third = spelled(1.0 / 3.0);
        assert_eq!(third.trim_end_matches(" : f32").parse(), Ok(1.0f32 / 3.0));
    }
}

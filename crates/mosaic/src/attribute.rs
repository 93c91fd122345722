//! Attributes: what an operation is told beside its operands.

use std::fmt::{self, Display};

use crate::types::{Float, Type, join};

/// Whether the steps of a grid dimension may run in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DimensionSemantics {
    /// In any order, or at once.
    Parallel,
    /// One after another.
    Arbitrary,
}

/// The kind of core that a function runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoreType {
    /// The core with the matrix units.
    TensorCore,
}

/// Which dimensions of a product's operands are summed over, and which are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DotDimensions {
    /// Summed over, of the left operand.
    pub lhs_contracting: Vec<usize>,
    /// Summed over, of the right operand.
    pub rhs_contracting: Vec<usize>,
    /// Kept, of the left operand.
    pub lhs_kept: Vec<usize>,
    /// Kept, of the right operand.
    pub rhs_kept: Vec<usize>,
    /// Walked in step in both operands; of the left operand.
    pub lhs_batch: Vec<usize>,
    /// The same, of the right operand.
    pub rhs_batch: Vec<usize>,
}

impl DotDimensions {
    /// Rows times rows: the left operand times the transpose of the right one.
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

    /// Where each dimension of the result comes from: pairs of (operand, dimension).
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
    /// Present or not.
    Unit,
    /// True or false.
    Bool(bool),
    /// An integer of a type.
    Integer(i64, Type),
    /// A float of a type.
    Float(f64, Type),
    /// Text.
    String(String),
    /// A type.
    Type(Type),
    /// The name of a function.
    Symbol(String),
    /// A list.
    Array(Vec<Attr>),
    /// A list of 64-bit integers, `array<i64: 1, 2>`.
    I64s(Vec<i64>),
    /// A list of 32-bit integers, `array<i32: 1, 2>`.
    I32s(Vec<i32>),
    /// Named attributes.
    Dict(Attributes),
    /// One value for every element of a vector or tensor.
    Splat(Box<Attr>, Type),
    /// The elements of a vector or tensor, in order.
    Dense(Vec<Attr>, Type),
    /// Order of a grid dimension.
    DimensionSemantics(DimensionSemantics),
    /// Kind of core.
    CoreType(CoreType),
    /// Dimensions of a product.
    Dot(DotDimensions),
    /// An attribute that is only carried along, as it was spelled.
    Other(String),
}

/// Named attributes, in the order in which they print.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(String, Attr)>);

impl Attributes {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one, keeping the order.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Attr>) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// The attribute of this name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Those whose names are not in `spelled`: what is left for the braces of a pretty form.
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
    /// A list of 64-bit integers from extents.
    pub fn extents(extents: &[usize]) -> Self {
        Self::I64s(extents.iter().map(|&extent| extent as i64).collect())
    }

    /// An `i64` integer.
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

/// An attribute's name, in quotes where it is no bare identifier.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        if self.0.chars().all(bare) { f.write_str(self.0) } else { quote(self.0, f) }
    }
}

/// A reference to a symbol, whose parts are joined by `::@`. Parts that are no plain names are quoted.
pub(crate) struct Symbol<'a>(pub &'a str);

impl Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |part: &str| {
            // Text that follows may begin with `>`, and would make an arrow of a last `-`.
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

/// Text in MLIR's quotes.
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

/// A float as MLIR reads it back exactly; what is no number is spelled by its bits.
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
            _ => write!(f, "0x{bits:08X}"),
        }
    }
}

/// `4.480000e+02`: six digits as MLIR prints, more where six would not read back to the same number.
fn fmt_exponent(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let reads_back = |digits: &usize| format!("{value:.digits$e}").parse() == Ok(value);
    let digits = (6..17).find(reads_back).unwrap_or(17);
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').expect("the exponent form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    write!(f, "{mantissa}e{exponent:+03}")
}

/// A number inside `dense<...>`, where the type stands behind all of them.
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

/// Elements in brackets, one pair per dimension.
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

//! Attribute parser.

use std::collections::HashSet;

use half::{bf16, f16};
use octile_core::fp8::{E4m3, E5m2};

use super::{Parser, cursor::Result};
use crate::{
    attribute::{Attr, Attributes, CoreType, DimensionSemantics, DotDimensions},
    types::{Float, Type},
};

/// A number literal whose type is not known yet.
enum Number {
    Integer(i64),
    Decimal(f64),
    Bits(u64),
    Bool(bool),
}

impl Parser<'_> {
    /// Parses `{name = value, name}`, if present.
    pub(super) fn optional_dict(&mut self) -> Result<Attributes> {
        match self.cursor.looking_at("{") {
            true => self.dict("{", "}"),
            false => Ok(Attributes::new()),
        }
    }

    pub(super) fn dict(&mut self, open: &str, close: &str) -> Result<Attributes> {
        let entry = |p: &mut Self| {
            let name = match p.cursor.peek() {
                Some('"') => p.cursor.string()?,
                _ => p.cursor.word().ok_or_else(|| p.cursor.expected("the name of an attribute"))?.to_owned(),
            };
            let value = if p.cursor.eat("=") { p.attribute()? } else { Attr::Unit };
            Ok((name, value))
        };
        let mut start = self.cursor.clone();
        let entries = self.list(open, close, entry)?;
        let mut names = HashSet::new();
        if let Some((name, _)) = entries.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(start.error(format!("the attribute '{name}' is given twice")));
        }
        Ok(entries.into_iter().fold(Attributes::new(), |all, (name, value)| all.with(name, value)))
    }

    /// Merges attributes that one operation spells in two places.
    pub(super) fn joined(&mut self, attributes: Attributes, more: Attributes) -> Result<Attributes> {
        let known: HashSet<&str> = attributes.iter().map(|(name, _)| name).collect();
        if let Some((name, _)) = more.iter().find(|(name, _)| known.contains(name)) {
            return Err(self.cursor.error(format!("the attribute '{name}' is given twice")));
        }
        Ok(more.iter().fold(attributes, |all, (name, value)| all.with(name, value.clone())))
    }

    /// Parses any attribute; unknown ones are kept verbatim.
    pub(super) fn attribute(&mut self) -> Result<Attr> {
        self.nested(|p| match p.cursor.peek() {
            Some('"') => Ok(Attr::String(p.cursor.string()?)),
            Some('[') => Ok(Attr::Array(p.list("[", "]", Self::attribute)?)),
            Some('{') => Ok(Attr::Dict(p.dict("{", "}")?)),
            Some('@') => p.symbol(),
            Some('#') => p.dialect_attribute(),
            Some(c) if c == '-' || c.is_ascii_digit() => p.typed_number(),
            Some('!' | '(') => Ok(Attr::Type(p.ty()?)),
            _ => p.worded_attribute(),
        })
    }

    fn symbol(&mut self) -> Result<Attr> {
        let mut name = self.symbol_name()?;
        while self.cursor.eat("::") {
            name = format!("{name}::@{}", self.symbol_name()?);
        }
        Ok(Attr::Symbol(name))
    }

    /// Parses `@name` or `@"name"`.
    pub(super) fn symbol_name(&mut self) -> Result<String> {
        self.cursor.require("@")?;
        match self.cursor.looking_at("\"") {
            true => self.cursor.string(),
            false => Ok(self.cursor.suffix()?.to_owned()),
        }
    }

    fn worded_attribute(&mut self) -> Result<Attr> {
        let start = self.cursor.clone();
        match self.cursor.peek_word() {
            Some("true") => {
                self.cursor.word();
                Ok(Attr::Bool(true))
            }
            Some("false") => {
                self.cursor.word();
                Ok(Attr::Bool(false))
            }
            Some("unit") => {
                self.cursor.word();
                Ok(Attr::Unit)
            }
            Some("array") => self.integers(),
            Some("dense") => self.dense(),
            Some("affine_map" | "affine_set" | "strided" | "dense_resource" | "sparse" | "opaque") => {
                self.cursor.word();
                self.cursor.balanced()?;
                if self.cursor.eat(":") {
                    self.ty()?;
                }
                Ok(Attr::Other(self.cursor.since(&start).to_owned()))
            }
            Some("loc") => {
                self.cursor.word();
                Ok(Attr::Other(format!("loc{}", self.cursor.balanced()?)))
            }
            Some(_) => Ok(Attr::Type(self.ty()?)),
            None => Err(self.cursor.expected("an attribute")),
        }
    }

    /// Parses `array<i64: 1, 2>`.
    fn integers(&mut self) -> Result<Attr> {
        let start = self.cursor.clone();
        self.cursor.word();
        let text = self.cursor.balanced()?;
        let inside = text.trim_start_matches('<').trim_end_matches('>');
        let (ty, list) = inside.split_once(':').unwrap_or((inside, ""));
        let items = || list.split(',').map(str::trim).filter(|item| !item.is_empty());
        let bad = || start.clone().error(format!("'array{text}' holds values that do not fit its type"));
        match ty.trim() {
            "i64" => items()
                .map(str::parse)
                .collect::<std::result::Result<_, _>>()
                .map(Attr::I64s)
                .map_err(|_| bad()),
            "i32" => items()
                .map(str::parse)
                .collect::<std::result::Result<_, _>>()
                .map(Attr::I32s)
                .map_err(|_| bad()),
            _ => Ok(Attr::Other(self.cursor.since(&start).to_owned())),
        }
    }

    /// Parses `dense<0.0> : type` or `dense<[1, 2]> : type`.
    fn dense(&mut self) -> Result<Attr> {
        let start = self.cursor.clone();
        self.cursor.word();
        if self.cursor.clone().balanced()?.starts_with("<\"") || self.has_complex_elements()? {
            // Elements given as one hexadecimal blob, or complex numbers.
            self.cursor.balanced()?;
            self.cursor.require(":")?;
            self.ty()?;
            return Ok(Attr::Other(self.cursor.since(&start).to_owned()));
        }
        self.cursor.require("<")?;
        let mut numbers = Vec::new();
        let splat = !self.cursor.looking_at("[");
        if !self.cursor.looking_at(">") {
            self.dense_elements(&mut numbers)?;
        }
        self.cursor.require(">")?;
        self.cursor.require(":")?;
        let ty = self.ty()?;
        let values: Vec<Attr> = numbers.into_iter().map(|number| number.of(ty.element())).collect();
        let len = ty.shape().iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
        if let ([value], true) = (values.as_slice(), splat) {
            return Ok(Attr::Splat(Box::new(value.clone()), ty));
        }
        match values.len() {
            held if len != Some(held) => {
                Err(start.clone().error(format!("a constant of type {ty} has {held} elements")))
            }
            _ => Ok(Attr::Dense(values, ty)),
        }
    }

    fn has_complex_elements(&mut self) -> Result<bool> {
        let text = self.cursor.clone().balanced()?;
        Ok(text.trim_start_matches(['<', '[', ' ']).starts_with('('))
    }

    fn dense_elements(&mut self, into: &mut Vec<Number>) -> Result<()> {
        if self.cursor.looking_at("[") {
            self.list("[", "]", |p| p.nested(|p| p.dense_elements(into)))?;
            return Ok(());
        }
        into.push(self.number()?);
        Ok(())
    }

    fn number(&mut self) -> Result<Number> {
        if self.cursor.eat_word("true") {
            return Ok(Number::Bool(true));
        }
        if self.cursor.eat_word("false") {
            return Ok(Number::Bool(false));
        }
        let mut start = self.cursor.clone();
        let negative = self.cursor.eat("-");
        if self.cursor.eat("0x") {
            let digits = self.cursor.run(|c| c.is_ascii_hexdigit());
            let bits = u64::from_str_radix(digits, 16);
            return bits.map(Number::Bits).map_err(|_| start.expected("at most 16 hexadecimal digits"));
        }
        self.cursor.peek();
        let whole = self.cursor.run(|c| c.is_ascii_digit());
        if whole.is_empty() {
            return Err(start.expected("a number"));
        }
        let mut ahead = self.cursor.clone();
        let decimal = ahead.run(|c| c == '.');
        if decimal.is_empty() {
            let text = if negative { format!("-{whole}") } else { whole.to_owned() };
            return match (text.parse::<i64>(), text.parse::<u64>()) {
                (Ok(value), _) => Ok(Number::Integer(value)),
                (_, Ok(value)) => Ok(Number::Integer(value as i64)),
                _ => Err(start.error("number does not fit in 64 bits")),
            };
        }
        self.cursor.run(|c| c == '.' || c.is_ascii_digit());
        if !self.cursor.run(|c| matches!(c, 'e' | 'E')).is_empty() {
            self.cursor.run(|c| c == '-' || c == '+' || c.is_ascii_digit());
        }
        let text = self.cursor.since(&start);
        text.replace(' ', "").parse().map(Number::Decimal).map_err(|_| start.expected("a number"))
    }

    /// Parses `5 : i32` or `1.0 : f32`; an untyped integer is `i64`.
    fn typed_number(&mut self) -> Result<Attr> {
        let number = self.number()?;
        let ty = match self.cursor.eat(":") {
            true => self.ty()?,
            false => match number {
                Number::Decimal(_) => Type::Other("f64".to_owned()),
                _ => Type::I64,
            },
        };
        Ok(number.of(&ty))
    }

    /// Parses `#tpu.core_type<tc>`, another dialect's attribute, or an alias.
    fn dialect_attribute(&mut self) -> Result<Attr> {
        let start = self.cursor.clone();
        self.cursor.require("#")?;
        let name = self.cursor.suffix()?;
        if let Some(alias) = self.aliases.get(&format!("#{name}")).cloned() {
            return self.elsewhere(alias, Self::attribute);
        }
        if name == "tpu.dot_dimension_numbers" {
            return self.dot_dimensions(&start);
        }
        if !name.contains('.') && !self.cursor.rest().starts_with('<') {
            return Err(start.clone().error(format!("the attribute alias '#{name}' is not defined")));
        }
        if self.cursor.looking_at("<") {
            self.cursor.balanced()?;
        }
        Ok(match self.cursor.since(&start) {
            "#tpu.core_type<tc>" => Attr::CoreType(CoreType::TensorCore),
            "#tpu.dimension_semantics<parallel>" => Attr::DimensionSemantics(DimensionSemantics::Parallel),
            "#tpu.dimension_semantics<arbitrary>" => Attr::DimensionSemantics(DimensionSemantics::Arbitrary),
            other => Attr::Other(other.to_owned()),
        })
    }

    /// Dimension numbers with an unusual output order are kept verbatim.
    fn dot_dimensions(&mut self, start: &super::cursor::Cursor<'_>) -> Result<Attr> {
        let lists = self.list("<", ">", |p| p.list("[", "]", |p| p.cursor.unsigned()))?;
        let Ok([lhs_contracting, rhs_contracting, lhs_kept, rhs_kept, output, lhs_batch, rhs_batch]) =
            <[Vec<usize>; 7]>::try_from(lists)
        else {
            return Err(start.clone().error("dimension_numbers needs seven lists"));
        };
        let dot =
            DotDimensions { lhs_contracting, rhs_contracting, lhs_kept, rhs_kept, lhs_batch, rhs_batch };
        if dot.output() == output {
            return Ok(Attr::Dot(dot));
        }
        Ok(Attr::Other(self.cursor.since(start).to_owned()))
    }
}

impl Number {
    fn of(self, ty: &Type) -> Attr {
        match (self, ty) {
            (Self::Bool(value), _) => Attr::Integer(value.into(), Type::I1),
            (Self::Integer(value), Type::Float(_)) => Attr::Float(value as f64, ty.clone()),
            (Self::Integer(value), Type::Other(name)) if name == "f64" => {
                Attr::Float(value as f64, ty.clone())
            }
            (Self::Integer(value), _) => Attr::Integer(value, ty.clone()),
            (Self::Bits(bits), Type::Other(name)) if name == "f64" => {
                Attr::Float(f64::from_bits(bits), ty.clone())
            }
            (Self::Decimal(value), _) => Attr::Float(value, ty.clone()),
            (Self::Bits(bits), Type::Float(float)) => Attr::Float(float_from_bits(bits, *float), ty.clone()),
            (Self::Bits(bits), _) => Attr::Integer(bits as i64, ty.clone()),
        }
    }
}

/// Decodes the bits of a float.
pub(crate) fn float_from_bits(bits: u64, float: Float) -> f64 {
    f64::from(match float {
        Float::F32 => f32::from_bits(bits as u32),
        Float::Bf16 => bf16::from_bits(bits as u16).to_f32(),
        Float::F16 => f16::from_bits(bits as u16).to_f32(),
        Float::F8E4M3FN => E4m3::from_bits(bits as u8).to_f32(),
        Float::F8E5M2 => E5m2::from_bits(bits as u8).to_f32(),
    })
}

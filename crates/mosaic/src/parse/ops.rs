//! Parses functions, regions, operations and value names.

use std::{borrow::Cow, collections::HashMap};

use super::{
    Parser,
    cursor::{Cursor, Result},
};
use crate::{
    attribute::{Attr, Attributes},
    ir::{Function, Op, Region, Value, ValueInfo, Visibility},
    types::Type,
};

/// Values of the function being parsed.
#[derive(Default)]
pub(super) struct Scope {
    values: Vec<ValueInfo>,
    /// Values by name: `%2:2` names two.
    names: HashMap<String, Vec<Value>>,
    /// Names defined by each open region, innermost last.
    regions: Vec<Vec<String>>,
}

impl Scope {
    /// Defines `name` as new values of these types; `None` if the name is already in scope.
    fn define(&mut self, name: &str, types: &[Type]) -> Option<Vec<Value>> {
        if self.names.contains_key(name) {
            return None;
        }
        let numbered = name.bytes().all(|b| b.is_ascii_digit());
        let values: Vec<Value> = types
            .iter()
            .map(|ty| {
                let name = (!numbered).then(|| Cow::Owned(name.to_owned()));
                self.values.push(ValueInfo { ty: ty.clone(), name });
                Value(self.values.len() as u32 - 1)
            })
            .collect();
        self.names.insert(name.to_owned(), values.clone());
        if let Some(region) = self.regions.last_mut() {
            region.push(name.to_owned());
        }
        Some(values)
    }

    fn open(&mut self) {
        self.regions.push(Vec::new());
    }

    /// Drops the names of the innermost region.
    fn close(&mut self) {
        for name in self.regions.pop().unwrap_or_default() {
            self.names.remove(&name);
        }
    }
}

/// An operation whose results are not defined yet.
pub(super) struct Unnamed {
    pub(super) name: String,
    pub(super) operands: Vec<Value>,
    pub(super) attributes: Attributes,
    pub(super) regions: Vec<Region>,
    pub(super) results: Vec<Type>,
}

impl Unnamed {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            operands: Vec::new(),
            attributes: Attributes::new(),
            regions: Vec::new(),
            results: Vec::new(),
        }
    }
}

impl Parser<'_> {
    pub(super) fn function_after_keyword(&mut self) -> Result<Function> {
        self.function = Scope::default();
        let visibility = match self.cursor.peek_word() {
            Some("private") => Visibility::Private,
            _ => Visibility::Public,
        };
        if matches!(self.cursor.peek_word(), Some("private" | "public" | "nested")) {
            self.cursor.word();
        }
        let name = self.symbol_name()?;
        let arguments = self.list("(", ")", Self::argument_and_attributes)?;
        let (arguments, argument_attributes): (Vec<Value>, Vec<Attributes>) = arguments.into_iter().unzip();
        let (mut results, mut result_attributes) = (Vec::new(), Vec::new());
        if self.cursor.eat("->") {
            (results, result_attributes) = match self.cursor.looking_at("(") {
                true => self.list("(", ")", |p| Ok((p.ty()?, p.optional_dict()?)))?.into_iter().unzip(),
                false => (vec![self.ty()?], Vec::new()),
            };
        }
        let mut attributes = match self.cursor.eat_word("attributes") {
            true => self.dict("{", "}")?,
            false => Attributes::new(),
        };
        for (name, list) in [("arg_attrs", argument_attributes), ("res_attrs", result_attributes)] {
            if list.iter().any(|attributes| !attributes.is_empty()) {
                let list =
                    Attributes::new().with(name, Attr::Array(list.into_iter().map(Attr::Dict).collect()));
                attributes = self.joined(attributes, list)?;
            }
        }
        let body = Region { arguments, ops: self.braced_ops()? };
        self.location()?;
        let values = self.take_values();
        Ok(Function { name, visibility, results, attributes, body, values })
    }

    /// Takes the values of the function that has been parsed.
    pub(super) fn take_values(&mut self) -> Vec<ValueInfo> {
        std::mem::take(&mut self.function.values)
    }

    /// Adds a value that the text does not name.
    pub(super) fn add_value(&mut self, info: ValueInfo) -> Value {
        self.function.values.push(info);
        Value(self.function.values.len() as u32 - 1)
    }

    /// Parses `%name: type {attributes} loc(...)`.
    pub(super) fn argument(&mut self) -> Result<Value> {
        Ok(self.argument_and_attributes()?.0)
    }

    fn argument_and_attributes(&mut self) -> Result<(Value, Attributes)> {
        let mut start = self.cursor.clone();
        self.cursor.require("%")?;
        let name = self.cursor.suffix()?.to_owned();
        self.cursor.require(":")?;
        let ty = self.ty()?;
        let attributes = self.optional_dict()?;
        let location = self.location()?;
        let Some(&value) = self.define(&mut start, &name, &[ty])?.first() else {
            return Err(start.expected("an argument"));
        };
        if let Some(name) = location.argument_name() {
            self.function.values[value.index()].name = Some(Cow::Owned(name));
        }
        Ok((value, attributes))
    }

    /// Defines values named at `start`.
    pub(super) fn define(
        &mut self,
        start: &mut Cursor<'_>,
        name: &str,
        types: &[Type],
    ) -> Result<Vec<Value>> {
        let defined = self.function.define(name, types);
        defined.ok_or_else(|| start.error(format!("%{name} is defined twice")))
    }

    pub(super) fn type_of(&self, value: Value) -> &Type {
        &self.function.values[value.index()].ty
    }

    /// Parses `%name` or `%name#1`.
    pub(super) fn operand(&mut self) -> Result<Value> {
        let mut start = self.cursor.clone();
        self.cursor.require("%")?;
        let name = self.cursor.suffix()?;
        let number = match self.cursor.eat("#") {
            true => self.cursor.unsigned()?,
            false => 0,
        };
        match self.function.names.get(name).map(|values| values.get(number)) {
            Some(Some(value)) => Ok(*value),
            Some(None) => Err(start.error(format!("%{name} has no result number {number}"))),
            None => Err(start.error(format!("%{name} is used before its definition"))),
        }
    }

    /// Parses zero or more comma-separated operands.
    pub(super) fn operands(&mut self) -> Result<Vec<Value>> {
        let mut operands = Vec::new();
        if !self.cursor.looking_at("%") {
            return Ok(operands);
        }
        loop {
            operands.push(self.operand()?);
            let mut ahead = self.cursor.clone();
            if !(ahead.eat(",") && ahead.looking_at("%")) {
                return Ok(operands);
            }
            self.cursor = ahead;
        }
    }

    /// Parses `{ op op ... }` in its own scope.
    pub(super) fn braced_ops(&mut self) -> Result<Vec<Op>> {
        self.cursor.require("{")?;
        self.ops_to_brace()
    }

    fn ops_to_brace(&mut self) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        while !self.cursor.eat("}") {
            if self.cursor.looking_at("^") {
                return Err(self
                    .cursor
                    .unsupported("regions with several blocks are not supported: use scf operations"));
            }
            ops.push(self.op()?);
        }
        Ok(ops)
    }

    /// Parses a region; `before` defines block arguments that a custom form names outside the braces.
    pub(super) fn region(&mut self, before: impl FnOnce(&mut Self) -> Result<Vec<Value>>) -> Result<Region> {
        self.nested(|p| {
            p.function.open();
            let mut arguments = before(p)?;
            p.cursor.require("{")?;
            if p.cursor.eat("^") {
                p.cursor.suffix()?;
                if p.cursor.looking_at("(") {
                    arguments = p.list("(", ")", Self::argument)?;
                }
                p.cursor.require(":")?;
            }
            let ops = p.ops_to_brace()?;
            p.function.close();
            Ok(Region { arguments, ops })
        })
    }

    fn op(&mut self) -> Result<Op> {
        let place = self.cursor.place();
        let mut first = self.cursor.clone();
        let names = self.result_names()?;
        let mut start = self.cursor.clone();
        let op = match self.cursor.peek() {
            Some('"') => self.generic()?,
            _ => self.short()?,
        };
        let (location, source) = self.location()?.of_op();
        let expected = names.iter().fold(0usize, |all, (_, count)| all.saturating_add(*count));
        if !names.is_empty() && expected != op.results.len() {
            let made = op.results.len();
            return Err(start.error(format!("{} has {made} results, but {expected} names", op.name)));
        }
        let mut types = op.results.as_slice();
        let mut results = Vec::new();
        for (name, count) in names {
            let (these, rest) = types.split_at(count);
            results.extend(self.define(&mut first, &name, these)?);
            types = rest;
        }
        // Unnamed results are still results.
        results.extend(types.iter().map(|ty| self.add_value(ValueInfo { ty: ty.clone(), name: None })));
        let Unnamed { name, operands, attributes, regions, .. } = op;
        let place = Some(place);
        let location = location.map(|name| Cow::Owned(name.to_string()));
        Ok(Op { name: name.into(), operands, results, attributes, regions, location, place, source })
    }

    /// Parses `%a, %b:2 =`, if present.
    fn result_names(&mut self) -> Result<Vec<(String, usize)>> {
        let mut names = Vec::new();
        while self.cursor.eat("%") {
            let name = self.cursor.suffix()?.to_owned();
            let count = match self.cursor.eat(":") {
                true => self.cursor.unsigned()?,
                false => 1,
            };
            names.push((name, count));
            if !self.cursor.eat(",") {
                self.cursor.require("=")?;
                break;
            }
        }
        Ok(names)
    }

    /// Parses `"name"(operands) <{properties}> ({regions}) {attributes} : (types) -> types`.
    fn generic(&mut self) -> Result<Unnamed> {
        let mut start = self.cursor.clone();
        let mut op = Unnamed::new(self.cursor.string()?);
        if !op.name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-')) {
            return Err(start.error("invalid operation name: use letters, digits, '_', '$', '.' and '-'"));
        }
        op.operands = self.list("(", ")", Self::operand)?;
        if self.cursor.looking_at("[") {
            return Err(self
                .cursor
                .unsupported("branches between blocks are not supported: use scf operations"));
        }
        if self.cursor.eat("<") {
            op.attributes = self.dict("{", "}")?;
            self.cursor.require(">")?;
        }
        if self.cursor.looking_at("(") {
            op.regions = self.list("(", ")", |p| p.region(|_| Ok(Vec::new())))?;
        }
        let more = self.optional_dict()?;
        op.attributes = self.joined(op.attributes, more)?;
        self.cursor.require(":")?;
        self.bracketed_operand_types(&op)?;
        self.cursor.require("->")?;
        op.results = self.result_types()?;
        Ok(op)
    }

    /// Parses `(type, ...)`, the types of all operands in order.
    pub(super) fn bracketed_operand_types(&mut self, op: &Unnamed) -> Result<()> {
        let mut start = self.cursor.clone();
        let types = self.list("(", ")", Self::ty)?;
        self.require_types(&mut start, op, &op.operands, &types)
    }

    /// `type, ...`: the types of all operands, in order.
    pub(super) fn ordered_operand_types(&mut self, op: &Unnamed) -> Result<()> {
        let mut start = self.cursor.clone();
        let mut types = vec![self.ty()?];
        while self.cursor.eat(",") {
            types.push(self.ty()?);
        }
        self.require_types(&mut start, op, &op.operands, &types)
    }

    /// Rejects types, spelled at `start`, that differ from those of the operands.
    pub(super) fn require_types(
        &self,
        start: &mut Cursor<'_>,
        op: &Unnamed,
        operands: &[Value],
        types: &[Type],
    ) -> Result<()> {
        match operands.iter().map(|&operand| self.type_of(operand)).eq(types) {
            true => Ok(()),
            false => Err(start.error(format!("these are not the operand types of {}", op.name))),
        }
    }

    /// Parses a type that must be that of an operand.
    pub(super) fn operand_type(&mut self, op: &Unnamed) -> Result<Type> {
        let mut start = self.cursor.clone();
        let ty = self.ty()?;
        match op.operands.iter().any(|&operand| *self.type_of(operand) == ty) {
            true => Ok(ty),
            false => Err(start.error(format!("no operand of {} has the type {ty}", op.name))),
        }
    }

    /// Parses comma-separated operand types; some forms omit those of indices.
    pub(super) fn operand_types(&mut self, op: &Unnamed) -> Result<()> {
        self.operand_type(op)?;
        while self.cursor.eat(",") {
            self.operand_type(op)?;
        }
        Ok(())
    }

    /// Parses one type shared by all these operands.
    pub(super) fn common_type(&mut self, op: &Unnamed, operands: &[Value]) -> Result<Type> {
        let mut start = self.cursor.clone();
        let ty = self.ty()?;
        match operands.iter().map(|&operand| self.type_of(operand)).find(|other| **other != ty) {
            None => Ok(ty),
            Some(other) => {
                Err(start.error(format!("an operand of {} has the type {other}, not {ty}", op.name)))
            }
        }
    }
}

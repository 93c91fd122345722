//! Custom assembly forms of the program around a kernel: StableHLO, CHLO and Shardy.
//!
//! Most forms are operands, then `name = value` pairs, then the types; [`Parser::plain`] reads those of every
//! operation, known or not.

use super::{Parser, cursor::Result, ops::Unnamed};
use crate::{
    attribute::{Attr, Attributes},
    ir::{Op, Region, Value, ValueInfo},
    types::Type,
};

/// Dialects whose forms are read here.
pub(super) fn is_host(name: &str) -> bool {
    ["stablehlo.", "chlo.", "sdy.", "mhlo."].iter().any(|dialect| name.starts_with(dialect))
}

/// Attributes that a form spells with another word: operation, word, attribute.
const WORDS: &[(&str, &str, &str)] = &[
    ("stablehlo.broadcast_in_dim", "dims", "broadcast_dimensions"),
    ("stablehlo.dynamic_broadcast_in_dim", "dims", "broadcast_dimensions"),
    ("stablehlo.broadcast", "sizes", "broadcast_sizes"),
    ("stablehlo.transpose", "dims", "permutation"),
    ("stablehlo.reverse", "dims", "dimensions"),
    ("stablehlo.pad", "low", "edge_padding_low"),
    ("stablehlo.pad", "high", "edge_padding_high"),
    ("stablehlo.pad", "interior", "interior_padding"),
    ("stablehlo.concatenate", "dim", "dimension"),
    ("stablehlo.iota", "dim", "iota_dimension"),
    ("stablehlo.dynamic_iota", "dim", "iota_dimension"),
    ("stablehlo.dynamic_slice", "sizes", "slice_sizes"),
    ("stablehlo.get_dimension_size", "dim", "dimension"),
    ("stablehlo.fft", "type", "fft_type"),
    ("stablehlo.fft", "length", "fft_length"),
    ("stablehlo.rng_bit_generator", "algorithm", "rng_algorithm"),
    ("stablehlo.rng", "distribution", "rng_distribution"),
];

impl Parser<'_> {
    /// Parses an operation of these dialects that is not in the generic form.
    pub(super) fn host_op(&mut self, op: Unnamed) -> Result<Unnamed> {
        match op.name.as_str() {
            "stablehlo.constant" | "chlo.constant" => self.host_constant(op),
            "stablehlo.custom_call" => self.custom_call(op),
            "stablehlo.compare" => self.host_compare(op),
            "stablehlo.slice" => self.slice(op),
            "stablehlo.select" => self.host_select(op),
            "stablehlo.dot_general" | "stablehlo.dot" => self.dot(op),
            "stablehlo.reduce" => self.reduce(op),
            "stablehlo.while" => self.host_while(op),
            "stablehlo.composite" => self.composite(op),
            "stablehlo.convolution" => self.convolution(op),
            "stablehlo.get_tuple_element" => self.tuple_element(op),
            "sdy.manual_computation" => self.manual_computation(op),
            _ => self.plain(op),
        }
    }

    /// Parses `%a, %b, name = value {attributes} : types`, with or without parentheses.
    fn plain(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let enclosed = self.cursor.eat("(");
        loop {
            if self.cursor.looking_at("%") {
                op.operands.push(self.operand()?);
            } else if self.cursor.looking_at("<") {
                let text = format!("#sdy.sharding{}", self.cursor.balanced()?);
                op.attributes = op.attributes.with("sharding", Attr::Other(text));
            } else if !self.named_value(&mut op)? {
                break;
            }
            // Shardy's attributes follow without a comma.
            if !self.cursor.eat(",") && !self.cursor.looking_at("<") {
                break;
            }
        }
        if enclosed {
            self.cursor.require(")")?;
        }
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }

    /// Parses `name = value`, if it comes next.
    fn named_value(&mut self, op: &mut Unnamed) -> Result<bool> {
        let Some(word) = self.cursor.peek_word() else { return Ok(false) };
        self.cursor.word();
        self.cursor.require("=")?;
        let listed = WORDS.iter().find(|(name, spelled, _)| *name == op.name && *spelled == word);
        let name = listed.map_or(word, |(_, _, attribute)| *attribute);
        let value = match self.cursor.peek() {
            Some('[') => match self.integer_list() {
                Some(items) => Attr::I64s(items),
                None => self.attribute()?,
            },
            // The colon after it belongs to the operation.
            Some(c) if c == '-' || c.is_ascii_digit() => Attr::Integer(self.cursor.signed()?, Type::I64),
            Some('<') => Attr::String(self.cursor.balanced()?.to_owned()),
            Some(c) if c.is_ascii_alphabetic() && !self.looking_at_bool() => {
                let word = self.cursor.word().unwrap_or_default();
                Attr::String(word.to_owned())
            }
            _ => self.attribute()?,
        };
        op.attributes = std::mem::take(&mut op.attributes).with(name, value);
        Ok(true)
    }

    fn looking_at_bool(&mut self) -> bool {
        matches!(self.cursor.peek_word(), Some("true" | "false"))
    }

    /// Parses `[1, 2]`; reads nothing if the list holds something else.
    fn integer_list(&mut self) -> Option<Vec<i64>> {
        let before = self.cursor.clone();
        let items = self.list("[", "]", |p| p.cursor.signed());
        if items.is_err() {
            self.cursor = before;
        }
        items.ok()
    }

    fn more_attributes(&mut self, attributes: Attributes) -> Result<Attributes> {
        let braces = self.optional_dict()?;
        self.joined(attributes, braces)
    }

    /// Parses `: type`, `: (types) -> types` or `: types -> types`.
    fn signature(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        if !self.cursor.eat(":") {
            let message = format!("unknown custom form of '{}': print the module in generic form", op.name);
            return Err(self.cursor.unsupported(message));
        }
        if self.cursor.looking_at("(") {
            self.bracketed_operand_types(&op)?;
            self.cursor.require("->")?;
            op.results = self.result_types()?;
            return Ok(op);
        }
        let mut start = self.cursor.clone();
        let types = self.types()?;
        if self.cursor.eat("->") {
            self.require_types(&mut start, &op, &op.operands, &types)?;
            op.results = self.result_types()?;
            return Ok(op);
        }
        // One type stands for all operands and the result; several are those of the results, in order.
        let [ty] = &types[..] else {
            op.results = types;
            return Ok(op);
        };
        if let Some(other) = op.operands.iter().map(|&operand| self.type_of(operand)).find(|o| *o != ty) {
            return Err(start.error(format!("an operand of {} has the type {other}, not {ty}", op.name)));
        }
        op.results = types;
        Ok(op)
    }

    fn host_constant(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.attributes = self.optional_dict()?;
        let mut start = self.cursor.clone();
        let value = self.attribute()?;
        let ty = match &value {
            Attr::Splat(_, ty) | Attr::Dense(_, ty) => Some(ty.clone()),
            Attr::Other(text) => self.type_at_end(text),
            _ => None,
        };
        let Some(ty) = ty else { return Err(start.expected("dense<...> : type")) };
        op.attributes = op.attributes.with("value", value);
        op.results.push(ty);
        Ok(op)
    }

    /// Type of a constant that is kept verbatim, `dense<...> : type`.
    fn type_at_end(&self, text: &str) -> Option<Type> {
        let (_, ty) = text.rsplit_once(": ")?;
        Parser::new(ty).ty().ok()
    }

    /// Parses `@target(%a, %b) {attributes} : types`.
    fn custom_call(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let target = self.symbol_name()?;
        op.attributes = op.attributes.with("call_target_name", Attr::String(target));
        op.operands = self.list("(", ")", Self::operand)?;
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }

    /// Parses `LT, %a, %b, SIGNED : types`.
    fn host_compare(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let word = self.cursor.word().ok_or_else(|| self.cursor.expected("a comparison direction"))?;
        let direction = Attr::Other(format!("#stablehlo<comparison_direction {word}>"));
        op.attributes = op.attributes.with("comparison_direction", direction);
        self.cursor.require(",")?;
        op.operands = self.operands()?;
        if self.cursor.eat(",") {
            let word = self.cursor.word().ok_or_else(|| self.cursor.expected("a comparison type"))?;
            let kind = Attr::Other(format!("#stablehlo<comparison_type {word}>"));
            op.attributes = op.attributes.with("compare_type", kind);
        }
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }

    /// Parses `%a [0:8, 0:128:2] : types`.
    fn slice(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands.push(self.operand()?);
        let ranges = self.list("[", "]", |p| {
            let start = p.cursor.signed()?;
            p.cursor.require(":")?;
            let limit = p.cursor.signed()?;
            let by = if p.cursor.eat(":") { p.cursor.signed()? } else { 1 };
            Ok([start, limit, by])
        })?;
        for (number, name) in ["start_indices", "limit_indices", "strides"].into_iter().enumerate() {
            let items = ranges.iter().filter_map(|range| range.get(number).copied()).collect();
            op.attributes = op.attributes.with(name, Attr::I64s(items));
        }
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }

    /// Parses `%p, %a, %b : type of the predicate, type of the rest`.
    fn host_select(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands = self.operands()?;
        op.attributes = self.optional_dict()?;
        let mut ahead = self.cursor.clone();
        if ahead.eat(":") && ahead.looking_at("(") {
            return self.signature(op);
        }
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        self.cursor.require(",")?;
        let choices = op.operands.get(1..).unwrap_or_default();
        op.results.push(self.common_type(&op, choices)?);
        Ok(op)
    }

    /// Parses `%a, %b, batching_dims = [0] x [0], contracting_dims = [1] x [0], precision = [...] : types`.
    fn dot(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands = self.operands()?;
        let mut numbers = Vec::new();
        while self.cursor.eat(",") {
            let word = self.cursor.word().ok_or_else(|| self.cursor.expected("a word"))?;
            self.cursor.require("=")?;
            let (name, value) = match word {
                "batching_dims" | "contracting_dims" => {
                    let kind = if word == "batching_dims" { "batching" } else { "contracting" };
                    let lhs = self.cursor.balanced()?;
                    self.cursor.require("x")?;
                    let rhs = self.cursor.balanced()?;
                    numbers.push(format!("lhs_{kind}_dimensions = {lhs}"));
                    numbers.push(format!("rhs_{kind}_dimensions = {rhs}"));
                    continue;
                }
                "precision" => {
                    let words = self.list("[", "]", |p| {
                        let word = p.cursor.word().ok_or_else(|| p.cursor.expected("a precision"))?;
                        Ok(Attr::Other(format!("#stablehlo<precision {word}>")))
                    })?;
                    ("precision_config", Attr::Array(words))
                }
                "algorithm" => {
                    let text = format!("#stablehlo.dot_algorithm{}", self.cursor.balanced()?);
                    ("algorithm", Attr::Other(text))
                }
                other => return Err(self.cursor.unsupported(format!("a matmul with '{other}'"))),
            };
            op.attributes = op.attributes.with(name, value);
        }
        if op.name == "stablehlo.dot_general" {
            let text = format!("#stablehlo.dot<{}>", numbers.join(", "));
            op.attributes = op.attributes.with("dot_dimension_numbers", Attr::Other(text));
        }
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }

    /// Parses `(%a init: %b), ... applies stablehlo.add across dimensions = [1] : types`, or the same with a
    /// `reducer` after the types.
    fn reduce(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let (mut inputs, mut initial) = (Vec::new(), Vec::new());
        loop {
            self.cursor.require("(")?;
            inputs.push(self.operand()?);
            self.cursor.require("init")?;
            self.cursor.require(":")?;
            initial.push(self.operand()?);
            self.cursor.require(")")?;
            if !self.cursor.eat(",") {
                break;
            }
        }
        op.operands = [inputs, initial.clone()].concat();
        let applied = match self.cursor.eat_word("applies") {
            true => Some(self.cursor.word().ok_or_else(|| self.cursor.expected("an operation"))?.to_owned()),
            false => None,
        };
        for word in ["across", "dimensions"] {
            if !self.cursor.eat_word(word) {
                return Err(self.cursor.expected(&format!("'{word}'")));
            }
        }
        self.cursor.require("=")?;
        let dimensions = self.list("[", "]", |p| p.cursor.signed())?;
        op.attributes = op.attributes.with("dimensions", Attr::I64s(dimensions));
        op.attributes = self.more_attributes(op.attributes)?;
        let mut op = self.signature(op)?;
        let types: Vec<Type> = initial.iter().map(|&value| self.type_of(value).clone()).collect();
        op.regions.push(match applied {
            Some(name) => self.applied(name, &types),
            None => self.reducer()?,
        });
        Ok(op)
    }

    /// The region that applies one operation to its two arguments.
    fn applied(&mut self, name: String, types: &[Type]) -> Region {
        let mut value = |ty: &Type| self.unnamed(ty.clone());
        let Some(ty) = types.first() else { return Region::default() };
        let (arguments, result) = (vec![value(ty), value(ty)], value(ty));
        let place = Some(self.cursor.place());
        let op = |name: String, operands: Vec<Value>, results: Vec<Value>| Op {
            name: name.into(),
            operands,
            results,
            attributes: Attributes::new(),
            regions: Vec::new(),
            location: None,
            place,
            source: None,
        };
        let ops = vec![
            op(name, arguments.clone(), vec![result]),
            op("stablehlo.return".to_owned(), vec![result], Vec::new()),
        ];
        Region { arguments, ops }
    }

    fn unnamed(&mut self, ty: Type) -> Value {
        self.add_value(ValueInfo { ty, name: None })
    }

    /// Parses `reducer(%a: type, %b: type) (%c: type, %d: type) { ... }`: one pair per input, of which the
    /// block takes all first ones, then all second ones.
    fn reducer(&mut self) -> Result<Region> {
        if !self.cursor.eat_word("reducer") {
            return Err(self.cursor.expected("'reducer'"));
        }
        self.region(|p| {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            while p.cursor.looking_at("(") {
                let mut start = p.cursor.clone();
                let pair = p.list("(", ")", Self::argument)?;
                let [a, b] = pair[..] else { return Err(start.expected("two arguments")) };
                first.push(a);
                second.push(b);
            }
            first.append(&mut second);
            Ok(first)
        })
    }

    /// Parses `(%i = %a, ...) : types attributes {...} cond { ... } do { ... }`.
    fn host_while(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let mut start = self.cursor.clone();
        let names = self.initial_values(&mut op)?;
        if self.cursor.eat(":") && !names.is_empty() {
            let mut types_start = self.cursor.clone();
            op.results = self.types()?;
            self.require_types(&mut types_start, &op, &op.operands, &op.results)?;
        }
        if self.cursor.eat_word("attributes") {
            op.attributes = self.dict("{", "}")?;
        }
        for word in ["cond", "do"] {
            if !self.cursor.eat_word(word) {
                return Err(self.cursor.expected(&format!("'{word}'")));
            }
            let types = op.results.clone();
            op.regions.push(self.region(|p| p.define_each(&mut start, &names, &types))?);
        }
        Ok(op)
    }

    /// Parses `"name" %a, %b {decomposition = @f} : types`.
    fn composite(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let name = self.cursor.string()?;
        op.attributes = op.attributes.with("name", Attr::String(name));
        op.operands = self.operands()?;
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }

    /// Parses `(%a, %b) dim_numbers = [...]x[...]->[...], window = {...} {attributes} : types`.
    fn convolution(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands = self.list("(", ")", Self::operand)?;
        let start = self.cursor.clone();
        for symbol in ["dim_numbers", "=", "[]", "x", "[]", "->", "[]", ",", "window", "=", "[]"] {
            match symbol {
                "[]" => drop(self.cursor.balanced()?),
                symbol => self.cursor.require(symbol)?,
            }
        }
        let form = Attr::String(self.cursor.since(&start).to_owned());
        op.attributes = self.more_attributes(op.attributes.with("form", form))?;
        self.signature(op)
    }

    /// Parses `%a[0] : types`.
    fn tuple_element(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands.push(self.operand()?);
        self.cursor.require("[")?;
        let index = self.cursor.signed()?;
        self.cursor.require("]")?;
        op.attributes = op.attributes.with("index", Attr::Integer(index, Type::I32));
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }

    /// Parses `(%a) in_shardings=[...] out_shardings=[...] manual_axes={...} (%b: type) { ... } : types`.
    fn manual_computation(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands = self.list("(", ")", Self::operand)?;
        for (name, kind) in [
            ("in_shardings", "#sdy.sharding_per_value<"),
            ("out_shardings", "#sdy.sharding_per_value<"),
            ("manual_axes", "#sdy<manual_axes"),
        ] {
            if !self.cursor.eat_word(name) {
                return Err(self.cursor.expected(&format!("'{name}'")));
            }
            self.cursor.require("=")?;
            let text = format!("{kind}{}>", self.cursor.balanced()?);
            op.attributes = op.attributes.with(name, Attr::Other(text));
        }
        let body = self.region(|p| p.list("(", ")", Self::argument))?;
        op.regions.push(body);
        op.attributes = self.more_attributes(op.attributes)?;
        self.signature(op)
    }
}

//! Custom assembly forms. Most are described by a pattern of a few symbols; the rest have their own parser.
//!
//! | symbol   | reads                                                                  |
//! |----------|------------------------------------------------------------------------|
//! | `%`      | one operand                                                            |
//! | `%*`     | operands separated by commas                                           |
//! | `{}`     | attributes in braces, and flags such as `fastmath<fast>`, if any        |
//! | `T` `T*` | a type, or types, that the operands have already                       |
//! | `O*`     | the types of all operands, in order                                    |
//! | `R`      | the type of the result                                                 |
//! | `S`      | the type of the result and of every operand                            |
//! | `E`      | the type of a memref whose element is the result                       |
//! | `#name`  | a bare integer that becomes the attribute `name`                        |
//! | `=name`  | an attribute                                                           |
//! | `<name>` | a word in angle brackets that becomes the attribute `name`              |
//! | `[name]` | integers in square brackets that become the attribute `name`            |
//! | else     | itself                                                                 |

use super::{
    Parser,
    cursor::{Cursor, Result},
    ops::Unnamed,
    stablehlo::is_host,
    tpu_forms,
};
use crate::{
    attribute::{Attr, Attributes},
    ir::{Op, Region, Value},
    print::{FLOAT_PREDICATES, INT_PREDICATES, constant_type},
    types::Type,
};

const CAST: &str = "% {} : T to R";
const ARROW: &str = "% {} : T -> R";
const NO_RESULT: &str = "%* {} : T*";

/// Arithmetic on operands and a result of one type prints alike in these dialects.
const SAME_TYPE: &str = "%* {} : S";

const PATTERNS: &[(&str, &str)] = &[
    ("arith.index_cast", CAST),
    ("arith.index_castui", CAST),
    ("arith.extf", CAST),
    ("arith.truncf", CAST),
    ("arith.extui", CAST),
    ("arith.extsi", CAST),
    ("arith.trunci", CAST),
    ("arith.sitofp", CAST),
    ("arith.uitofp", CAST),
    ("arith.fptosi", CAST),
    ("arith.fptoui", CAST),
    ("arith.bitcast", CAST),
    ("vector.broadcast", CAST),
    ("vector.shape_cast", CAST),
    ("vector.bitcast", CAST),
    ("vector.extract_strided_slice", CAST),
    ("vector.multi_reduction", "<kind> , % , % [reduction_dims] {} : T to R"),
    ("vector.reduction", "<kind> , %* : T into R"),
    ("vector.transpose", "% , [permutation] {} : T to R"),
    ("vector.extract", "% [static_position] {} : R from T"),
    ("vector.load", "% [ %* ] {} : T , R"),
    ("vector.store", "% , % [ %* ] {} : T , T"),
    ("vector.maskedload", "% [ %* ] , % , % {} : T , T , T into R"),
    ("vector.maskedstore", "% [ %* ] , % , % {} : T , T , T"),
    ("memref.copy", "% , % {} : T to T"),
    ("memref.load", "% [ %* ] {} : E"),
    ("memref.store", "% , % [ %* ] {} : T"),
    ("memref.alloca", "( ) {} : R"),
    ("memref.alloc", "( ) {} : R"),
    ("memref.dim", "% , % : T"),
    ("tpu.memref_squeeze", ARROW),
    ("tpu.memref_reshape", ARROW),
    ("tpu.memref_bitcast", ARROW),
    ("tpu.reinterpret_cast", ARROW),
    ("tpu.erase_memref_layout", ARROW),
    ("tpu.bitcast", ARROW),
    ("tpu.bitcast_vreg", ARROW),
    ("tpu.reduce_index", ARROW),
    ("tpu.all_reduce", ARROW),
    ("tpu.sitofp", ARROW),
    ("tpu.fptosi", ARROW),
    ("tpu.extf", ARROW),
    ("tpu.truncf", ARROW),
    ("tpu.relayout", ARROW),
    ("tpu.mask_cast", ARROW),
    ("tpu.reciprocal", ARROW),
    ("tpu.weird", ARROW),
    ("tpu.reshape", ARROW),
    ("tpu.uitofp", ARROW),
    ("tpu.fptoui", ARROW),
    ("tpu.assume_layout", ARROW),
    ("tpu.dynamic_gather", "% [ % ] in =dimensions {} : T , T -> R"),
    ("tpu.strided_load", "% [ %* ] {} : T , R"),
    ("tpu.assume_multiple", "% , #multiple {} : S"),
    ("tpu.transpose", "% , [permutation] {} : T -> R"),
    ("tpu.repeat", "% , #dimension x #times {} : T -> R"),
    ("tpu.concatenate", "%* in #dimension {} : T* -> R"),
    ("tpu.rotate", "% by #amount dim #dimension {} : S"),
    ("tpu.dynamic_rotate", "% by % dim #dimension {} : T , T -> R"),
    ("tpu.iota", "{} : R"),
    ("tpu.matmul", "%* {} : O* -> R"),
    ("tpu.sem_alloc", "{} : R"),
    ("tpu.sem_wait", NO_RESULT),
    ("tpu.sem_read", "% {} : T -> R"),
    ("tpu.sem_barrier", "{} : R"),
    ("tpu.device_id", "{} : R"),
    ("tpu.delay", "%"),
    ("tpu.trace_start", "{}"),
    ("tpu.trace_stop", "{}"),
    ("cf.assert", "% , =msg {}"),
];

impl Parser<'_> {
    /// Parses an operation that is not in the generic form.
    pub(super) fn short(&mut self) -> Result<Unnamed> {
        let mut start = self.cursor.clone();
        let Some(word) = self.cursor.word() else {
            return Err(self.cursor.expected("an operation"));
        };
        let op = Unnamed::new(match word {
            "return" => "func.return",
            "call" => "func.call",
            word => word,
        });
        match op.name.as_str() {
            "arith.constant" => self.constant(op),
            "arith.cmpi" => self.compare(op, &INT_PREDICATES),
            "arith.cmpf" => self.compare(op, &FLOAT_PREDICATES),
            "arith.select" => self.select(op),
            "tpu.vector_store" | "tpu.strided_store" => self.vector_store(op),
            "tpu.vector_load" => self.vector_load(op),
            "tpu.memref_slice" => self.memref_slice(op),
            "tpu.enqueue_dma" => self.enqueue(op),
            "tpu.wait_dma2" => self.wait_dma(op),
            "tpu.sem_signal" => self.signal(op),
            "tpu.log" => self.log(op),
            "tpu.log_buffer" => self.log_buffer(op),
            "tpu.scan" => self.scan(op),
            "tpu.sort" => self.sort(op),
            "tpu.vector_load_idx" | "tpu.vector_store_idx" => self.indexed(op),
            "scf.index_switch" => self.index_switch(op),
            "scf.if" => self.if_(op),
            "scf.for" => self.for_(op),
            "scf.while" => self.while_(op),
            "scf.condition" => self.condition(op),
            "func.return" | "scf.yield" | "tpu.yield" | "stablehlo.return" | "sdy.return" => {
                self.terminator(op)
            }
            "func.call" => self.call(op),
            name if is_host(name) => self.host_op(op),
            name => match pattern(name) {
                Some(pattern) => self.by_pattern(op, pattern),
                None => Err(start.unsupported(format!(
                    "unknown custom form of '{name}': print the module in generic form"
                ))),
            },
        }
    }

    fn by_pattern(&mut self, mut op: Unnamed, pattern: &str) -> Result<Unnamed> {
        for symbol in pattern.split(' ') {
            match symbol {
                "%" => op.operands.push(self.operand()?),
                "%*" => op.operands.extend(self.operands()?),
                "{}" => op.attributes = self.flags_and_braces(op.attributes)?,
                "T" => drop(self.operand_type(&op)?),
                "T*" => self.operand_types(&op)?,
                "O*" => self.ordered_operand_types(&op)?,
                "R" => op.results.push(self.ty()?),
                "S" => op.results.push(self.common_type(&op, &op.operands)?),
                "E" => op.results.push(self.operand_type(&op)?.element().clone()),
                symbol => match symbol.split_at(1) {
                    ("#", name) if !name.is_empty() => {
                        let value = self.cursor.signed()?;
                        op.attributes = op.attributes.with(name, Attr::Integer(value, Type::I32));
                    }
                    ("=", name) if !name.is_empty() => {
                        let value = self.attribute()?;
                        op.attributes = op.attributes.with(name, value);
                    }
                    ("<", name) if !name.is_empty() => {
                        self.cursor.require("<")?;
                        let word = self.cursor.word().ok_or_else(|| self.cursor.expected("a word"))?;
                        self.cursor.require(">")?;
                        let dialect = op.name.split('.').next().unwrap_or_default();
                        let kind = Attr::Other(format!("#{dialect}.kind<{word}>"));
                        op.attributes = op.attributes.with(name.trim_end_matches('>'), kind);
                    }
                    ("[", name) if !name.is_empty() => {
                        let items = self.list("[", "]", |p| p.cursor.signed())?;
                        op.attributes = op.attributes.with(name.trim_end_matches(']'), Attr::I64s(items));
                    }
                    _ => self.cursor.require(symbol)?,
                },
            }
        }
        if op.name == "memref.dim" {
            op.results.push(Type::Index);
        }
        Ok(op)
    }

    /// Parses `fastmath<fast>`, `overflow<nsw>`, then attributes in braces.
    pub(super) fn flags_and_braces(&mut self, mut attributes: Attributes) -> Result<Attributes> {
        while let Some(flag @ ("fastmath" | "overflow" | "nneg")) = self.cursor.peek_word() {
            self.cursor.word();
            let value = match self.cursor.looking_at("<") {
                true => Attr::Other(format!("#arith.{flag}{}", self.cursor.balanced()?)),
                false => Attr::Unit,
            };
            attributes = attributes.with(flag, value);
        }
        let braces = self.optional_dict()?;
        self.joined(attributes, braces)
    }

    fn constant(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let mut start = self.cursor.clone();
        let value = self.attribute()?;
        let Some(ty) = constant_type(&value) else {
            return Err(start.expected("a number, true, false or dense<...>"));
        };
        op.attributes = op.attributes.with("value", value);
        op.results.push(ty);
        Ok(op)
    }

    fn compare(&mut self, mut op: Unnamed, predicates: &[&str]) -> Result<Unnamed> {
        let mut start = self.cursor.clone();
        let word = self.cursor.word().unwrap_or_default();
        let Some(number) = predicates.iter().position(|predicate| *predicate == word) else {
            return Err(start.expected(&format!("one of {}", predicates.join(", "))));
        };
        op.attributes = op.attributes.with("predicate", Attr::Integer(number as i64, Type::I64));
        self.cursor.require(",")?;
        op.operands = self.operands()?;
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        op.results = vec![self.common_type(&op, &op.operands)?.with_element(Type::I1)];
        Ok(op)
    }

    /// The type of the condition is spelled only if it is a vector.
    fn select(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands = self.operands()?;
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        let ty = self.operand_type(&op)?;
        let (choices, more) = (op.operands.get(1..).unwrap_or_default(), self.cursor.eat(","));
        op.results.push(if more { self.common_type(&op, choices)? } else { ty });
        Ok(op)
    }

    /// Parses `%memref[%i], %vector masked %mask {strides = array<i32>} : types,`; the vector is operand 0.
    fn vector_store(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let memref = self.operand()?;
        let indices = self.list("[", "]", Self::operand)?;
        self.cursor.require(",")?;
        op.operands = vec![self.operand()?, memref];
        op.operands.extend(&indices);
        if self.cursor.eat_word("masked") {
            op.operands.push(self.operand()?);
            let sizes = vec![1, 1, indices.len() as i32, 1];
            op.attributes = op.attributes.with("operandSegmentSizes", Attr::I32s(sizes));
        }
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        self.cursor.require(",")?;
        self.operand_type(&op)?;
        if self.cursor.eat(",") && self.cursor.peek_word() == Some("vector") {
            self.operand_type(&op)?;
        }
        Ok(op)
    }

    /// Parses `%memref[%i] masked %mask {strides = array<i32>} : types,`.
    fn vector_load(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands.push(self.operand()?);
        let indices = self.list("[", "]", Self::operand)?;
        op.operands.extend(&indices);
        if self.cursor.eat_word("masked") {
            op.operands.push(self.operand()?);
            let sizes = vec![1, indices.len() as i32, 1];
            op.attributes = op.attributes.with("operandSegmentSizes", Attr::I32s(sizes));
        }
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        self.cursor.require(",")?;
        op.results.push(self.ty()?);
        if self.cursor.eat(",") && self.cursor.peek_word() == Some("vector") {
            self.operand_type(&op)?;
        }
        Ok(op)
    }

    /// Parses `%memref[%i]<%size> : type -> type`; dynamic sizes are operands.
    fn memref_slice(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands.push(self.operand()?);
        let indices = self.list("[", "]", Self::operand)?;
        op.operands.extend(&indices);
        if self.cursor.looking_at("<") {
            let sizes = self.list("<", ">", Self::operand)?;
            op.operands.extend(&sizes);
            let segments = vec![1, indices.len() as i32, sizes.len() as i32];
            op.attributes = op.attributes.with("operandSegmentSizes", Attr::I32s(segments));
        }
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        self.cursor.require("->")?;
        op.results.push(self.ty()?);
        Ok(op)
    }

    fn if_(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands.push(self.operand()?);
        if self.cursor.eat("->") {
            op.results = self.result_types()?;
        }
        op.regions.push(self.yielding_region(|_| Ok(Vec::new()))?);
        op.regions.push(match self.cursor.eat_word("else") {
            true => self.yielding_region(|_| Ok(Vec::new()))?,
            false => Region::default(),
        });
        op.attributes = self.optional_dict()?;
        Ok(op)
    }

    /// Parses a region whose empty yield may be omitted.
    pub(super) fn yielding_region(
        &mut self,
        before: impl FnOnce(&mut Self) -> Result<Vec<Value>>,
    ) -> Result<Region> {
        let start = self.cursor.place();
        let mut region = self.region(before)?;
        if region.ops.last().is_none_or(|op| op.name != "scf.yield") {
            let place = region.ops.last().map_or(Some(start), |op| op.place);
            region.ops.push(Op {
                name: "scf.yield".into(),
                operands: Vec::new(),
                results: Vec::new(),
                attributes: Attributes::new(),
                regions: Vec::new(),
                location: None,
                place,
                source: None,
            });
        }
        Ok(region)
    }

    fn for_(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let mut start = self.cursor.clone();
        self.cursor.require("%")?;
        let counter = self.cursor.suffix()?.to_owned();
        for keyword in ["=", "to", "step"] {
            self.cursor.require(keyword)?;
            op.operands.push(self.operand()?);
        }
        let mut carried = Vec::new();
        if self.cursor.eat_word("iter_args") {
            carried = self.initial_values(&mut op)?;
            self.cursor.require("->")?;
            let mut types_start = self.cursor.clone();
            op.results = self.result_types()?;
            if op.results.len() != carried.len() {
                let (names, types) = (carried.len(), op.results.len());
                return Err(types_start.error(format!("{names} loop-carried values, but {types} types")));
            }
        }
        let counter_type = match self.cursor.eat(":") {
            true => self.ty()?,
            false => Type::Index,
        };
        let results = op.results.clone();
        let body = self.yielding_region(|p| {
            let mut arguments = p.define(&mut start, &counter, &[counter_type])?;
            arguments.extend(p.define_each(&mut start, &carried, &results)?);
            Ok(arguments)
        })?;
        op.regions.push(body);
        op.attributes = self.optional_dict()?;
        Ok(op)
    }

    /// Parses `(%name = %initial, ...)`: returns the names and appends the initial values to the operands.
    pub(super) fn initial_values(&mut self, op: &mut Unnamed) -> Result<Vec<String>> {
        self.list("(", ")", |p| {
            p.cursor.require("%")?;
            let name = p.cursor.suffix()?.to_owned();
            p.cursor.require("=")?;
            op.operands.push(p.operand()?);
            Ok(name)
        })
    }

    /// Defines one value per name, all positioned at `start`.
    pub(super) fn define_each(
        &mut self,
        start: &mut Cursor<'_>,
        names: &[String],
        types: &[Type],
    ) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        for (name, ty) in names.iter().zip(types) {
            values.extend(self.define(start, name, std::slice::from_ref(ty))?);
        }
        Ok(values)
    }

    fn while_(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let mut start = self.cursor.clone();
        let names = match self.cursor.looking_at("(") {
            true => self.initial_values(&mut op)?,
            false => Vec::new(),
        };
        self.cursor.require(":")?;
        self.bracketed_operand_types(&op)?;
        self.cursor.require("->")?;
        op.results = self.result_types()?;
        let types: Vec<Type> = op.operands.iter().map(|&v| self.type_of(v).clone()).collect();
        op.regions.push(self.region(|p| p.define_each(&mut start, &names, &types))?);
        if !self.cursor.eat_word("do") {
            return Err(self.cursor.expected("'do'"));
        }
        op.regions.push(self.yielding_region(|_| Ok(Vec::new()))?);
        op.attributes = self.optional_dict()?;
        Ok(op)
    }

    fn condition(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        self.cursor.require("(")?;
        op.operands.push(self.operand()?);
        self.cursor.require(")")?;
        self.terminator(op)
    }

    fn terminator(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let first = op.operands.len();
        op.operands.extend(self.operands()?);
        if self.cursor.eat(":") {
            let mut start = self.cursor.clone();
            let types = self.types()?;
            self.require_types(&mut start, &op, &op.operands[first..], &types)?;
        }
        Ok(op)
    }

    fn call(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let callee = Attr::Symbol(self.symbol_name()?);
        op.attributes = op.attributes.with("callee", callee);
        op.operands = self.list("(", ")", Self::operand)?;
        let braces = self.optional_dict()?;
        op.attributes = self.joined(op.attributes, braces)?;
        self.cursor.require(":")?;
        self.bracketed_operand_types(&op)?;
        self.cursor.require("->")?;
        op.results = self.result_types()?;
        Ok(op)
    }
}

fn pattern(name: &str) -> Option<&'static str> {
    let same_type = name.starts_with("arith.") || name.starts_with("math.");
    let mut patterns = PATTERNS.iter().chain(tpu_forms::PATTERNS);
    let listed = patterns.find(|(listed, _)| *listed == name).map(|(_, pattern)| *pattern);
    listed.or(same_type.then_some(SAME_TYPE))
}

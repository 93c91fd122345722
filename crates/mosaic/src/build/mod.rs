//! Function builder with one typed method per operation. A type mismatch is our own bug and panics.

mod arith;
mod control;
mod memory;

pub use arith::{FloatPredicate, IntPredicate};
pub use memory::Copy;

use std::{borrow::Cow, collections::HashMap};

use crate::{
    attribute::{Attr, Attributes},
    ir::{Function, Op, Region, Value, ValueInfo, Visibility},
    types::Type,
};

/// Builds one function. Constants are deduplicated and placed at its top.
#[derive(Debug)]
pub struct FunctionBuilder {
    function: Function,
    /// Stack of open regions, innermost last.
    open: Vec<Region>,
    constants: Vec<Op>,
    known_constants: HashMap<String, Value>,
    location: Option<Cow<'static, str>>,
}

impl FunctionBuilder {
    /// Starts an empty function.
    pub fn new(name: impl Into<String>, visibility: Visibility) -> Self {
        let function = Function {
            name: name.into(),
            visibility,
            results: Vec::new(),
            attributes: Attributes::new(),
            body: Region::default(),
            values: Vec::new(),
        };
        Self {
            function,
            open: vec![Region::default()],
            constants: Vec::new(),
            known_constants: HashMap::new(),
            location: None,
        }
    }

    /// Adds an argument.
    pub fn argument(&mut self, name: impl Into<Cow<'static, str>>, ty: Type) -> Value {
        let value = self.define(ty);
        self.name(value, name);
        self.open[0].arguments.push(value);
        value
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.function.ty(value)
    }

    /// Names a value for printing.
    pub fn name(&mut self, value: Value, name: impl Into<Cow<'static, str>>) -> Value {
        self.function.values[value.index()].name = Some(name.into());
        value
    }

    /// Builds operations that belong to the kernel phase `location`.
    pub fn located<T>(
        &mut self,
        location: impl Into<Cow<'static, str>>,
        build: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.location.replace(location.into());
        let built = build(self);
        self.location = outer;
        built
    }

    /// Appends any operation; the typed methods call this.
    pub fn op(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        operands: &[Value],
        results: &[Type],
        attributes: Attributes,
        regions: Vec<Region>,
    ) -> Vec<Value> {
        let results: Vec<Value> = results.iter().map(|ty| self.define(ty.clone())).collect();
        let op = Op {
            name: name.into(),
            operands: operands.to_vec(),
            results: results.clone(),
            attributes,
            regions,
            location: self.location.clone(),
            place: None,
            source: None,
        };
        self.innermost().ops.push(op);
        results
    }

    /// Appends an operation with one result.
    pub fn op1(
        &mut self,
        name: &'static str,
        operands: &[Value],
        result: Type,
        attributes: Attributes,
    ) -> Value {
        self.op(name, operands, &[result], attributes, Vec::new())[0]
    }

    /// Appends an operation without results.
    pub fn op0(&mut self, name: &'static str, operands: &[Value], attributes: Attributes) {
        self.op(name, operands, &[], attributes, Vec::new());
    }

    /// Returns a constant; equal constants share one value.
    pub fn constant(&mut self, value: Attr, ty: Type, name: impl Into<Cow<'static, str>>) -> Value {
        let key = value.to_string();
        if let Some(&known) = self.known_constants.get(&key) {
            return known;
        }
        let result = self.define(ty);
        self.name(result, name);
        self.constants.push(Op {
            name: "arith.constant".into(),
            operands: Vec::new(),
            results: vec![result],
            attributes: Attributes::new().with("value", value),
            regions: Vec::new(),
            location: None,
            place: None,
            source: None,
        });
        self.known_constants.insert(key, result);
        result
    }

    /// Builds a region with block arguments of the given types.
    pub fn region(&mut self, arguments: &[Type], build: impl FnOnce(&mut Self, &[Value])) -> Region {
        let arguments: Vec<Value> = arguments.iter().map(|ty| self.define(ty.clone())).collect();
        self.open.push(Region { arguments: arguments.clone(), ops: Vec::new() });
        build(self, &arguments);
        self.open.pop().expect("the region was opened above")
    }

    /// Finishes the function with a return of `results`.
    pub fn finish(mut self, results: &[Value], attributes: Attributes) -> Function {
        self.op("func.return", results, &[], Attributes::new(), Vec::new());
        let mut body = self.open.pop().expect("the body is open until here");
        assert!(self.open.is_empty(), "a region was left open");
        body.ops.splice(0..0, self.constants);
        self.function.results = results.iter().map(|&v| self.function.ty(v).clone()).collect();
        self.function.attributes = attributes;
        self.function.body = body;
        self.function
    }

    fn define(&mut self, ty: Type) -> Value {
        let value = Value(self.function.values.len() as u32);
        self.function.values.push(ValueInfo { ty, name: None });
        value
    }

    fn innermost(&mut self) -> &mut Region {
        self.open.last_mut().expect("the body is open until finish")
    }
}

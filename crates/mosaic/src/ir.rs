//! Modules, functions, operations and the values between them.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde::Serialize;

use crate::{
    attribute::{Attr, Attributes},
    parse::function_types_from_text,
    types::Type,
};

/// A value of one function: an argument, or a result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

impl Value {
    /// Index in the function's value table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Type and name of one value of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// Its type.
    pub ty: Type,
    /// Name to print; unnamed values are numbered.
    pub name: Option<Cow<'static, str>>,
}

/// A 1-based line and column of a source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A line of the program that a kernel was lowered from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SourceFrame {
    /// The file, as the lowering recorded it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column as the lowering recorded it: JAX counts from 0.
    pub column: u32,
    /// The function that contains the line, if it is known.
    pub function: Option<Arc<str>>,
}

/// A line and the calls that led to it, innermost first.
pub type SourceStack = Arc<[SourceFrame]>;

/// One operation in MLIR's generic form.
#[derive(Clone, Debug)]
pub struct Op {
    /// The full name, for example `tpu.matmul`.
    pub name: Cow<'static, str>,
    /// Values that it reads.
    pub operands: Vec<Value>,
    /// Values that it defines.
    pub results: Vec<Value>,
    /// Attributes.
    pub attributes: Attributes,
    /// Nested regions.
    pub regions: Vec<Region>,
    /// Name of the kernel phase it belongs to; appears in the text and in the compiler's dumps.
    pub location: Option<Cow<'static, str>>,
    /// Source position; `None` if the operation was built, not parsed.
    pub place: Option<Place>,
    /// Where the operation comes from in the program that was lowered.
    pub source: Option<SourceStack>,
}

/// Equality ignores positions.
impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        let key = |op: &Self| (op.name.clone(), op.operands.clone(), op.results.clone(), op.location.clone());
        key(self) == key(other) && self.attributes == other.attributes && self.regions == other.regions
    }
}

/// A region with one block. Mosaic and StableHLO regions have exactly one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// Block arguments, defined by the enclosing operation.
    pub arguments: Vec<Value>,
    /// Operations, in order.
    pub ops: Vec<Op>,
}

/// Symbol visibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Visible outside the module.
    Public,
    /// Visible inside the module only.
    Private,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Symbol visibility.
    pub visibility: Visibility,
    /// Result types.
    pub results: Vec<Type>,
    /// Attributes.
    pub attributes: Attributes,
    /// The body; its block arguments are the function's arguments.
    pub body: Region,
    /// Table of all values.
    pub values: Vec<ValueInfo>,
}

impl Function {
    /// Makes a function of a `func.func` operation in generic form, whose values are `values`.
    pub(crate) fn from_op(op: Op, values: Vec<ValueInfo>) -> Result<Self, String> {
        if op.name != "func.func" {
            return Err(format!("expected a function in the module, found '{}'", op.name));
        }
        let Some(Attr::String(name)) = op.attributes.get("sym_name") else {
            return Err("a function has no name: set sym_name".to_owned());
        };
        let visibility = match op.attributes.get("sym_visibility") {
            Some(Attr::String(word)) if word == "private" => Visibility::Private,
            _ => Visibility::Public,
        };
        let Some(Attr::Type(Type::Other(ty))) = op.attributes.get("function_type") else {
            return Err(format!("@{name} has no function_type"));
        };
        let types = function_types_from_text(ty).map_err(|error| error.message);
        let (arguments, results) = types.map_err(|message| format!("the type of @{name}: {message}"))?;
        let Ok([body]) = <[Region; 1]>::try_from(op.regions) else {
            return Err(format!("@{name} must have one region"));
        };
        if body.ops.is_empty() {
            return Err(format!("@{name} has no body"));
        }
        let found =
            body.arguments.iter().filter_map(|value| values.get(value.index())).map(|value| &value.ty);
        if !found.eq(&arguments) {
            return Err(format!("the block arguments of @{name} are not those of its type"));
        }
        let spelled = ["sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"];
        let attributes = op.attributes.without(&spelled);
        Ok(Self { name: name.clone(), visibility, results, attributes, body, values })
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.index()].ty
    }

    /// Iterates over all operations, outer ones before nested ones.
    pub fn walk<'f>(&'f self, visit: &mut impl FnMut(&'f Op)) {
        walk(&self.body, visit);
    }
}

fn walk<'f>(region: &'f Region, visit: &mut impl FnMut(&'f Op)) {
    for op in &region.ops {
        visit(op);
        for region in &op.regions {
            walk(region, visit);
        }
    }
}

/// Gives operations the positions of the same operations in a printed text.
fn copy_places(region: &mut Region, printed: &Region) {
    for (op, printed) in region.ops.iter_mut().zip(&printed.ops) {
        op.place = printed.place;
        for (region, printed) in op.regions.iter_mut().zip(&printed.regions) {
            copy_places(region, printed);
        }
    }
}

/// A module: functions that can call one another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// Symbol of the module, if it has one.
    pub name: Option<String>,
    /// Attributes.
    pub attributes: Attributes,
    /// Functions, in order.
    pub functions: Vec<Function>,
}

impl Module {
    /// Finds a function by name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }

    /// Returns where each line of the module's text comes from in the program that was lowered.
    pub fn sources(&self) -> HashMap<u32, SourceStack> {
        let mut sources = HashMap::new();
        for function in &self.functions {
            function.walk(&mut |op| {
                if let (Some(place), Some(source)) = (op.place, &op.source) {
                    // The first operation of a line counts: a yield that is not written has the line before
                    // it.
                    sources.entry(place.line).or_insert_with(|| source.clone());
                }
            });
        }
        sources
    }

    /// Prints the module, and gives each operation its position in that text.
    pub fn into_text(mut self) -> (Self, String) {
        let text = self.to_string();
        let printed = crate::parse::parse(&text);
        debug_assert!(printed.is_ok(), "{printed:?}");
        for (function, printed) in self.functions.iter_mut().zip(printed.unwrap_or_default().functions) {
            copy_places(&mut function.body, &printed.body);
        }
        (self, text)
    }
}

//! Modules, functions, operations and the values between them.

use std::borrow::Cow;

use crate::{attribute::Attributes, types::Type};

/// A value of one function: an argument, or a result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

impl Value {
    /// Its place in the function's table of values.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a function knows of one of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// Its type.
    pub ty: Type,
    /// A name to print it by; numbers are used where there is none.
    pub name: Option<Cow<'static, str>>,
}

/// A line and a column of a text, both counted from 1.
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

/// One operation in MLIR's generic form.
#[derive(Clone, Debug)]
pub struct Op {
    /// The full name, for example `tpu.matmul`.
    pub name: Cow<'static, str>,
    /// What it reads.
    pub operands: Vec<Value>,
    /// What it defines.
    pub results: Vec<Value>,
    /// What else it is told.
    pub attributes: Attributes,
    /// Nested code.
    pub regions: Vec<Region>,
    /// Which part of the kernel it belongs to, for readers of the text and of the compiler's listings.
    pub location: Option<Cow<'static, str>>,
    /// Where it stood in the text that it was read from; nowhere, if it was built.
    pub place: Option<Place>,
}

/// Where an operation was read from is not part of what it says.
impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        let key = |op: &Self| (op.name.clone(), op.operands.clone(), op.results.clone(), op.location.clone());
        key(self) == key(other) && self.attributes == other.attributes && self.regions == other.regions
    }
}

/// One block of operations with arguments. Mosaic and StableHLO regions have exactly one block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// Values that the enclosing operation defines for the block.
    pub arguments: Vec<Value>,
    /// In order.
    pub ops: Vec<Op>,
}

/// Whether a function can be named from outside the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// It can.
    Public,
    /// It cannot.
    Private,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Whether it is an entry.
    pub visibility: Visibility,
    /// Types of what it returns.
    pub results: Vec<Type>,
    /// What else it is told.
    pub attributes: Attributes,
    /// Its code; the arguments of the body are the function's.
    pub body: Region,
    /// Every value in it.
    pub values: Vec<ValueInfo>,
}

impl Function {
    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.index()].ty
    }

    /// Every operation, outer ones before the ones inside them.
    pub fn walk(&self, visit: &mut impl FnMut(&Op)) {
        walk(&self.body, visit);
    }
}

fn walk(region: &Region, visit: &mut impl FnMut(&Op)) {
    for op in &region.ops {
        visit(op);
        for region in &op.regions {
            walk(region, visit);
        }
    }
}

/// A module: functions that can name one another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The module's symbol, where it has one.
    pub name: Option<String>,
    /// What else it is told.
    pub attributes: Attributes,
    /// In order.
    pub functions: Vec<Function>,
}

impl Module {
    /// The function of this name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }
}

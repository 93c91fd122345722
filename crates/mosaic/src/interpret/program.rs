//! Functions made ready to run: operations resolved to closures, values to slots, dead code left out.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use super::{
    element::Element,
    machine::{Machine, Stop},
    ops,
};
use crate::{
    attribute::Attr,
    ir::{Function, Module, Op, Place, Region, Value},
    types::{Float, Type},
};

/// What an operation does.
pub(crate) type Exec = Box<dyn Fn(&mut Machine<'_>, &Step) -> Result<(), Stop>>;

/// A module that cannot be run, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrunnable {
    /// An operation that is not implemented.
    #[error("{}'{name}' is not supported; supported operations: {}", at(.place), .supported.join(", "))]
    UnknownOp {
        /// Its name.
        name: String,
        /// Where it is.
        place: Option<Place>,
        /// All that are.
        supported: Vec<&'static str>,
    },
    /// An operation whose operands, types or attributes are not as they must be.
    #[error("{}{name}: {message}", at(.place))]
    BadOp {
        /// Its name.
        name: String,
        /// Where it is.
        place: Option<Place>,
        /// What is wrong.
        message: String,
    },
    /// The kernel as a whole.
    #[error("{0}")]
    Kernel(String),
}

impl Unrunnable {
    fn is_about(&self, op: &Op) -> bool {
        match self {
            Self::UnknownOp { name, place, .. } | Self::BadOp { name, place, .. } => {
                *name == op.name && *place == op.place
            }
            Self::Kernel(_) => false,
        }
    }
}

fn at(place: &Option<Place>) -> String {
    place.map(|place| format!("{place}: ")).unwrap_or_default()
}

/// One operation, ready to run.
pub(crate) struct Step {
    pub(crate) exec: Exec,
    pub(crate) operands: Box<[u32]>,
    /// Bit i is set where operand i is not used afterwards, so that its memory can be reused.
    pub(crate) last: u64,
    pub(crate) results: Box<[u32]>,
    pub(crate) name: Rc<str>,
    pub(crate) place: Option<Place>,
}

impl Step {
    pub(crate) fn line(&self) -> Option<u32> {
        self.place.map(|place| place.line)
    }
}

/// A region, ready to run.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) arguments: Box<[u32]>,
    pub(crate) steps: Vec<Step>,
}

/// A function, ready to run.
pub(crate) struct Code {
    pub(crate) body: Block,
    pub(crate) slots: usize,
    pub(crate) argument_types: Vec<Type>,
    pub(crate) argument_names: Vec<String>,
    pub(crate) results: Vec<Type>,
}

/// All functions of a module.
pub(crate) struct Program {
    pub(crate) functions: HashMap<String, Rc<Code>>,
}

impl Program {
    pub(crate) fn new(module: &Module) -> Result<Self, Unrunnable> {
        let compile =
            |function: &Function| Ok((function.name.clone(), Rc::new(Compiler::new(function).code()?)));
        Ok(Self { functions: module.functions.iter().map(compile).collect::<Result<_, _>>()? })
    }

    pub(crate) fn function(&self, name: &str) -> Result<&Rc<Code>, Unrunnable> {
        let missing = || Unrunnable::Kernel(format!("the module has no function @{name}"));
        self.functions.get(name).ok_or_else(missing)
    }
}

/// Makes one function ready.
pub(crate) struct Compiler<'a> {
    function: &'a Function,
    /// Operations that do something, or whose results somebody needs.
    uses: Vec<u32>,
}

impl<'a> Compiler<'a> {
    fn new(function: &'a Function) -> Self {
        let mut uses = vec![0; function.values.len()];
        count_uses(&function.body, &mut uses);
        Self { function, uses }
    }

    fn code(mut self) -> Result<Code, Unrunnable> {
        let arguments = &self.function.body.arguments;
        let name = |(number, &value): (usize, &Value)| {
            let name = self.function.values[value.index()].name.as_deref();
            name.map_or_else(|| format!("argument {number}"), str::to_owned)
        };
        Ok(Code {
            argument_types: arguments.iter().map(|&value| self.function.ty(value).clone()).collect(),
            argument_names: arguments.iter().enumerate().map(name).collect(),
            slots: self.function.values.len(),
            results: self.function.results.clone(),
            body: self.block(&self.function.body)?,
        })
    }

    /// A region, ready to run.
    pub(crate) fn block(&mut self, region: &Region) -> Result<Block, Unrunnable> {
        let live: Vec<&Op> = region.ops.iter().filter(|op| self.is_live(op)).collect();
        let last_uses = self.last_uses(region, &live);
        let mut steps = Vec::with_capacity(live.len());
        for (number, op) in live.iter().enumerate() {
            let exec = self.exec(op)?;
            let is_last = |operand: &&Value| op.regions.is_empty() && last_uses.get(operand) == Some(&number);
            let twice = |operand: &Value| op.operands.iter().filter(|other| *other == operand).count() > 1;
            let last =
                op.operands.iter().take(64).enumerate().fold(0, |bits, (i, operand)| {
                    bits | u64::from(is_last(&operand) && !twice(operand)) << i
                });
            steps.push(Step {
                exec,
                operands: op.operands.iter().map(|value| value.index() as u32).collect(),
                last,
                results: op.results.iter().map(|value| value.index() as u32).collect(),
                name: Rc::from(op.name.as_ref()),
                place: op.place,
            });
        }
        Ok(Block { arguments: region.arguments.iter().map(|value| value.index() as u32).collect(), steps })
    }

    fn exec(&mut self, op: &Op) -> Result<Exec, Unrunnable> {
        let Some(maker) = ops::maker(&op.name) else {
            let (name, place, supported) = (op.name.to_string(), op.place, ops::supported());
            return Err(Unrunnable::UnknownOp { name, place, supported });
        };
        maker(self, op).map_err(|error| match error {
            Refusal::Message(message) => {
                Unrunnable::BadOp { name: op.name.to_string(), place: op.place, message }
            }
            Refusal::Inner(inner) => inner,
        })
    }

    fn is_live(&self, op: &Op) -> bool {
        ops::has_effect(&op.name) || op.results.iter().any(|value| self.uses[value.index()] > 0)
    }

    /// For values that this region defines: the number of the operation that uses each last.
    fn last_uses(&self, region: &Region, live: &[&Op]) -> HashMap<Value, usize> {
        let mut last = HashMap::new();
        for (number, op) in live.iter().enumerate() {
            visit_operands(op, &mut |value| {
                last.insert(value, number);
            });
        }
        // A value from outside may be used again when the region runs again.
        let mut own: HashSet<Value> = region.arguments.iter().copied().collect();
        own.extend(live.iter().flat_map(|op| op.results.iter().copied()));
        last.retain(|value, _| own.contains(value));
        last
    }

    pub(crate) fn ty(&self, value: Value) -> &'a Type {
        self.function.ty(value)
    }
}

/// What is wrong with the operands, types and attributes of each operation of a module.
pub fn check_ops(module: &Module) -> Vec<Unrunnable> {
    let mut wrong = Vec::new();
    for function in &module.functions {
        let mut compiler = Compiler::new(function);
        function.walk(&mut |op| match compiler.exec(op) {
            // What is wrong inside a region is found when the walk gets there.
            Err(error) if error.is_about(op) => wrong.push(error),
            _ => {}
        });
    }
    wrong
}

fn visit_operands(op: &Op, visit: &mut impl FnMut(Value)) {
    op.operands.iter().for_each(|&value| visit(value));
    for region in &op.regions {
        for op in &region.ops {
            visit_operands(op, visit);
        }
    }
}

/// Counts how often each value is used by an operation that is needed, from the end backwards.
fn count_uses(region: &Region, uses: &mut [u32]) {
    for op in region.ops.iter().rev() {
        let needed = ops::has_effect(&op.name) || op.results.iter().any(|value| uses[value.index()] > 0);
        if needed {
            op.regions.iter().rev().for_each(|region| count_uses(region, uses));
            op.operands.iter().for_each(|value| uses[value.index()] += 1);
        }
    }
}

/// Why an operation cannot be made ready.
pub(crate) enum Refusal {
    Message(String),
    Inner(Unrunnable),
}

impl From<Unrunnable> for Refusal {
    fn from(inner: Unrunnable) -> Self {
        Self::Inner(inner)
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Self {
        Self::Message(message.to_owned())
    }
}

pub(crate) type Made<T = Exec> = Result<T, Refusal>;

/// What operations ask about themselves while they are made ready.
impl Compiler<'_> {
    /// The operation has this many operands and results.
    pub(crate) fn arity(&self, op: &Op, operands: usize, results: usize) -> Made<()> {
        match (op.operands.len(), op.results.len()) {
            (o, r) if o == operands && r == results => Ok(()),
            (o, r) => {
                Err(format!("expected {operands} operands and {results} results, found {o} and {r}").into())
            }
        }
    }

    pub(crate) fn operand<'b>(&'b self, op: &Op, number: usize) -> Made<&'b Type> {
        match op.operands.get(number) {
            Some(&value) => Ok(self.ty(value)),
            None => Err(format!("operand {number} is missing").into()),
        }
    }

    pub(crate) fn result<'b>(&'b self, op: &Op, number: usize) -> Made<&'b Type> {
        match op.results.get(number) {
            Some(&value) => Ok(self.ty(value)),
            None => Err(format!("result {number} is missing").into()),
        }
    }

    /// The element of a scalar or vector, or what is wrong with its type.
    pub(crate) fn element(&self, ty: &Type) -> Made<Element> {
        Element::of(ty).ok_or_else(|| format!("values of type {ty} are not supported").into())
    }

    pub(crate) fn float(&self, ty: &Type) -> Made<Float> {
        match self.element(ty)? {
            Element::Float(float) if !matches!(ty, Type::MemRef(_)) => Ok(float),
            _ => Err(format!("expected floats, found {ty}").into()),
        }
    }

    pub(crate) fn integer(&self, ty: &Type) -> Made<()> {
        match self.element(ty)? {
            Element::Integer(_) if !matches!(ty, Type::MemRef(_)) => Ok(()),
            _ => Err(format!("expected integers, found {ty}").into()),
        }
    }

    /// One integer, not a vector of them.
    pub(crate) fn scalar_integer(&self, ty: &Type) -> Made<()> {
        match ty {
            Type::Index | Type::Integer(_) => self.integer(ty),
            _ => Err(format!("expected one integer, found {ty}").into()),
        }
    }

    /// The shape of a vector or tensor; a scalar has no extents.
    pub(crate) fn shape(&self, ty: &Type) -> Made<Vec<usize>> {
        match ty {
            Type::MemRef(_) => Err(format!("{ty} is memory, not a value").into()),
            _ => self.extents(ty),
        }
    }

    /// The shape of a vector or tensor, and of nothing else.
    pub(crate) fn vector_shape(&self, ty: &Type) -> Made<Vec<usize>> {
        match ty {
            Type::Vector(..) | Type::Tensor(..) => self.extents(ty),
            _ => Err(format!("expected a vector, found {ty}").into()),
        }
    }

    /// Extents that are known and of a sane size.
    pub(crate) fn extents(&self, ty: &Type) -> Made<Vec<usize>> {
        let shape = ty.shape().to_vec();
        let elements = shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
        match elements {
            Some(elements) if elements <= MAX_ELEMENTS => Ok(shape),
            _ => Err(format!("{ty} has extents that are unknown or too large to run").into()),
        }
    }

    /// The attribute of this name.
    pub(crate) fn attribute<'b>(&self, op: &'b Op, name: &str) -> Made<&'b Attr> {
        op.attributes.get(name).ok_or_else(|| format!("the attribute '{name}' is missing").into())
    }

    pub(crate) fn integer_attribute(&self, op: &Op, name: &str) -> Made<i64> {
        match self.attribute(op, name)? {
            Attr::Integer(value, _) => Ok(*value),
            other => Err(format!("the attribute '{name}' is no integer: {other}").into()),
        }
    }

    /// A list of integers, in whichever of the three forms it is spelled.
    pub(crate) fn integers_attribute(&self, op: &Op, name: &str) -> Made<Vec<i64>> {
        let bad =
            |other: &Attr| -> Refusal { format!("the attribute '{name}' holds no integers: {other}").into() };
        match self.attribute(op, name)? {
            Attr::I64s(items) => Ok(items.clone()),
            Attr::I32s(items) => Ok(items.iter().map(|&item| item.into()).collect()),
            list @ Attr::Array(items) => {
                let item = |item: &Attr| match item {
                    Attr::Integer(value, _) => Ok(*value),
                    _ => Err(bad(list)),
                };
                items.iter().map(item).collect()
            }
            other => Err(bad(other)),
        }
    }

    /// Indices into the dimensions of something of rank `rank`.
    pub(crate) fn dimensions_attribute(&self, op: &Op, name: &str, rank: usize) -> Made<Vec<usize>> {
        let inside = |&item: &i64| usize::try_from(item).ok().filter(|&dimension| dimension < rank);
        let items = self.integers_attribute(op, name)?;
        let dimensions: Option<Vec<usize>> = items.iter().map(inside).collect();
        dimensions.ok_or_else(|| format!("the attribute '{name}' names a dimension beyond {rank}").into())
    }
}

/// No chip has a memory that holds more.
const MAX_ELEMENTS: usize = 1 << 34;

//! Compiled functions: operations resolved to closures, values to slots, dead code removed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    admit::admit,
    embedded::{is_kernel_call, kernel_names},
    finding::Note,
    machine::{Machine, Stop},
    ops,
    undefined::Shadow,
};
use crate::{
    ir::{Function, Module, Op, Place, Region, SourceStack, Value, ValueInfo},
    types::Type,
};

/// The closure of one operation.
pub(crate) type Exec = Box<dyn Fn(&mut Machine<'_>, &Step) -> Result<(), Stop> + Send + Sync>;

/// Why a module cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unrunnable {
    /// Operation not implemented.
    #[error("{}'{name}' is not supported; supported operations: {}", at(.place), .supported.join(", "))]
    UnknownOp {
        /// Its name.
        name: String,
        /// Its position.
        place: Option<Place>,
        /// All implemented operations.
        supported: Vec<&'static str>,
    },
    /// Invalid operands, types or attributes.
    #[error("{}{name}: {message}", at(.place))]
    BadOp {
        /// Its name.
        name: String,
        /// Its position.
        place: Option<Place>,
        /// Description.
        message: String,
    },
    /// Attribute not modelled by the interpreter.
    #[error("{}{name}: {message}", at(.place))]
    NotModelled {
        /// Its name.
        name: String,
        /// Its position.
        place: Option<Place>,
        /// Attribute and value.
        message: String,
    },
    /// The kernel as a whole is invalid.
    #[error("{0}")]
    Kernel(String),
    /// A kernel that the module calls cannot be run; positions are those of the kernel's own text.
    #[error("in the kernel '{name}': {why}")]
    InKernel {
        /// Name of the kernel.
        name: String,
        /// Why it cannot be run.
        why: Box<Unrunnable>,
    },
}

impl Unrunnable {
    /// Why a value of the program around a kernel is missing; the error itself if the operation is invalid.
    fn into_missing(self) -> Result<Self, Self> {
        match self {
            Self::UnknownOp { name, place, .. } => {
                let message = "the operation is not supported around a kernel".to_owned();
                Ok(Self::NotModelled { name, place, message })
            }
            Self::NotModelled { .. } => Ok(self),
            other => Err(other),
        }
    }

    fn is_about(&self, op: &Op) -> bool {
        match self {
            Self::UnknownOp { name, place, .. }
            | Self::BadOp { name, place, .. }
            | Self::NotModelled { name, place, .. } => *name == op.name && *place == op.place,
            Self::Kernel(_) | Self::InKernel { .. } => false,
        }
    }
}

/// Formats the list of implemented operations.
pub(super) fn unknown(op: &Op) -> Unrunnable {
    let (name, place, supported) = (op.name.to_string(), op.place, ops::supported());
    Unrunnable::UnknownOp { name, place, supported }
}

fn at(place: &Option<Place>) -> String {
    place.map(|place| format!("{place}: ")).unwrap_or_default()
}

/// A compiled operation.
pub(crate) struct Step {
    pub(crate) exec: Exec,
    pub(crate) operands: Box<[u32]>,
    /// Bit i is set at the last use of operand i, so that its memory can be reused.
    pub(crate) last: u64,
    pub(crate) results: Box<[u32]>,
    pub(crate) name: Arc<str>,
    pub(crate) place: Option<Place>,
    /// What it does with uninitialized elements.
    pub(crate) shadow: Shadow,
}

impl Step {
    pub(crate) fn line(&self) -> Option<u32> {
        self.place.map(|place| place.line)
    }
}

/// A compiled region.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) arguments: Box<[u32]>,
    pub(crate) steps: Vec<Step>,
}

/// A compiled function.
pub(crate) struct Code {
    pub(crate) body: Block,
    /// Peak bytes of live values.
    pub(crate) bytes: usize,
    pub(crate) slots: usize,
    pub(crate) argument_types: Vec<Type>,
    pub(crate) argument_names: Vec<String>,
    pub(crate) results: Vec<Type>,
}

/// All functions of a module.
pub(crate) struct Program {
    pub(crate) functions: HashMap<String, Arc<Code>>,
    /// Where the chip is known to compute something other than the text suggests.
    pub(crate) notes: Vec<Note>,
    /// Whether it uses the barrier semaphore.
    pub(crate) has_barrier: bool,
    /// Whether it names other devices.
    pub(crate) communicates: bool,
    /// The first operation that controls an MXU, as an error for chips that do not let kernels do so.
    pub(crate) mxu_control: Option<Box<Unrunnable>>,
    /// Where each line of the text comes from in the lowered program.
    pub(crate) sources: HashMap<u32, SourceStack>,
}

impl Program {
    /// Compiles a kernel.
    pub(crate) fn new(module: &Module) -> Result<Self, Unrunnable> {
        Self::compiled(module, false)
    }

    /// Compiles the program around kernels.
    ///
    /// What is not supported there is missing, and matters only where it is needed.
    pub(crate) fn around(module: &Module) -> Result<Self, Unrunnable> {
        Self::compiled(module, true)
    }

    fn compiled(module: &Module, tolerant: bool) -> Result<Self, Unrunnable> {
        admit(module, tolerant)?;
        let names = kernel_names(module);
        let (mut functions, mut notes) = (HashMap::new(), Vec::new());
        for function in &module.functions {
            let mut compiler = Compiler::new(function);
            compiler.kernel_names = Some(&names);
            compiler.module = Some(module);
            compiler.tolerant = tolerant;
            let code = compiler.code()?;
            notes.append(&mut compiler.notes);
            functions.insert(function.name.clone(), Arc::new(code));
        }
        let (mut has_barrier, mut communicates, mut mxu_control) = (false, false, None);
        for function in &module.functions {
            function.walk(&mut |op| {
                has_barrier |= op.name == "tpu.sem_barrier";
                communicates |= ops::communicates(op);
                if mxu_control.is_none() && ops::controls_mxu(&op.name) {
                    mxu_control = Some(Box::new(Refusal::from(ops::NO_MXU_CONTROL).at(op)));
                }
            });
        }
        let sources = module.sources();
        Ok(Self { functions, notes, has_barrier, communicates, mxu_control, sources })
    }

    pub(crate) fn function(&self, name: &str) -> Result<&Arc<Code>, Unrunnable> {
        let missing = || Unrunnable::Kernel(format!("the module has no function @{name}"));
        self.functions.get(name).ok_or_else(missing)
    }
}

/// Compiles one function.
pub(crate) struct Compiler<'a> {
    function: &'a Function,
    /// Operations with effects, or with results that are used.
    uses: Vec<u32>,
    /// Notes about the chip.
    pub(crate) notes: Vec<Note>,
    /// The module, for operations that run part of it by themselves.
    pub(crate) module: Option<&'a Module>,
    /// Names of the kernels that the module calls.
    kernel_names: Option<&'a HashMap<*const Op, String>>,
    /// Whether operations that are not supported give missing values.
    tolerant: bool,
}

impl<'a> Compiler<'a> {
    fn new(function: &'a Function) -> Self {
        let mut uses = vec![0; function.values.len()];
        count_uses(&function.body, &mut uses);
        Self { function, uses, notes: Vec::new(), module: None, kernel_names: None, tolerant: false }
    }

    fn code(&mut self) -> Result<Code, Unrunnable> {
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
            bytes: self.peak_bytes(&self.function.body),
            body: self.block(&self.function.body)?,
        })
    }

    /// Compiles a region.
    pub(crate) fn block(&mut self, region: &Region) -> Result<Block, Unrunnable> {
        let (live, dead): (Vec<&Op>, Vec<&Op>) = region.ops.iter().partition(|op| self.is_live(op));
        // Dead code is validated too, but adds no notes.
        let notes = self.notes.len();
        dead.into_iter().try_for_each(|op| self.exec(op).map(drop))?;
        self.notes.truncate(notes);
        let last_uses = self.last_uses(region, &live);
        let mut steps = Vec::with_capacity(live.len());
        for (number, op) in live.iter().enumerate() {
            let exec = self.exec(op)?;
            let taken = |operand: &Value| is_taken(op, operand) && last_uses.get(operand) == Some(&number);
            let last = op
                .operands
                .iter()
                .take(64)
                .enumerate()
                .fold(0, |bits, (i, operand)| bits | u64::from(taken(operand)) << i);
            steps.push(Step {
                exec,
                operands: op.operands.iter().map(|value| value.index() as u32).collect(),
                last,
                results: op.results.iter().map(|value| value.index() as u32).collect(),
                name: Arc::from(op.name.as_ref()),
                place: op.place,
                shadow: Shadow::of(self, op),
            });
        }
        Ok(Block { arguments: region.arguments.iter().map(|value| value.index() as u32).collect(), steps })
    }

    fn exec(&mut self, op: &Op) -> Result<Exec, Unrunnable> {
        let exec = self.strict_exec(op);
        if !self.tolerant || is_kernel_call(op) {
            return exec;
        }
        match exec {
            Ok(exec) => Ok(ops::tolerant(exec)),
            Err(error) if error.is_about(op) => match error.into_missing() {
                Ok(why) => Ok(ops::missing(Arc::new(why))),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    fn strict_exec(&mut self, op: &Op) -> Result<Exec, Unrunnable> {
        let definition = ops::definition(&op.name).ok_or_else(|| unknown(op))?;
        let made = definition
            .check_counts(op)
            .and_then(|()| self.known_attributes(op, definition.attributes))
            .and_then(|()| (definition.make)(self, op));
        made.map_err(|refusal| refusal.at(op))
    }

    pub(super) fn is_live(&self, op: &Op) -> bool {
        ops::has_effect(&op.name) || op.results.iter().any(|value| self.uses[value.index()] > 0)
    }

    /// For values defined in this region: index of the last operation that uses each.
    pub(super) fn last_uses(&self, region: &Region, live: &[&Op]) -> HashMap<Value, usize> {
        let mut last = HashMap::new();
        for (number, op) in live.iter().enumerate() {
            visit_operands(op, &mut |value| {
                last.insert(value, number);
            });
        }
        // A value from outside may be used again in the next iteration.
        let mut own: HashSet<Value> = region.arguments.iter().copied().collect();
        own.extend(live.iter().flat_map(|op| op.results.iter().copied()));
        last.retain(|value, _| own.contains(value));
        last
    }

    /// Name of the kernel that a custom call runs.
    pub(crate) fn kernel_name(&self, op: &Op) -> String {
        let name = self.kernel_names.and_then(|names| names.get(&std::ptr::from_ref(op)));
        name.cloned().unwrap_or_default()
    }

    /// All values of the function.
    pub(crate) fn values(&self) -> &'a [ValueInfo] {
        &self.function.values
    }

    pub(crate) fn ty(&self, value: Value) -> &'a Type {
        self.function.ty(value)
    }
}

/// Validates operands, types and attributes of every operation of a module.
pub fn check_ops(module: &Module) -> Vec<Unrunnable> {
    let mut wrong = Vec::new();
    for function in &module.functions {
        let mut compiler = Compiler::new(function);
        function.walk(&mut |op| match compiler.exec(op) {
            // Errors inside a region are reported when the walk gets there.
            Err(error) if error.is_about(op) => wrong.push(error),
            _ => {}
        });
    }
    wrong
}

/// Returns whether an operation can reuse the memory of an operand at its last use.
pub(super) fn is_taken(op: &Op, operand: &Value) -> bool {
    let uses = op.operands.iter().filter(|other| *other == operand).count();
    op.regions.is_empty() && uses == 1 && op.operands.iter().take(64).any(|other| other == operand)
}

fn visit_operands(op: &Op, visit: &mut impl FnMut(Value)) {
    op.operands.iter().for_each(|&value| visit(value));
    for region in &op.regions {
        for op in &region.ops {
            visit_operands(op, visit);
        }
    }
}

/// Counts uses by live operations, from the end backwards.
fn count_uses(region: &Region, uses: &mut [u32]) {
    for op in region.ops.iter().rev() {
        let needed = ops::has_effect(&op.name) || op.results.iter().any(|value| uses[value.index()] > 0);
        if needed {
            op.regions.iter().rev().for_each(|region| count_uses(region, uses));
            op.operands.iter().for_each(|value| uses[value.index()] += 1);
        }
    }
}

/// Why an operation cannot be compiled.
pub(crate) enum Refusal {
    /// It is invalid.
    Message(String),
    /// The chip may run it, the interpreter cannot.
    NotModelled(String),
    Inner(Unrunnable),
}

impl Refusal {
    /// The error about `op`.
    pub(crate) fn at(self, op: &Op) -> Unrunnable {
        let (name, place) = (op.name.to_string(), op.place);
        match self {
            Self::Message(message) => Unrunnable::BadOp { name, place, message },
            Self::NotModelled(message) => Unrunnable::NotModelled { name, place, message },
            Self::Inner(inner) => inner,
        }
    }
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

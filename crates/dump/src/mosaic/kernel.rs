//! Reads a kernel's buffers, DMAs and matmuls out of its module.

use std::collections::HashMap;

use octile_mosaic::{
    Attr, Function, MemorySpace, Module, Op, Type, Value,
    interpret::{OpKind, ScalarOp, op_kind},
    types::DYNAMIC,
};

use super::{Argument, ArgumentRole, DmaOp, MatmulOp, MosaicKernel, TensorType, View};
use crate::source::{Damage, LineIndex, Place};

/// The kernel of a module: the function with a grid. The others map grid indices to windows.
pub(super) fn kernel_function(module: &Module) -> Option<&Function> {
    let with_grid = |function: &&Function| function.attributes.get("iteration_bounds").is_some();
    module.functions.iter().find(with_grid).or(module.functions.first())
}

/// Reads the kernel of a module that was parsed from `text`.
pub(super) fn read(module: Module, text: &str) -> Option<MosaicKernel> {
    let function = kernel_function(&module)?;
    let (lines, pushes) = (LineIndex::new(text), Pushes::of(function));
    let mut reader = Reader { function, text, lines, names: HashMap::new(), views: HashMap::new(), pushes };
    let mut found = Found { arguments: reader.arguments(), ..Found::default() };
    function.walk(&mut |op| reader.op(op, &mut found));
    let (name, grid) = (function.name.clone(), grid(function));
    let Found { arguments, matmuls, dmas, damage } = found;
    Some(MosaicKernel { name, grid, arguments, matmuls, dmas, damage, module })
}

fn grid(function: &Function) -> Vec<i64> {
    match function.attributes.get("iteration_bounds") {
        Some(Attr::I64s(bounds)) => bounds.clone(),
        _ => Vec::new(),
    }
}

/// What is read from the operations of a kernel.
#[derive(Default)]
struct Found {
    arguments: Vec<Argument>,
    matmuls: Vec<MatmulOp>,
    dmas: Vec<DmaOp>,
    damage: Vec<Damage>,
}

/// The line and column of an operation.
pub(super) fn place(op: &Op) -> Place {
    op.place.map_or(Place { line: 1, column: 1 }, Place::from)
}

/// The operands of `tpu.enqueue_dma` or of a wait, by role.
#[derive(Clone, Copy, Default)]
pub(super) struct DmaOperands {
    pub source: Option<Value>,
    pub target: Option<Value>,
    pub semaphore: Option<Value>,
    /// Signalled when a DMA to another device has read its source.
    pub source_semaphore: Option<Value>,
}

impl DmaOperands {
    pub(super) fn of(op: &Op) -> Self {
        let operand = |index: usize| op.operands.get(index).copied();
        if is_wait(op) {
            let (semaphore, source, target) = (operand(0), operand(1), operand(2));
            return Self { semaphore, source, target, source_semaphore: None };
        }
        // Segments: source, source semaphore, target, target semaphore, device and core ids; some are empty.
        let Some(Attr::I32s(present)) = op.attributes.get("operandSegmentSizes") else {
            return Self::default();
        };
        let role = |role: usize| {
            let before = present.get(..role)?.iter().try_fold(0i32, |sum, &size| sum.checked_add(size))?;
            (*present.get(role)? > 0).then(|| operand(usize::try_from(before).ok()?)).flatten()
        };
        Self { source: role(0), target: role(2), semaphore: role(3), source_semaphore: role(1) }
    }
}

fn is_wait(op: &Op) -> bool {
    op_kind(&op.name) == Some(OpKind::WaitDma)
}

/// The name of a value, with its `%`; `None` where the text numbers it.
pub(super) fn written_name(function: &Function, value: Value) -> Option<String> {
    let name = function.values.get(value.index())?.name.as_deref()?;
    Some(format!("%{name}"))
}

/// Weights that a kernel pushes to the MXUs, by MXU and staging register.
#[derive(Default)]
struct Pushes {
    /// The first ones, for a loop that pushes after it multiplies.
    first: HashMap<(i64, i64), TensorType>,
    /// The last ones so far in the text.
    staged: HashMap<(i64, i64), TensorType>,
    /// Those that each MXU loaded last.
    loaded: HashMap<i64, TensorType>,
}

impl Pushes {
    fn of(function: &Function) -> Self {
        let mut pushes = Self::default();
        function.walk(&mut |op| {
            if let Some((register, weights)) = pushed(function, op) {
                pushes.first.entry(register).or_insert(weights);
            }
        });
        pushes
    }

    /// The weights that `tpu.matmul_acc_lhs` multiplies by.
    fn multiplied_by(&mut self, op: &Op) -> Option<TensorType> {
        let mxu = integer(op, "mxu_index")?;
        let Some(register) = integer(op, "load_staged_rhs") else { return self.loaded.get(&mxu).cloned() };
        let key = (mxu, register);
        let weights = self.staged.get(&key).or_else(|| self.first.get(&key))?.clone();
        self.loaded.insert(mxu, weights.clone());
        Some(weights)
    }
}

fn integer(op: &Op, name: &str) -> Option<i64> {
    match op.attributes.get(name)? {
        Attr::Integer(value, _) => Some(*value),
        _ => None,
    }
}

/// The MXU and staging register that an operation pushes weights to, and their type.
fn pushed(function: &Function, op: &Op) -> Option<((i64, i64), TensorType)> {
    let weights = op.operands.first().filter(|_| op_kind(&op.name) == Some(OpKind::PushWeights))?;
    // Text in the dialect's own form leaves the default register out.
    let register = (integer(op, "mxu_index")?, integer(op, "staging_register").unwrap_or(0));
    Some((register, vector(function.ty(*weights))))
}

struct Reader<'a> {
    function: &'a Function,
    text: &'a str,
    lines: LineIndex,
    /// Names of scalars.
    names: HashMap<Value, String>,
    views: HashMap<Value, View>,
    pushes: Pushes,
}

impl Reader<'_> {
    /// The memref arguments of the kernel, in order.
    fn arguments(&mut self) -> Vec<Argument> {
        let count = |name: &str| match self.function.attributes.get(name) {
            Some(Attr::Integer(count, _)) => usize::try_from(*count).unwrap_or_default(),
            _ => 0,
        };
        let (prefetched, scratch) = (count("scalar_prefetch"), count("scratch_operands"));
        let arguments = self.function.body.arguments.iter().copied();
        let memory: Vec<_> =
            arguments.filter_map(|value| Some((value, tensor(self.function.ty(value))?))).collect();
        let first_scratch = memory.len().saturating_sub(scratch);
        let mut header = self.text.find(&format!("@{}(", self.function.name)).unwrap_or_default();
        let mut found = Vec::new();
        for (index, (value, memory)) in memory.into_iter().enumerate() {
            let name = written_name(self.function, value).unwrap_or_else(|| format!("%{}", value.index()));
            // The header lists the arguments in order.
            let ahead = self.text.get(header..).unwrap_or_default();
            header += ahead.find(&format!("{name}:")).unwrap_or_default();
            let role = ArgumentRole::of(index, prefetched, first_scratch, &memory.space);
            let place = self.lines.place(u32::try_from(header).unwrap_or(u32::MAX));
            self.views.insert(value, View { root: name.clone(), index: Vec::new(), memory: memory.clone() });
            found.push(Argument { name, memory, role, place });
        }
        found
    }

    fn op(&mut self, op: &Op, found: &mut Found) {
        self.name(op);
        match (op_kind(&op.name), &*op.name) {
            (Some(OpKind::Slice), _) | (_, "memref.subview") => self.slice(op),
            (Some(OpKind::Alias | OpKind::Reinterpret), _) | (_, "tpu.memref_bitcast") => self.alias(op),
            (Some(OpKind::StartDma | OpKind::WaitDma), _) => self.dma(op, found),
            (Some(OpKind::Matmul), _) => self.matmul(op, found),
            (Some(OpKind::PushWeights), _) => self.pushes.staged.extend(pushed(self.function, op)),
            (Some(OpKind::Accumulate), _) => self.accumulate(op, found),
            _ => {}
        }
    }

    fn dma(&self, op: &Op, found: &mut Found) {
        let (ends, place) = (DmaOperands::of(op), place(op));
        let view = |value: Option<Value>| value.and_then(|value| self.views.get(&value)).cloned();
        let (source, target, semaphore) = (view(ends.source), view(ends.target), view(ends.semaphore));
        if ends.semaphore.is_none() {
            found.damage.push(Damage { place, what: "this DMA names no semaphore".to_owned() });
        }
        let source_semaphore = view(ends.source_semaphore);
        found.dmas.push(DmaOp { waits: is_wait(op), source, target, semaphore, source_semaphore, place });
    }

    /// Remembers how to show a scalar: a constant by its value, anything else by its name.
    fn name(&mut self, op: &Op) {
        let [result] = op.results[..] else { return };
        if !matches!(self.function.ty(result), Type::Index | Type::Integer(_)) {
            return;
        }
        let constant = || ScalarOp::new(self.function, op)?.evaluate(&[]);
        let name = match (constant(), op.place) {
            (Some(value), _) => value.to_string(),
            (None, Some(at)) => {
                let offset = self.lines.offset(at.into()) as usize;
                let line = self.text.get(offset..).unwrap_or_default();
                line.split([' ', ',', ':', '=']).next().unwrap_or_default().to_owned()
            }
            (None, None) => return,
        };
        self.names.insert(result, name);
    }

    fn index(&self, value: Value) -> String {
        let named = || written_name(self.function, value);
        self.names.get(&value).cloned().or_else(named).unwrap_or_else(|| format!("%{}", value.index()))
    }

    fn slice(&mut self, op: &Op) {
        let ([base, index @ ..], [result]) = (&op.operands[..], &op.results[..]) else { return };
        let (Some(view), Some(memory)) = (self.views.get(base), tensor(self.function.ty(*result))) else {
            return;
        };
        let index = match view.index.is_empty() {
            true => index.iter().take(memory.dims.len()).map(|value| self.index(*value)).collect(),
            // In a slice of a slice, the first one selects the buffer slot.
            false => view.index.clone(),
        };
        let view = View { root: view.root.clone(), index, memory };
        self.views.insert(*result, view);
    }

    fn alias(&mut self, op: &Op) {
        let ([base], [result]) = (&op.operands[..], &op.results[..]) else { return };
        if let Some((view, memory)) = self.views.get(base).zip(tensor(self.function.ty(*result))) {
            let view = View { memory, ..view.clone() };
            self.views.insert(*result, view);
        }
    }

    fn matmul(&self, op: &Op, found: &mut Found) {
        let place = place(op);
        let [lhs, rhs, accumulator, ..] = op.operands[..] else {
            let what = format!("this matmul has {} operands, not 3", op.operands.len());
            found.damage.push(Damage { place, what });
            return;
        };
        let [lhs, rhs, accumulator] = [lhs, rhs, accumulator].map(|value| vector(self.function.ty(value)));
        found.matmuls.push(MatmulOp { lhs, rhs, accumulator, place });
    }

    /// A matmul into the accumulators of an MXU. Its weights have no type if none are pushed before it.
    fn accumulate(&mut self, op: &Op, found: &mut Found) {
        let place = place(op);
        let [lhs] = op.operands[..] else {
            let what = format!("this matmul has {} operands, not 1", op.operands.len());
            found.damage.push(Damage { place, what });
            return;
        };
        let lhs = vector(self.function.ty(lhs));
        let rhs = self.pushes.multiplied_by(op).unwrap_or_default();
        let dims = lhs.dims.iter().take(1).chain(rhs.dims.last()).copied().collect();
        let accumulator = TensorType { dims, element: "f32".to_owned(), space: String::new() };
        found.matmuls.push(MatmulOp { lhs, rhs, accumulator, place });
    }
}

fn extents(shape: &[usize]) -> Vec<u64> {
    // A dynamic extent counts as 0.
    shape.iter().map(|&extent| if extent == DYNAMIC { 0 } else { extent as u64 }).collect()
}

fn vector(ty: &Type) -> TensorType {
    TensorType { dims: extents(ty.shape()), element: ty.element().to_string(), space: String::new() }
}

/// A memref; `None` for any other type.
fn tensor(ty: &Type) -> Option<TensorType> {
    let Type::MemRef(memref) = ty else { return None };
    let space = match memref.space {
        Some(MemorySpace::Any) => "any",
        Some(MemorySpace::Hbm) => "hbm",
        Some(MemorySpace::Vmem) => "vmem",
        Some(MemorySpace::Smem) => "smem",
        Some(MemorySpace::Semaphore) => "semaphore_mem",
        None => "",
    };
    let (dims, element) = (extents(&memref.shape), memref.element.to_string());
    Some(TensorType { dims, element, space: space.to_owned() })
}

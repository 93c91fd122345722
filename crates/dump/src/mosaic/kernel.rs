//! A kernel as its module has it.

use std::collections::HashMap;

use octile_mosaic::{Attr, Function, MemorySpace, Module, Op, Type, Value, types::DYNAMIC};

use super::{Argument, ArgumentRole, DmaOp, MatmulOp, MosaicScan, TensorType, View, scan::product_types};
use crate::source::{Damage, LineIndex, Place};

/// The function of a module that is its kernel: the one with a grid; the others tell which window comes next.
pub fn kernel_function(module: &Module) -> Option<&Function> {
    let with_grid = |function: &&Function| function.attributes.get("iteration_bounds").is_some();
    module.functions.iter().find(with_grid).or(module.functions.first())
}

/// Reads the kernel of a module that was parsed from `text`.
pub fn read(module: &Module, text: &str) -> Option<MosaicScan> {
    let function = kernel_function(module)?;
    let mut reader =
        Reader { function, text, lines: LineIndex::new(text), names: HashMap::new(), views: HashMap::new() };
    let mut scan = MosaicScan {
        kernel: function.name.clone(),
        iteration_bounds: bounds(function).into_iter().filter_map(|bound| bound.try_into().ok()).collect(),
        ..MosaicScan::default()
    };
    scan.arguments = reader.arguments();
    function.walk(&mut |op| reader.op(op, &mut scan));
    Some(scan)
}

/// The grid.
pub fn bounds(function: &Function) -> Vec<i64> {
    match function.attributes.get("iteration_bounds") {
        Some(Attr::I64s(bounds)) => bounds.clone(),
        _ => Vec::new(),
    }
}

/// Which operand of a copy or a wait is which.
#[derive(Clone, Copy, Default)]
pub struct Ends {
    pub source: Option<Value>,
    pub target: Option<Value>,
    pub semaphore: Option<Value>,
}

impl Ends {
    pub fn of(op: &Op) -> Self {
        let operand = |index: usize| op.operands.get(index).copied();
        if op.name != "tpu.enqueue_dma" {
            return Self { semaphore: operand(0), source: operand(1), target: operand(2) };
        }
        // Source, its semaphore, target, its semaphore, and where that is; some are absent.
        let Some(Attr::I32s(present)) = op.attributes.get("operandSegmentSizes") else {
            return Self::default();
        };
        let role = |role: usize| {
            let before: i32 = present.get(..role)?.iter().sum();
            (*present.get(role)? > 0).then(|| operand(usize::try_from(before).ok()?)).flatten()
        };
        Self { source: role(0), target: role(2), semaphore: role(3) }
    }
}

/// The name of a value, with its `%`; nothing where the text numbers it.
pub fn written_name(function: &Function, value: Value) -> Option<String> {
    let name = function.values.get(value.index())?.name.as_deref()?;
    Some(format!("%{name}"))
}

struct Reader<'a> {
    function: &'a Function,
    text: &'a str,
    lines: LineIndex,
    /// What to call numbers.
    names: HashMap<Value, String>,
    views: HashMap<Value, View>,
}

impl Reader<'_> {
    /// The memory of the kernel, in the order of its arguments.
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
            // Arguments stand in the header one after another.
            let ahead = self.text.get(header..).unwrap_or_default();
            header += ahead.find(&format!("{name}:")).unwrap_or_default();
            let role = ArgumentRole::of(index, prefetched, first_scratch, &memory.space);
            let place = self.lines.place(u32::try_from(header).unwrap_or(u32::MAX));
            self.views.insert(value, View { root: name.clone(), index: Vec::new(), memory: memory.clone() });
            found.push(Argument { name, memory, role, place });
        }
        found
    }

    fn op(&mut self, op: &Op, scan: &mut MosaicScan) {
        let place =
            op.place.map_or(Place { line: 1, column: 1 }, |at| Place { line: at.line, column: at.column });
        self.name(op);
        match &*op.name {
            "tpu.memref_slice" | "memref.subview" => self.slice(op),
            "tpu.memref_squeeze" | "tpu.memref_reshape" | "tpu.memref_bitcast" | "memref.cast" => {
                self.alias(op);
            }
            "tpu.enqueue_dma" | "tpu.wait_dma2" | "tpu.wait_dma" => {
                let ends = Ends::of(op);
                let view = |value: Option<Value>| value.and_then(|value| self.views.get(&value)).cloned();
                let (source, target, semaphore) =
                    (view(ends.source), view(ends.target), view(ends.semaphore));
                if semaphore.is_none() {
                    let what = "this copy names no semaphore".to_owned();
                    scan.damage.push(Damage { place, what });
                }
                scan.dmas.push(DmaOp {
                    waits: op.name != "tpu.enqueue_dma",
                    source,
                    target,
                    semaphore,
                    place,
                });
            }
            "tpu.matmul" => self.matmul(op, place, scan),
            _ => {}
        }
    }

    /// Remembers what to call a number: a constant by its value, anything else by its name.
    fn name(&mut self, op: &Op) {
        let [result] = op.results[..] else { return };
        if !matches!(self.function.ty(result), Type::Index | Type::Integer(_)) {
            return;
        }
        let name = match (constant(op), op.place) {
            (Some(value), _) => value.to_string(),
            (None, Some(at)) => {
                let offset = self.lines.offset(Place { line: at.line, column: at.column }) as usize;
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
            // A slice of a slice: the first one says which buffer.
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

    /// The types of the operands are where they are made. The line spells them again, and the two must agree.
    fn matmul(&self, op: &Op, place: Place, scan: &mut MosaicScan) {
        let [lhs, rhs, accumulator, ..] = op.operands[..] else {
            let what = "this multiplication does not name its operands".to_owned();
            scan.damage.push(Damage { place, what });
            return;
        };
        let made = [lhs, rhs, accumulator].map(|value| vector(self.function.ty(value)));
        let line = self.text.get(self.lines.offset(place) as usize..).unwrap_or_default().lines().next();
        let spelled = line.and_then(product_types).unwrap_or_else(|| made.clone());
        if spelled != made {
            let what = "the types of this multiplication are not those of its operands".to_owned();
            scan.damage.push(Damage { place, what });
        }
        let [lhs, rhs, accumulator] = spelled;
        scan.matmuls.push(MatmulOp { lhs, rhs, accumulator, place });
    }
}

/// The integer that an operation stands for.
pub fn constant(op: &Op) -> Option<i64> {
    match op.attributes.get("value").filter(|_| op.name == "arith.constant")? {
        Attr::Integer(value, _) => Some(*value),
        Attr::Bool(value) => Some(i64::from(*value)),
        _ => None,
    }
}

fn extents(shape: &[usize]) -> Vec<u64> {
    // What is known at run time only has no size here.
    shape.iter().map(|&extent| if extent == DYNAMIC { 0 } else { extent as u64 }).collect()
}

fn vector(ty: &Type) -> TensorType {
    TensorType { dims: extents(ty.shape()), element: ty.element().to_string(), space: String::new() }
}

/// A memref; nothing for any other type.
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

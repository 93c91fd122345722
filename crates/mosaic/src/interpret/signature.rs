//! What a module takes and returns, so that a caller can choose operands before it runs.

use std::{collections::HashSet, ops::Range};

use super::{
    EmbeddedKernel, OpKind, Options, SimulateError, element::Element, host, kernel::Kernel,
    kernel_attributes::kernel_function, op_kind, program::Unrunnable, window::WindowSpec,
};
use crate::{
    ir::{Function, Module, Op, Region, Value},
    types::{DYNAMIC, Type},
};

/// One operand of a module's entry function, or of a bare kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandSpec {
    /// Its name in the text; `None` if the text only numbers it.
    pub name: Option<String>,
    /// Element type.
    pub element: Element,
    /// Extents; [`DYNAMIC`] where the text does not state one.
    pub shape: Vec<usize>,
    /// Extents that a tensor must exceed; those of a bare kernel's window may end within the last block.
    above: Option<Vec<usize>>,
    /// Whether its elements are truth values.
    pub is_boolean: bool,
    /// Number of devices that the first extent counts, if the whole module runs on several.
    devices: Option<usize>,
}

impl OperandSpec {
    /// An operand with these extents.
    pub fn new(name: Option<String>, element: Element, shape: Vec<usize>) -> Self {
        Self { name, element, shape, above: None, is_boolean: false, devices: None }
    }

    /// Whether a tensor of this type and shape can be passed.
    ///
    /// On several devices, a tensor without the dimension that counts them is the same on all.
    pub fn fits(&self, element: Element, shape: &[usize]) -> bool {
        let Some(devices) = self.devices else { return self.fits_one(element, shape) };
        let one = Self { shape: self.shape.get(1..).unwrap_or_default().to_vec(), ..self.clone() };
        let parts = shape.split_first().filter(|(first, _)| **first == devices);
        parts.is_some_and(|(_, part)| one.fits_one(element, part)) || one.fits_one(element, shape)
    }

    fn fits_one(&self, element: Element, shape: &[usize]) -> bool {
        let extents = match &self.above {
            Some(above) => above.iter().zip(shape).all(|(above, have)| have > above),
            None => self.shape.iter().zip(shape).all(|(&want, &have)| want == have || want == DYNAMIC),
        };
        self.element == element && self.shape.len() == shape.len() && extents
    }
}

/// What a module takes and returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The function that is run.
    pub entry: String,
    /// Its operands.
    pub operands: Vec<OperandSpec>,
    /// Number of its results.
    pub results: usize,
}

impl Signature {
    /// Reads the signature of `module`: of the function that takes tensors, or of the kernel.
    pub fn of(module: &Module, options: &Options<'_>) -> Result<Self, SimulateError> {
        match host::entry(module) {
            Some(entry) => of_function(entry),
            None => of_kernel(module, options),
        }
    }
}

impl Signature {
    /// The signature of as many devices, each with its own part of every operand.
    pub fn on_devices(mut self, devices: usize) -> Self {
        if devices > 1 {
            for operand in &mut self.operands {
                operand.devices = Some(devices);
                operand.shape.insert(0, devices);
            }
        }
        self
    }
}

impl Signature {
    /// Reads the signature of one kernel from its call in a StableHLO module.
    pub fn of_call(kernel: &EmbeddedKernel) -> Result<Self, SimulateError> {
        let operand = |(number, ty): (usize, &Type)| tensor_operand(&kernel.name, number, ty, None);
        Ok(Self {
            entry: kernel.name.clone(),
            operands: kernel
                .operands
                .iter()
                .enumerate()
                .map(operand)
                .collect::<Result<_, SimulateError>>()?,
            results: kernel.results.len(),
        })
    }
}

/// The operand that an argument of this tensor type takes.
fn tensor_operand(
    entry: &str,
    number: usize,
    ty: &Type,
    name: Option<String>,
) -> Result<OperandSpec, SimulateError> {
    let unsupported =
        || SimulateError::Operands(format!("operand {number} of @{entry} is {ty}, which is not supported"));
    let element = Element::of(ty).filter(|_| matches!(ty, Type::Tensor(..))).ok_or_else(unsupported)?;
    let spec = OperandSpec::new(name, element, ty.shape().to_vec());
    Ok(OperandSpec { is_boolean: *ty.element() == Type::Integer(1), ..spec })
}

fn of_function(entry: &Function) -> Result<Signature, SimulateError> {
    let operand = |(number, &value): (usize, &Value)| {
        tensor_operand(&entry.name, number, entry.ty(value), argument_name(entry, value))
    };
    let operands = entry.body.arguments.iter().enumerate().map(operand);
    Ok(Signature {
        entry: entry.name.clone(),
        operands: operands.collect::<Result<_, SimulateError>>()?,
        results: entry.results.len(),
    })
}

/// The name of an argument, unless it is only a number such as `arg0` or `0`.
fn argument_name(function: &Function, value: Value) -> Option<String> {
    let name = function.values.get(value.index())?.name.as_deref()?;
    let numbered = name.strip_prefix("arg").unwrap_or(name);
    let is_number = numbered.bytes().all(|byte| byte.is_ascii_digit());
    (!is_number).then(|| name.to_owned())
}

/// A bare kernel has windows for operands and results alike: the last ones that it writes are results.
fn of_kernel(module: &Module, options: &Options<'_>) -> Result<Signature, SimulateError> {
    let kernel = Kernel::new(module)?;
    let function = kernel_function(module)?;
    let first = kernel.grid.len();
    let windows = first + kernel.prefetched..first + kernel.prefetched + kernel.windows.len();
    let results = result_windows(&kernel, function).len();
    // The extents of a dynamic grid come first.
    let dynamic = kernel.grid.iter().filter(|extent| extent.is_none()).count();
    let extent = OperandSpec::new(None, Element::Integer(4), vec![]);
    let mut operands = vec![extent; dynamic];
    for number in first..windows.end - results {
        let (_, memref) = kernel.argument(number);
        let ty = Type::MemRef(memref.clone());
        let element = Element::of(&ty).ok_or_else(|| {
            Unrunnable::Kernel(format!("operand {number} of the kernel is {ty}, which holds no numbers"))
        })?;
        let name = function.body.arguments.get(number).and_then(|&value| argument_name(function, value));
        let mut spec = OperandSpec::new(name, element, memref.shape.clone());
        spec.is_boolean = *memref.element == Type::Integer(1);
        let window = number.checked_sub(windows.start).and_then(|window| kernel.windows.get(window));
        if let Some(blocks @ WindowSpec::Blocks { block, .. }) = window {
            spec.shape =
                kernel.static_extents(blocks, options)?.unwrap_or_else(|| vec![DYNAMIC; block.len()]);
            let before = |(all, block): (&usize, &usize)| match *all {
                DYNAMIC => 0,
                all => all.saturating_sub(*block),
            };
            spec.above = Some(spec.shape.iter().zip(block).map(before).collect());
        }
        operands.push(spec);
    }
    Ok(Signature { entry: function.name.clone(), operands, results })
}

/// The windows of the results: the last ones that the kernel writes.
pub(super) fn result_windows(kernel: &Kernel, function: &Function) -> Range<usize> {
    let written = written_arguments(function);
    let first = kernel.grid.len() + kernel.prefetched;
    let is_result = |window: &usize| {
        function.body.arguments.get(first + window).is_some_and(|value| written.contains(value))
    };
    let windows = 0..kernel.windows.len();
    let results = windows.rev().take_while(is_result).count();
    kernel.windows.len() - results..kernel.windows.len()
}

/// The arguments that a function writes to, directly or through views.
fn written_arguments(function: &Function) -> HashSet<Value> {
    let mut origins: Vec<Value> = (0..function.values.len() as u32).map(Value).collect();
    let mut written = HashSet::new();
    visit(&function.body, function, &mut origins, &mut written);
    written
}

fn visit(region: &Region, function: &Function, origins: &mut Vec<Value>, written: &mut HashSet<Value>) {
    for op in &region.ops {
        note(op, function, origins, written);
        op.regions.iter().for_each(|region| visit(region, function, origins, written));
    }
}

fn note(op: &Op, function: &Function, origins: &mut [Value], written: &mut HashSet<Value>) {
    let is_memory = |value: &&Value| {
        matches!(function.ty(**value), Type::MemRef(memref)
            if !matches!(*memref.element, Type::DmaSemaphore | Type::Semaphore))
    };
    let mut memory = op.operands.iter().filter(is_memory);
    let target = match op_kind(&op.name) {
        Some(OpKind::Store) => memory.next(),
        // The source comes first.
        Some(OpKind::StartDma | OpKind::Copy) => memory.nth(1),
        Some(OpKind::Slice | OpKind::Alias | OpKind::Reinterpret) => {
            if let (Some(from), [to]) = (memory.next(), op.results.as_slice()) {
                origins[to.index()] = origins[from.index()];
            }
            None
        }
        _ => None,
    };
    written.extend(target.map(|value| origins[value.index()]));
}

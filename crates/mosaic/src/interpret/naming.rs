//! Names of buffers and semaphores that the text of a kernel does not have.

use std::borrow::Cow;

use super::{
    embedded::kernel_names,
    kernel_attributes::kernel_function,
    ops::{OpKind, op_kind},
};
use crate::{
    attribute::Attr,
    ir::{Function, Module, Op, Region, Value},
};

/// Attributes of a kernel call: names of the kernel's arguments, and of the buffers that it allocates.
pub(super) const ARGUMENT_NAMES: &str = "octile.argument_names";
pub(super) const ALLOCATION_NAMES: &str = "octile.allocation_names";

/// Names of a kernel's buffers and semaphores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelNames {
    /// Names of the arguments, in order.
    pub arguments: Vec<String>,
    /// Names of the results of [`allocations`], in order; an empty one says nothing.
    pub allocations: Vec<String>,
}

/// Returns the operations of a kernel that allocate buffers and semaphores, in the order of the text.
pub fn allocations(function: &Function) -> Vec<&Op> {
    fn collect<'r>(region: &'r Region, found: &mut Vec<&'r Op>) {
        for op in &region.ops {
            if op_kind(&op.name) == Some(OpKind::Allocate) {
                found.push(op);
            }
            op.regions.iter().for_each(|region| collect(region, found));
        }
    }
    let mut found = Vec::new();
    collect(&function.body, &mut found);
    found
}

/// Names the buffers and semaphores of a kernel, so that findings and timelines use these names.
///
/// `kernel` is a name of [`super::embedded_kernels`], or the function of a module that is a kernel.
pub fn name_buffers(module: &mut Module, kernel: &str, names: &KernelNames) {
    let calls = kernel_names(module);
    if calls.is_empty() {
        if let Some(function) = module.functions.iter_mut().find(|function| function.name == kernel) {
            name_values(function, names);
        }
        return;
    }
    let call = calls.iter().find(|(_, name)| *name == kernel).map(|(op, _)| *op);
    let list = |names: &[String]| Attr::Array(names.iter().cloned().map(Attr::String).collect());
    let mut bodies = module.functions.iter_mut().map(|function| &mut function.body);
    if let Some(op) = bodies.find_map(|body| find(body, &|op| Some(std::ptr::from_ref(op)) == call)) {
        let attributes = std::mem::take(&mut op.attributes);
        op.attributes = attributes
            .with(ARGUMENT_NAMES, list(&names.arguments))
            .with(ALLOCATION_NAMES, list(&names.allocations));
    }
}

/// Returns the function of a module that is the kernel.
pub fn kernel_entry(module: &Module) -> Option<&Function> {
    kernel_function(module).ok()
}

/// Applies the names that a call carries to its kernel.
pub(super) fn apply_names(call: &Op, kernel: &mut Module) {
    let list = |name| match call.attributes.get(name) {
        Some(Attr::Array(names)) => names.iter().map(text).collect(),
        _ => Vec::new(),
    };
    let names = KernelNames { arguments: list(ARGUMENT_NAMES), allocations: list(ALLOCATION_NAMES) };
    let function = kernel_entry(kernel).map(|function| function.name.clone());
    let function = kernel.functions.iter_mut().find(|other| Some(&other.name) == function.as_ref());
    function.into_iter().for_each(|function| name_values(function, &names));
}

fn text(attr: &Attr) -> String {
    match attr {
        Attr::String(text) => text.clone(),
        _ => String::new(),
    }
}

fn name_values(function: &mut Function, names: &KernelNames) {
    let allocated: Vec<Value> = allocations(function)
        .iter()
        .map(|op| op.results.first().copied().unwrap_or(Value(u32::MAX)))
        .collect();
    let arguments = function.body.arguments.iter().copied().zip(&names.arguments);
    for (value, name) in arguments.chain(allocated.into_iter().zip(&names.allocations)) {
        if let Some(info) = function.values.get_mut(value.index()).filter(|_| !name.is_empty()) {
            info.name = Some(Cow::Owned(name.clone()));
        }
    }
}

/// The first operation for which `is_wanted` holds.
fn find<'r>(region: &'r mut Region, is_wanted: &impl Fn(&Op) -> bool) -> Option<&'r mut Op> {
    for op in &mut region.ops {
        if is_wanted(op) {
            return Some(op);
        }
        if let Some(found) = op.regions.iter_mut().find_map(|region| find(region, is_wanted)) {
            return Some(found);
        }
    }
    None
}

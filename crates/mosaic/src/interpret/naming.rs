//! Names of kernel arguments that the text of a kernel does not have.

use std::borrow::Cow;

use super::{embedded::kernel_names, kernel_attributes::kernel_function};
use crate::{
    attribute::Attr,
    ir::{Function, Module, Op, Region},
};

/// Attribute of a kernel call: names of the kernel's arguments.
pub(super) const ARGUMENT_NAMES: &str = "octile.argument_names";

/// Names the arguments of a kernel, in order, so that findings and timelines use these names.
///
/// `kernel` is a name of [`super::embedded_kernels`], or the function of a module that is a kernel.
pub fn name_arguments(module: &mut Module, kernel: &str, names: &[String]) {
    let calls = kernel_names(module);
    if calls.is_empty() {
        if let Some(function) = module.functions.iter_mut().find(|function| function.name == kernel) {
            name_values(function, names);
        }
        return;
    }
    let call = calls.iter().find(|(_, name)| *name == kernel).map(|(op, _)| *op);
    let names = Attr::Array(names.iter().cloned().map(Attr::String).collect());
    let bodies = module.functions.iter_mut().map(|function| &mut function.body);
    if let Some(op) =
        bodies.into_iter().find_map(|body| find(body, &|op| Some(std::ptr::from_ref(op)) == call))
    {
        op.attributes = std::mem::take(&mut op.attributes).with(ARGUMENT_NAMES, names);
    }
}

/// Returns the function of a module that is the kernel.
pub fn kernel_entry(module: &Module) -> Option<&Function> {
    kernel_function(module).ok()
}

/// Applies the names that a call carries to its kernel.
pub(super) fn apply_names(call: &Op, kernel: &mut Module) {
    let Some(Attr::Array(names)) = call.attributes.get(ARGUMENT_NAMES) else { return };
    let name = |attr: &Attr| match attr {
        Attr::String(name) => Some(name.clone()),
        _ => None,
    };
    let names: Vec<String> = names.iter().filter_map(name).collect();
    let function = kernel_entry(kernel).map(|function| function.name.clone());
    let function = kernel.functions.iter_mut().find(|other| Some(&other.name) == function.as_ref());
    function.into_iter().for_each(|function| name_values(function, &names));
}

fn name_values(function: &mut Function, names: &[String]) {
    for (value, name) in function.body.arguments.iter().zip(names) {
        if let Some(info) = function.values.get_mut(value.index()) {
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

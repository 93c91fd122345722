//! What a kernel's attributes say: its function, its grid, and which dimensions are parallel.

use super::program::Unrunnable;
use crate::{
    attribute::{Attr, CoreType, DimensionSemantics},
    ir::{Function, Module},
};

fn refuse(message: impl Into<String>) -> Unrunnable {
    Unrunnable::Kernel(message.into())
}

/// Finds the kernel: the function with a grid, or else the first one.
pub(super) fn kernel_function(module: &Module) -> Result<&Function, Unrunnable> {
    let marked = |function: &&Function| {
        ["iteration_bounds", "window_params", "tpu.core_type"]
            .iter()
            .any(|name| function.attributes.get(name).is_some())
    };
    let function = module.functions.iter().find(marked).or_else(|| module.functions.first());
    function.ok_or_else(|| refuse("the module has no function"))
}

/// Kernel attributes that the interpreter honours, or that do not affect results.
const ATTRIBUTES: [&str; 11] = [
    "iteration_bounds",
    "dimension_semantics",
    "window_params",
    "scalar_prefetch",
    "scratch_operands",
    "tpu.core_type",
    "sym_name",
    "sym_visibility",
    "function_type",
    "arg_attrs",
    "res_attrs",
];

/// Rejects kernel attributes that the interpreter does not implement.
pub(super) fn check_attributes(function: &Function) -> Result<(), Unrunnable> {
    let unknown = function.attributes.iter().find(|(name, _)| !ATTRIBUTES.contains(name));
    if let Some((name, value)) = unknown {
        return Err(refuse(format!("kernel attribute '{name}' is not supported: {value:.80}")));
    }
    match function.attributes.get("tpu.core_type") {
        None | Some(Attr::CoreType(CoreType::TensorCore)) => {}
        Some(other) => {
            return Err(refuse(format!(
                "kernels for {other} are not supported: one TensorCore is simulated"
            )));
        }
    }
    match function.attributes.get("dimension_semantics") {
        None => Ok(()),
        Some(Attr::Array(items)) if items.iter().all(|item| is_parallel(item).is_some()) => Ok(()),
        Some(other) => Err(refuse(format!(
            "dimension_semantics = {other} is not supported: steps are parallel, core_parallel or arbitrary"
        ))),
    }
}

/// Whether the steps of a dimension are parallel; `None` if that is not known.
fn is_parallel(semantics: &Attr) -> Option<bool> {
    match semantics {
        Attr::DimensionSemantics(semantics) => Some(*semantics == DimensionSemantics::Parallel),
        // One core runs what two would: one after the other, which is valid too.
        Attr::Other(text) if text == "#tpu.dimension_semantics<core_parallel>" => Some(true),
        _ => None,
    }
}

pub(super) fn parallel_dimensions(function: &Function) -> Vec<bool> {
    match function.attributes.get("dimension_semantics") {
        Some(Attr::Array(items)) => items.iter().map(|item| is_parallel(item) == Some(true)).collect(),
        _ => Vec::new(),
    }
}

/// Largest extent of a grid dimension.
const MAX_GRID_EXTENT: i64 = 1 << 40;

/// Extents of the grid; a dynamic one is spelled as the smallest integer.
pub(super) fn grid(function: &Function) -> Result<Vec<Option<usize>>, Unrunnable> {
    match function.attributes.get("iteration_bounds") {
        None => Ok(Vec::new()),
        Some(Attr::I64s(bounds)) => bounds
            .iter()
            .map(|&bound| match bound {
                i64::MIN => Ok(None),
                0..MAX_GRID_EXTENT => Ok(Some(bound as usize)),
                _ => Err(refuse(format!("a grid dimension has the extent {bound}"))),
            })
            .collect(),
        Some(other) => Err(refuse(format!("iteration_bounds is not a list of integers: {other}"))),
    }
}

//! The shapes that a kernel expects its operands to have.

use std::fmt;

use octile_mosaic::{Attr, Function, Module, Value, interpret::ScalarOp};

use super::{ArgumentRole, MosaicKernel, TensorType, kernel::kernel_function};
use crate::{
    facts::{Operand, squeezed},
    limits::MAX_WINDOW_STEPS,
};

/// What a kernel says about the type and shape of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperandShape {
    /// In the spelling of HLO, but for integers.
    element: String,
    extents: Extents,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Extents {
    Exact(Vec<u64>),
    /// Per dimension, the size of a window and the largest window index over the grid.
    Windows(Vec<(u64, u64)>),
    Unknown,
}

impl OperandShape {
    /// Whether an operand of a later stage can be this one.
    pub(crate) fn admits(&self, operand: &Operand) -> bool {
        // Integers have a sign in HLO and none here.
        let is_integer = self.element.starts_with('i');
        let fits = match &self.extents {
            Extents::Exact(dims) => squeezed(dims) == squeezed(&operand.dims),
            Extents::Windows(windows) if windows.len() == operand.dims.len() => {
                windows.iter().zip(&operand.dims).all(|(&(size, last), &extent)| {
                    // The last window begins inside the operand; those of an output cover all of it.
                    let begins = last.saturating_mul(size) < extent;
                    begins && (!operand.output || extent <= (last + 1).saturating_mul(size))
                })
            }
            Extents::Windows(_) | Extents::Unknown => true,
        };
        fits && (is_integer || self.element == operand.element)
    }
}

impl fmt::Display for OperandShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = &self.element;
        match &self.extents {
            Extents::Exact(dims) => write!(f, "{element}{dims:?}"),
            Extents::Windows(windows) => {
                let reach = windows.iter().map(|&(size, last)| (last + 1).saturating_mul(size));
                write!(f, "{element}{:?}, in windows,", reach.collect::<Vec<_>>())
            }
            Extents::Unknown => write!(f, "{element} of unknown shape"),
        }
    }
}

/// The operands of a kernel: inputs, then outputs.
pub(crate) fn operands(kernel: &MosaicKernel) -> Vec<OperandShape> {
    let arguments = || kernel.arguments.iter().filter(|argument| argument.role != ArgumentRole::Scratch);
    let prefetched = arguments().filter(|argument| argument.role == ArgumentRole::Prefetched).count();
    let shape = |(index, argument): (usize, &super::Argument)| {
        let TensorType { dims, element, .. } = &argument.memory;
        let extents = match argument.role {
            ArgumentRole::Window => index
                .checked_sub(prefetched)
                .and_then(|index| windows(kernel, index))
                .unwrap_or(Extents::Unknown),
            // A dynamic extent.
            _ if dims.contains(&0) => Extents::Unknown,
            _ => Extents::Exact(dims.clone()),
        };
        OperandShape { element: element.to_ascii_lowercase(), extents }
    };
    arguments().enumerate().map(shape).collect()
}

/// The windows of an operand over the whole grid; `None` where its index map cannot be evaluated.
fn windows(kernel: &MosaicKernel, index: usize) -> Option<Extents> {
    let function = kernel_function(&kernel.module)?;
    let Attr::Array(params) = function.attributes.get("window_params")? else { return None };
    let Attr::Dict(params) = params.get(index)? else { return None };
    // Windows of other kinds count in elements, or revisit blocks.
    if params.iter().any(|(name, _)| !["transform_indices", "window_bounds", "pipeline_mode"].contains(&name))
    {
        return None;
    }
    let Attr::Symbol(transform) = params.get("transform_indices")? else { return None };
    let Attr::I64s(sizes) = params.get("window_bounds")? else { return None };
    let last = last_indices(&kernel.module, transform, &kernel.grid, sizes.len())?;
    let sizes = sizes.iter().map(|&size| u64::try_from(size).ok());
    let windows = sizes.zip(last).map(|(size, last)| Some((size?, last)));
    Some(Extents::Windows(windows.collect::<Option<_>>()?))
}

/// The largest result of an index map in each dimension, over the grid.
fn last_indices(module: &Module, transform: &str, grid: &[i64], rank: usize) -> Option<Vec<u64>> {
    let map = IndexMap::new(module.function(transform)?)?;
    let extents: Vec<u64> = grid.iter().map(|&extent| u64::try_from(extent).ok()).collect::<Option<_>>()?;
    let steps = extents.iter().try_fold(1u64, |steps, &extent| steps.checked_mul(extent))?;
    if steps == 0 || steps > MAX_WINDOW_STEPS {
        return None;
    }
    let mut last = vec![0; rank];
    for step in 0..steps {
        let mut rest = step;
        let mut point: Vec<i64> = Vec::with_capacity(grid.len());
        for &extent in extents.iter().rev() {
            point.push((rest % extent) as i64);
            rest /= extent;
        }
        point.reverse();
        let indices = map.at(&point)?;
        if indices.len() != rank {
            return None;
        }
        for (last, index) in last.iter_mut().zip(indices) {
            *last = index.max(*last);
        }
    }
    Some(last)
}

/// A function from a grid point to the index of a window: scalar integers without control flow.
struct IndexMap<'m> {
    function: &'m Function,
    ops: Vec<(ScalarOp, &'m [Value], Value)>,
    results: &'m [Value],
}

impl<'m> IndexMap<'m> {
    fn new(function: &'m Function) -> Option<Self> {
        let (last, ops) = function.body.ops.split_last()?;
        let bound = ops.iter().map(|op| match op.results[..] {
            [result] => Some((ScalarOp::new(function, op)?, &op.operands[..], result)),
            _ => None,
        });
        Some(Self { function, ops: bound.collect::<Option<_>>()?, results: &last.operands })
    }

    fn at(&self, point: &[i64]) -> Option<Vec<u64>> {
        let mut values = vec![None; self.function.values.len()];
        for (argument, &at) in self.function.body.arguments.iter().zip(point) {
            *values.get_mut(argument.index())? = Some(at);
        }
        let value = |values: &[Option<i64>], of: Value| values.get(of.index()).copied().flatten();
        for (op, operands, result) in &self.ops {
            let operands: Vec<_> = operands.iter().map(|&operand| value(&values, operand)).collect();
            *values.get_mut(result.index())? = op.evaluate(&operands);
        }
        self.results.iter().map(|&result| u64::try_from(value(&values, result)?).ok()).collect()
    }
}

//! Operations of the program around a kernel: StableHLO and CHLO on whole tensors, and the calls of kernels.

pub(super) mod call;
pub(super) mod collective;
pub(super) mod control;
pub(super) mod convert;
pub(super) mod dot;
pub(super) mod elementwise;
pub(super) mod index;
pub(super) mod reduce;
pub(super) mod shape;
pub(super) mod sort;

use std::sync::Arc;

use super::{Definition, effect, pure};
use crate::{
    interpret::{
        admit::check_type,
        array::{Array, Dtype},
        machine::{Machine, Stop},
        program::{Compiler, Exec, Made, Refusal, Step, Unrunnable},
        value::Value,
    },
    ir::Op,
    limits::{ELEMENTS_PER_OPERATION, OPERATIONS_AROUND},
    types::Type,
};

/// Element type and extents of a tensor.
fn tensor_of(c: &Compiler<'_>, ty: &Type) -> Made<(Dtype, Vec<usize>)> {
    if !matches!(ty, Type::Tensor(..)) {
        return Err(Refusal::NotModelled(format!("values of type {ty} are not supported")));
    }
    match Dtype::of(ty) {
        Some(dtype) => match check_type(ty) {
            Ok(()) => Ok((dtype, c.extents(ty)?)),
            Err(message) => Err(Refusal::NotModelled(message)),
        },
        None => Err(Refusal::NotModelled(format!("values of type {ty} are not supported"))),
    }
}

/// The one type of all operands and the result.
fn same_types(c: &Compiler<'_>, op: &Op, operands: usize) -> Made<(Dtype, Vec<usize>)> {
    c.arity(op, operands, 1)?;
    let ty = c.result(op, 0)?;
    for i in 0..operands {
        tensor_of(c, c.operand(op, i)?)?;
        if c.operand(op, i)? != ty {
            return Err(format!("operand {i} is {}, but the result is {ty}", c.operand(op, i)?).into());
        }
    }
    tensor_of(c, ty)
}

/// Element type of the first operand and the result, and the shapes of both.
fn same_elements(c: &Compiler<'_>, op: &Op) -> Made<(Dtype, Vec<usize>, Vec<usize>)> {
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let ((dtype, shape), (element, result)) = (tensor_of(c, from)?, tensor_of(c, to)?);
    match dtype == element {
        true => Ok((dtype, shape, result)),
        false => Err(format!("{from} cannot become {to}").into()),
    }
}

/// An operation that computes its one result from its operands alone.
fn array_op(operands: usize, compute: impl Fn(&[Array]) -> Array + Send + Sync + 'static) -> Made {
    Ok(Box::new(move |m, step| {
        let arrays = (0..operands).map(|i| m.array(step, i)).collect::<Result<Vec<_>, _>>()?;
        let result = compute(&arrays);
        m.charge(if result.is_splat() { 1 } else { result.elements() });
        m.set(step, Value::Array(result));
        Ok(())
    }))
}

impl Machine<'_> {
    /// A tensor operand; stops if the program around the kernel could not compute it.
    pub(in crate::interpret) fn array(&mut self, step: &Step, operand: usize) -> Result<Array, Stop> {
        match self.take(step, operand) {
            Value::Array(array) => Ok(array),
            Value::Missing(why) => Err(Stop::Missing(why)),
            other => unreachable!("{} takes a tensor, not {other:?}", step.name),
        }
    }

    /// Charges an operation over `elements`.
    pub(super) fn charge(&mut self, elements: usize) {
        self.count_operations((elements / ELEMENTS_PER_OPERATION) as u64);
    }
}

/// An operation whose results are missing.
pub(in crate::interpret) fn missing(why: Arc<Unrunnable>) -> Exec {
    tolerant(Box::new(move |_, _| Err(Stop::Missing(why.clone()))))
}

/// An operation of the program around a kernel: its results are missing where what it needs is missing.
pub(in crate::interpret) fn tolerant(exec: Exec) -> Exec {
    Box::new(move |m, step| {
        m.count_operations(OPERATIONS_AROUND);
        match exec(m, step) {
            Err(Stop::Missing(why)) => {
                for &slot in &step.results {
                    m.frame[slot as usize] = Value::Missing(why.clone());
                }
                Ok(())
            }
            other => other,
        }
    })
}

//! Checks of the tensors that are given for a kernel's arguments.

use super::{Tensor, element::Element, machine::Stop};
use crate::types::{DYNAMIC, MemRef, Type};

/// Extent of a grid dimension, given as one integer.
pub(super) fn grid_extent(tensor: &Tensor) -> Result<usize, Stop> {
    let is_integer = tensor.element == Element::Integer(4) && tensor.is_sound() && tensor.bytes.len() == 4;
    let value = is_integer.then(|| tensor.to_data().to_integers(1)[0]);
    value.and_then(|value| usize::try_from(value).ok()).ok_or_else(|| {
        let given = match value {
            Some(value) => value.to_string(),
            None => format!("{} of shape {:?}", tensor.element, tensor.shape),
        };
        Stop::Operands(format!(
            "the kernel's grid is dynamic: its first operand must be one i32 that is not negative, not {given}"
        ))
    })
}

/// Checks the tensor's element type and rank against the memref.
pub(super) fn check_element(name: &str, memref: &MemRef, tensor: &Tensor) -> Result<(), Stop> {
    let element = Element::of(&Type::MemRef(memref.clone()));
    if element != Some(tensor.element) || tensor.shape.len() != memref.shape.len() || !tensor.is_sound() {
        return Err(Stop::Operands(format!(
            "operand %{name} is {}, but the tensor given for it is {} of shape {:?}",
            Type::MemRef(memref.clone()),
            tensor.element,
            tensor.shape
        )));
    }
    Ok(())
}

/// Checks the tensor's shape too.
pub(super) fn check_operand(name: &str, memref: &MemRef, tensor: &Tensor) -> Result<(), Stop> {
    let fits = memref.shape.iter().zip(&tensor.shape).all(|(&want, &have)| want == have || want == DYNAMIC);
    check_element(name, memref, tensor)?;
    match fits {
        true => Ok(()),
        false => Err(Stop::Operands(format!(
            "operand %{name} has shape {:?}, but the tensor given for it has {:?}",
            memref.shape, tensor.shape
        ))),
    }
}

//! Slices of tiled memories. The compiler fits the tiles of a buffer to the slices of it: along rows a slice
//! must consist of whole 32-bit words (two rows of 16-bit elements, four of 8-bit ones), along columns of
//! whole tiles of 128 lanes. A buffer with several slices may need more; that is left to the compiler.

use octile_core::device::tpu::LANES;

use super::{Rule, VerifiedKernel, Violation, divide::Divisors};
use crate::{
    interpret::Element,
    ir::{Op, Value},
    types::{DYNAMIC, MemRef, MemorySpace, Type},
};

/// Rows that share a 32-bit word.
fn rows_per_word(element: Element) -> usize {
    4 / element.bytes().clamp(1, 4)
}

pub(super) fn check(kernel: &VerifiedKernel<'_>, divisors: &Divisors, op: &Op) -> Vec<Violation> {
    if op.name != "tpu.memref_slice" {
        return Vec::new();
    }
    let memref = |value: Option<&Value>| match value.map(|&value| kernel.function.ty(value)) {
        Some(Type::MemRef(memref)) => Some(memref),
        _ => None,
    };
    let (Some(from), Some(to)) = (memref(op.operands.first()), memref(op.results.first())) else {
        return Vec::new();
    };
    let tiled = matches!(from.space, Some(MemorySpace::Hbm | MemorySpace::Any | MemorySpace::Vmem));
    let rank = from.shape.len();
    let Some(element) = Element::of(&Type::MemRef(from.clone())).filter(|_| tiled) else { return Vec::new() };
    if to.shape.len() != rank || op.operands.len() < 1 + rank {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (dimension, unit) in [(rank.checked_sub(2), rows_per_word(element)), (rank.checked_sub(1), LANES)] {
        let Some(dimension) = dimension else { continue };
        let offset = divisors.of(op.operands[1 + dimension]);
        violations.extend(along(op, from, to, dimension, unit, offset));
    }
    violations
}

/// Checks extent and offset along one dimension.
fn along(op: &Op, from: &MemRef, to: &MemRef, dimension: usize, unit: usize, offset: u64) -> Vec<Violation> {
    let (whole, part) = (from.shape[dimension], to.shape[dimension]);
    if part == whole || part == DYNAMIC || whole == DYNAMIC {
        return Vec::new();
    }
    let mut violations = Vec::new();
    // The last tile may be partly outside the buffer, and a slice may end with it.
    if !part.is_multiple_of(unit) && part % unit != whole % unit {
        violations.push(Violation::at(
            Rule::Tiles,
            op,
            format!("{part} of {whole} along dimension {dimension} is not a multiple of {unit}"),
        ));
    }
    if !offset.is_multiple_of(unit as u64) {
        violations.push(Violation::at(
            Rule::Tiles,
            op,
            format!("offset along dimension {dimension} is not known to be a multiple of {unit}"),
        ));
    }
    violations
}

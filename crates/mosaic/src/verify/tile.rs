//! Slices of tiled memories: the last two dimensions are stored in tiles of 8 x 128 words, and a slice must
//! consist of whole tiles.

use octile_core::device::tpu::{LANES, SUBLANES};

use super::{Rule, VerifiedKernel, Violation, divide::Divisors};
use crate::{
    interpret::Element,
    ir::{Op, Value},
    types::{DYNAMIC, MemRef, MemorySpace, Type},
};

/// Rows and columns of a tile: a 32-bit word holds several rows of narrow elements.
fn tile(element: Element) -> (usize, usize) {
    (SUBLANES * (4 / element.bytes().clamp(1, 4)), LANES)
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
    let (rows, columns) = tile(element);
    let mut violations = Vec::new();
    for (dimension, unit) in [(rank.checked_sub(2), rows), (rank.checked_sub(1), columns)] {
        let Some(dimension) = dimension else { continue };
        // One dimension is stored in lanes only.
        let unit = if rank == 1 { columns } else { unit };
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
    if !part.is_multiple_of(unit) {
        violations.push(Violation::at(
            Rule::Tiles,
            op,
            format!("{part} of {whole} along dimension {dimension} is not a multiple of the tile's {unit}"),
        ));
    }
    if !offset.is_multiple_of(unit as u64) {
        violations.push(Violation::at(
            Rule::Tiles,
            op,
            format!("offset along dimension {dimension} is not known to be a multiple of the tile's {unit}"),
        ));
    }
    violations
}

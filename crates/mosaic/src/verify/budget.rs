//! What a kernel's memories take up, against what the chip has.

use super::{Kernel, Rule, Violation, tile::tile};
use crate::{
    attribute::Attr,
    interpret::Element,
    types::{DYNAMIC, MemRef, MemorySpace, Type},
};

const LANES: usize = 128;

/// The next multiple, or the extent itself where there is none.
fn multiple(extent: usize, of: usize) -> usize {
    extent.checked_next_multiple_of(of).unwrap_or(extent)
}

/// Bytes of a memref in a memory, padded as the memory lays it out.
fn bytes(memref: &MemRef) -> usize {
    let Some(element) = Element::of(&Type::MemRef(memref.clone())) else { return 0 };
    if memref.shape.contains(&DYNAMIC) {
        return 0;
    }
    let (rows, columns) = tile(element);
    let smem = memref.space == Some(MemorySpace::Smem);
    let padded = |(dimension, &extent): (usize, &usize)| match memref.shape.len() - dimension {
        1 if smem => multiple(extent, LANES),
        1 => multiple(extent, columns),
        // Few rows take a smaller tile.
        2 if !smem => multiple(extent, rows.min(extent.checked_next_power_of_two().unwrap_or(rows))),
        _ => extent,
    };
    let elements = memref.shape.iter().enumerate().map(padded).fold(1, usize::saturating_mul);
    elements.saturating_mul(if smem { 4 } else { element.bytes() })
}

pub(super) fn check(kernel: &Kernel<'_>) -> Vec<Violation> {
    let function = kernel.function;
    let windows = match function.attributes.get("window_params") {
        Some(Attr::Array(windows)) => windows.as_slice(),
        _ => return Vec::new(),
    };
    let count = |name: &str| match function.attributes.get(name) {
        Some(Attr::Integer(value, _)) => usize::try_from(*value).unwrap_or(0),
        Some(Attr::I64s(items)) => items.len(),
        _ => 0,
    };
    let first_window = count("iteration_bounds").saturating_add(count("scalar_prefetch"));
    let buffers = |argument: usize| {
        let window = argument.checked_sub(first_window).and_then(|number| windows.get(number));
        let moves = matches!(window, Some(Attr::Dict(window)) if window.get("transform_indices").is_some());
        if moves { 2 } else { 1 }
    };
    let total = |space: MemorySpace| -> usize {
        let sizes = function.body.arguments.iter().enumerate().filter_map(|(number, &value)| match function
            .ty(value)
        {
            Type::MemRef(memref) if memref.space == Some(space) => {
                Some(bytes(memref).saturating_mul(buffers(number)))
            }
            _ => None,
        });
        sizes.fold(0, usize::saturating_add)
    };
    let limits = [
        (MemorySpace::Vmem, kernel.chip.vmem_physical, "vector memory"),
        (MemorySpace::Smem, kernel.chip.smem, "scalar memory"),
    ];
    let over = |(space, limit, name): (MemorySpace, usize, &str)| {
        let used = total(space);
        (used > limit).then(|| Violation {
            rule: Rule::Budget,
            place: None,
            message: format!(
                "@{} takes {used} bytes of {name}, but {} has {limit}",
                function.name, kernel.chip.name
            ),
        })
    };
    limits.into_iter().filter_map(over).collect()
}

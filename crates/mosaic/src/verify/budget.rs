//! The memory budget: a kernel's buffers against the chip's VMEM and SMEM.

use octile_core::device::tpu::{smem_bytes, vmem_bytes};

use super::{Rule, VerifiedKernel, Violation};
use crate::{
    attribute::Attr,
    interpret::Element,
    types::{DYNAMIC, MemRef, MemorySpace, Type},
};

/// Bytes of a memref with the padding of its memory; 0 where the size is not known.
fn bytes(memref: &MemRef) -> usize {
    let bits = match &*memref.element {
        Type::Integer(bits @ (2 | 4)) => *bits as usize,
        _ => Element::of(&Type::MemRef(memref.clone())).map_or(0, |element| 8 * element.bytes()),
    };
    match memref.space {
        _ if memref.shape.contains(&DYNAMIC) || bits == 0 => 0,
        Some(MemorySpace::Smem) => smem_bytes(&memref.shape),
        _ => vmem_bytes(&memref.shape, bits),
    }
}

/// Buffers of an operand with this window: two where blocks are fetched ahead.
fn buffers(window: Option<&Attr>) -> usize {
    let Some(Attr::Dict(window)) = window else { return 1 };
    let moves = window.get("transform_indices").is_some();
    let mode = window.get("pipeline_mode").map(ToString::to_string);
    if moves && mode.as_deref() != Some("#tpu.pipeline_mode<synchronous>") { 2 } else { 1 }
}

pub(super) fn check(kernel: &VerifiedKernel<'_>) -> Vec<Violation> {
    let function = kernel.function;
    let windows = match function.attributes.get("window_params") {
        Some(Attr::Array(windows)) => windows.as_slice(),
        _ => &[],
    };
    let count = |name: &str| match function.attributes.get(name) {
        Some(Attr::Integer(value, _)) => usize::try_from(*value).unwrap_or(0),
        Some(Attr::I64s(items)) => items.len(),
        _ => 0,
    };
    let first_window = count("iteration_bounds").saturating_add(count("scalar_prefetch"));
    let buffers =
        |argument: usize| buffers(argument.checked_sub(first_window).and_then(|number| windows.get(number)));
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
        (MemorySpace::Vmem, kernel.chip.vmem_physical, "VMEM"),
        (MemorySpace::Smem, kernel.chip.smem, "SMEM"),
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

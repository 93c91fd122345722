//! Memory maps, to scale.

use maud::{Markup, html};
use octile_core::{
    device::hopper::HOPPER_GPUS,
    plan::{MemorySpace, PlannedBuffer},
};
use octile_dump::facts::{Facts, Space};

use super::plot::COLOURS;
use crate::{command::analyze::Version, print::analyze::size};

/// A buffer.
struct Block {
    name: String,
    bytes: u64,
}

/// Draws two bars per memory: all of it, and the part in use enlarged. `None` if no file names buffers.
pub(super) fn map(version: &Version) -> Option<Markup> {
    let chip = version.promise.chip;
    let vmem_limit = version.facts.vmem.as_ref().and_then(|vmem| vmem.limit);
    let vmem = vmem_limit.or(chip.map(|chip| chip.vmem_default as u64));
    let shared = version.promise.gpu.then_some(HOPPER_GPUS[0].shared_memory_per_block as u64);
    let memories = [
        ("VMEM", Space::Vmem, vmem),
        ("SMEM", Space::Smem, chip.map(|chip| chip.smem as u64)),
        ("Shared memory", Space::Shared, shared),
    ];
    let bars: Vec<_> = memories
        .into_iter()
        .map(|(name, space, limit)| (name, blocks(version, &space), limit))
        .filter(|(_, blocks, _)| !blocks.is_empty())
        .collect();
    let map = html! { @for (name, blocks, limit) in &bars { (memory(name, blocks, *limit)) } };
    (!bars.is_empty()).then_some(map)
}

/// Buffers of the plan, which have names; without one, those of the last level that declares any.
fn blocks(version: &Version, space: &Space) -> Vec<Block> {
    if let Some(plan) = version.manifest.as_ref().and_then(|manifest| manifest.plan.as_ref()) {
        let buffers = plan.memory().buffers().iter();
        let block = |buffer: &PlannedBuffer| Block {
            name: match buffer.copies {
                1 => buffer.id.to_string(),
                many => format!("{} x {many}", buffer.id),
            },
            bytes: buffer.total() as u64,
        };
        return buffers.filter(|buffer| space_of(buffer.space) == Some(space)).map(block).collect();
    }
    let sized: Vec<_> =
        version.facts.buffers.iter().filter(|buffer| buffer.bytes.is_some()).cloned().collect();
    let latest = Facts::latest(&sized, |buffer| buffer.level).into_iter();
    let block = |buffer: &octile_dump::facts::Buffer| Block {
        name: format!("{} {}{:?}", buffer.name, buffer.element, buffer.dims),
        bytes: buffer.bytes.unwrap_or_default(),
    };
    latest.filter(|buffer| buffer.space == *space).map(block).collect()
}

/// Memory of a planned buffer.
fn space_of(space: MemorySpace) -> Option<&'static Space> {
    match space {
        MemorySpace::Vmem => Some(&Space::Vmem),
        MemorySpace::Smem => Some(&Space::Smem),
        MemorySpace::Shared => Some(&Space::Shared),
        MemorySpace::Cache => None,
    }
}

fn memory(name: &str, blocks: &[Block], limit: Option<u64>) -> Markup {
    let used = blocks.iter().fold(0u64, |used, block| used.saturating_add(block.bytes));
    let share = |bytes: u64, whole: u64| format!("width:{:.3}%", 1e2 * bytes as f64 / whole.max(1) as f64);
    html! {
        @if let Some(limit) = limit {
            p.note { (name) ": " (size(used)) " in buffers, of " (size(limit)) }
            div.bar { div style={ (share(used, limit.max(used))) ";background:" (COLOURS[0]) } {} }
            p.note { "The part in use, enlarged" }
        } @else {
            p.note { (name) ": " (size(used)) " in buffers" }
        }
        div.bar {
            @for (block, colour) in blocks.iter().zip(COLOURS.iter().cycle()) {
                @let title = format!("{}: {}", block.name, size(block.bytes));
                div style={ (share(block.bytes, used)) ";background:" (colour) } title=(title) {}
            }
        }
        ul.legend {
            @for (block, colour) in blocks.iter().zip(COLOURS.iter().cycle()) {
                li { span.swatch style={ "background:" (colour) } {} (block.name) ", " (size(block.bytes)) }
            }
        }
    }
}

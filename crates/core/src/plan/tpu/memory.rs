//! Buffers of a TPU kernel, in the bytes that they really take: a memory holds whole tiles.

use super::{Arithmetic, TpuPlan};
use crate::{
    ActivationKind, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    plan::{MemoryMap, MemorySpace},
};

const LANES: usize = 128;
const SCALE_BYTES: usize = 4;

/// Vector memory that plans may fill. The rest is for the compiler's own temporaries.
pub(super) fn usable_vmem(chip: &TpuChip) -> usize {
    chip.vmem_physical / 8 * 7
}

/// What to ask from the compiler: the buffers and a quarter more for its temporaries, within what there is.
pub(super) fn vmem_limit(plan: &TpuPlan) -> usize {
    let wanted = plan.memory.total(MemorySpace::Vmem) / 4 * 5 + (4 << 20);
    let most = plan.chip.vmem_physical / 16 * 15;
    wanted.next_multiple_of(1 << 20).clamp(plan.chip.vmem_default.min(most), most)
}

/// A matrix in vector memory. Tiles are 32 bytes deep, whatever the element: (8,128) of f32, (32,128) of fp8.
pub(super) fn vmem_bytes(rows: usize, cols: usize, element: usize) -> usize {
    rows.next_multiple_of(32 / element) * cols.next_multiple_of(LANES) * element
}

/// A matrix of scales in scalar memory, where every row starts anew.
fn smem_bytes(rows: usize, cols: usize) -> usize {
    rows * cols.next_multiple_of(LANES) * SCALE_BYTES
}

pub(super) fn map(plan: &TpuPlan) -> MemoryMap {
    use MemorySpace::Vmem;
    let tile = plan.tile;
    let out = plan.kernel_out().bytes();
    let x = vmem_bytes(tile.m, tile.k, x_bytes(plan));
    let mut map = MemoryMap::default();
    if let Some(ring) = plan.ring {
        map.push("x", Vmem, 1, x);
        map.push("w_q", Vmem, ring.slots, vmem_bytes(ring.columns, tile.k, 1));
        map.push("out", Vmem, 1, vmem_bytes(tile.m, plan.padded.n, out));
    } else {
        map.push("x", Vmem, 2, x);
        map.push("w_q", Vmem, 2, vmem_bytes(tile.n, tile.k, 1));
        map.push("out", Vmem, 2, vmem_bytes(tile.m, tile.n, out));
    }
    push_scales(plan, &mut map);
    if has_accumulator(plan) {
        map.push("acc", Vmem, 1, vmem_bytes(tile.m, tile.n, 4));
    }
    let kept = if plan.keeps_quantized_x { plan.grid.k } else { 1 };
    if quantizes(plan) && plan.arithmetic == Arithmetic::Fp8 {
        map.push("x_q", Vmem, kept, vmem_bytes(tile.m, tile.k, 1));
    }
    if plan.arithmetic == Arithmetic::Dequantized {
        if !matches!(plan.problem.x, ActivationKind::Plain(_)) {
            map.push("x_bf16", Vmem, kept, vmem_bytes(tile.m, tile.k, 2));
        }
        map.push("w_bf16", Vmem, 2, vmem_bytes(plan.chunk.1, tile.k, 2));
    }
    map
}

/// A strip that covers all of K has no sum to keep between steps.
fn has_accumulator(plan: &TpuPlan) -> bool {
    plan.strategy != Strategy::Strip || plan.grid.k > 1
}

fn quantizes(plan: &TpuPlan) -> bool {
    matches!(plan.problem.x, ActivationKind::Quantized(..))
}

fn x_bytes(plan: &TpuPlan) -> usize {
    plan.wide_x().map_or(1, |float| float.bytes())
}

fn push_scales(plan: &TpuPlan, map: &mut MemoryMap) {
    use MemorySpace::{Smem, Vmem};
    let (w_rows, k_blocks) = plan.w_scale_tile();
    let (x_rows, _) = plan.x_scale_tile();
    let all_k = plan.grid.k * k_blocks;
    let x_name = if quantizes(plan) { "x_abs_max" } else { "x_scale" };
    match plan.strategy {
        Strategy::Auto | Strategy::Dma => {
            map.push("w_scale", Vmem, 2, vmem_bytes(w_rows, k_blocks, SCALE_BYTES));
        }
        Strategy::Smem => map.push("w_scale", Smem, 2, smem_bytes(w_rows, k_blocks)),
        Strategy::Strip => map.push("w_scale", Smem, 1, smem_bytes(plan.grid.n * w_rows, all_k)),
    }
    match (plan.problem.x.granularity(), plan.strategy) {
        (None, _) => {}
        (Some(ScaleGranularity::Block), Strategy::Smem) => {
            map.push(x_name, Smem, 2, smem_bytes(x_rows, k_blocks));
        }
        (Some(ScaleGranularity::Block), Strategy::Strip) => {
            map.push(x_name, Smem, 1, smem_bytes(plan.grid.m * x_rows, all_k));
        }
        // Scalar memory gives one scale at a time; a scale per row is a vector.
        (Some(_), _) => map.push(x_name, Vmem, 2, vmem_bytes(x_rows, k_blocks, SCALE_BYTES)),
    }
}

/// Bytes between device memory and the chip: what changes from one step to the next is fetched again.
pub(super) fn traffic(plan: &TpuPlan) -> usize {
    let (tile, grid) = (plan.tile, plan.grid);
    // A strip of x stays while the tiles of its row go by; shorter pieces come again for each of them.
    let x_stays = plan.keeps_quantized_x || grid.k == 1;
    let x_fetches = if x_stays { grid.m * grid.k } else { plan.steps() };
    let w_fetches = if grid.k == 1 && grid.n == 1 { 1 } else { plan.steps() };
    let scales = [plan.w_scale_tile(), plan.x_scale_tile()];
    let scales: usize = scales.iter().map(|(rows, cols)| rows * cols * SCALE_BYTES).sum();
    x_fetches * tile.m * tile.k * x_bytes(plan)
        + w_fetches * tile.n * tile.k
        + plan.steps() * scales
        + plan.padded.m * plan.padded.n * plan.kernel_out().bytes()
}

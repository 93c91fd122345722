//! The memory map of a TPU kernel, its VMEM budget and its HBM traffic.

use super::{
    Arithmetic, TpuPlan, mxus,
    tile::{self, ROW_UNIT},
};
use crate::{
    ScaleGranularity, Strategy,
    device::tpu::{TpuChip, smem_bytes, vmem_bytes},
    plan::{
        BufferId, MemoryMap,
        MemorySpace::{self, Smem, Vmem},
        PlannedBuffer,
        memory::ElementType::{self, Bf16, F8E4M3, F32},
    },
};

/// Copies of a double-buffered operand.
pub const DOUBLE_BUFFERED: usize = 2;

/// VMEM that plans may fill. The rest is for the compiler's temporaries.
pub(super) fn usable_vmem(chip: &TpuChip) -> usize {
    chip.vmem_physical / 8 * 7
}

/// VMEM to request from the compiler: the budget and a quarter more for its temporaries, as far as there is
/// any.
pub(super) fn vmem_limit(plan: &TpuPlan) -> usize {
    let most = plan.chip.vmem_physical / 16 * 15;
    let wanted = vmem_budget(plan).min(most) / 4 * 5 + (4 << 20);
    wanted.next_multiple_of(1 << 20).clamp(plan.chip.vmem_default.min(most), most)
}

/// VMEM that a plan budgets for its buffers: an upper bound of what the map adds up to.
///
/// Rows are counted in tiles of full words (32 rows of fp8), and the activation scales of the weight pipeline
/// twice. Tile choice and the requested VMEM were tuned with this figure, so a tighter one would change
/// kernels.
pub(super) fn vmem_budget(plan: &TpuPlan) -> usize {
    let budgeted = |buffer: &PlannedBuffer| {
        let twice = plan.weight_pipeline.is_some() && is_x_scale(buffer.id);
        let copies = if twice { DOUBLE_BUFFERED } else { buffer.copies };
        copies.saturating_mul(full_tile_bytes(&buffer.shape, buffer.element.bytes()))
    };
    let vmem = plan.memory.buffers().iter().filter(|buffer| buffer.space == Vmem);
    vmem.map(budgeted).fold(0, usize::saturating_add)
}

/// Bytes of a matrix in whole tiles of 8 x 128 32-bit words.
pub(super) fn full_tile_bytes(shape: &[usize], element_bytes: usize) -> usize {
    let [rows, cols] = shape else { return vmem_bytes(shape, 8 * element_bytes) };
    vmem_bytes(
        &[rows.checked_next_multiple_of(32 / element_bytes).unwrap_or(*rows), *cols],
        8 * element_bytes,
    )
}

fn is_x_scale(id: BufferId) -> bool {
    matches!(id, BufferId::XScale | BufferId::XAbsMax)
}

/// A matrix with the padding of its memory.
fn matrix(
    id: BufferId,
    space: MemorySpace,
    copies: usize,
    element: ElementType,
    rows: usize,
    cols: usize,
) -> PlannedBuffer {
    let shape = [rows, cols];
    let bytes = if space == Smem { smem_bytes(&shape) } else { vmem_bytes(&shape, 8 * element.bytes()) };
    PlannedBuffer::new(id, space, copies, element, &shape).with_bytes(bytes)
}

/// Rows of a buffer of codes. With full words of rows its tiles are those that the MXUs take; others are
/// repacked by every load. A DMA into a part of a buffer must copy whole tiles of HBM, of 8 rows.
fn rows_of_codes(rows: usize) -> usize {
    if rows.is_multiple_of(8) { rows.next_multiple_of(ROW_UNIT) } else { rows }
}

pub(super) fn map(plan: &TpuPlan) -> MemoryMap {
    let (held, given) = (plan.held(), plan.given());
    let (x_type, out_type) = (plan.x_element(), plan.kernel_out().into());
    let mut map = MemoryMap::default();
    let mut push = |id, copies, element, rows, cols| map.push(matrix(id, Vmem, copies, element, rows, cols));
    if let Some(pipeline) = plan.mxu_pipeline {
        push(BufferId::X, 1, x_type, rows_of_codes(held.m), held.k);
        let first = rows_of_codes(plan.first_step_columns());
        if pipeline.stages > 0 {
            push(BufferId::WShort, 1, F8E4M3, first, held.k);
            push(BufferId::WQ, pipeline.stages, F8E4M3, DOUBLE_BUFFERED * plan.chunk.1, held.k);
        } else {
            push(BufferId::WQ, 1, F8E4M3, first, held.k);
        }
        push(BufferId::Out, 1, out_type, held.m, mxus::columns_of_results(plan, pipeline));
    } else if let Some(pipeline) = plan.weight_pipeline {
        push(BufferId::X, 1, x_type, rows_of_codes(held.m), held.k);
        let (stages, columns) = match pipeline.is_resident {
            true => (1, rows_of_codes(given.n)),
            false => (pipeline.stages, pipeline.columns),
        };
        push(BufferId::WQ, stages, F8E4M3, columns, held.k);
        if let Some(columns) = plan.short_columns() {
            push(BufferId::WShort, 1, F8E4M3, rows_of_codes(columns), held.k);
        }
        push(BufferId::Out, 1, out_type, held.m, given.n);
    } else if let Some(pipeline) = plan.row_pipeline {
        push(BufferId::X, pipeline.stages, x_type, rows_of_codes(held.m), held.k);
        push(BufferId::WQ, 1, F8E4M3, rows_of_codes(held.n), held.k);
        push(BufferId::Out, pipeline.stages.min(DOUBLE_BUFFERED), out_type, held.m, held.n);
        if plan.grid.m > 1 {
            let rows = plan.short_rows();
            push(BufferId::XShort, 1, x_type, rows_of_codes(rows), held.k);
            push(BufferId::XScaleShort, 1, F32, plan.k_blocks(), rows);
            push(BufferId::OutShort, 1, out_type, rows, held.n);
        }
    } else {
        push(BufferId::X, DOUBLE_BUFFERED, x_type, held.m, held.k);
        push(BufferId::WQ, DOUBLE_BUFFERED, F8E4M3, held.n, held.k);
        push(BufferId::Out, DOUBLE_BUFFERED, out_type, held.m, held.n);
    }
    map.push(w_scale(plan));
    x_scale(plan).into_iter().for_each(|buffer| map.push(buffer));
    if plan.rows_in_lanes {
        map.push(matrix(BufferId::XPairs, Vmem, 1, F8E4M3, tile::CHUNK, plan.tile.k));
    }
    if let Some(lanes) = x_scale_lanes(plan) {
        map.push(lanes);
    }
    let mut push = |id, copies, element, rows, cols| map.push(matrix(id, Vmem, copies, element, rows, cols));
    // A strip that covers all of K has no sum to keep across grid steps.
    if plan.strategy != Strategy::Strip || plan.grid.k > 1 {
        push(BufferId::Acc, 1, F32, held.m, held.n);
    }
    let kept = if plan.keeps_quantized_x { plan.grid.k } else { 1 };
    if plan.quantizes_x() && plan.arithmetic == Arithmetic::Fp8 {
        push(BufferId::XQ, kept, F8E4M3, held.m, held.k);
    }
    if let Some(pipeline) = plan.mxu_pipeline {
        let k = plan.mxu_slices() * plan.chunk.1;
        push(BufferId::XBf16, 1, Bf16, mxus::rows_of_words(plan, pipeline), k);
        let kept = plan.slice_buffers() * plan.chunk.1;
        push(BufferId::WBf16, DOUBLE_BUFFERED * plan.pair_buffers(), Bf16, plan.chunk.1, kept);
    } else if plan.row_pipeline.is_some() && plan.arithmetic == Arithmetic::Dequantized {
        let first = if plan.grid.m > 1 { plan.short_rows() } else { plan.row_blocks()[0].1 };
        let chunks = first.div_ceil(plan.chunk.0).max(DOUBLE_BUFFERED);
        push(BufferId::XBf16, chunks, Bf16, plan.tile.k, plan.chunk.0);
        if plan.keeps_dequantized_w() {
            push(BufferId::WBf16, 1, Bf16, plan.tile.n, plan.tile.k);
        } else {
            push(BufferId::WBf16, DOUBLE_BUFFERED, Bf16, plan.chunk.1, plan.tile.k);
        }
        if plan.overlaps_rows() {
            let ahead = plan.blocks_ahead() * plan.problem.quant_block.size();
            push(BufferId::XAhead, 1, Bf16, ahead, plan.chunk.0);
            push(BufferId::Late, DOUBLE_BUFFERED, F32, plan.chunk.1, plan.chunk.0);
        }
    } else if plan.arithmetic == Arithmetic::Dequantized {
        if plan.problem.x.granularity().is_some() {
            push(BufferId::XBf16, kept, Bf16, held.m, plan.tile.k);
        }
        push(BufferId::WBf16, plan.dequantized_chunks(), Bf16, plan.chunk.1, plan.tile.k);
    }
    map
}

fn w_scale(plan: &TpuPlan) -> PlannedBuffer {
    let (rows, k_blocks) = plan.w_scale_tile();
    let id = BufferId::WScale;
    match plan.strategy {
        Strategy::Auto | Strategy::Dma => matrix(id, Vmem, DOUBLE_BUFFERED, F32, rows, k_blocks),
        Strategy::Smem => matrix(id, Smem, DOUBLE_BUFFERED, F32, rows, k_blocks),
        Strategy::Strip => matrix(id, Smem, 1, F32, plan.w_scale_rows(), plan.grid.k * k_blocks),
    }
}

fn x_scale(plan: &TpuPlan) -> Option<PlannedBuffer> {
    let (rows, k_blocks) = plan.x_scale_tile();
    if let Some(pipeline) = plan.row_pipeline {
        return Some(matrix(BufferId::XScale, Vmem, pipeline.stages, F32, k_blocks, rows));
    }
    if plan.rows_in_lanes {
        return Some(matrix(BufferId::XScale, Vmem, 1, F32, k_blocks, rows));
    }
    let id = if plan.quantizes_x() { BufferId::XAbsMax } else { BufferId::XScale };
    let copies = match (plan.weight_pipeline, plan.mxu_pipeline) {
        (None, None) => DOUBLE_BUFFERED,
        _ => 1,
    };
    Some(match (plan.problem.x.granularity()?, plan.strategy) {
        (ScaleGranularity::Block, Strategy::Smem) => matrix(id, Smem, copies, F32, rows, k_blocks),
        (ScaleGranularity::Block, Strategy::Strip) => {
            matrix(id, Smem, 1, F32, plan.grid.m * rows, plan.grid.k * k_blocks)
        }
        // SMEM is read one scalar at a time; a scale per row is a vector.
        _ => matrix(id, Vmem, copies, F32, rows, k_blocks),
    })
}

/// Scales per row that many matmuls need. Dequantized activations need them once.
fn x_scale_lanes(plan: &TpuPlan) -> Option<PlannedBuffer> {
    let is_vector = plan.problem.x.granularity() == Some(ScaleGranularity::Token);
    let reused = plan.weight_pipeline.is_some() && !plan.rows_in_lanes && plan.arithmetic == Arithmetic::Fp8;
    let width = plan.problem.quant_block.size().min(plan.chunk.1);
    let shape = [plan.k_blocks(), plan.held().m, width];
    let bytes = vmem_bytes(&shape, 8 * F32.bytes());
    (is_vector && reused)
        .then(|| PlannedBuffer::new(BufferId::XScaleLanes, Vmem, 1, F32, &shape).with_bytes(bytes))
}

/// Bytes between HBM and the chip: an operand block that changes from one grid step to the next is loaded
/// again.
pub(super) fn traffic(plan: &TpuPlan) -> usize {
    let (tile, grid) = (plan.tile, plan.grid);
    // A strip of x is reused by all tiles of its row; shorter blocks are loaded again for each of them.
    let x_stays = plan.keeps_quantized_x || grid.k == 1;
    let x_loads = if x_stays { grid.m.saturating_mul(grid.k) } else { plan.steps() };
    let w_loads = if grid.k == 1 && grid.n == 1 { 1 } else { plan.steps() };
    let moved = |times: usize, rows: usize, cols: usize, bytes: usize| {
        times.saturating_mul(rows).saturating_mul(cols).saturating_mul(bytes)
    };
    let scales = |(rows, cols)| moved(plan.steps(), rows, cols, F32.bytes());
    [
        moved(x_loads, tile.m, tile.k, plan.x_element().bytes()),
        match plan.mxu_pipeline {
            // The first step may take more columns than a tile has.
            Some(_) => moved(1, plan.problem.n, tile.k, F8E4M3.bytes()),
            None => moved(w_loads, tile.n, tile.k, F8E4M3.bytes()),
        },
        scales(plan.w_scale_tile()),
        scales(plan.x_scale_tile()),
        moved(1, plan.padded.m, plan.padded.n, plan.kernel_out().bytes()),
    ]
    .into_iter()
    .fold(0, usize::saturating_add)
}

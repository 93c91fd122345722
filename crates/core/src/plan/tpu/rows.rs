//! Strips that keep w in VMEM while blocks of rows of x stream past it: few columns, and a scale per row of
//! x.
//!
//! Products are computed transposed. Rows of x lie along the lanes, where a scale per row is a vector that
//! all sublanes share; beside rows it would have to be repeated along the lanes, which takes longer than the
//! matmuls of few columns.

use super::{
    Dims, RowPipeline, TpuPlan, memory,
    tile::{CHUNK, FEW_ROWS, ModelledCycles},
};
use crate::{
    ActivationKind, Problem, ScaleGranularity, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};

/// Most columns of the result: with more, dequantizing rows of x is cheaper than scaling every product.
const MOST_COLUMNS: usize = 768;

/// Rows of x or columns of the result that fill half of the lanes of both MXUs.
const HALF: usize = CHUNK / 2;

/// Blocks of rows in VMEM: one is multiplied while the others arrive.
const STAGES: usize = 3;

/// Cycles without MXU work around the wait for a block.
const DRAIN: f64 = 320.0;

/// The pipeline of rows of a plan; `None` where it has none.
pub(super) fn pipeline(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
) -> Option<RowPipeline> {
    let whole_w = tile.n == padded.n && tile.k == padded.k && tile.n <= MOST_COLUMNS;
    let many_rows = padded.m > FEW_ROWS && tile.m.is_multiple_of(HALF);
    let native = chip.fp8 == Fp8Support::Native;
    // Padding x costs more than a scale per row where the compiler's tiles need none.
    let pads_rows = padded.m != problem.m && padded.m != tile.m && padded.k == problem.k;
    let many_rows = many_rows && !(pads_rows && tile.n > CHUNK);
    if strategy != Strategy::Strip || !native || !scales_rows(problem) || !whole_w || !many_rows {
        return None;
    }
    let bytes = memory::full_tile_bytes;
    let w = bytes(&[tile.n, tile.k], 1);
    let block = bytes(&[tile.m, tile.k], 1) + bytes(&[tile.k / problem.quant_block.size(), tile.m], 4);
    let steps = padded.m / tile.m;
    let out = steps.min(memory::DOUBLE_BUFFERED) * bytes(&[tile.m, tile.n], 4);
    let stages = (memory::usable_vmem(chip).checked_sub(w + out)? / block).min(steps).min(STAGES);
    (stages >= steps.min(memory::DOUBLE_BUFFERED)).then_some(RowPipeline { stages })
}

/// Whether products are scaled row by row of x. Large quantization blocks have few products to scale.
fn scales_rows(problem: &Problem) -> bool {
    problem.x == ActivationKind::Fp8(ScaleGranularity::Token) && problem.quant_block.size() <= CHUNK
}

/// Rows of a grid step, besides those that other strips choose among: all rows in equal parts.
pub(super) fn sides(problem: &Problem) -> Vec<usize> {
    if !scales_rows(problem) || problem.m <= FEW_ROWS || problem.n > MOST_COLUMNS {
        return Vec::new();
    }
    let most = problem.m.div_ceil(2 * CHUNK).min(16);
    (1..=most).map(|parts| problem.m.div_ceil(parts).next_multiple_of(HALF)).collect()
}

/// Rows of x and columns of the result in one matmul: their sums take half of the vector registers.
pub(super) fn chunk(problem: &Problem, tile: Dims) -> (usize, usize) {
    let wide = tile.n.is_multiple_of(CHUNK) && problem.quant_block.size() < CHUNK;
    if wide { (HALF, CHUNK) } else { (CHUNK.min(tile.m), HALF) }
}

/// Blocks of rows of one grid step: first row and number of rows. A step with all rows has several; the
/// first one is small, so that multiplying begins early.
pub(super) fn blocks(plan: &TpuPlan) -> Vec<(usize, usize)> {
    let rows = plan.tile.m;
    if plan.grid.m > 1 {
        return vec![(0, rows)];
    }
    let cuts = [1, 2, 4, 8, 16].map(|most| cut(rows, most * CHUNK));
    let shortest = cuts.into_iter().min_by(|a, b| timeline(plan, a).total_cmp(&timeline(plan, b)));
    shortest.expect("there are several ways to cut rows")
}

/// Cuts rows into blocks that double from [`CHUNK`] to `most`.
fn cut(rows: usize, most: usize) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut begins = 0;
    while begins < rows {
        let size = begins.clamp(CHUNK, most).min(rows - begins);
        blocks.push((begins, size));
        begins += size;
    }
    blocks
}

/// Semaphores of a plan: of w, its scales and two buffers of the result, and two for each block of rows in
/// VMEM.
pub(super) fn semaphores(plan: &TpuPlan, pipeline: RowPipeline) -> usize {
    4 + 2 * blocks(plan).len().max(pipeline.stages)
}

/// Cycles of multiplying some rows. Scaling and adding the products takes all slots of the VPU, and some of
/// them move sums out of the vector registers and back.
fn work(plan: &TpuPlan, rows: usize) -> f64 {
    let small_blocks = plan.problem.quant_block.size() < CHUNK;
    let rates = &plan.chip.rates;
    let (products, lost) =
        if small_blocks { (rates.bf16_products, 1.32) } else { (rates.fp8_products, 2.15) };
    let chunks = rows.next_multiple_of(if small_blocks { CHUNK } else { HALF });
    lost * (chunks * plan.tile.n * plan.tile.k) as f64 / products + DRAIN
}

/// Cycles of a kernel that takes x in the given blocks: each is multiplied when it has arrived and those
/// before it are done.
fn timeline(plan: &TpuPlan, blocks: &[(usize, usize)]) -> f64 {
    let (tile, rates) = (plan.tile, &plan.chip.rates);
    let copy = |bytes: usize| bytes as f64 / rates.hbm_bytes_per_cycle();
    let mut arrives = rates.copy_latency + copy(tile.n * tile.k);
    let (mut done, mut stored) = (0.0f64, 0.0);
    for _ in 0..plan.grid.m {
        for &(_, rows) in blocks {
            arrives += copy(rows * (tile.k + 4 * plan.k_blocks()));
            done = done.max(arrives) + work(plan, rows);
            let out = copy(rows * tile.n * plan.kernel_out().bytes());
            stored = done.max(stored) + out;
        }
    }
    stored + rates.copy_latency
}

/// Models the cycles of the kernel.
pub(super) fn modelled_cycles(plan: &TpuPlan) -> ModelledCycles {
    ModelledCycles { unrolled: work(plan, plan.tile.m), total: timeline(plan, &blocks(plan)) }
}

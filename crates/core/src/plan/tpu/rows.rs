//! Strips that keep w in VMEM while blocks of rows of x stream past it: few columns, and a scale per row of
//! x.
//!
//! Products are computed transposed. Rows of x lie along the lanes, where a scale per row is a vector that
//! all sublanes share; beside rows it would have to be repeated along the lanes, which takes longer than the
//! matmuls of few columns.

use super::{
    Arithmetic, Dims, RowPipeline, TpuPlan, memory,
    tile::{self, CHUNK, FEW_ROWS, ModelledCycles},
};
use crate::{
    ActivationKind, Problem, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};

/// Most columns of the result: with more, dequantizing rows of x is cheaper than scaling every product.
const MOST_COLUMNS: usize = 768;

/// Most blocks of rows. The scales of more need not fit anywhere.
const MOST_STEPS: usize = 1 << 16;

/// What of it the wait for weights does not cost: their matmuls follow without another wait.
const SAVED_DRAIN: f64 = 250.0;

/// Steps that are modelled one by one; all others take as long as a step in the middle.
const MODELLED_STEPS: usize = 32;

/// Rows of x or columns of the result that fill half of the lanes of both MXUs.
const HALF: usize = CHUNK / 2;

/// Most rows of a first block, which are all dequantized at once.
const MOST_FIRST: usize = 2 * CHUNK;

/// Blocks of rows in VMEM: one is multiplied while the others arrive.
const STAGES: usize = 3;

/// Cycles without MXU work around the wait for a block.
const DRAIN: f64 = 320.0;

/// The same where results are transposed after conversion.
const DRAIN_DEQUANTIZED: f64 = 500.0;

/// The pipeline of rows of a plan; `None` where it has none.
pub(super) fn pipeline(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
) -> Option<RowPipeline> {
    let dequantizes = arithmetic(problem, tile) == Arithmetic::Dequantized;
    let whole_w = tile.n == padded.n && tile.k == padded.k && (dequantizes || tile.n <= MOST_COLUMNS);
    let steps = padded.m / tile.m;
    let unit = if dequantizes && steps > 1 { CHUNK } else { HALF };
    let many_rows = padded.m > FEW_ROWS && tile.m.is_multiple_of(unit) && steps <= MOST_STEPS;
    let native = chip.fp8 == Fp8Support::Native;
    let scaled = scales_rows(problem) && (dequantizes || tile::per_row(problem));
    if strategy != Strategy::Strip || !native || !scaled || !whole_w || !many_rows {
        return None;
    }
    let bytes = memory::full_tile_bytes;
    let k_blocks = tile.k / problem.quant_block.size();
    let block = |rows: usize| bytes(&[rows, tile.k], 1) + bytes(&[k_blocks, rows], 4);
    let out = |rows: usize| bytes(&[rows, tile.n], 4.min(problem.out.bytes().max(2)));
    let first = if steps > 1 { problem.m - (steps - 1) * tile.m } else { MOST_FIRST.min(tile.m) };
    let mut kept = bytes(&[tile.n, tile.k], 1);
    if steps > 1 {
        kept += block(first) + out(first);
    }
    if dequantizes {
        let chunks = first.div_ceil(CHUNK).max(memory::DOUBLE_BUFFERED);
        kept += bytes(&[tile.n, tile.k], 2) + chunks * bytes(&[tile.k, CHUNK], 2);
    }
    let whole = if steps > 1 { steps - 1 } else { 1 };
    kept += whole.min(memory::DOUBLE_BUFFERED) * out(tile.m);
    let stages = memory::usable_vmem(chip).checked_sub(kept)? / block(tile.m);
    let stages = stages.min(whole).min(STAGES);
    (stages >= whole.min(memory::DOUBLE_BUFFERED)).then_some(RowPipeline { stages })
}

/// With small quantization blocks, scaling products takes longer than scaling both operands, unless there are
/// few columns.
pub(super) fn arithmetic(problem: &Problem, tile: Dims) -> Arithmetic {
    let dequantizes = problem.quant_block.size() < CHUNK && tile.n > HALF;
    if dequantizes { Arithmetic::Dequantized } else { Arithmetic::Fp8 }
}

/// Whether x is scaled row by row. Large quantization blocks have few products to scale. The scales of blocks
/// are repeated for each row before the kernel, if it dequantizes.
fn scales_rows(problem: &Problem) -> bool {
    matches!(problem.x, ActivationKind::Fp8(_)) && problem.quant_block.size() <= CHUNK
}

/// Rows of a grid step, besides those that other strips choose among: all rows in equal parts.
pub(super) fn sides(problem: &Problem) -> Vec<usize> {
    if !scales_rows(problem) || problem.m <= FEW_ROWS {
        return Vec::new();
    }
    let most = problem.m.div_ceil(2 * CHUNK).min(16);
    let equal = (1..=most).map(|parts| problem.m.div_ceil(parts));
    let whole = [2, 3, 4, 6, 8].map(|chunks| chunks * CHUNK).into_iter().filter(|&rows| rows < problem.m);
    let sides = equal.flat_map(|rows| [rows.next_multiple_of(HALF), rows.next_multiple_of(CHUNK)]);
    sides.chain(whole).collect()
}

/// Rows of x and columns of the result in one matmul. Those of codes are so few that sums take half of the
/// vector registers.
pub(super) fn chunk(problem: &Problem, tile: Dims) -> (usize, usize) {
    if arithmetic(problem, tile) == Arithmetic::Dequantized {
        return (CHUNK, CHUNK.min(tile.n));
    }
    let wide = tile.n.is_multiple_of(CHUNK) && problem.quant_block.size() < CHUNK;
    if wide { (HALF, CHUNK) } else { (CHUNK.min(tile.m), HALF) }
}

/// Weight blocks, each with a DMA of its own: first column and number of columns. The first one is small, so
/// that multiplying begins early; each wait for one drains the MXUs.
pub(super) fn weight_blocks(plan: &TpuPlan) -> Vec<(usize, usize)> {
    let columns = plan.held().n;
    if plan.arithmetic != Arithmetic::Dequantized {
        return vec![(0, columns)];
    }
    let mut blocks = Vec::new();
    let mut begins = 0;
    while begins < columns {
        let size = begins.clamp(CHUNK, 4 * CHUNK) / CHUNK * CHUNK;
        let left = columns - begins;
        let size = if left < size + CHUNK { left } else { size };
        blocks.push((begins, size));
        begins += size;
    }
    blocks
}

/// Blocks of rows of one grid step: first row and number of rows. A step with all rows has several; the
/// first one is small, so that multiplying begins early.
pub(super) fn blocks(plan: &TpuPlan) -> Vec<(usize, usize)> {
    let rows = plan.held().m;
    if plan.grid.m > 1 {
        return vec![(0, rows)];
    }
    let cuts = [1, 2, 4, 8, 16].map(|most| cut(rows, most * CHUNK));
    let cuts = cuts.into_iter().chain([cut_from(rows, 2 * CHUNK, 16 * CHUNK)]);
    let shortest = cuts.min_by(|a, b| timeline(plan, a).total_cmp(&timeline(plan, b)));
    shortest.expect("there are several ways to cut rows")
}

/// Cuts rows into blocks that double from [`CHUNK`] to `most`.
fn cut(rows: usize, most: usize) -> Vec<(usize, usize)> {
    cut_from(rows, CHUNK, most)
}

/// Cuts rows into blocks that double from `first` to `most`.
fn cut_from(rows: usize, first: usize, most: usize) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut begins = 0;
    while begins < rows {
        let size = begins.clamp(first, most).min(rows - begins);
        blocks.push((begins, size));
        begins += size;
    }
    blocks
}

/// Semaphores of a plan: of the scales of w and three buffers of the result, one for each weight block, and
/// two for each block of rows in VMEM.
pub(super) fn semaphores(plan: &TpuPlan, pipeline: RowPipeline) -> usize {
    let blocks = if plan.grid.m > 1 { 1 + pipeline.stages } else { blocks(plan).len() };
    4 + weight_blocks(plan).len() + 2 * blocks
}

/// Cycles of multiplying some rows with some columns. Scaling and adding the products of codes takes all
/// slots of the VPU, and some of them move sums out of the vector registers and back.
fn work(plan: &TpuPlan, rows: usize, columns: usize) -> f64 {
    let small_blocks = plan.problem.quant_block.size() < CHUNK;
    let rates = &plan.chip.rates;
    let (products, lost) = match (plan.arithmetic, small_blocks) {
        (Arithmetic::Dequantized, _) => (rates.bf16_products, 1.0),
        (_, true) => (rates.bf16_products, 1.32),
        (_, false) => (rates.fp8_products, 2.15),
    };
    let columns = if plan.arithmetic == Arithmetic::Dequantized {
        // The last columns stream past rows of x that take as long to load.
        columns / CHUNK * CHUNK + if columns.is_multiple_of(CHUNK) { 0 } else { CHUNK }
    } else {
        columns
    };
    let rows = rows.next_multiple_of(if small_blocks { CHUNK } else { HALF });
    let drain = if plan.arithmetic == Arithmetic::Dequantized { DRAIN_DEQUANTIZED } else { DRAIN };
    lost * (rows * columns * plan.tile.k) as f64 / products + drain
}

/// Vector cycles of dequantizing some rows of an operand.
fn dequantizing(plan: &TpuPlan, rows: usize) -> f64 {
    if plan.arithmetic == Arithmetic::Dequantized { 3.0 * (rows * plan.tile.k) as f64 / 4096.0 } else { 0.0 }
}

/// Cycles of a kernel that takes x in the given blocks: each is multiplied when it has arrived and those
/// before it are done. The first one waits for one weight block after another.
fn timeline(plan: &TpuPlan, blocks: &[(usize, usize)]) -> f64 {
    let (tile, rates) = (plan.tile, &plan.chip.rates);
    let copy = |bytes: usize| bytes as f64 / rates.hbm_bytes_per_cycle();
    let x = |rows: usize| copy(rows * (tile.k + 4 * plan.k_blocks()));
    let columns = plan.held().n;
    // Several steps begin with the rows that are left over.
    let (first, later) = if plan.grid.m > 1 {
        (plan.short_rows(), vec![plan.tile.m; MODELLED_STEPS.min(plan.grid.m - 1)])
    } else {
        (blocks[0].1, blocks[1..].iter().map(|block| block.1).collect())
    };
    let mut arrives = rates.copy_latency + x(first);
    let mut done = arrives;
    for (begins, size) in weight_blocks(plan) {
        arrives += copy(size * tile.k);
        let prepared = if begins == 0 { dequantizing(plan, CHUNK + CHUNK.min(first)) } else { 0.0 };
        let drain = if plan.arithmetic == Arithmetic::Dequantized { SAVED_DRAIN } else { 0.0 };
        let multiplied = (work(plan, first, size) - drain).max(dequantizing(plan, size));
        done = done.max(arrives) + prepared + multiplied;
    }
    let out = |rows: usize| copy(rows * columns * plan.kernel_out().bytes());
    let mut stored = done + out(first);
    for &rows in &later {
        arrives += x(rows);
        done = done.max(arrives) + work(plan, rows, columns);
        stored = done.max(stored) + out(rows);
    }
    let step = work(plan, tile.m, columns).max(x(tile.m) + out(tile.m));
    let others = if plan.grid.m > 1 { plan.grid.m - 1 - later.len() } else { 0 };
    stored + others as f64 * step + rates.copy_latency
}

/// Models the cycles of the kernel. The rows that are left over have code of their own.
pub(super) fn modelled_cycles(plan: &TpuPlan) -> ModelledCycles {
    let columns = plan.held().n;
    let short = if plan.grid.m > 1 { work(plan, plan.short_rows(), columns) } else { 0.0 };
    ModelledCycles {
        unrolled: work(plan, plan.held().m, columns) + short,
        total: timeline(plan, &blocks(plan)),
    }
}

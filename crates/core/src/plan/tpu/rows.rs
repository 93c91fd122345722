//! Strips that keep w in VMEM while blocks of rows of x stream past it.
//!
//! Products are computed transposed. Rows of x lie along the lanes, where a scale per row is a vector that
//! all sublanes share; beside rows it would have to be repeated along the lanes, which takes longer than the
//! matmuls of few columns, or than those of large quantization blocks.

use serde::{Deserialize, Serialize};

use super::{
    Arithmetic, DOUBLE_BUFFERED, Dims, TpuPlan, memory,
    tile::{self, CHUNK, FEW_ROWS, ModelledCycles},
};
use crate::{
    ActivationKind, Problem, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};

/// The pipeline of a strip kernel that keeps w in VMEM: blocks of whole-K rows of x stream past it. Products
/// are computed transposed, with rows of x along the lanes, where a scale per row costs nothing to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowPipeline {
    /// Blocks of x in VMEM; with one, all of x is there and one grid step multiplies it.
    pub stages: usize,
}

/// Most columns of the result: with more, dequantizing rows of x is cheaper than scaling every product.
const MOST_COLUMNS: usize = 768;

/// Most blocks of rows. The scales of more need not fit anywhere.
const MOST_STEPS: usize = 1 << 16;

/// Steps that are modelled one by one; all others take as long as a step in the middle.
const MODELLED_STEPS: usize = 32;

/// Rows of x or columns of the result that fill half of the lanes of both MXUs.
const HALF: usize = CHUNK / 2;

/// Most rows of a first block, which are all dequantized at once, besides a rest shorter than a chunk.
const MOST_FIRST: usize = 2 * CHUNK;

/// Blocks of rows in VMEM: one is multiplied while the others arrive.
const STAGES: usize = 3;

/// Columns of the next block of rows that are dequantized beside the matmuls of this one: enough for their
/// matmuls to hide that the others are transposed.
pub(super) const AHEAD: usize = 256;

/// Cycles without MXU work around the wait for a block.
const DRAIN: f64 = 320.0;

/// The same where a product of codes is scaled for each of a few large quantization blocks.
const DRAIN_CODES: f64 = 410.0;

/// The same where results are transposed after conversion.
const DRAIN_DEQUANTIZED: f64 = 540.0;

/// The same where the next block is dequantized ahead, and last products are transposed during it: between
/// grid steps, and within one.
const DRAIN_OVERLAPPED: [f64; 2] = [410.0, 300.0];

/// Cycles between the weight blocks of a first block, whose last products are transposed after the wait.
const DRAIN_WEIGHTS: f64 = 290.0;

/// Cycles of transposing the last products, where nothing hides them: after the first block and after all.
const LAST_PRODUCTS: f64 = 240.0;

/// The same after a first block that has waited for the next one with its last weights.
const LAST_PRODUCTS_JOINED: f64 = 140.0;

/// Cycles until the first values are dequantized.
const FIRST_DEQUANTIZED: f64 = 200.0;

/// The pipeline of rows of a plan; `None` where it has none.
pub(super) fn pipeline(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
) -> Option<RowPipeline> {
    let dequantizes = arithmetic(problem, tile) == Arithmetic::Dequantized;
    let scales_products = !dequantizes && has_small_blocks(problem);
    let few_columns = !scales_products || tile.n <= MOST_COLUMNS;
    let whole_w = tile.n == padded.n && tile.k == padded.k && few_columns;
    let steps = padded.m / tile.m;
    let unit = if dequantizes && steps > 1 { CHUNK } else { HALF };
    let many_rows = padded.m > FEW_ROWS && tile.m.is_multiple_of(unit) && steps <= MOST_STEPS;
    let native = chip.fp8 == Fp8Support::Native;
    let scaled = scales_rows(problem) && (!scales_products || tile::per_row(problem));
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
        let chunks = first.div_ceil(CHUNK).max(DOUBLE_BUFFERED);
        kept += bytes(&[tile.n, tile.k], 2) + chunks * bytes(&[tile.k, CHUNK], 2);
        kept += bytes(&[AHEAD, CHUNK], 2) + DOUBLE_BUFFERED * bytes(&[CHUNK, CHUNK], 4);
    }
    let whole = if steps > 1 { steps - 1 } else { 1 };
    kept += whole.min(DOUBLE_BUFFERED) * out(tile.m);
    let stages = memory::usable_vmem(chip).checked_sub(kept)? / block(tile.m);
    let stages = stages.min(whole).min(STAGES);
    // Dequantizing ahead needs the next block.
    let least = if dequantizes && overlap(tile) { STAGES } else { DOUBLE_BUFFERED };
    (stages >= whole.min(least)).then_some(RowPipeline { stages })
}

/// Whether blocks of dequantized rows overlap.
pub(super) fn overlap(tile: Dims) -> bool {
    tile.n > CHUNK
}

/// Cycles without MXU work between two blocks of rows.
fn drain(plan: &TpuPlan) -> f64 {
    match plan.arithmetic {
        Arithmetic::Dequantized if overlap(plan.tile) => DRAIN_OVERLAPPED[usize::from(plan.grid.m == 1)],
        Arithmetic::Dequantized => DRAIN_DEQUANTIZED,
        _ if has_small_blocks(&plan.problem) => DRAIN,
        _ => DRAIN_CODES,
    }
}

/// With small quantization blocks, scaling products takes longer than scaling both operands, unless there are
/// few columns.
pub(super) fn arithmetic(problem: &Problem, tile: Dims) -> Arithmetic {
    let dequantizes = has_small_blocks(problem) && tile.n > HALF;
    if dequantizes { Arithmetic::Dequantized } else { Arithmetic::Fp8 }
}

/// Whether a quantization block fills half of an MXU, so that scaling products takes longer than multiplying.
pub(super) fn has_small_blocks(problem: &Problem) -> bool {
    problem.quant_block.size() < CHUNK
}

/// Whether x is scaled row by row. The scales of blocks are repeated for each row before the kernel.
fn scales_rows(problem: &Problem) -> bool {
    matches!(problem.x, ActivationKind::Fp8(_))
}

/// Rows of a grid step, besides those that other strips choose among: all rows in equal parts.
pub(super) fn sides(problem: &Problem) -> Vec<usize> {
    if !scales_rows(problem) || problem.m <= FEW_ROWS {
        return Vec::new();
    }
    let most = problem.m.div_ceil(2 * CHUNK).min(16);
    let equal = (1..=most).map(|parts| problem.m.div_ceil(parts));
    let whole = [2, 3, 4, 5, 6, 8].map(|chunks| chunks * CHUNK).into_iter().filter(|&rows| rows < problem.m);
    let sides = equal.flat_map(|rows| [rows.next_multiple_of(HALF), rows.next_multiple_of(CHUNK)]);
    sides.chain(whole).collect()
}

/// Rows of x and columns of the result in one matmul. Those of codes are so few that sums take half of the
/// vector registers.
pub(super) fn chunk(problem: &Problem, tile: Dims) -> (usize, usize) {
    if arithmetic(problem, tile) == Arithmetic::Dequantized {
        return (CHUNK, CHUNK.min(tile.n));
    }
    if !has_small_blocks(problem) {
        return (CHUNK.min(tile.m), CHUNK.min(tile.n));
    }
    let wide = tile.n.is_multiple_of(CHUNK);
    if wide { (HALF, CHUNK) } else { (CHUNK.min(tile.m), HALF) }
}

/// Weight blocks, each with a DMA of its own: first column and number of columns.
pub(super) fn weight_blocks(plan: &TpuPlan) -> Vec<(usize, usize)> {
    cuts(plan).weights
}

/// Blocks of rows of one grid step: first row and number of rows. A step with all rows has several.
pub(super) fn blocks(plan: &TpuPlan) -> Vec<(usize, usize)> {
    cuts(plan).rows
}

/// Whether the first block waits for the next one when it waits for its last weights.
pub(super) fn joins_waits(plan: &TpuPlan) -> bool {
    cuts(plan).joins_waits
}

/// First row or column and number of each block.
type Blocks = Vec<(usize, usize)>;

/// How a kernel takes its operands.
#[derive(Default)]
struct Cuts {
    rows: Blocks,
    weights: Blocks,
    joins_waits: bool,
}

/// Blocks of rows and of weights with the fewest modelled cycles. Small first ones let multiplying begin
/// early, a small last one leaves little to store at the end, and every wait drains the MXUs.
fn cuts(plan: &TpuPlan) -> Cuts {
    let held = plan.held();
    // A DMA of a part of the result copies whole tiles of 8 rows.
    let has_parts = held.m.is_multiple_of(8);
    let rows = if plan.grid.m > 1 || !has_parts {
        vec![vec![(0, held.m)]]
    } else {
        let grown = |rows: usize| {
            let cuts = [1, 2, 4, 8, 16].map(|most| cut(rows, CHUNK, 1, most * CHUNK)).into_iter();
            let fast = [3, 6].map(|growth| cut(rows, CHUNK, growth, 16 * CHUNK));
            cuts.chain([cut(rows, 2 * CHUNK, 1, 16 * CHUNK)]).chain(fast)
        };
        // The last block of one or two chunks begins with a chunk.
        let with_last = |chunks: usize| {
            let begins = (held.m.div_ceil(CHUNK).saturating_sub(chunks)) * CHUNK;
            let cuts = (begins > 0).then(|| grown(begins)).into_iter().flatten();
            cuts.map(move |cut| [cut, vec![(begins, held.m - begins)]].concat())
        };
        grown(held.m).chain([1, 2].into_iter().flat_map(with_last)).collect()
    };
    let in_blocks = plan.arithmetic == Arithmetic::Dequantized || !has_small_blocks(&plan.problem);
    let weights = if in_blocks {
        let growths = [1, 2, 3, 4].into_iter();
        growths.flat_map(|growth| [4, 16].map(|most| cut(held.n, CHUNK, growth, most * CHUNK))).collect()
    } else {
        vec![vec![(0, held.n)]]
    };
    let may_join = plan.arithmetic == Arithmetic::Dequantized && overlap(plan.tile);
    let mut best = (f64::INFINITY, Cuts::default());
    for rows in rows {
        for weights in &weights {
            for joins_waits in [false, true].into_iter().take(1 + usize::from(may_join)) {
                let cuts = Cuts { rows: rows.clone(), weights: weights.clone(), joins_waits };
                let cycles = timeline(plan, &cuts);
                if cycles < best.0 {
                    best = (cycles, cuts);
                }
            }
        }
    }
    best.1
}

/// Cuts rows or columns into blocks of `first` to `most`, each at most `growth` times as long as those before
/// it together. The last one takes a rest that is shorter than a chunk.
fn cut(length: usize, first: usize, growth: usize, most: usize) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut begins = 0;
    while begins < length {
        let size = (growth * begins).clamp(first, most);
        let left = length - begins;
        let size = if left < size + CHUNK { left } else { size };
        blocks.push((begins, size));
        begins += size;
    }
    blocks
}

/// Semaphores of a plan: of the scales of w, three buffers of the result and late products of two, one
/// for each weight block, and two for each block of rows in VMEM.
pub(super) fn semaphores(plan: &TpuPlan, pipeline: RowPipeline) -> usize {
    let Cuts { rows, weights, .. } = cuts(plan);
    let blocks = if plan.grid.m > 1 { 1 + pipeline.stages } else { rows.len() };
    6 + weights.len() + 2 * blocks
}

/// Cycles of multiplying some rows with some columns. Where quantization blocks are small, scaling and adding
/// the products of codes takes all slots of the VPU, and some of them move sums out of the vector registers
/// and back.
fn work(plan: &TpuPlan, rows: usize, columns: usize) -> f64 {
    let small_blocks = has_small_blocks(&plan.problem);
    let rates = &plan.chip.rates;
    let (products, lost) = match (plan.arithmetic, plan.problem.quant_block.size()) {
        (Arithmetic::Dequantized, _) => (rates.bf16_products, 1.0),
        (_, size) if size < CHUNK => (rates.bf16_products, 1.32),
        (_, CHUNK) => (rates.fp8_products, 1.12),
        _ => (rates.fp8_products, 1.03),
    };
    let columns = match plan.arithmetic {
        // Few columns stream past rows of x that take as long to load as others take to stream.
        Arithmetic::Dequantized if columns <= CHUNK => CHUNK,
        Arithmetic::Dequantized => columns.next_multiple_of(HALF),
        _ if small_blocks => columns,
        _ => columns.next_multiple_of(CHUNK),
    };
    let rows = rows.next_multiple_of(CHUNK);
    lost * (rows * columns * plan.tile.k) as f64 / products + drain(plan)
}

/// Vector cycles of dequantizing some rows of an operand.
fn dequantizing(plan: &TpuPlan, rows: usize) -> f64 {
    if plan.arithmetic == Arithmetic::Dequantized { 3.0 * (rows * plan.tile.k) as f64 / 4096.0 } else { 0.0 }
}

/// Cycles of a kernel that takes x and w in the given blocks: each is multiplied when it has arrived and
/// those before it are done. The first one waits for one weight block after another. A block that overlaps
/// with the next one waits for that one, too.
fn timeline(plan: &TpuPlan, cuts: &Cuts) -> f64 {
    let (tile, rates) = (plan.tile, &plan.chip.rates);
    let copy = |bytes: usize| bytes as f64 / rates.hbm_bytes_per_cycle();
    let x = |rows: usize| copy(rows * (tile.k + 4 * plan.k_blocks()));
    let columns = plan.held().n;
    let dequantizes = plan.arithmetic == Arithmetic::Dequantized;
    // Several steps begin with the rows that are left over.
    let (first, later) = if plan.grid.m > 1 {
        (plan.short_rows(), vec![plan.tile.m; MODELLED_STEPS.min(plan.grid.m - 1)])
    } else {
        (cuts.rows[0].1, cuts.rows[1..].iter().map(|block| block.1).collect())
    };
    let overlaps = dequantizes && overlap(tile) && !later.is_empty();
    let mut arrives = rates.copy_latency + x(first);
    let mut done = arrives;
    for (number, &(begins, size)) in cuts.weights.iter().enumerate() {
        arrives += copy(size * tile.k);
        let joins = cuts.joins_waits && number + 1 == cuts.weights.len();
        let next = if joins { later.first().map_or(0.0, |&rows| x(rows)) } else { 0.0 };
        done = done.max(arrives + next) + work(plan, first, size);
        if dequantizes {
            // Rows are dequantized beside the first columns.
            let rows = if begins == 0 { first } else { 0 };
            let products = work(plan, first, size) - drain(plan);
            done += (dequantizing(plan, size + rows) - products).max(0.0) + DRAIN_WEIGHTS - drain(plan);
            done += if begins == 0 { FIRST_DEQUANTIZED } else { 0.0 };
        }
    }
    let out = |rows: usize| copy(rows * columns * plan.kernel_out().bytes());
    // When each block has arrived, and when the one before it may begin.
    let mut arrivals = Vec::with_capacity(later.len());
    for &rows in &later {
        arrives += x(rows);
        arrivals.push(arrives);
    }
    if overlaps && !cuts.joins_waits {
        done = done.max(arrivals[0]);
    }
    done += match dequantizes {
        true if overlaps && cuts.joins_waits => LAST_PRODUCTS_JOINED,
        true => LAST_PRODUCTS,
        false => 0.0,
    };
    let mut stored = done + out(first);
    let mut stores = Vec::with_capacity(later.len());
    for (number, &rows) in later.iter().enumerate() {
        let awaited =
            if overlaps { arrivals.get(number + 1).copied().unwrap_or(0.0) } else { arrivals[number] };
        // Of several steps, each fills the buffer that the result of the one before the last has left.
        let leaves = number.checked_sub(DOUBLE_BUFFERED).filter(|_| plan.grid.m > 1);
        let left = leaves.map_or(0.0, |before| stores[before] + rates.copy_latency);
        done = done.max(awaited).max(left) + work(plan, rows, columns);
        stored = done.max(stored) + out(rows);
        stores.push(stored);
    }
    let (multiplied, stores) = (work(plan, tile.m, columns), out(tile.m));
    let in_turns = (multiplied + stores + rates.copy_latency) / DOUBLE_BUFFERED as f64;
    let step = multiplied.max(x(tile.m) + stores).max(in_turns);
    let others = if plan.grid.m > 1 { plan.grid.m - 1 - later.len() } else { 0 };
    if overlaps {
        let late = DOUBLE_BUFFERED * CHUNK;
        stored =
            stored.max(done + LAST_PRODUCTS + copy(CHUNK * columns.min(late) * plan.kernel_out().bytes()));
    }
    stored + others as f64 * step + rates.copy_latency
}

/// Models the cycles of the kernel. The rows that are left over have code of their own.
pub(super) fn modelled_cycles(plan: &TpuPlan) -> ModelledCycles {
    let columns = plan.held().n;
    let short = if plan.grid.m > 1 { work(plan, plan.short_rows(), columns) } else { 0.0 };
    let unrolled = work(plan, plan.held().m, columns) + short;
    ModelledCycles { unrolled, code: unrolled, total: timeline(plan, &cuts(plan)) }
}

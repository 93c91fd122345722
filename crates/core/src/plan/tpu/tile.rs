//! Tile selection: aligned tiles are fixed, large tiles fill the VMEM budget, strips minimize modelled
//! cycles.

use super::{Arithmetic, BlockMode, Dims, TpuPlan, lanes, memory, mxus, rows, weights};
use crate::{
    Problem, ScaleGranularity, Strategy,
    device::tpu::{TpuChip, smem_bytes},
};

/// Up to this many rows, weight codes of small quantization blocks are not dequantized: their matmuls take
/// no longer than loading the codes into the MXUs.
pub(super) const FEW_ROWS: usize = 128;

/// Rows of codes that share a vector register's words.
pub(super) const ROW_UNIT: usize = 32;

/// Up to this many rows, large tiles are wide.
const WIDE_TILES: usize = 64;

/// Rows of x per weight block that keep an MXU busy, and columns that fill both MXUs.
pub(super) const CHUNK: usize = 256;

/// Chunks of columns whose matmuls hide that the scales of rows of x are repeated along the lanes.
pub(super) const COLUMNS_BY_ROW: usize = 4;

/// Length along K that a matmul takes at once where the rest of x is dequantized beside it: long enough for
/// adding sums to cost little, short enough for the first slice to be ready soon.
pub(super) const K_SLICE: usize = 256;

/// Columns of a tile whose matmuls hide the same in every step.
pub(super) const HIDES_SCALING: usize = 2 * CHUNK;

/// Chooses the tile for a problem. The caller checks that it fits.
pub(super) fn choose(problem: &Problem, chip: &'static TpuChip, strategy: Strategy, mode: BlockMode) -> Dims {
    let aligned = aligned(problem);
    if strategy == Strategy::Strip && !scales_fit(problem, chip) {
        return aligned;
    }
    match (mode, strategy) {
        (BlockMode::Aligned, Strategy::Strip) => aligned_strip(problem, chip, aligned),
        (BlockMode::Aligned, _) => aligned,
        (BlockMode::Large | BlockMode::Auto, Strategy::Strip) => strip(problem, chip, aligned),
        (BlockMode::Large | BlockMode::Auto, _) => large(problem, chip, strategy, aligned),
    }
}

/// One quantization block. Few rows of x are not padded to a whole block.
pub(super) fn aligned(problem: &Problem) -> Dims {
    let qb = problem.quant_block.size();
    let rows = problem.m.next_multiple_of(if problem.m <= 16 { 16 } else { 32 });
    Dims { m: rows.min(qb), n: qb, k: qb }
}

/// The multiple of `block` up to `limit` that covers `len` with the least padding; the longest of several.
fn covering(len: usize, block: usize, limit: usize) -> usize {
    let blocks = len.div_ceil(block);
    let most = (limit / block).clamp(1, blocks);
    (1..=most)
        .min_by_key(|&per_tile| (blocks.next_multiple_of(per_tile), most - per_tile))
        .expect("at least one block per tile")
        * block
}

/// Tiles of about 1024 on a side; 512 for the smallest quantization blocks, where a tile is many small
/// matmuls.
fn large(problem: &Problem, chip: &'static TpuChip, strategy: Strategy, aligned: Dims) -> Dims {
    let few_rows = problem.m <= WIDE_TILES;
    let nominal = if aligned.n < 256 && !few_rows { 512 } else { 1024 };
    let sized = |limit: usize| Dims {
        m: covering(problem.m, aligned.m, limit),
        n: covering(problem.n, aligned.n, limit),
        k: covering(problem.k, aligned.k, limit),
    };
    let limits = [nominal, nominal / 2, nominal / 4];
    let fits = |tile: &Dims| fits(problem, chip, strategy, *tile);
    limits.into_iter().map(sized).find(fits).unwrap_or(aligned)
}

fn fits(problem: &Problem, chip: &'static TpuChip, strategy: Strategy, tile: Dims) -> bool {
    let plan = TpuPlan::lay_out(problem, chip, strategy, BlockMode::Large, tile);
    if plan.arithmetic == Arithmetic::Dequantized && tile.k > MOST_DEQUANTIZED {
        return false;
    }
    memory::vmem_budget(&plan) <= memory::usable_vmem(chip)
}

/// Whether SMEM has room for the weight scales that strips prefetch. No tile helps where it has not, and a
/// search for one would not end soon.
fn scales_fit(problem: &Problem, chip: &TpuChip) -> bool {
    let (rows, k_blocks) = problem.w_scale_shape();
    smem_bytes(&[rows, k_blocks]) <= chip.usable_smem()
}

/// Strip lengths along K, from all of K down to one block, without padding beyond whole blocks.
fn strip_lengths(problem: &Problem, aligned: Dims) -> impl Iterator<Item = usize> {
    let blocks = problem.k.div_ceil(aligned.k);
    (1..=blocks).map(move |parts| covering(problem.k, aligned.k, blocks.div_ceil(parts) * aligned.k))
}

/// One block of rows and columns by all of K, or by the longest part of K that fits.
fn aligned_strip(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Dims {
    strip_lengths(problem, aligned)
        .map(|k| Dims { k, ..aligned })
        .find(|&tile| fits(problem, chip, Strategy::Strip, tile))
        .unwrap_or(aligned)
}

/// The tiles that a strategy chooses among, aligned ones first.
pub(super) fn candidates(problem: &Problem, chip: &'static TpuChip, strategy: Strategy) -> Vec<Dims> {
    let aligned = aligned(problem);
    if strategy != Strategy::Strip {
        return vec![aligned, large(problem, chip, strategy, aligned)];
    }
    if !scales_fit(problem, chip) {
        return vec![aligned];
    }
    let mut tiles = vec![aligned_strip(problem, chip, aligned)];
    tiles.extend(strips(problem, chip, aligned).into_iter().map(|(_, tile)| tile));
    tiles
}

/// Strips that fit, over all of K or the longest part of it, with their modelled cycles.
fn strips(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Vec<(ModelledCycles, Dims)> {
    // Fewer rows than a chunk leave the MXUs waiting for weights, which costs more than padding.
    let mut rows = sides(problem.m, aligned.m);
    if problem.m > CHUNK {
        rows.extend(sides(problem.m, aligned.m.max(CHUNK)));
    }
    rows.extend(rows::sides(problem));
    if per_row(problem) {
        rows.extend(equal_parts(problem.m));
    }
    rows.sort_unstable();
    rows.dedup();
    let columns = columns(problem, aligned);
    for k in strip_lengths(problem, aligned) {
        let mut tiles: Vec<Dims> = Vec::new();
        if k >= problem.k {
            let m = problem.m.next_multiple_of(aligned.m.min(ROW_UNIT));
            tiles.extend(columns.iter().map(|&n| Dims { m, n, k }));
            // The first of several steps may have fewer columns.
            let whole = [1, 2, 3, 4, 6, 8].map(|chunks| chunks * aligned.n.max(CHUNK)).into_iter();
            let cuts = m > FEW_ROWS || lanes::may(problem, chip, Strategy::Strip, Dims { m, n: 0, k });
            let whole = whole.filter(|&n| cuts && n < problem.n && !columns.contains(&n));
            tiles.extend(whole.map(|n| Dims { m, n, k }));
        }
        tiles.extend(rows.iter().flat_map(|&m| columns.iter().map(move |&n| Dims { m, n, k })));
        tiles.dedup();
        let fitting: Vec<_> = tiles
            .into_iter()
            .filter(|&tile| fits(problem, chip, Strategy::Strip, tile))
            .map(|tile| strip_plan(problem, chip, tile))
            .map(|plan| (modelled_cycles(&plan), plan))
            .filter(|(cycles, plan)| cycles.unrolled <= most_unrolled(plan))
            .map(|(cycles, plan)| (cycles, plan.tile))
            .collect();
        if !fitting.is_empty() {
            return fitting;
        }
    }
    Vec::new()
}

/// Rows of tiles that divide all rows in equal parts, of up to so many rows. Tiles of whole quantization
/// blocks may leave most of the last one empty.
fn equal_parts(rows: usize) -> impl Iterator<Item = usize> {
    let limits = [512, 768, 1024, 1536, 2048].into_iter().filter(move |&limit| rows > limit);
    limits.map(move |limit| rows.div_ceil(rows.div_ceil(limit)).next_multiple_of(ROW_UNIT))
}

/// Sides of tiles: up to so many rows or columns, with the least padding.
fn sides(len: usize, block: usize) -> Vec<usize> {
    let limits = [256, 512, 768, 1024, 1536, 1792, 2048];
    let mut sides: Vec<usize> = limits.iter().map(|&limit| covering(len, block, limit)).collect();
    sides.dedup();
    sides
}

/// Columns of tiles. Half of an MXU is idle for the last 128 columns of a tile whose columns are no
/// multiple of 256, so such tiles are considered only where they need no padding.
fn columns(problem: &Problem, aligned: Dims) -> Vec<usize> {
    let n = problem.n.next_multiple_of(aligned.n);
    let unit = if n.is_multiple_of(CHUNK) { aligned.n.max(CHUNK) } else { aligned.n };
    let mut columns = sides(n, unit);
    columns.extend(sides(n, aligned.n.max(CHUNK)));
    let blocks = n / unit;
    // Few rows: a step holds many columns.
    let most = if problem.m <= 2 * CHUNK { blocks } else { 4096 / unit };
    columns
        .extend((1..=most.min(blocks)).filter(|per_tile| blocks.is_multiple_of(*per_tile)).map(|b| b * unit));
    // Rows of x stream past all of w.
    columns.push(n);
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The strip with the fewest modelled cycles; of those that differ little, the one with the shortest code,
/// which compiles fastest. Long code must gain more.
fn strip(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Dims {
    const LITTLE: f64 = 1.01;
    const LONG: f64 = 1.02;
    let strips = strips(problem, chip, aligned);
    let cost = |cycles: &ModelledCycles| {
        if cycles.unrolled > USUALLY_UNROLLED { LONG * cycles.total } else { cycles.total }
    };
    let least = strips.iter().map(|(cycles, _)| cost(cycles)).fold(f64::INFINITY, f64::min);
    let near = strips.into_iter().filter(|(cycles, _)| cost(cycles) <= LITTLE * least);
    let shortest = near.min_by(|(a, _), (b, _)| a.code.total_cmp(&b.code));
    shortest.map_or(aligned, |(_, tile)| tile)
}

fn strip_plan(problem: &Problem, chip: &'static TpuChip, tile: Dims) -> TpuPlan {
    TpuPlan::lay_out(problem, chip, Strategy::Strip, BlockMode::Large, tile)
}

/// A grid step is straight-line code; beyond this many bundles it usually grows without getting faster.
const USUALLY_UNROLLED: f64 = 18_000.0;

/// Most bundles of the grid steps that have code of their own. Rows that stream past w are multiplied with
/// all columns at once, in two steps; one step of much longer code takes the compiler minutes. Pipelines of
/// assigned matmuls bound their code themselves.
fn most_unrolled(plan: &TpuPlan) -> f64 {
    match plan.row_pipeline {
        _ if plan.mxu_pipeline.is_some() => f64::INFINITY,
        Some(_) if plan.grid.m > 1 => 2.0 * USUALLY_UNROLLED,
        Some(_) => 21_000.0,
        None => USUALLY_UNROLLED,
    }
}

/// Longest strip that is dequantized in one step: compile time grows faster than the strip.
const MOST_DEQUANTIZED: usize = 12_288;

/// Modelled cycles of a kernel.
pub(super) struct ModelledCycles {
    /// MXU cycles of one grid step.
    pub(super) unrolled: f64,
    /// The same of all steps that have code of their own.
    pub(super) code: f64,
    /// Cycles of the kernel.
    pub(super) total: f64,
}

/// Models the cycles of a kernel, with constants from libtpu's listings for tpu7x and DMAs at the rates of
/// the device table.
pub(super) fn modelled_cycles(plan: &TpuPlan) -> ModelledCycles {
    let modelled = match (plan.mxu_pipeline, plan.row_pipeline, plan.weight_pipeline) {
        (Some(pipeline), ..) => mxus::modelled_cycles(plan, pipeline),
        (None, Some(_), _) => rows::modelled_cycles(plan),
        (None, None, Some(pipeline)) => weights::modelled_cycles(plan, pipeline),
        (None, None, None) => stepped_cycles(plan),
    };
    ModelledCycles { total: modelled.total + padding_cycles(plan), ..modelled }
}

/// Cycles of padding operands to whole tiles before the kernel, and of slicing its result: what changes is
/// read and written once.
pub(super) fn padding_cycles(plan: &TpuPlan) -> f64 {
    let (problem, given) = (&plan.problem, plan.given());
    let moved =
        |is_whole: bool, elements: usize, bytes: usize| if is_whole { 0 } else { 2 * elements * bytes };
    let w = moved((given.n, given.k) == (problem.n, problem.k), given.n * given.k, 1);
    let x = moved((given.m, given.k) == (problem.m, problem.k), given.m * given.k, problem.x.bytes());
    let out = moved((given.m, given.n) == (problem.m, problem.n), problem.m * problem.n, problem.out.bytes());
    (w + x + out) as f64 / plan.chip.rates.hbm_bytes_per_cycle()
}

/// Cycles without MXU work around a wait for a DMA: the compiler moves nothing across it, so the MXUs
/// drain.
pub(super) fn drain(rows: usize) -> f64 {
    if rows <= FEW_ROWS { 250.0 } else { 450.0 }
}

/// The same for a grid step of a kernel whose operands the compiler pipelines.
const DRAIN_STEP: f64 = 620.0;

/// Rows that keep an MXU busy while the next weights are loaded into it.
fn busy_rows(plan: &TpuPlan) -> usize {
    let half_blocks = plan.arithmetic == Arithmetic::Fp8 && plan.problem.quant_block.size() < CHUNK;
    if half_blocks { CHUNK / 2 } else { CHUNK }
}

/// MXU cycles of the matmuls that make up a part of the result.
pub(super) fn mxu_cycles(plan: &TpuPlan, columns: usize) -> f64 {
    if plan.rows_in_lanes {
        return lanes::mxu_cycles(plan, columns);
    }
    let rates = &plan.chip.rates;
    let half_blocks = plan.problem.quant_block.size() < CHUNK;
    let products = match plan.arithmetic {
        Arithmetic::Fp8 if !half_blocks => rates.fp8_products,
        Arithmetic::Fp8 | Arithmetic::Widened | Arithmetic::Dequantized => rates.bf16_products,
    };
    let (rows, cols) = plan.chunk;
    let whole = plan.tile.m / rows * rows.max(busy_rows(plan));
    let rest = plan.tile.m % rows;
    let busy = whole + if rest > 0 { rest.max(busy_rows(plan)) } else { 0 };
    let filled = columns / cols * cols.next_multiple_of(CHUNK) + (columns % cols).next_multiple_of(CHUNK);
    (busy * filled * plan.tile.k) as f64 / products
}

/// Vector cycles of some columns' matmuls: dequantizing weights, or scaling and adding every product.
pub(super) fn vector_cycles(plan: &TpuPlan, columns: usize) -> f64 {
    if plan.rows_in_lanes {
        return lanes::vector_cycles(plan, columns);
    }
    let vectors = |elements: usize| elements as f64 / 4096.0;
    match plan.arithmetic {
        Arithmetic::Dequantized => 3.0 * vectors(columns * plan.tile.k),
        // A product is scaled and added, and once more scaled with a scale per row.
        Arithmetic::Fp8 | Arithmetic::Widened => {
            let operations = if token_scales(plan) { 3.0 } else { 2.0 };
            operations * vectors(plan.tile.m * columns * plan.k_blocks())
        }
    }
}

/// Vector cycles of preparing a strip of x. A scale per row must be repeated along the lanes.
pub(super) fn preparing_x(plan: &TpuPlan) -> f64 {
    if plan.rows_in_lanes {
        return lanes::preparing_x(plan);
    }
    let cycles = match (plan.arithmetic, token_scales(plan)) {
        (Arithmetic::Dequantized, true) => 9.5,
        (Arithmetic::Dequantized, false) => 3.0,
        (Arithmetic::Fp8 | Arithmetic::Widened, true) => {
            12.0 * 128.0 / plan.problem.quant_block.size() as f64
        }
        (Arithmetic::Fp8 | Arithmetic::Widened, false) => 0.0,
    };
    cycles * (plan.tile.m * plan.tile.k) as f64 / 4096.0
}

/// What the matmuls of a step do not hide of preparing its strip of x: the first of them wait for a slice of
/// their rows, and the columns that are multiplied row by row may take less time than all rows.
fn exposed_preparation(plan: &TpuPlan) -> f64 {
    let preparation = preparing_x(plan);
    let first_rows = preparation * plan.chunk.0.min(plan.tile.m) as f64 / plan.tile.m as f64;
    let first_slice = first_rows * K_SLICE.min(plan.tile.k) as f64 / plan.tile.k as f64;
    let beside = mxu_cycles(plan, plan.tile.n.min(plan.columns_by_row() * plan.chunk.1));
    // With few columns, repeating scales competes with the matmuls to the end.
    let competes = if plan.tile.n < COLUMNS_BY_ROW * CHUNK { 0.25 * preparation } else { 0.0 };
    (preparation - first_slice - beside).max(competes) + first_slice
}

fn token_scales(plan: &TpuPlan) -> bool {
    plan.problem.x.granularity() == Some(ScaleGranularity::Token)
}

/// A kernel whose operands the compiler pipelines. A grid step takes its matmuls and a fixed cost, or its
/// DMAs if they take longer; nothing hides the first loads, which wait for the scales, and the last two
/// stores.
fn stepped_cycles(plan: &TpuPlan) -> ModelledCycles {
    let tile = plan.tile;
    let latency = plan.chip.rates.copy_latency;
    let copy = |bytes: usize| bytes as f64 / plan.chip.rates.hbm_bytes_per_cycle();
    let products = mxu_cycles(plan, tile.n);
    // x is prepared in the first step of a row of tiles, or beside the matmuls of every step; scales of rows
    // that multiply products are repeated for every chunk of columns, which hides a third of it.
    let x_work = match plan.arithmetic {
        _ if plan.keeps_quantized_x => preparing_x(plan) / plan.grid.n as f64,
        _ if !token_scales(plan) => 0.0,
        Arithmetic::Dequantized => exposed_preparation(plan),
        Arithmetic::Fp8 | Arithmetic::Widened => {
            preparing_x(plan) * tile.n.div_ceil(plan.chunk.1) as f64 * 2.0 / 3.0
        }
    };
    let work = products.max(vector_cycles(plan, tile.n)) + x_work;
    let x_strip = copy(tile.m * tile.k * plan.problem.x.bytes());
    let w_strip = copy(tile.n * tile.k);
    let out = copy(tile.m * tile.n * plan.kernel_out().bytes());
    let x_loads = if plan.grid.k == 1 { x_strip / plan.grid.n as f64 } else { x_strip };
    let copies = w_strip + out / plan.grid.k as f64 + x_loads;
    let step = (work + DRAIN_STEP).max(copies);
    let total = plan.steps() as f64 * step + x_strip + w_strip + 2.0 * out + 3.0 * latency;
    ModelledCycles { unrolled: products, code: products, total }
}

/// Rows and columns of one matmul inside a tile: enough to keep the MXUs busy, few enough for its result to
/// stay in or near the vector registers.
pub(super) fn chunk(
    problem: &Problem,
    strategy: Strategy,
    arithmetic: Arithmetic,
    tile: Dims,
    streamed: bool,
) -> (usize, usize) {
    let qb = problem.quant_block.size();
    if strategy != Strategy::Strip {
        return (qb.min(tile.m), qb);
    }
    if streamed && tile.m <= FEW_ROWS && arithmetic != Arithmetic::Dequantized {
        let rows = if per_row(problem) { tile.m } else { tile.m.min(qb) };
        // More sums than this leave too few vector registers for scales.
        let cols = if rows <= CHUNK / 4 { 2 * CHUNK } else { CHUNK };
        return (rows, tile.n.min(cols));
    }
    // Fewer rows than the MXUs need leave them waiting for weights, so the rest must not be short either.
    let rows = [CHUNK, 3 * CHUNK / 2, 2 * CHUNK].into_iter();
    let full = |rows: &usize| tile.m >= *rows && (tile.m.is_multiple_of(*rows) || tile.m % rows >= CHUNK);
    // Rows with different block scales would have to be split again after the matmul.
    let one_scale = |rows: &usize| {
        arithmetic == Arithmetic::Dequantized || per_row(problem) || (*rows <= qb && qb.is_multiple_of(*rows))
    };
    let in_equal_parts = || {
        // Strips that are dequantized on the way are so by whole blocks.
        let unit = if streamed { ROW_UNIT } else { qb };
        let parts = tile.m.div_ceil(2 * CHUNK);
        tile.m.div_ceil(parts).next_multiple_of(unit).min(tile.m)
    };
    let rows = rows.filter(full).find(one_scale).unwrap_or_else(|| match arithmetic {
        Arithmetic::Dequantized => in_equal_parts(),
        Arithmetic::Fp8 | Arithmetic::Widened if per_row(problem) => in_equal_parts(),
        Arithmetic::Fp8 | Arithmetic::Widened => qb.min(tile.m),
    });
    let one_block = match arithmetic {
        Arithmetic::Dequantized => CHUNK,
        Arithmetic::Fp8 | Arithmetic::Widened => qb.min(CHUNK),
    };
    (rows, one_block.min(tile.n))
}

/// Whether rows of x share no scale, or have none.
pub(super) fn per_row(problem: &Problem) -> bool {
    !matches!(problem.x.granularity(), Some(ScaleGranularity::Block))
}

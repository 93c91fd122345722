//! Strips that keep x in VMEM while blocks of weights stream past it.

use serde::{Deserialize, Serialize};

use super::{
    Arithmetic, DOUBLE_BUFFERED, Dims, TpuPlan, lanes, memory,
    tile::{
        CHUNK, FEW_ROWS, ModelledCycles, ROW_UNIT, drain, mxu_cycles, per_row, preparing_x, vector_cycles,
    },
};
use crate::{Problem, ScaleGranularity, Strategy, device::tpu::TpuChip};

/// The weight pipeline of a strip kernel that keeps x in VMEM: many DMAs of whole-K weight blocks in
/// flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WeightPipeline {
    /// Rows of w in one stage: columns of the result.
    pub columns: usize,
    /// Stages in VMEM.
    pub stages: usize,
    /// Whether all of w has a place in VMEM and one grid step multiplies it. Then the first and the last
    /// block may be smaller: see [`TpuPlan::weight_blocks`].
    pub is_resident: bool,
    /// Rows of w in the first and the last block.
    pub ends: (usize, usize),
}

/// Cycles of the grid's loop per step, where the kernel does its own DMAs.
const GRID_STEP: f64 = 25.0;

/// How much longer preparing x takes beside matmuls than alone.
const COMPETING: f64 = 1.2;

/// A kernel with x in VMEM: weight blocks are multiplied one after another, when they have arrived.
pub(super) fn modelled_cycles(plan: &TpuPlan, pipeline: WeightPipeline) -> ModelledCycles {
    let blocks = blocks(plan.tile.n, pipeline);
    let unrolled = mxu_cycles(plan, plan.tile.n);
    let short = plan.short_columns().map_or(0.0, |columns| mxu_cycles(plan, columns));
    ModelledCycles { unrolled, code: unrolled + short, total: timeline(plan, &blocks) }
}

/// Rows of x that a kernel with x in VMEM prepares while the first block of weights, of so many columns,
/// arrives. It dequantizes the others beside the first matmuls.
pub(super) fn rows_ahead(plan: &TpuPlan, columns: usize) -> usize {
    if plan.arithmetic != Arithmetic::Dequantized {
        return plan.tile.m;
    }
    // What is prepared ahead hides behind the weights' arrival, what follows behind their matmuls.
    let arrives = (columns * plan.tile.k) as f64 / plan.chip.rates.hbm_bytes_per_cycle();
    let preparing = |rows: usize| preparing_x(plan) * rows as f64 / plan.tile.m as f64;
    let done = |ahead: &usize| {
        arrives.max(preparing(*ahead)) + work(plan, columns, preparing(plan.tile.m.saturating_sub(*ahead)))
    };
    let chunks = (0..=plan.tile.m.div_ceil(plan.chunk.0)).map(|chunks| chunks * plan.chunk.0);
    let fastest = chunks.min_by(|a, b| done(a).total_cmp(&done(b)));
    fastest.map_or(0, |rows| rows.min(plan.held().m))
}

/// Rows of x that are loaded first, for a first block of weights of so many columns: a quarter of all, which
/// takes about as long to prepare as the others to load. For fewer rows a wait costs what it gains.
pub(super) fn rows_first(plan: &TpuPlan, columns: usize) -> usize {
    let (rows, unit) = (plan.held().m, if per_row(&plan.problem) { ROW_UNIT } else { CHUNK });
    let first = rows.div_ceil(4).next_multiple_of(unit);
    let prepares = plan.arithmetic == Arithmetic::Dequantized && plan.problem.x.granularity().is_some();
    let gains = first >= CHUNK / 2 && first < rows && first <= rows_ahead(plan, columns);
    if prepares && gains { first } else { rows }
}

/// Cycles of the wait for a block of weights and of multiplying x with it, while the rest of x is prepared
/// beside its first columns.
fn work(plan: &TpuPlan, columns: usize, preparation: f64) -> f64 {
    let multiplied = mxu_cycles(plan, columns).max(vector_cycles(plan, columns));
    let beside = mxu_cycles(plan, columns.min(DOUBLE_BUFFERED * plan.chunk.1));
    multiplied + (COMPETING * preparation - beside).max(0.0) + drained(plan)
}

/// Cycles without MXU work around the wait for a block of weights.
fn drained(plan: &TpuPlan) -> f64 {
    if plan.rows_in_lanes { lanes::DRAIN } else { drain(plan.padded.m) }
}

/// Cycles of a kernel with x in VMEM that takes the weights of a step in the given blocks.
fn timeline(plan: &TpuPlan, blocks: &[(usize, usize)]) -> f64 {
    let padded = plan.padded;
    let latency = plan.chip.rates.copy_latency;
    let copy = |bytes: usize| bytes as f64 / plan.chip.rates.hbm_bytes_per_cycle();
    let out = |columns: usize| copy(padded.m * columns * plan.kernel_out().bytes());
    let preparation = preparing_x(plan);
    let x = |rows: usize| latency + copy(rows * padded.k * plan.problem.x.bytes());
    let short = plan.short_columns().map(|columns| [(0, columns)]);
    let first = short.as_ref().map_or(blocks, |block| &block[..]);
    let per_row = preparation / plan.tile.m as f64;
    let (rows_ahead, rows_first) = (rows_ahead(plan, first[0].1), rows_first(plan, first[0].1));
    let ahead = per_row * rows_ahead as f64;
    let mut arrives = x(padded.m);
    let mut done = if rows_first < plan.held().m {
        let prepared = per_row * rows_first as f64;
        (x(rows_first) + prepared + drain(0)).max(arrives) + ahead - prepared
    } else {
        arrives + ahead
    };
    let mut stored = 0.0f64;
    for step in 0..plan.grid.n {
        let blocks = if step == 0 { first } else { blocks };
        for (number, &(_, columns)) in blocks.iter().enumerate() {
            arrives += copy(columns * padded.k);
            // The first block is multiplied while the rest of x is dequantized.
            let beside = if (step, number) == (0, 0) { preparation - ahead } else { 0.0 };
            done = done.max(arrives) + work(plan, columns, beside);
            stored = stored.max(done) + out(columns);
        }
    }
    let steps = if plan.grid.n > 1 { plan.grid.n as f64 } else { 0.0 };
    stored.max(arrives + out(padded.n)) + latency + GRID_STEP * steps
}

/// Bytes of VMEM that a streamed kernel needs beside the weights.
fn resident_bytes(problem: &Problem, padded: Dims, in_lanes: bool) -> usize {
    let bytes = |rows: usize, cols: usize, element: usize| memory::full_tile_bytes(&[rows, cols], element);
    let few_rows = padded.m <= FEW_ROWS || problem.quant_block.size() >= CHUNK;
    let token = problem.x.granularity() == Some(ScaleGranularity::Token);
    let k_blocks = padded.k / problem.quant_block.size();
    let prepared = match few_rows {
        _ if in_lanes => bytes(CHUNK, padded.k, 1),
        true if token => bytes(k_blocks * padded.m, problem.quant_block.size().min(2 * CHUNK), 4),
        true => 0,
        false => bytes(padded.m, padded.k, 2) + 2 * bytes(CHUNK, padded.k, 2),
    };
    let parts = [
        bytes(padded.m, padded.k, problem.x.bytes()),
        // Activations that the kernel quantizes are kept as codes.
        bytes(padded.m, padded.k, 1),
        bytes(padded.m, padded.n, 4.min(problem.out.bytes().max(2))),
        if token { 2 * bytes(padded.m, k_blocks, 4) } else { 0 },
        prepared,
    ];
    parts.into_iter().fold(0, usize::saturating_add)
}

/// Columns of a stage of the weight pipeline: a divisor of the tile's columns near the best trade between
/// the wait for the first stage and the MXUs' draining at every wait.
fn stage_columns(problem: &Problem, chip: &TpuChip, tile: Dims, padded: Dims) -> usize {
    let block = problem.quant_block.size();
    let unit = if tile.n.is_multiple_of(CHUNK) { block.max(CHUNK) } else { block };
    let bytes_per_column = (padded.k + 2 * padded.m) as f64;
    let best =
        (drain(padded.m) * padded.n as f64 * chip.rates.hbm_bytes_per_cycle() / bytes_per_column).sqrt();
    let units = tile.n / unit;
    let most = ((1.3 * best) as usize / unit).clamp(1, units);
    (1..=most).rev().find(|&per_stage| units.is_multiple_of(per_stage)).unwrap_or(1) * unit
}

/// The weight pipeline of a kernel that keeps x in VMEM: all of w where it fits, else as many stages as do;
/// `None` where x is cut, or not even two stages fit.
pub(super) fn pipeline(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
    in_lanes: bool,
) -> Option<WeightPipeline> {
    if strategy != Strategy::Strip || tile.k != padded.k || tile.m != padded.m {
        return None;
    }
    let budget = memory::usable_vmem(chip).checked_sub(resident_bytes(problem, padded, in_lanes))?;
    let stage_bytes = |columns: usize| memory::full_tile_bytes(&[columns, padded.k], 1);
    // In several steps past rows in lanes, each takes one block.
    let in_steps = in_lanes && tile.n < padded.n;
    let columns = if in_steps { tile.n } else { stage_columns(problem, chip, tile, padded) };
    if tile.n == padded.n && stage_bytes(padded.n) <= budget {
        // `cut` completes it.
        return Some(WeightPipeline { columns, stages: 1, is_resident: true, ends: (columns, columns) });
    }
    let block = problem.quant_block.size();
    let shorter = |columns: &usize| stage_bytes(*columns).saturating_mul(2) <= budget;
    let lengths = (1..=columns / block).rev().map(|per_stage| per_stage * block);
    let columns = lengths.filter(|columns| tile.n.is_multiple_of(*columns)).find(shorter)?;
    let ends = (columns, columns);
    let in_stages = |budget: usize, streamed: usize| {
        let stages = (budget / stage_bytes(columns)).min(streamed / columns);
        (stages >= DOUBLE_BUFFERED.min(streamed / columns)).then_some(WeightPipeline {
            columns,
            stages,
            is_resident: false,
            ends,
        })
    };
    let whole = padded.n - tile.n;
    let arithmetic = super::arithmetic(problem, strategy, padded.m <= FEW_ROWS);
    let cuts = in_lanes || arithmetic == Arithmetic::Dequantized || problem.n != padded.n;
    if cuts && whole > 0 {
        // The first step has a buffer of its own.
        let short = (problem.n - whole).next_multiple_of(ROW_UNIT);
        return in_stages(budget.checked_sub(stage_bytes(short))?, whole);
    }
    in_stages(budget, padded.n)
}

/// Cuts weights that are all in VMEM into the blocks with the fewest modelled cycles. A small first block
/// lets multiplying begin early, a small last one leaves little to store at the end, and every block has a
/// wait.
pub(super) fn cut(plan: &mut TpuPlan) {
    let Some(pipeline) = plan.weight_pipeline.filter(|pipeline| pipeline.is_resident) else { return };
    let n = plan.tile.n;
    let unit = if n.is_multiple_of(CHUNK) { CHUNK } else { plan.problem.quant_block.size() };
    let mut sizes = vec![pipeline.columns, n];
    sizes.extend([1, 2, 4, 8].map(|units| units * unit));
    let mut best = (f64::INFINITY, pipeline);
    for &columns in &sizes {
        for first in [unit, 2 * unit, columns] {
            for last in [unit, 2 * unit, columns] {
                let cut = WeightPipeline { columns: columns.min(n), ends: (first, last), ..pipeline };
                let cycles = timeline(plan, &blocks(n, cut));
                if cycles < best.0 {
                    best = (cycles, cut);
                }
            }
        }
    }
    plan.weight_pipeline = Some(best.1);
    let stages = plan.weight_blocks().len();
    plan.weight_pipeline = Some(WeightPipeline { stages, ..best.1 });
}

/// Weight blocks of one grid step: first column and number of columns. Blocks grow from the first one on:
/// each is at most twice as large as those before it together.
pub(super) fn blocks(n: usize, pipeline: WeightPipeline) -> Vec<(usize, usize)> {
    let columns = pipeline.columns.max(1);
    let (first, last) = (pipeline.ends.0.min(columns), pipeline.ends.1.min(columns));
    let mut blocks = Vec::new();
    let mut begins = 0;
    while begins < n {
        let left = n - begins;
        let size = (2 * begins).clamp(first, columns).min(left);
        let size = if left > last && left - size < last { left - last } else { size };
        blocks.push((begins, size));
        begins += size;
    }
    blocks
}

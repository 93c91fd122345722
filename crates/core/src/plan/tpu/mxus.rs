//! Strips that keep x in VMEM, and assign every matmul to an MXU.
//!
//! Where the compiler assigns matmuls, it takes all sums out of the MXUs before a wait for a DMA, which idles
//! them for as long as a matmul takes to complete. Where the kernel does, sums may stay in the accumulators
//! across the wait, and weights in the staging registers.

use super::{
    Dims, MxuPipeline, TpuPlan, memory,
    tile::{CHUNK, FEW_ROWS, ModelledCycles},
};
use crate::{
    ActivationKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};

/// Columns that are multiplied at once: a chunk for each MXU.
const PAIR: usize = 2 * CHUNK;

/// Rows whose sums fill half of an MXU's accumulators.
const MOST_ROWS: usize = 512;

/// Rows of bf16 that share a vector register's words.
const ROWS_OF_WORDS: usize = 16;

/// Accumulator addresses of a place.
const ADDRESSES: usize = 128;

/// Stages of weights: one is multiplied while the others arrive.
const MOST_STAGES: usize = 4;

/// Where the first operands are cut along K: the MXUs begin with what has arrived.
const CUTS: [usize; 8] = [512, 1024, 2048, 4096, 6144, 8192, 10_240, 12_288];

/// Cycles from the arrival of the first operands to the first matmul.
const BEGINS: f64 = 200.0;

/// Cycles of a grid step besides its matmuls.
const STEP: f64 = 60.0;

/// The same of a place.
const PLACE: f64 = 15.0;

/// Cycles from the last matmul to the start of its result's store.
const LAST: f64 = 330.0;

/// Rows of x, as first and number, and columns of w that are multiplied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rows of x: first and number.
    pub rows: (usize, usize),
    /// Columns in the step: first and number.
    pub columns: (usize, usize),
    /// Whether each MXU multiplies half of K, not half of the columns.
    pub halves: bool,
    /// First address of its sums in the accumulators.
    pub address: usize,
}

/// A part of an operand with a DMA of its own: rows and columns, each as first and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Rows of the operand.
    pub rows: (usize, usize),
    /// Columns along K.
    pub k: (usize, usize),
}

/// Grid steps. The first one takes what the others leave over, a whole tile at least.
pub(super) fn steps(problem: &Problem, tile: Dims) -> usize {
    (problem.n / tile.n).max(1)
}

/// The pipeline of a plan; `None` where a kernel cannot assign matmuls to MXUs.
pub(super) fn pipeline(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
) -> Option<MxuPipeline> {
    let native = chip.fp8 == Fp8Support::Native && chip.mxu_side == CHUNK;
    let codes = matches!(problem.x, ActivationKind::Fp8(_)) && problem.quant_block == QuantBlock::B128;
    let whole = tile.m == padded.m && tile.k == padded.k && problem.m > FEW_ROWS && tile.k >= PAIR;
    let steps = steps(problem, tile);
    if strategy != Strategy::Strip || !native || !codes || !whole {
        return None;
    }
    let chunks = problem.m.div_ceil(MOST_ROWS);
    let rows = problem.m.div_ceil(chunks).next_multiple_of(ROWS_OF_WORDS);
    let pairs = tile.n / PAIR;
    // Sums of the last place of a step are taken out during the next one, from a fixed address.
    if steps > 1 && !(tile.n.is_multiple_of(PAIR) && (pairs * chunks).is_multiple_of(2)) {
        return None;
    }
    let bytes = memory::full_tile_bytes;
    let (k, first) = (tile.k.next_multiple_of(CHUNK), problem.n - (steps - 1) * tile.n);
    let token = problem.x.granularity() == Some(ScaleGranularity::Token);
    let kept = [
        bytes(&[padded.m, tile.k], 1),
        bytes(&[chunks * rows, k], 2),
        if token { bytes(&[padded.m, tile.k / problem.quant_block.size()], 4) } else { 0 },
        2 * bytes(&[CHUNK, k], 2),
        bytes(&[padded.m, problem.n], 4.min(problem.out.bytes().max(2))),
        bytes(&[first, tile.k], 1),
    ];
    let kept = kept.into_iter().fold(0, usize::saturating_add);
    let free = memory::usable_vmem(chip).checked_sub(kept)?;
    let blocks = (steps - 1) * pairs;
    let stages = blocks.min(MOST_STAGES).min(free / bytes(&[PAIR, tile.k], 1));
    (stages >= blocks.min(2)).then_some(MxuPipeline { rows, stages })
}

impl TpuPlan {
    /// Chunks of rows of a kernel that assigns matmuls to MXUs: first row and number.
    pub fn row_chunks(&self) -> Vec<(usize, usize)> {
        let (rows, m) = (self.mxu_pipeline.map_or(self.tile.m, |pipeline| pipeline.rows), self.problem.m);
        (0..m).step_by(rows).map(|row| (row, rows.min(m - row))).collect()
    }

    /// Columns of the first step of such a kernel, which takes the last ones: a tile, and what whole tiles
    /// leave over.
    pub fn first_step_columns(&self) -> usize {
        self.problem.n - (self.grid.n - 1) * self.tile.n
    }

    /// What such a kernel multiplies in its first step, or in a later one, in this order.
    pub fn places(&self, is_first: bool) -> Vec<Place> {
        let columns = if is_first { self.first_step_columns() } else { self.tile.n };
        let rest = columns % PAIR;
        let mut pairs: Vec<(usize, usize)> =
            (0..columns - rest).step_by(PAIR).map(|first| (first, PAIR)).collect();
        // The next step takes the last sums as those of a whole pair.
        if rest > 0 {
            pairs.insert(0, (columns - rest, rest));
        }
        let chunks = self.row_chunks();
        let count = pairs.len() * chunks.len();
        let places = pairs.iter().flat_map(|&columns| chunks.iter().map(move |&rows| (columns, rows)));
        let place = |(number, (columns, rows))| Place {
            rows,
            columns,
            halves: columns.1 <= CHUNK && self.mxu_slices() > 2,
            address: (count - 1 - number) % 2 * ADDRESSES,
        };
        places.enumerate().map(place).collect()
    }

    /// DMAs of x, in the order of their rows and columns.
    pub fn x_loads(&self) -> Vec<Load> {
        first_in_parts(&self.row_chunks(), self.held().k)
    }

    /// DMAs of the weights of the first step, in the order of its places.
    pub fn first_loads(&self) -> Vec<Load> {
        let mut columns: Vec<_> = self.places(true).iter().map(|place| place.columns).collect();
        columns.dedup();
        first_in_parts(&columns, self.held().k)
    }

    /// Slices along K, each of which an MXU multiplies at once.
    pub fn mxu_slices(&self) -> usize {
        self.tile.k.div_ceil(CHUNK)
    }
}

/// DMAs of some rows each; those of the first are cut along K.
fn first_in_parts(rows: &[(usize, usize)], k: usize) -> Vec<Load> {
    let mut begins = vec![0];
    begins.extend(CUTS.into_iter().filter(|&cut| cut + CHUNK < k));
    let ends = begins[1..].iter().copied().chain([k]);
    let parts: Vec<(usize, usize)> = begins.iter().zip(ends).map(|(&first, end)| (first, end - first)).collect();
    let load = |(number, &rows): (usize, &(usize, usize))| {
        let parts = if number == 0 { parts.clone() } else { vec![(0, k)] };
        parts.into_iter().map(move |k| Load { rows, k })
    };
    rows.iter().enumerate().flat_map(load).collect()
}

/// Semaphores: of the scales of w and x and of the result, of each DMA of x and of its scales, and of each
/// DMA and stage of the weights.
pub(super) fn semaphores(plan: &TpuPlan, pipeline: MxuPipeline) -> usize {
    3 + 2 * plan.x_loads().len() + plan.first_loads().len() + pipeline.stages
}

/// Modelled cycles: places follow each other, as far as their operands have arrived.
pub(super) fn modelled_cycles(plan: &TpuPlan, pipeline: MxuPipeline) -> ModelledCycles {
    let rates = &plan.chip.rates;
    let copy = |bytes: usize| bytes as f64 / rates.hbm_bytes_per_cycle();
    let (k, slices) = (plan.tile.k, plan.mxu_slices());
    let token = plan.problem.x.granularity() == Some(ScaleGranularity::Token);
    let products = |place: &Place, slices: usize| {
        let slices = if place.halves { slices.div_ceil(2) } else { slices };
        (slices * place.rows.1.max(CHUNK) * PAIR * CHUNK) as f64 / rates.bf16_products
    };
    // Cycles of dequantizing what a place is the first to need: of rows, and of columns.
    let of_rows = |place: &Place| {
        let cycles = if token { 9.5 } else { 3.0 };
        cycles * (place.rows.1 * slices * CHUNK) as f64 / 4096.0
    };
    let of_columns = |place: &Place| 3.0 * (place.columns.1 * slices * CHUNK) as f64 / 4096.0;
    let x_bytes = |rows: usize| rows * k + if token { 512 * rows.div_ceil(8) * 8 } else { 0 };
    let [first, later] = [true, false].map(|is_first| plan.places(is_first));
    let begins = CUTS[0].min(k);
    let mut arrives = rates.copy_latency;
    let mut done = arrives + copy(begins * (first[0].rows.1 + first[0].columns.1)) + BEGINS;
    let mut code = 0.0;
    let mut before: Option<(usize, usize)> = None;
    for place in &first {
        if before.is_none() {
            arrives += copy(x_bytes(place.rows.1));
        }
        if place.rows.0 == 0 {
            arrives += copy(place.columns.1 * k);
        } else if before.is_none_or(|columns| columns == place.columns) && place.columns == first[0].columns {
            arrives += copy(x_bytes(place.rows.1));
        }
        let prepares_rows = if place.columns == first[0].columns { of_rows(place) } else { 0.0 };
        let work = products(place, slices).max(prepares_rows);
        code += work;
        // The last slice cannot begin before it has arrived.
        done = (done + work).max(arrives + work / slices as f64) + PLACE;
        before = Some(place.columns);
    }
    done += STEP;
    let step: f64 = later.iter().map(|place| products(place, slices).max(of_columns(place)) + PLACE).sum();
    let loads = copy(plan.tile.n * k);
    let stores = copy(plan.problem.m * plan.tile.n * plan.kernel_out().bytes());
    let stages = copy(pipeline.stages * PAIR * k);
    for number in 1..plan.grid.n {
        let ahead = number as f64 * loads;
        // Stages that are full before the first step is done need not be waited for.
        let load = (arrives + ahead).max(if ahead > stages { done } else { 0.0 });
        done = (done + STEP + step).max(load).max(arrives + number as f64 * (loads + stores));
    }
    if plan.grid.n > 1 {
        code += step;
    }
    let last = if plan.grid.n > 1 { &later } else { &first };
    let stored = last.last().map_or(0.0, |place| {
        copy(place.rows.1 * place.columns.1 * plan.kernel_out().bytes())
    });
    ModelledCycles { unrolled: code, code, total: done + LAST + stored + rates.copy_latency }
}

/// Rows of the buffer of dequantized activations.
pub(super) fn rows_of_words(plan: &TpuPlan, pipeline: MxuPipeline) -> usize {
    plan.row_chunks().len() * pipeline.rows
}

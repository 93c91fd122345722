//! Strips that keep x in VMEM, and assign every matmul to an MXU.
//!
//! Where the compiler assigns matmuls, it takes all sums out of the MXUs before a wait for a DMA, which idles
//! them for as long as a matmul takes to complete. Where the kernel does, sums may stay in the accumulators
//! across the wait, and weights in the staging registers.

use serde::{Deserialize, Serialize};

use super::{
    Dims, TpuPlan, memory,
    tile::{CHUNK, FEW_ROWS, ModelledCycles, ROW_UNIT},
};
use crate::{ActivationKind, Problem, QuantBlock, ScaleGranularity, Strategy, device::tpu::TpuChip};

/// MXUs of a core.
const MXUS: usize = 2;

/// Columns that are multiplied at once: a chunk for each MXU.
const PAIR: usize = MXUS * CHUNK;

/// Rows whose sums fill half of an MXU's accumulators.
const MOST_ROWS: usize = 512;

/// Rows of bf16 that share a vector register's words.
const ROWS_OF_WORDS: usize = 16;

/// Most bundles of matmuls: more take the compiler minutes.
const MOST_CODE: usize = 40_000;

/// Most pairs of results in VMEM, each of which has semaphores.
const MOST_RESULTS: usize = 16;

/// Slices of weights in VMEM that are multiplied once: some are dequantized while others are pushed.
const USED_ONCE: usize = 4;

/// Accumulator addresses of a place.
const ADDRESSES: usize = 128;

/// Stages of weights: one is multiplied while the others arrive.
const MOST_STAGES: usize = 4;

/// Columns along K of the first operands' first part, for which the MXUs wait.
const FIRST_PART: usize = 2 * CHUNK;

/// Most parts into which the first operands are cut along K: every wait costs cycles.
const MOST_PARTS: usize = 8;

/// Cycles from the arrival of the first operands to the first matmul.
const BEGINS: f64 = 200.0;

/// Cycles of a grid step besides its matmuls.
const STEP: f64 = 60.0;

/// The same of a place.
const PLACE: f64 = 15.0;

/// Cycles from the last matmul to the start of its result's store.
const LAST: f64 = 330.0;

/// The pipeline of a strip kernel that keeps x in VMEM and assigns every matmul to an MXU, so that sums may
/// stay there across waits. Weights stream in pairs of chunks of columns, one for each MXU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MxuPipeline {
    /// Most rows of x that are multiplied at once.
    pub rows: usize,
    /// Pairs of chunks of weights in VMEM, besides those of the first step.
    pub stages: usize,
    /// Pairs that the first step multiplies in turns, so that the MXUs take longer than dequantizing x.
    pub beside: usize,
    /// Pairs of results in VMEM, besides those of the first step.
    pub results: usize,
}

/// Rows of x and columns of w whose product is summed in the accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rows of x: first and number.
    pub rows: (usize, usize),
    /// Columns in the step: first and number.
    pub columns: (usize, usize),
    /// Number of these columns in the step.
    pub pair: usize,
    /// Whether each MXU multiplies half of K, not half of the columns.
    pub halves: bool,
    /// First address of its sums in the accumulators.
    pub address: usize,
}

/// One matmul of each MXU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What is multiplied.
    pub place: Place,
    /// Number of the turn in the place.
    pub number: usize,
    /// Whether it is the last one of the place.
    pub is_last: bool,
}

impl Turn {
    /// The chunk of the place's columns that an MXU multiplies, and the slice along K.
    pub fn of_mxu(self, mxu: usize) -> (usize, usize) {
        if self.place.halves { (0, MXUS * self.number + mxu) } else { (mxu, self.number) }
    }
}

/// A part of an operand with a DMA of its own: rows and columns, each as first and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Rows of the operand.
    pub rows: (usize, usize),
    /// Columns along K.
    pub k: (usize, usize),
}

/// Grid steps. The first one takes what the others leave over, a whole tile at least, and as many pairs as
/// it multiplies in turns.
pub(super) fn steps(problem: &Problem, tile: Dims, beside: usize) -> usize {
    1 + problem.n.saturating_sub(tile.n.max(beside * PAIR)) / tile.n
}

/// The pipeline of a plan; `None` where a kernel cannot assign matmuls to MXUs.
pub(super) fn pipeline(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
) -> Option<MxuPipeline> {
    let controls = chip.mxu_control.is_some() && chip.mxu_side == CHUNK;
    let codes = matches!(problem.x, ActivationKind::Fp8(_)) && problem.quant_block == QuantBlock::B128;
    let rows = problem.m.next_multiple_of(ROW_UNIT);
    let whole = tile.m == rows && tile.k == padded.k && problem.m > FEW_ROWS && tile.k > CHUNK;
    if strategy != Strategy::Strip || !controls || !codes || !whole {
        return None;
    }
    // Two pairs in turns hide that x is dequantized; with all results in VMEM no place waits for the store of
    // another.
    let mut sizes =
        [2, 1].into_iter().flat_map(|beside| [None, Some(3), Some(2)].map(|results| (beside, results)));
    sizes.find_map(|(beside, results)| fitting(problem, chip, tile, beside, results))
}

/// The pipeline whose first step multiplies so many pairs in turns, with room for so many pairs of results,
/// or for all, if it fits.
fn fitting(
    problem: &Problem,
    chip: &TpuChip,
    tile: Dims,
    beside: usize,
    results: Option<usize>,
) -> Option<MxuPipeline> {
    let steps = steps(problem, tile, beside);
    let pairs = tile.n / PAIR;
    // Of several tiles that would be one step, the one of all columns.
    if steps == 1 && tile.n != problem.n.next_multiple_of(problem.quant_block.size()) {
        return None;
    }
    if steps > 1 && !tile.n.is_multiple_of(PAIR) {
        return None;
    }
    // Sums of the last place of a step are taken out during the next one, from a fixed address.
    let least = problem.m.div_ceil(MOST_ROWS);
    let is_even = |chunks: &usize| steps == 1 || (pairs * chunks).is_multiple_of(2);
    let fills = |chunks: &usize| *chunks == least || problem.m.div_ceil(*chunks) + ROWS_OF_WORDS > CHUNK;
    let chunks = [least, least + 1].into_iter().filter(fills).find(is_even)?;
    let rows = problem.m.div_ceil(chunks).next_multiple_of(ROWS_OF_WORDS);
    // Whole words of rows may take fewer chunks.
    let chunks = Some(problem.m.div_ceil(rows)).filter(is_even)?;
    let bytes = memory::full_tile_bytes;
    let (k, first) = (tile.k.div_ceil(CHUNK).saturating_mul(CHUNK), problem.n - (steps - 1) * tile.n);
    let token = problem.x.granularity() == Some(ScaleGranularity::Token);
    let beside = beside.min(first.div_ceil(PAIR));
    let blocks = (steps - 1) * pairs;
    let results = results.unwrap_or(blocks);
    // The first step and the later ones have code of their own.
    let columns = first + if steps > 1 { tile.n } else { 0 };
    let code =
        (chunks * rows.max(CHUNK)).saturating_mul(columns.div_ceil(PAIR)).saturating_mul(k) / (2 * CHUNK);
    if results > blocks || results > MOST_RESULTS || code > MOST_CODE {
        return None;
    }
    let kept = [
        bytes(&[tile.m, tile.k], 1),
        bytes(&[chunks * rows, k], 2),
        if token { bytes(&[tile.m, tile.k / problem.quant_block.size()], 4) } else { 0 },
        beside * MXUS * bytes(&[CHUNK, kept_slices(k / CHUNK, chunks) * CHUNK], 2),
        bytes(&[tile.m, first + results * PAIR], super::kernel_float(problem.out).bytes()),
        bytes(&[first, tile.k], 1),
    ];
    let kept = kept.into_iter().fold(0, usize::saturating_add);
    let free = memory::usable_vmem(chip).checked_sub(kept)?;
    let stages = blocks.min(MOST_STAGES).min(free / bytes(&[PAIR, tile.k], 1));
    (stages >= blocks.min(2)).then_some(MxuPipeline { rows, stages, beside, results })
}

/// Slices along K of dequantized weights in VMEM: all where several chunks of rows are multiplied with them.
fn kept_slices(slices: usize, row_chunks: usize) -> usize {
    if row_chunks > 1 { slices } else { slices.min(USED_ONCE) }
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

    /// Pairs of chunks of columns of the first step of such a kernel, or of a later one, in the order in
    /// which they are multiplied: first column and number. The next step takes the last sums as those of a
    /// whole pair.
    fn pairs(&self, is_first: bool) -> Vec<(usize, usize)> {
        let columns = if is_first { self.first_step_columns() } else { self.tile.n };
        let rest = columns % PAIR;
        let ragged = (rest > 0).then_some((columns - rest, rest));
        ragged.into_iter().chain((0..columns - rest).step_by(PAIR).map(|first| (first, PAIR))).collect()
    }

    /// Pairs that the first step multiplies in turns: their dequantized weights have buffers of their own.
    pub fn pair_buffers(&self) -> usize {
        self.mxu_pipeline.map_or(0, |pipeline| pipeline.beside)
    }

    /// Slices along K for which such a kernel has a buffer of dequantized weights. They take turns.
    pub fn slice_buffers(&self) -> usize {
        kept_slices(self.mxu_slices(), self.row_chunks().len())
    }

    /// What such a kernel multiplies in its first step, or in a later one, in the order in which sums are
    /// complete.
    pub fn places(&self, is_first: bool) -> Vec<Place> {
        self.turns(is_first).into_iter().filter(|turn| turn.is_last).map(|turn| turn.place).collect()
    }

    /// The matmuls of the first step, or of a later one, in order.
    pub fn turns(&self, is_first: bool) -> Vec<Turn> {
        let (pairs, chunks) = (self.pairs(is_first), self.row_chunks());
        let beside = if is_first { self.pair_buffers() } else { 1 };
        let count = pairs.len() * chunks.len();
        let mut number = 0;
        let mut place = |pair: usize, rows: (usize, usize)| {
            number += 1;
            let columns = pairs[pair];
            let halves = columns.1 <= CHUNK && self.mxu_slices().is_multiple_of(MXUS);
            Place { rows, columns, pair, halves, address: (count - number) % 2 * ADDRESSES }
        };
        let mut turns = Vec::new();
        for &rows in &chunks {
            let mut together: Vec<Turn> =
                (0..beside).flat_map(|pair| self.turns_of(place(pair, rows))).collect();
            // Those that begin with the same part of K follow each other.
            together.sort_by_key(|turn| turn.number * if turn.place.halves { MXUS } else { 1 });
            turns.extend(together);
        }
        for pair in beside..pairs.len() {
            turns.extend(chunks.iter().flat_map(|&rows| self.turns_of(place(pair, rows))));
        }
        turns
    }

    fn turns_of(&self, place: Place) -> Vec<Turn> {
        let count = self.mxu_slices() / if place.halves { MXUS } else { 1 };
        (0..count).map(|number| Turn { place, number, is_last: number + 1 == count }).collect()
    }

    /// Blocks of the operand that has the most of them, if there are matmuls beside any of its DMAs.
    pub(in crate::plan) fn blocks_beside_matmuls(&self) -> usize {
        let (x, w) = (self.x_loads().len(), self.first_loads().len());
        if self.grid.n == 1 && x == 1 && w <= self.pair_buffers() {
            return 1;
        }
        x.max(w + (self.grid.n - 1) * self.tile.n / PAIR)
    }

    /// DMAs of x, in the order of their rows and columns.
    pub fn x_loads(&self) -> Vec<Load> {
        self.in_parts(&self.row_chunks(), 1)
    }

    /// DMAs of the weights of the first step, in the order of its places.
    pub fn first_loads(&self) -> Vec<Load> {
        self.in_parts(&self.pairs(true), self.pair_buffers())
    }

    /// DMAs of some rows each; those of the first ones are cut along K.
    fn in_parts(&self, rows: &[(usize, usize)], first: usize) -> Vec<Load> {
        let k = self.held().k;
        let begins = self.part_begins();
        let ends = begins[1..].iter().copied().chain([k]);
        let parts: Vec<_> = begins.iter().zip(ends).map(|(&first, end)| (first, end - first)).collect();
        let load = |(number, &rows): (usize, &(usize, usize))| {
            let parts = if number < first { parts.clone() } else { vec![(0, k)] };
            parts.into_iter().map(move |k| Load { rows, k })
        };
        rows.iter().enumerate().flat_map(load).collect()
    }

    /// Where the parts of the first operands begin along K: each arrives while those before it are
    /// multiplied.
    fn part_begins(&self) -> Vec<usize> {
        let k = self.held().k;
        let rows = self.row_chunks()[0].1;
        let columns: usize = self.pairs(true)[..self.pair_buffers()].iter().map(|pair| pair.1).sum();
        let rates = &self.chip.rates;
        let arriving = (rows + columns) as f64 / rates.hbm_bytes_per_cycle();
        let multiplying = (rows.max(CHUNK) * columns) as f64 / rates.bf16_products;
        let least = (k / MOST_PARTS).next_multiple_of(CHUNK).max(FIRST_PART);
        let mut begins = vec![0, FIRST_PART];
        while begins.len() < MOST_PARTS {
            let last = begins[begins.len() - 1];
            // A slice is dequantized before it is multiplied.
            let meanwhile = (last - CHUNK) as f64 * multiplying / arriving;
            let next = (FIRST_PART + meanwhile as usize) / CHUNK * CHUNK;
            begins.push(next.max(last + least));
        }
        begins.retain(|&begin| begin == 0 || begin + CHUNK < k);
        begins
    }

    /// Slices along K, each of which an MXU multiplies at once.
    pub fn mxu_slices(&self) -> usize {
        self.tile.k.div_ceil(CHUNK)
    }
}

/// Semaphores: of the scales of w and x and of the first step's results, of each DMA of x and of its scales,
/// of each DMA and stage of the weights, and of each place of later results.
pub(super) fn semaphores(plan: &TpuPlan, pipeline: MxuPipeline) -> usize {
    let results = pipeline.results * plan.row_chunks().len();
    3 + 2 * plan.x_loads().len() + plan.first_loads().len() + pipeline.stages + results
}

/// Columns of the buffer of results: those of the first step, and of some later ones.
pub(super) fn columns_of_results(plan: &TpuPlan, pipeline: MxuPipeline) -> usize {
    plan.first_step_columns() + pipeline.results * PAIR
}

/// Modelled cycles: places follow each other, as far as their operands have arrived.
pub(super) fn modelled_cycles(plan: &TpuPlan, pipeline: MxuPipeline) -> ModelledCycles {
    let rates = &plan.chip.rates;
    let copy = |bytes: usize| bytes as f64 / rates.hbm_bytes_per_cycle();
    let (k, slices) = (plan.tile.k, plan.mxu_slices());
    let token = plan.problem.x.granularity() == Some(ScaleGranularity::Token);
    let products = |place: &Place| {
        let slices = if place.halves { slices / MXUS } else { slices };
        (slices * place.rows.1.max(CHUNK) * PAIR * CHUNK) as f64 / rates.bf16_products
    };
    let vectors = |rows: usize| (rows * slices * CHUNK) as f64 / 4096.0;
    let dequantizing_rows = |rows: usize| if token { 9.5 * vectors(rows) } else { 3.0 * vectors(rows) };
    let x_bytes = |rows: usize| rows * k + if token { 512 * rows } else { 0 };
    let [first, later] = [true, false].map(|is_first| plan.places(is_first));
    let beside = plan.pair_buffers();
    // The first operands, and all that the first rows are multiplied with.
    let first_columns: usize = plan.pairs(true)[..beside].iter().map(|pair| pair.1).sum();
    let rows = first[0].rows.1;
    let begins = copy(FIRST_PART.min(k) * (rows + first_columns) + if token { 512 * rows } else { 0 });
    let mut arrives = rates.copy_latency;
    let mut done = arrives + begins + BEGINS;
    let mut code = 0.0;
    for (number, rows) in plan.row_chunks().into_iter().enumerate() {
        arrives += copy(x_bytes(rows.1) + if number == 0 { first_columns * k } else { 0 });
        let places: Vec<&Place> =
            first.iter().filter(|place| place.pair < beside && place.rows == rows).collect();
        let work: f64 = places.iter().map(|place| products(place)).sum();
        let work = work.max(dequantizing_rows(rows.1));
        // The last slices cannot begin before they have arrived.
        done = (done + work).max(arrives + work / slices as f64) + PLACE * places.len() as f64;
        code += work;
    }
    for place in first.iter().filter(|place| place.pair >= beside) {
        if place.rows.0 == 0 {
            arrives += copy(place.columns.1 * k);
        }
        done = (done + products(place)).max(arrives) + PLACE;
        code += products(place);
    }
    arrives += copy(plan.problem.m * plan.first_step_columns() * plan.kernel_out().bytes());
    let dequantizing_columns = 3.0 * vectors(plan.tile.n);
    let work: f64 = later.iter().map(products).sum();
    let step = work.max(dequantizing_columns) + PLACE * later.len() as f64 + STEP;
    let loads = copy(plan.tile.n * k);
    let stores = copy(plan.problem.m * plan.tile.n * plan.kernel_out().bytes());
    let ahead = (pipeline.stages * PAIR).div_ceil(plan.tile.n);
    let mut ends = Vec::with_capacity(plan.grid.n);
    for number in 1..plan.grid.n {
        // A stage is free when the step that it was loaded for has begun with its last rows.
        let free = number.checked_sub(1 + ahead).map_or(0.0, |before| ends[before]);
        arrives = arrives.max(free) + loads + stores;
        done = (done + step).max(arrives);
        ends.push(done);
    }
    if plan.grid.n > 1 {
        code += work;
    }
    let last = if plan.grid.n > 1 { &later } else { &first };
    let stored = |place: &Place| copy(place.rows.1 * place.columns.1 * plan.kernel_out().bytes());
    let total = done + LAST + last.last().map_or(0.0, stored) + rates.copy_latency;
    ModelledCycles { unrolled: code, code, total }
}

/// Rows of the buffer of dequantized activations.
pub(super) fn rows_of_words(plan: &TpuPlan, pipeline: MxuPipeline) -> usize {
    plan.row_chunks().len() * pipeline.rows
}

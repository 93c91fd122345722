//! Block scales: one scale for each square of values.

use octile_core::plan::hopper::QuantizePlan;

use super::{
    rows::{Chunk, Largest, Rows},
    scale::scale_of,
};
use crate::hopper::ptx::{B32, Ptx, Shared};

/// Chunks that a thread has in flight. Fewer without vectors, where every value has an address and a
/// predicate of its own.
const CHUNKS_IN_FLIGHT: u32 = 8;
const SCALAR_CHUNKS_IN_FLIGHT: u32 = 2;

/// How a CTA goes through a quantization block.
struct BlockWalk {
    /// First row and column of this thread.
    row: B32,
    column: B32,
    /// Its chunks of a row, and columns from one to the next.
    chunks: u32,
    apart: u32,
    /// Rows from one of its rows to the next.
    step: u32,
    /// Number of its rows.
    rows: u32,
    /// Chunks that are loaded before the first of them is used.
    in_flight: u32,
}

impl BlockWalk {
    fn new(ptx: &mut Ptx, rows: &Rows, plan: &QuantizePlan) -> Self {
        let (quant_block, warps) = (plan.quant_block.size() as u32, plan.tuning.threads / 32);
        let lanes = (quant_block / rows.chunk_values()).min(32);
        let (row_in_warp, lane) = (ptx.shr(rows.lane, lanes.ilog2()), ptx.and(rows.lane, lanes - 1));
        let (quant_k, quant_m) = (ptx.block(), ptx.block_y());
        let shift = quant_block.ilog2();
        let (first_row, first_column) = (ptx.shl(quant_m, shift), ptx.shl(quant_k, shift));
        let row = ptx.mad(rows.warp, 32 / lanes, row_in_warp);
        let step = warps * (32 / lanes);
        let apart = lanes * rows.chunk_values();
        Self {
            row: ptx.add(first_row, row),
            column: ptx.mad(lane, rows.chunk_values(), first_column),
            chunks: quant_block / apart,
            apart,
            step,
            rows: quant_block / step,
            in_flight: if plan.vectors { CHUNKS_IN_FLIGHT } else { SCALAR_CHUNKS_IN_FLIGHT },
        }
    }

    /// Rows that are loaded before the first of them is used.
    fn rows_in_flight(&self) -> u32 {
        (self.in_flight / self.chunks).clamp(1, self.rows)
    }

    /// Loads the rows in flight, from `row` on.
    fn load(&self, ptx: &mut Ptx, rows: &Rows, row: B32) -> Vec<Chunk> {
        let load = |at: u32| {
            let row = ptx.add(row, at * self.step);
            rows.load(ptx, row, self.column, self.chunks, self.apart)
        };
        (0..self.rows_in_flight()).flat_map(load).collect()
    }

    /// Loads all rows, some at a time, and emits `body` for them.
    fn each(&self, ptx: &mut Ptx, rows: &Rows, body: &dyn Fn(&mut Ptx, &[Chunk])) {
        let (row, taken) = (ptx.variable(self.row), ptx.variable(0));
        let in_flight = self.rows_in_flight();
        ptx.while_(
            |ptx| ptx.lt(taken, self.rows),
            |ptx| {
                let chunks = self.load(ptx, rows, row);
                body(ptx, &chunks);
                ptx.increase(row, in_flight * self.step);
                ptx.increase(taken, in_flight);
            },
        );
    }
}

/// Each CTA quantizes one quantization block: one pass for the maximum, a second one for the codes unless all
/// values stay in registers.
pub(super) fn emit(ptx: &mut Ptx, rows: &Rows, plan: &QuantizePlan) {
    let walk = BlockWalk::new(ptx, rows, plan);
    let shared = ptx.shared_memory();
    let thread = ptx.mad(rows.warp, 32, rows.lane);
    let is_first = ptx.eq(thread, 0);
    let max = ptx.float(0.0);
    ptx.when(is_first, |ptx| ptx.store_shared_f32(Shared(shared, 0), max));
    ptx.block_barrier();
    let raise = |ptx: &mut Ptx, chunks: &[Chunk]| {
        let larger = match rows.largest(ptx, chunks) {
            Largest::Pair(pair) => rows.larger_half(ptx, pair),
            Largest::Wide(value) => value,
        };
        let larger = ptx.max_f32(max, larger);
        ptx.copy_float(max, larger);
    };
    let held = (walk.rows_in_flight() == walk.rows).then(|| walk.load(ptx, rows, walk.row));
    match &held {
        Some(chunks) => raise(ptx, chunks),
        None => walk.each(ptx, rows, &raise),
    }
    let warp_max = ptx.max_of_lanes(max, 32);
    let is_lane_zero = ptx.eq(rows.lane, 0);
    ptx.when(is_lane_zero, |ptx| ptx.max_shared(Shared(shared, 0), warp_max));
    ptx.block_barrier();
    let abs_max = ptx.load_shared_f32(Shared(shared, 0));
    let (scale, inverse) = scale_of(ptx, abs_max);
    let store = |ptx: &mut Ptx, chunks: &[Chunk]| {
        for chunk in chunks {
            rows.store(ptx, chunk, inverse);
        }
    };
    match &held {
        Some(chunks) => store(ptx, chunks),
        None => walk.each(ptx, rows, &store),
    }
    let (quant_k, quant_m) = (ptx.block(), ptx.block_y());
    rows.store_scale(ptx, quant_m, quant_k, scale, is_first);
}

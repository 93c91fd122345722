//! Waiting for operands, and dequantizing them.

use std::collections::HashSet;

use octile_core::plan::tpu::{Place, Turn};
use octile_mosaic::{Float, FunctionBuilder, Value, build::IntPredicate};

use super::{MXUS, Operands, SIDE, Step};
use crate::tpu::{
    parts::{scales::Scales, tile::Buffer},
    strip::dequantized::{dequantized, store_block},
};

/// What must be dequantized before a matmul.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// A slice of the rows from this one on.
    Rows { row: usize, slice: usize },
    /// A slice of a chunk of a pair of columns.
    Columns { pair: usize, chunk: usize, slice: usize },
}

/// What a step has dequantized and waited for.
pub(super) struct Work<'o, 'p> {
    operands: &'o Operands<'p>,
    step: Step,
    done: HashSet<Part>,
    /// DMAs of x and of weights, by their numbers.
    arrived: HashSet<(bool, usize)>,
}

impl<'o, 'p> Work<'o, 'p> {
    pub(super) fn new(operands: &'o Operands<'p>, step: Step) -> Self {
        Self { operands, step, done: HashSet::new(), arrived: HashSet::new() }
    }

    /// Notes that the step before has dequantized what a turn needs.
    pub(super) fn is_prepared(&mut self, turn: Turn) {
        self.done.extend(parts(turn));
    }

    /// Waits for the DMAs that bring what a turn needs, unless that is done already.
    pub(super) fn wait_for(&mut self, b: &mut FunctionBuilder, turn: Turn) {
        let operands = self.operands;
        if self.step.is_first {
            return self.wait_for_loads(b, turn);
        }
        // The step before has waited for the first pair.
        let pair = turn.place.pair;
        if pair > 0 && self.arrived.insert((false, pair)) {
            let number = operands.number_of_pair(b, self.step, pair);
            let copy = operands.pair(b, number);
            b.located("wait w_q", |b| b.wait(copy));
        }
    }

    /// Waits for the loads that a turn of the first step needs, and for the same part along K of all that are
    /// cut.
    pub(super) fn wait_for_loads(&mut self, b: &mut FunctionBuilder, turn: Turn) {
        let operands = self.operands;
        let k = operands.plan.held().k;
        let last = (0..MXUS).map(|mxu| turn.of_mxu(mxu).1).max().unwrap_or(0);
        let ends = ((last + 1) * SIDE).min(k);
        let overlap = |a: (usize, usize), b: (usize, usize)| a.0 < b.0 + b.1 && b.0 < a.0 + a.1;
        let of = [(true, &operands.x_loads, turn.place.rows), (false, &operands.w_loads, turn.place.columns)];
        for (is_x, loads, rows) in of {
            for (number, load) in loads.iter().enumerate() {
                let is_needed = load.k.1 < k || overlap(load.rows, rows);
                if is_needed && load.k.0 < ends && self.arrived.insert((is_x, number)) {
                    for copy in operands.load(b, is_x, number) {
                        b.located(if is_x { "wait x" } else { "wait w_q" }, |b| b.wait(copy));
                    }
                }
            }
        }
    }

    /// Dequantizes what a turn needs, unless that is done already.
    pub(super) fn prepare(&mut self, b: &mut FunctionBuilder, turn: Turn) {
        for part in parts(turn) {
            let is_known = matches!(part, Part::Rows { .. }) && !self.step.is_first;
            if is_known || !self.done.insert(part) {
                continue;
            }
            match part {
                Part::Rows { slice, .. } => self.operands.dequantize_rows(b, turn.place.rows, slice),
                Part::Columns { chunk, slice, .. } => self.prepare_columns(b, turn.place, chunk, slice),
            }
        }
    }

    pub(super) fn prepare_columns(
        &mut self,
        b: &mut FunctionBuilder,
        place: Place,
        chunk: usize,
        slice: usize,
    ) {
        let operands = self.operands;
        let first_row = operands.first_scale(b, self.step);
        let codes = if self.step.is_first {
            (Buffer::whole(operands.w_first), place.columns.0 + chunk * SIDE)
        } else {
            let number = operands.number_of_pair(b, self.step, place.pair);
            (operands.in_ring(b, number), chunk * SIDE)
        };
        operands.dequantize_columns(b, codes, (place, chunk), first_row, slice);
    }

    /// Waits for the next step's first pair, if there is one.
    pub(super) fn wait_for_next(&mut self, b: &mut FunctionBuilder) {
        let operands = self.operands;
        let number = self.next_pair(b);
        let last = b.i32(operands.plan.grid.n - 1);
        let more = b.cmpi(IntPredicate::Slt, self.step.n, last);
        b.when(more, |b| {
            let copy = operands.pair(b, number);
            b.located("wait w_q", |b| b.wait(copy));
        });
    }

    /// Number of the next step's first pair among those of later steps.
    pub(super) fn next_pair(&self, b: &mut FunctionBuilder) -> Value {
        let pairs = b.i32(self.operands.pairs_of_step());
        b.muli(self.step.n, pairs)
    }

    /// Dequantizes what the next step's first turn needs. In the last step nothing uses it.
    pub(super) fn prepare_next(&mut self, b: &mut FunctionBuilder, next: Turn) {
        let (operands, n) = (self.operands, self.step.n);
        let number = self.next_pair(b);
        let rows = b.i32(operands.plan.w_scale_tile().0);
        let first_row = b.muli(n, rows);
        for part in parts(next) {
            if let Part::Columns { chunk, slice, .. } = part {
                let codes = (operands.in_ring(b, number), chunk * SIDE);
                operands.dequantize_columns(b, codes, (next.place, chunk), first_row, slice);
            }
        }
    }
}

impl Operands<'_> {
    /// Row of the scales of a step's first column.
    pub(super) fn first_scale(&self, b: &mut FunctionBuilder, step: Step) -> Value {
        let rows = self.plan.w_scale_tile().0;
        if step.is_first {
            return b.i32((self.plan.grid.n - 1) * rows);
        }
        let (one, rows) = (b.i32(1), b.i32(rows));
        let before = b.subi(step.n, one);
        b.muli(before, rows)
    }

    /// The weights of a pair of later steps.
    pub(super) fn in_ring(&self, b: &mut FunctionBuilder, number: Value) -> Buffer {
        let stage = self.stage(b, number);
        Buffer::one_of(b, self.w_ring.expect("later steps have a buffer of weights"), stage)
    }

    /// The k-blocks of a slice.
    pub(super) fn k_blocks(&self, slice: usize) -> std::ops::Range<usize> {
        let per_slice = SIDE / self.plan.problem.quant_block.size();
        slice * per_slice..self.plan.k_blocks().min((slice + 1) * per_slice)
    }

    pub(super) fn dequantize_rows(
        &self,
        b: &mut FunctionBuilder,
        (first, rows): (usize, usize),
        slice: usize,
    ) {
        let plan = self.plan;
        let qb = plan.problem.quant_block.size();
        let scales = Scales::of_x(plan, self.x_scale.chip);
        let mut row = first;
        while row < first + rows {
            // Rows of different blocks have different scales.
            let end = if self.scales_per_row() { first + rows } else { (row / qb + 1) * qb };
            let count = end.min(first + rows) - row;
            for k_block in self.k_blocks(slice) {
                let shape = (count, plan.block_length(k_block));
                let codes = Buffer::whole(self.x.chip).load(b, (row, k_block * qb), shape);
                let scale = scales.get(b, row, count, k_block);
                let values = dequantized(b, codes, scale);
                store_block(b, &self.x_bf16, values, (row, k_block * qb), (count, qb));
            }
            row += count;
        }
        let (end, ends) = (self.plan.tile.k, (slice + 1) * SIDE);
        if end < ends {
            let zeros = b.splat_of(0.0, [rows, ends - end], Float::Bf16);
            self.x_bf16.store(b, zeros, (first, end));
        }
    }

    /// Dequantizes a slice of a place's chunk of columns. `codes` are a buffer and the row of the chunk's
    /// first column in it.
    pub(super) fn dequantize_columns(
        &self,
        b: &mut FunctionBuilder,
        (codes, begins): (Buffer, usize),
        (place, chunk): (Place, usize),
        first_scale: Value,
        slice: usize,
    ) {
        let plan = self.plan;
        let qb = plan.problem.quant_block.size();
        let zero = b.i32(0);
        let scales = Scales::of_w(plan, self.w_scale.chip).with_origin(first_scale, zero);
        let to = self.chunk(b, place.pair, chunk);
        let columns = SIDE.min(place.columns.1.saturating_sub(chunk * SIDE));
        for offset in (0..columns).step_by(qb) {
            let rows = qb.min(columns - offset);
            for k_block in self.k_blocks(slice) {
                let shape = (rows, plan.block_length(k_block));
                let values = codes.load(b, (begins + offset, k_block * qb), shape);
                let scale = scales.get(b, place.columns.0 + chunk * SIDE + offset, rows, k_block);
                let values = dequantized(b, values, scale);
                let column = self.column_of_slice(slice) + k_block * qb - slice * SIDE;
                store_block(b, &to, values, (offset, column), (rows, qb));
            }
        }
        let (end, ends) = (plan.tile.k, (slice + 1) * SIDE);
        if end < ends {
            let zeros = b.splat_of(0.0, [SIDE, ends - end], Float::Bf16);
            to.store(b, zeros, (0, self.column_of_slice(slice) + end - slice * SIDE));
        }
    }
}

/// What a turn needs.
fn parts(turn: Turn) -> Vec<Part> {
    let of_mxu = |mxu| {
        let (chunk, slice) = turn.of_mxu(mxu);
        [Part::Columns { pair: turn.place.pair, chunk, slice }, Part::Rows { row: turn.place.rows.0, slice }]
    };
    (0..MXUS).flat_map(of_mxu).collect()
}

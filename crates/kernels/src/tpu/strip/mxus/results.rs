//! Sums on their way from the accumulators to the result.

use octile_core::plan::tpu::Place;
use octile_mosaic::{
    FunctionBuilder, Value,
    build::{self, IntPredicate},
};

use super::{FEWEST_ROWS, Lane, MXUS, Operands, SIDE, Step};
use crate::{
    stablehlo::float,
    tpu::{parts::tile::LANES, strip::dequantized::sum_apart},
};

/// A column of the result. Where the compiler knows it, what begins there may end with the result.
#[derive(Clone, Copy)]
pub(super) enum Column {
    Known(usize),
    /// A multiple of a quantization block, as i32.
    Computed(Value),
}

impl Column {
    pub(super) fn plus(self, b: &mut FunctionBuilder, offset: usize) -> Self {
        match self {
            Self::Known(column) => Self::Known(column + offset),
            Self::Computed(column) => {
                let offset = b.i32(offset);
                Self::Computed(b.addi(column, offset))
            }
        }
    }

    pub(super) fn value(self, b: &mut FunctionBuilder) -> Value {
        match self {
            Self::Known(column) => b.i32(column),
            Self::Computed(column) => b.multiple_of(column, LANES),
        }
    }
}

/// Where the result of a place begins, and the semaphore of its store.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    /// Column of the result in HBM.
    pub(super) result: Column,
    /// Column of its buffer.
    pub(super) buffer: Column,
    /// Semaphore, as i32.
    pub(super) lane: Value,
}

/// Which step has computed sums.
#[derive(Clone, Copy)]
pub(super) enum Sums {
    OfStep,
    OfStepBefore,
}

impl Operands<'_> {
    /// Takes the sums of a place out of the accumulators, to a column of the results' buffer on.
    pub(super) fn take(&self, b: &mut FunctionBuilder, place: Place, to: Column) {
        let (row, rows) = place.rows;
        let padded = rows.next_multiple_of(FEWEST_ROWS);
        let sums: Vec<Value> = (0..MXUS).map(|mxu| b.pop_sums(place.address, [padded, SIDE], mxu)).collect();
        let of_chunks = if place.halves { vec![sum_apart(b, sums)] } else { sums };
        for (chunk, sum) in of_chunks.into_iter().enumerate() {
            let columns = SIDE.min(place.columns.1.saturating_sub(chunk * SIDE));
            if columns == 0 {
                continue;
            }
            let sum = b.slice(sum, &[0, 0], &[rows, columns]);
            let result = b.to_float(sum, float(self.plan.kernel_out()));
            let column = to.plus(b, chunk * SIDE).value(b);
            let indices = [b.index(row), b.to_index(column)];
            b.store(result, self.out.chip, &indices);
        }
    }

    /// Where the result of a place goes; waits for the store of what was there before.
    pub(super) fn free_destination(
        &self,
        b: &mut FunctionBuilder,
        place: Place,
        step: Step,
        sums: Sums,
    ) -> Destination {
        if step.is_first {
            return self.of_first_step(b, place.columns.0);
        }
        let number = match sums {
            Sums::OfStep => self.number_of_pair(b, step, place.pair),
            Sums::OfStepBefore => {
                let (first, one) = (self.number_of_pair(b, step, 0), b.i32(1));
                b.subi(first, one)
            }
        };
        let to = self.of_later_step(b, number, place);
        let results = b.i32(self.pipeline.results);
        if self.pipeline.results < self.pairs() {
            let before = b.subi(number, results);
            let zero = b.i32(0);
            let exists = b.cmpi(IntPredicate::Sge, before, zero);
            b.when(exists, |b| {
                let before = self.of_later_step(b, before, place);
                let copy = self.store(b, place, before);
                b.located("wait out", |b| b.wait(copy));
            });
        }
        match sums {
            Sums::OfStep => to,
            Sums::OfStepBefore => {
                let one = b.i32(1);
                let is_second = b.cmpi(IntPredicate::Eq, step.n, one);
                let first = self.of_first_step(b, self.last_place().columns.0);
                self.either(b, is_second, first, to)
            }
        }
    }

    /// Where the result of the first step's columns from this one on goes.
    pub(super) fn of_first_step(&self, b: &mut FunctionBuilder, column: usize) -> Destination {
        Destination {
            result: Column::Known(self.first_column() + column),
            // The last columns, so that a ragged pair ends with the buffer.
            buffer: Column::Known(self.pipeline.results * MXUS * SIDE + column),
            lane: b.i32(Lane::Out as usize),
        }
    }

    /// Where the result of a pair of later steps goes.
    pub(super) fn of_later_step(&self, b: &mut FunctionBuilder, number: Value, place: Place) -> Destination {
        let (columns, results) = (b.i32(MXUS * SIDE), b.i32(self.pipeline.results));
        let result = b.muli(number, columns);
        let slot = b.remsi(number, results);
        let buffer = b.muli(slot, columns);
        let chunks = b.i32(self.plan.row_chunks().len());
        let lane = b.muli(slot, chunks);
        let number = self.plan.row_chunks().iter().position(|&rows| rows == place.rows);
        let number = number.expect("a place has one of the chunks of rows");
        let offset = b.i32(self.first_lane_of_results() + number);
        let lane = b.addi(lane, offset);
        Destination { result: Column::Computed(result), buffer: Column::Computed(buffer), lane }
    }

    /// One of two destinations.
    pub(super) fn either(
        &self,
        b: &mut FunctionBuilder,
        is_first: Value,
        first: Destination,
        other: Destination,
    ) -> Destination {
        let mut column = |first: Column, other: Column| {
            let (first, other) = (first.value(b), other.value(b));
            Column::Computed(b.select(is_first, first, other))
        };
        let (result, buffer) = (column(first.result, other.result), column(first.buffer, other.buffer));
        Destination { result, buffer, lane: b.select(is_first, first.lane, other.lane) }
    }

    pub(super) fn first_lane_of_results(&self) -> usize {
        Lane::Loads as usize + 2 * self.x_loads.len() + self.w_loads.len() + self.pipeline.stages
    }

    /// The store of a place.
    pub(super) fn store(&self, b: &mut FunctionBuilder, place: Place, to: Destination) -> build::Copy {
        let row = b.i32(place.rows.0);
        let (from, to_column) = (to.buffer.value(b), to.result.value(b));
        let shape = [place.rows.1, place.columns.1];
        build::Copy {
            source: b.slice_memref(self.out.chip, &[row, from], &shape),
            target: b.slice_memref(self.out.hbm, &[row, to_column], &shape),
            semaphore: b.slice_memref(self.semaphores, &[to.lane], &[]),
        }
    }

    /// Takes out the last sums and the weights of no step, and waits for all stores.
    pub(super) fn finish(&self, b: &mut FunctionBuilder, n: Value) {
        let plan = self.plan;
        let last = *plan.places(plan.grid.n == 1).last().expect("a step has places");
        let step = Step { n, is_first: plan.grid.n == 1 };
        // The last place is at the other address.
        let unused = plan.places(false)[0].address;
        if plan.grid.n > 1 {
            let values = self.x_bf16.load(b, (0, 0), (FEWEST_ROWS, SIDE));
            for mxu in 0..MXUS {
                b.accumulate(unused, values, mxu, true);
            }
        }
        let to = self.free_destination(b, last, step, Sums::OfStep);
        self.take(b, last, to.buffer);
        let copy = self.store(b, last, to);
        b.located("start out", |b| b.start(copy));
        if plan.grid.n > 1 {
            for mxu in 0..MXUS {
                b.pop_sums(unused, [FEWEST_ROWS, SIDE], mxu);
            }
        }
        self.wait_for_stores(b);
    }

    /// Waits for the stores that no place has waited for.
    pub(super) fn wait_for_stores(&self, b: &mut FunctionBuilder) {
        for place in self.plan.places(true) {
            let to = self.of_first_step(b, place.columns.0);
            let copy = self.store(b, place, to);
            b.located("wait out", |b| b.wait(copy));
        }
        if self.plan.grid.n == 1 {
            return;
        }
        let (from, to) = (b.i32(self.pairs() - self.pipeline.results), b.i32(self.pairs()));
        b.for_each("pair", from, to, |b, number| {
            for place in self.plan.places(false).into_iter().filter(|place| place.pair == 0) {
                let to = self.of_later_step(b, number, place);
                let copy = self.store(b, place, to);
                b.located("wait out", |b| b.wait(copy));
            }
        });
    }
}

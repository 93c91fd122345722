//! Strips with x in VMEM for the whole kernel, whose matmuls the kernel itself assigns to the MXUs.
//!
//! The compiler moves nothing across a wait for a DMA, and takes all sums out of the MXUs before it. Here sums
//! stay in the accumulators, and the next weights in the staging registers, so that the MXUs are busy on both
//! sides of a wait: a place, some rows of x times a pair of chunks of columns, is multiplied slice by slice
//! along K, the operands of the next slices are dequantized beside it, and its sums are taken out during the
//! next place. The first operands arrive in parts along K.

use std::collections::{HashSet, VecDeque};

use octile_core::{
    ScaleGranularity,
    plan::{
        BufferId,
        tpu::{Load, MxuPipeline, Place, TpuPlan, Turn},
    },
};
use octile_mosaic::{
    Float, FunctionBuilder, Value,
    build::{Copy, IntPredicate},
};

use super::dequantized::{MXUS, dequantized, store_block, sum_apart};
use crate::{
    stablehlo::float,
    tpu::{
        KernelModule,
        parts::{
            frame::{Frame, GridOrder, Operand},
            scales::Scales,
            tile::{Buffer, LANES},
        },
    },
};

/// Side of an MXU: columns and length along K of what it multiplies at once.
const SIDE: usize = 256;

/// Slices along K that are dequantized before their matmuls.
const AHEAD: usize = 2;

/// Rows that a matmul takes at least.
const FEWEST_ROWS: usize = 16;

/// Semaphores; those of the DMAs of x, of its scales, and of the weights follow.
enum Lane {
    WScale,
    XScale,
    Out,
    Loads,
}

/// An array in HBM, and its buffer on the chip.
#[derive(Clone, std::marker::Copy)]
struct HbmAndChip {
    hbm: Value,
    chip: Value,
}

/// What must be dequantized before a matmul.
#[derive(Clone, std::marker::Copy, PartialEq, Eq, Hash)]
enum Part {
    /// A slice of the rows from this one on.
    Rows { row: usize, slice: usize },
    /// A slice of a chunk of a pair of columns.
    Columns { pair: usize, chunk: usize, slice: usize },
}

/// A column of the result. Where the compiler knows it, what begins there may end with the result.
#[derive(Clone, std::marker::Copy)]
enum Column {
    Known(usize),
    /// A multiple of a quantization block, as i32.
    Computed(Value),
}

impl Column {
    fn plus(self, b: &mut FunctionBuilder, offset: usize) -> Self {
        match self {
            Self::Known(column) => Self::Known(column + offset),
            Self::Computed(column) => {
                let offset = b.i32(offset);
                Self::Computed(b.addi(column, offset))
            }
        }
    }

    fn value(self, b: &mut FunctionBuilder) -> Value {
        match self {
            Self::Known(column) => b.i32(column),
            Self::Computed(column) => b.multiple_of(column, LANES),
        }
    }
}

/// Where the result of a place begins, and the semaphore of its store.
#[derive(Clone, std::marker::Copy)]
struct Destination {
    /// Column of the result in HBM.
    result: Column,
    /// Column of its buffer.
    buffer: Column,
    /// Semaphore, as i32.
    lane: Value,
}

/// Which step has computed sums.
#[derive(Clone, std::marker::Copy)]
enum Sums {
    OfStep,
    OfStepBefore,
}

/// A grid step.
#[derive(Clone, std::marker::Copy)]
struct Step {
    n: Value,
    is_first: bool,
}

struct Operands<'p> {
    plan: &'p TpuPlan,
    pipeline: MxuPipeline,
    x: HbmAndChip,
    w: Value,
    /// Buffers of the first step's weights, and of the others'.
    w_first: Value,
    w_ring: Option<Value>,
    w_scale: HbmAndChip,
    x_scale: HbmAndChip,
    out: HbmAndChip,
    x_bf16: Buffer,
    w_bf16: Value,
    semaphores: Value,
    x_loads: Vec<Load>,
    w_loads: Vec<Load>,
}

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    let pipeline = plan.mxu_pipeline.expect("the plan assigns matmuls to MXUs");
    let mut f = Frame::new(plan, GridOrder::Sequential);
    let operands = declare(&mut f, pipeline);
    let n = f.n;
    let b = &mut f.b;
    operands.start_all(b, n);
    b.when_equal(n, 0, |b| {
        operands.step(b, Step { n, is_first: true });
    });
    if plan.grid.n > 1 {
        let first = b.i32(0);
        let later = b.cmpi(IntPredicate::Sgt, n, first);
        b.when(later, |b| operands.step(b, Step { n, is_first: false }));
    }
    b.when_equal(n, plan.grid.n - 1, |b| operands.finish(b, n));
    f.finish()
}

fn declare<'p>(f: &mut Frame<'p>, pipeline: MxuPipeline) -> Operands<'p> {
    let (plan, given) = (f.plan, f.plan.given());
    let (x_rows, k_blocks) = plan.x_scale_tile();
    let has_ring = pipeline.stages > 0;
    let x = f.in_hbm(Operand::X, BufferId::X, &[given.m, given.k]);
    let w = f.in_hbm(Operand::W, BufferId::WQ, &[given.n, given.k]);
    let w_scale = f.in_hbm(Operand::WScale, BufferId::WScale, &[plan.w_scale_rows(), k_blocks]);
    let x_scale = f.in_hbm(Operand::XScale, BufferId::XScale, &[x_rows, k_blocks]);
    let out = f.out_in_hbm();
    Operands {
        plan,
        pipeline,
        x: HbmAndChip { hbm: x, chip: f.scratch("x_kept", BufferId::X) },
        w,
        w_first: f.scratch("w_first", if has_ring { BufferId::WShort } else { BufferId::WQ }),
        w_ring: has_ring.then(|| f.scratch_copies("w_ring", BufferId::WQ)),
        w_scale: HbmAndChip { hbm: w_scale, chip: f.scratch("w_scale_kept", BufferId::WScale) },
        x_scale: HbmAndChip { hbm: x_scale, chip: f.scratch("x_scale_kept", BufferId::XScale) },
        out: HbmAndChip { hbm: out, chip: f.scratch("out_kept", BufferId::Out) },
        x_bf16: Buffer::whole(f.scratch("x_bf16", BufferId::XBf16)),
        w_bf16: f.scratch_copies("w_bf16", BufferId::WBf16),
        semaphores: f.semaphores(&[plan.semaphores]),
        x_loads: plan.x_loads(),
        w_loads: plan.first_loads(),
    }
}

impl Operands<'_> {
    fn semaphore(&self, b: &mut FunctionBuilder, lane: usize) -> Value {
        let lane = b.i32(lane);
        b.slice_memref(self.semaphores, &[lane], &[])
    }

    /// First of the result's columns that the first step multiplies.
    fn first_column(&self) -> usize {
        (self.plan.grid.n - 1) * self.plan.tile.n
    }

    fn scales_per_row(&self) -> bool {
        self.plan.problem.x.granularity() == Some(ScaleGranularity::Token)
    }

    /// The DMA of a whole array.
    fn whole(&self, b: &mut FunctionBuilder, array: HbmAndChip, lane: Lane) -> Copy {
        let shape = b.ty(array.hbm).shape().to_vec();
        let semaphore = self.semaphore(b, lane as usize);
        Copy { source: array.hbm, target: b.first_of(array.chip, &shape), semaphore }
    }

    /// A DMA of x, and of the scales of its rows if they come with it.
    fn rows(&self, b: &mut FunctionBuilder, number: usize) -> Vec<Copy> {
        let Load { rows, k } = self.x_loads[number];
        let lane = Lane::Loads as usize + 2 * number;
        let mut copies = Vec::new();
        if self.scales_per_row() && k.0 == 0 {
            let (row, zero) = (b.i32(rows.0), b.i32(0));
            let shape = [rows.1, self.plan.k_blocks()];
            copies.push(Copy {
                source: b.slice_memref(self.x_scale.hbm, &[row, zero], &shape),
                target: b.slice_memref(self.x_scale.chip, &[row, zero], &shape),
                semaphore: self.semaphore(b, lane + 1),
            });
        }
        let semaphore = self.semaphore(b, lane);
        copies.push(part_of(b, (self.x.hbm, 0), self.x.chip, self.x_loads[number], semaphore));
        copies
    }

    /// A DMA of the weights of the first step.
    fn first_weights(&self, b: &mut FunctionBuilder, number: usize) -> Copy {
        let lane = Lane::Loads as usize + 2 * self.x_loads.len() + number;
        let semaphore = self.semaphore(b, lane);
        part_of(b, (self.w, self.first_column()), self.w_first, self.w_loads[number], semaphore)
    }

    /// The DMAs of x, and of the scales that come with it, or of the first step's weights, by their number.
    fn load(&self, b: &mut FunctionBuilder, is_x: bool, number: usize) -> Vec<Copy> {
        if is_x { self.rows(b, number) } else { vec![self.first_weights(b, number)] }
    }

    /// The DMAs that the first step begins with, in groups: parts along K of the first rows and columns, then
    /// the other rows, then the other columns.
    fn first_loads(&self) -> Vec<Vec<(bool, usize)>> {
        let k = self.plan.held().k;
        let of = |is_x: bool, loads: &[Load]| -> Vec<(bool, usize, (usize, usize))> {
            loads.iter().enumerate().map(|(number, load)| (is_x, number, load.k)).collect()
        };
        let all = [of(true, &self.x_loads), of(false, &self.w_loads)].concat();
        let (mut parts, whole): (Vec<_>, Vec<_>) = all.into_iter().partition(|(.., part)| part.1 < k);
        parts.sort_by_key(|(.., part)| part.0);
        let groups = parts.chunk_by(|a, b| a.2.0 == b.2.0).chain(whole.chunks(1));
        groups.map(|group| group.iter().map(|&(is_x, number, _)| (is_x, number)).collect()).collect()
    }

    /// Pairs of chunks of columns of all later steps.
    fn pairs(&self) -> usize {
        (self.plan.grid.n - 1) * self.pairs_of_step()
    }

    fn pairs_of_step(&self) -> usize {
        self.plan.tile.n / (MXUS * SIDE)
    }

    /// The DMA of a pair of the later steps, by its number.
    fn pair(&self, b: &mut FunctionBuilder, number: Value) -> Copy {
        let ring = self.w_ring.expect("later steps have a buffer of weights");
        let k = self.plan.given().k;
        let (columns, zero) = (b.i32(MXUS * SIDE), b.i32(0));
        let row = b.muli(number, columns);
        let row = b.multiple_of(row, MXUS * SIDE);
        let stage = self.stage(b, number);
        let lane = b.i32(Lane::Loads as usize + 2 * self.x_loads.len() + self.w_loads.len());
        let lane = b.addi(stage, lane);
        Copy {
            source: b.slice_memref(self.w, &[row, zero], &[MXUS * SIDE, k]),
            target: b.slice_memref(ring, &[stage, zero, zero], &[MXUS * SIDE, k]),
            semaphore: b.slice_memref(self.semaphores, &[lane], &[]),
        }
    }

    fn stage(&self, b: &mut FunctionBuilder, number: Value) -> Value {
        let stages = b.i32(self.pipeline.stages);
        b.remsi(number, stages)
    }

    /// Starts all DMAs that have a buffer, in the first step. The compiler keeps the order of loops, not that
    /// of DMAs.
    fn start_all(&self, b: &mut FunctionBuilder, n: Value) {
        let (zero, one) = (b.i32(0), b.i32(1));
        let is_first = b.cmpi(IntPredicate::Eq, n, zero);
        let once = b.select(is_first, one, zero);
        b.when(is_first, |b| {
            let copy = self.whole(b, self.w_scale, Lane::WScale);
            b.located("start w_scale", |b| b.start(copy));
            if !self.scales_per_row() {
                let copy = self.whole(b, self.x_scale, Lane::XScale);
                b.located("start x_scale", |b| b.start(copy));
            }
        });
        for group in self.first_loads() {
            b.for_each("once", zero, once, |b, _| {
                for (is_x, number) in group {
                    for copy in self.load(b, is_x, number) {
                        b.located(if is_x { "start x" } else { "start w_q" }, |b| b.start(copy));
                    }
                }
            });
        }
        if self.pipeline.stages > 0 {
            let stages = b.i32(self.pipeline.stages);
            let stages = b.select(is_first, stages, zero);
            b.for_each("pair", zero, stages, |b, number| {
                let copy = self.pair(b, number);
                b.located("start w_q", |b| b.start(copy));
            });
        }
        b.when(is_first, |b| {
            let copy = self.whole(b, self.w_scale, Lane::WScale);
            b.located("wait w_scale", |b| b.wait(copy));
            if !self.scales_per_row() {
                let copy = self.whole(b, self.x_scale, Lane::XScale);
                b.located("wait x_scale", |b| b.wait(copy));
            }
        });
    }

    /// The buffer of a dequantized chunk of a pair of columns.
    fn chunk(&self, b: &mut FunctionBuilder, pair: usize, chunk: usize) -> Buffer {
        let number = b.i32(pair % self.plan.pair_buffers() * MXUS + chunk);
        Buffer::one_of(b, self.w_bf16, number)
    }

    /// First column of a slice along K in the buffer of a chunk.
    fn column_of_slice(&self, slice: usize) -> usize {
        slice % self.plan.slice_buffers() * SIDE
    }

    /// One step: multiplies in turns.
    fn step(&self, b: &mut FunctionBuilder, step: Step) {
        let turns = self.plan.turns(step.is_first);
        let next = (self.plan.grid.n > 1).then(|| self.plan.turns(false)[0]);
        let mut work = Work { operands: self, step, done: HashSet::new(), arrived: HashSet::new() };
        if step.is_first {
            for &turn in &turns[..turns.len().min(AHEAD)] {
                work.wait_for(b, turn);
                work.prepare(b, turn);
            }
            self.push(b, turns[0]);
        } else {
            work.done.extend(parts(turns[0]));
        }
        let mut complete = (!step.is_first).then(|| (self.last_place(), Sums::OfStepBefore));
        let mut taken: VecDeque<(Place, Destination, usize)> = VecDeque::new();
        for (number, &turn) in turns.iter().enumerate() {
            let ahead = turns[number..turns.len().min(number + 1 + AHEAD)].to_vec();
            // Of the waits together, so that what lies between two has matmuls.
            for &turn in &ahead {
                work.wait_for(b, turn);
            }
            let next_is_ahead = number + AHEAD == turns.len().max(AHEAD);
            if next.is_some() && next_is_ahead {
                work.wait_for_next(b);
            }
            let is_free =
                turn.number > 0 || complete.is_none_or(|(before, _)| before.address != turn.place.address);
            assert!(is_free, "a place adds to sums that were taken");
            // In a later step, what the first turns need is not all there.
            work.prepare(b, turn);
            self.accumulate(b, turn);
            if let Some(&after) = turns.get(number + 1) {
                work.prepare(b, after);
            }
            if let Some(&after) = turns.get(number + 1).or(next.as_ref()) {
                self.push(b, after);
            }
            for &turn in &ahead {
                work.prepare(b, turn);
            }
            if let Some(next) = next.filter(|_| next_is_ahead) {
                work.prepare_next(b, next);
            }
            if let Some((place, sums)) = complete.take() {
                let to = self.destination(b, place, step, sums);
                self.take(b, place, to.buffer);
                taken.push_back((place, to, number));
            }
            // The start of a DMA waits for what it moves, which is not there at once.
            let is_end = number + 1 == turns.len();
            while let Some(&(place, to, at)) = taken.front()
                && (is_end || at + AHEAD <= number)
            {
                taken.pop_front();
                let copy = self.store(b, place, to);
                b.located("start out", |b| b.start(copy));
            }
            if turn.is_last {
                complete = Some((turn.place, Sums::OfStep));
                self.reload(b, turn.place, step);
            }
        }
    }

    /// The last place of every step but the last one, whose sums the next step takes.
    fn last_place(&self) -> Place {
        *self.plan.places(true).last().expect("a step has places")
    }

    /// Puts the weights of a turn into the staging registers.
    fn push(&self, b: &mut FunctionBuilder, turn: Turn) {
        for mxu in 0..MXUS {
            let (chunk, slice) = turn.of_mxu(mxu);
            let at = (0, self.column_of_slice(slice));
            let weights = self.chunk(b, turn.place.pair, chunk).load(b, at, (SIDE, SIDE));
            b.push_weights(weights, mxu, true);
        }
    }

    fn accumulate(&self, b: &mut FunctionBuilder, turn: Turn) {
        let (row, rows) = turn.place.rows;
        let rows = rows.next_multiple_of(FEWEST_ROWS);
        for mxu in 0..MXUS {
            let (_, slice) = turn.of_mxu(mxu);
            let values = self.x_bf16.load(b, (row, slice * SIDE), (rows, SIDE));
            b.accumulate(turn.place.address, values, mxu, true);
        }
    }

    /// Takes the sums of a place out of the accumulators, to a column of the results' buffer on.
    fn take(&self, b: &mut FunctionBuilder, place: Place, to: Column) {
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

    /// Where the result of a place goes, after waiting for what was there before.
    fn destination(&self, b: &mut FunctionBuilder, place: Place, step: Step, sums: Sums) -> Destination {
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
    fn of_first_step(&self, b: &mut FunctionBuilder, column: usize) -> Destination {
        Destination {
            result: Column::Known(self.first_column() + column),
            // The last columns, so that a ragged pair ends with the buffer.
            buffer: Column::Known(self.pipeline.results * MXUS * SIDE + column),
            lane: b.i32(Lane::Out as usize),
        }
    }

    /// Where the result of a pair of later steps goes.
    fn of_later_step(&self, b: &mut FunctionBuilder, number: Value, place: Place) -> Destination {
        let (columns, results) = (b.i32(MXUS * SIDE), b.i32(self.pipeline.results));
        let result = b.muli(number, columns);
        let slot = b.remsi(number, results);
        let buffer = b.muli(slot, columns);
        let chunks = b.i32(self.plan.row_chunks().len());
        let lane = b.muli(slot, chunks);
        let number = self.plan.row_chunks().iter().position(|&rows| rows == place.rows).unwrap_or(0);
        let offset = b.i32(self.first_lane_of_results() + number);
        let lane = b.addi(lane, offset);
        Destination { result: Column::Computed(result), buffer: Column::Computed(buffer), lane }
    }

    /// One of two destinations.
    fn either(
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

    fn first_lane_of_results(&self) -> usize {
        Lane::Loads as usize + 2 * self.x_loads.len() + self.w_loads.len() + self.pipeline.stages
    }

    /// The store of a place.
    fn store(&self, b: &mut FunctionBuilder, place: Place, to: Destination) -> Copy {
        let row = b.i32(place.rows.0);
        let (from, to_column) = (to.buffer.value(b), to.result.value(b));
        let shape = [place.rows.1, place.columns.1];
        Copy {
            source: b.slice_memref(self.out.chip, &[row, from], &shape),
            target: b.slice_memref(self.out.hbm, &[row, to_column], &shape),
            semaphore: b.slice_memref(self.semaphores, &[to.lane], &[]),
        }
    }

    /// After the last place that needs a stage: loads the pair that is a whole ring ahead.
    fn reload(&self, b: &mut FunctionBuilder, place: Place, step: Step) {
        if step.is_first || place.rows.0 != 0 || self.pairs() <= self.pipeline.stages {
            return;
        }
        let number = self.number_of_pair(b, step, place.pair);
        let (stages, pairs) = (b.i32(self.pipeline.stages), b.i32(self.pairs()));
        let ahead = b.addi(number, stages);
        let more = b.cmpi(IntPredicate::Slt, ahead, pairs);
        b.when(more, |b| {
            let copy = self.pair(b, ahead);
            b.located("start w_q", |b| b.start(copy));
        });
    }

    /// Number of a pair of this step among those of all later steps.
    fn number_of_pair(&self, b: &mut FunctionBuilder, step: Step, pair: usize) -> Value {
        let (one, pairs, pair) = (b.i32(1), b.i32(self.pairs_of_step()), b.i32(pair));
        let before = b.subi(step.n, one);
        let first = b.muli(before, pairs);
        b.addi(first, pair)
    }

    /// Takes out the last sums and the weights of no step, and waits for all stores.
    fn finish(&self, b: &mut FunctionBuilder, n: Value) {
        let plan = self.plan;
        let last = *plan.places(plan.grid.n == 1).last().expect("a step has places");
        let step = Step { n, is_first: plan.grid.n == 1 };
        let unused = self.unused_address(last);
        if plan.grid.n > 1 {
            let values = self.x_bf16.load(b, (0, 0), (FEWEST_ROWS, SIDE));
            for mxu in 0..MXUS {
                b.accumulate(unused, values, mxu, true);
            }
        }
        let to = self.destination(b, last, step, Sums::OfStep);
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

    /// The address of no place that is still in the accumulators.
    fn unused_address(&self, last: Place) -> usize {
        let addresses = self.plan.places(false).into_iter().map(|place| place.address);
        addresses.into_iter().find(|&address| address != last.address).unwrap_or(last.address + 128)
    }

    /// Waits for the stores that no place has waited for.
    fn wait_for_stores(&self, b: &mut FunctionBuilder) {
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

/// What a step has dequantized and waited for.
struct Work<'o, 'p> {
    operands: &'o Operands<'p>,
    step: Step,
    done: HashSet<Part>,
    /// DMAs of x and of weights, by their numbers.
    arrived: HashSet<(bool, usize)>,
}

impl Work<'_, '_> {
    /// Waits for the DMAs that bring what a turn needs, unless that is done already.
    fn wait_for(&mut self, b: &mut FunctionBuilder, turn: Turn) {
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
    fn wait_for_loads(&mut self, b: &mut FunctionBuilder, turn: Turn) {
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
    fn prepare(&mut self, b: &mut FunctionBuilder, turn: Turn) {
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

    fn prepare_columns(&mut self, b: &mut FunctionBuilder, place: Place, chunk: usize, slice: usize) {
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
    fn wait_for_next(&mut self, b: &mut FunctionBuilder) {
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
    fn next_pair(&self, b: &mut FunctionBuilder) -> Value {
        let pairs = b.i32(self.operands.pairs_of_step());
        b.muli(self.step.n, pairs)
    }

    /// Dequantizes what the next step's first turn needs. In the last step nothing uses it.
    fn prepare_next(&mut self, b: &mut FunctionBuilder, next: Turn) {
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
    fn first_scale(&self, b: &mut FunctionBuilder, step: Step) -> Value {
        let rows = self.plan.w_scale_tile().0;
        if step.is_first {
            return b.i32((self.plan.grid.n - 1) * rows);
        }
        let (one, rows) = (b.i32(1), b.i32(rows));
        let before = b.subi(step.n, one);
        b.muli(before, rows)
    }

    /// The weights of a pair of later steps.
    fn in_ring(&self, b: &mut FunctionBuilder, number: Value) -> Buffer {
        let stage = self.stage(b, number);
        Buffer::one_of(b, self.w_ring.expect("later steps have a buffer of weights"), stage)
    }

    /// The k-blocks of a slice.
    fn k_blocks(&self, slice: usize) -> std::ops::Range<usize> {
        let per_slice = SIDE / self.plan.problem.quant_block.size();
        slice * per_slice..self.plan.k_blocks().min((slice + 1) * per_slice)
    }

    fn dequantize_rows(&self, b: &mut FunctionBuilder, (first, rows): (usize, usize), slice: usize) {
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
    fn dequantize_columns(
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

/// A DMA of a part of an operand, whose rows begin in HBM at `first`.
fn part_of(
    b: &mut FunctionBuilder,
    (hbm, first): (Value, usize),
    chip: Value,
    Load { rows, k }: Load,
    semaphore: Value,
) -> Copy {
    let shape = [rows.1, k.1];
    let (from, to, column) = (b.i32(first + rows.0), b.i32(rows.0), b.i32(k.0));
    Copy {
        source: b.slice_memref(hbm, &[from, column], &shape),
        target: b.slice_memref(chip, &[to, column], &shape),
        semaphore,
    }
}

//! Strips with x in VMEM for the whole kernel, whose matmuls the kernel itself assigns to the MXUs.
//!
//! The compiler moves nothing across a wait for a DMA, and takes all sums out of the MXUs before it. Here
//! sums stay in the accumulators, and the next weights in the staging registers, so that the MXUs are busy on
//! both sides of a wait: a place, some rows of x times a pair of chunks of columns, is multiplied slice by
//! slice along K, the operands of the next slices are dequantized beside it, and its sums are taken out
//! during the next place. The first operands arrive in parts along K.

mod operands;
mod results;
mod work;

use std::collections::VecDeque;

use octile_core::{
    ScaleGranularity,
    plan::{
        BufferId,
        tpu::{Load, MxuPipeline, Place, TpuPlan, Turn},
    },
};
use octile_mosaic::{FunctionBuilder, Value, build::IntPredicate};

use self::{
    results::{Destination, Sums},
    work::Work,
};
use super::{dequantized::MXUS, streamed::HbmAndChip};
use crate::tpu::{
    KernelModule,
    parts::{
        frame::{Frame, GridOrder, Operand},
        tile::Buffer,
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

/// A grid step.
#[derive(Clone, Copy)]
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
    b.when_equal(n, 0, |b| operands.step(b, Step { n, is_first: true }));
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
        let mut work = Work::new(self, step);
        if step.is_first {
            let first = &turns[..turns.len().min(AHEAD)];
            for &turn in first {
                work.wait_for(b, turn);
            }
            // What a turn needs is pushed before another one may take its buffer.
            work.prepare(b, turns[0]);
            self.push(b, turns[0]);
            for &turn in first {
                work.prepare(b, turn);
            }
        } else {
            work.is_prepared(turns[0]);
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
                let to = self.free_destination(b, place, step, sums);
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

    /// After the first place of a pair, which dequantizes all of its weights: loads into their stage the pair
    /// that is a whole ring ahead.
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
}

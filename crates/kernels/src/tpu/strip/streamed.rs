//! Strips with x in VMEM for the whole kernel, and weights that stream past it.
//!
//! A pipeline of weight blocks, each as long as K, fills most of VMEM. The first step starts every DMA that
//! has a stage; a block is waited for right before its matmuls, and then its stage takes the next block.
//! Compared with the compiler's pipeline, operands and scales are in flight together from the first cycle on,
//! everything is loaded once, and the first block is small, so that the MXUs start early. Of several steps
//! with dequantized x, the first one takes the last columns, as many as whole steps leave over. Of many rows
//! of x, a quarter is loaded first, and dequantized while the others arrive.

use octile_core::plan::{
    BufferId,
    tpu::{Arithmetic, TpuPlan, WeightPipeline},
};
use octile_mosaic::{
    FunctionBuilder, Value,
    build::{Copy, IntPredicate},
};

use super::{
    dequantized::{Weights, XStrip, multiply},
    lanes::{self, RowsInLanes},
};
use crate::{
    stablehlo::float,
    tpu::{
        KernelModule,
        parts::{
            frame::{Frame, GridOrder, Operand},
            scales::Scales,
            tile::{self, Buffer, Chunk, Tile},
        },
    },
};

/// Semaphores; those of the weight pipeline follow.
enum Lane {
    X,
    XRest,
    WScale,
    XScale,
    Out,
    Stages,
}

/// An array in HBM, and its buffer on the chip.
#[derive(Clone, Copy)]
pub(super) struct HbmAndChip {
    pub(super) hbm: Value,
    pub(super) chip: Value,
}

struct Operands<'p> {
    plan: &'p TpuPlan,
    pipeline: WeightPipeline,
    x: HbmAndChip,
    w: HbmAndChip,
    /// Buffer of the weights that whole steps leave over. The first step multiplies them.
    w_short: Option<Value>,
    w_scale: HbmAndChip,
    x_scale: Option<HbmAndChip>,
    out: HbmAndChip,
    semaphores: Value,
}

/// Buffers of what the kernel computes from its operands.
#[derive(Clone)]
struct Computed {
    x_scale: Option<Scales>,
    x_q: Buffer,
    in_lanes: Option<RowsInLanes>,
    x_strip: XStrip,
    w_bf16: Option<Value>,
}

/// A weight block of a step.
#[derive(Clone, Copy)]
struct WeightBlock {
    /// First column in the step.
    begins: usize,
    columns: usize,
    /// Number in the step.
    number: usize,
    /// Number in the kernel, as i32.
    index: Value,
    /// Its stage, as i32.
    stage: Value,
}

pub(super) fn kernel(plan: &TpuPlan, pipeline: WeightPipeline) -> KernelModule {
    let mut f = Frame::new(plan, GridOrder::Sequential);
    let operands = declare(&mut f, pipeline);
    let codes = plan.memory.get(BufferId::XQ).map(|buffer| f.scratch_copies("x_q", buffer.id));
    let lanes = plan.memory.get(BufferId::XScaleLanes).map(|buffer| f.scratch("x_scale_lanes", buffer.id));
    let pairs = plan.memory.get(BufferId::XPairs).map(|buffer| f.scratch("x_pairs", buffer.id));
    let x_bf16 = plan.memory.get(BufferId::XBf16).map(|buffer| f.scratch_copies("x_bf16", buffer.id));
    let w_bf16 = plan.memory.get(BufferId::WBf16).map(|buffer| f.scratch_copies("w_bf16", buffer.id));
    let mut x_scale = operands.x_scale.map(|x_scale| Scales::of_x(plan, x_scale.chip));

    // Prologue: the first step fills the pipeline, and prepares x while the first weights arrive.
    let n = f.n;
    f.b.when_equal(n, 0, |b| operands.start_all(b));
    let x_q = tile::quantized_x(&mut f, Buffer::whole(operands.x.chip), x_scale.as_ref(), codes);
    let b = &mut f.b;
    if let (Some(lanes), Some(scales)) = (lanes, &x_scale) {
        b.when_equal(n, 0, |b| scales.spread(b, plan, lanes));
        x_scale = Some(Scales::of_lanes(b, lanes));
    }

    let in_lanes = operands.x_scale.zip(pairs).map(|(x_scale, pairs)| {
        let pairs = Buffer::whole(pairs);
        b.when_equal(n, 0, |b| lanes::pair(b, plan, &Buffer::whole(operands.x.chip), &pairs));
        RowsInLanes { x: pairs, x_scale: Buffer::whole(x_scale.chip) }
    });

    let zero = b.i32(0);
    let mut x_strip = XStrip::new(b, Buffer::whole(operands.x.chip), x_bf16, zero, x_scale.clone());
    if x_bf16.is_some() {
        let (first, rows) = (plan.rows_first().min(plan.rows_ahead()), plan.rows_ahead());
        b.when_equal(n, 0, |b| {
            x_strip.dequantize(b, plan, (0, first));
            operands.wait_for_rest_of_x(b);
            x_strip.dequantize(b, plan, (first, rows - first));
        });
        x_strip = x_strip.prepared(rows);
    }

    // Multiply one weight block after another. The first step dequantizes the rest of x beside its first
    // matmuls.
    let computed = Computed { x_scale, x_q, in_lanes, x_strip, w_bf16 };
    if let Some(columns) = plan.short_columns() {
        b.when_equal(n, 0, |b| operands.short_step(b, computed.clone(), columns));
        let (first, one) = (b.i32(0), b.i32(1));
        let later = b.cmpi(IntPredicate::Sgt, n, first);
        let x_strip = computed.x_strip.clone().prepared(plan.held().m);
        b.when(later, |b| {
            let n = b.subi(n, one);
            operands.step(b, Computed { x_strip, ..computed }, n);
        });
    } else {
        operands.step(b, computed, n);
    }

    // Epilogue: the last step waits for every store of the result.
    b.when_equal(n, plan.grid.n - 1, |b| operands.wait_for_stores(b));
    f.finish()
}

fn declare<'p>(f: &mut Frame<'p>, pipeline: WeightPipeline) -> Operands<'p> {
    let (plan, given) = (f.plan, f.plan.given());
    let (w_rows, k_blocks) = plan.w_scale_tile();
    let (x_rows, _) = plan.x_scale_tile();
    let x_scale_id = plan.x_scale().map(|buffer| buffer.id);

    let x = f.in_hbm(Operand::X, BufferId::X, &[given.m, given.k]);
    let w = f.in_hbm(Operand::W, BufferId::WQ, &[given.n, given.k]);
    let w_scale = f.in_hbm(Operand::WScale, BufferId::WScale, &[plan.grid.n * w_rows, k_blocks]);
    let x_scale = x_scale_id.map(|id| match plan.rows_in_lanes {
        true => f.in_hbm(Operand::XScaleColumns, id, &[k_blocks, x_rows]),
        false => f.in_hbm(Operand::XScale, id, &[x_rows, k_blocks]),
    });
    let out = f.out_in_hbm();
    Operands {
        plan,
        pipeline,
        x: HbmAndChip { hbm: x, chip: f.scratch("x_kept", BufferId::X) },
        w: HbmAndChip { hbm: w, chip: f.scratch_copies("w_ring", BufferId::WQ) },
        w_short: plan.short_columns().map(|_| f.scratch("w_short", BufferId::WShort)),
        w_scale: HbmAndChip { hbm: w_scale, chip: f.scratch("w_scale_kept", BufferId::WScale) },
        x_scale: x_scale
            .zip(x_scale_id)
            .map(|(hbm, id)| HbmAndChip { hbm, chip: f.scratch("x_scale_kept", id) }),
        out: HbmAndChip { hbm: out, chip: f.scratch("out_kept", BufferId::Out) },
        semaphores: f.semaphores(&[plan.semaphores]),
    }
}

impl Operands<'_> {
    fn semaphore(&self, b: &mut FunctionBuilder, lane: Lane) -> Value {
        let lane = b.i32(lane as usize);
        b.slice_memref(self.semaphores, &[lane], &[])
    }

    /// The DMA of a whole array.
    fn whole(&self, b: &mut FunctionBuilder, array: HbmAndChip, lane: Lane) -> Copy {
        let shape = b.ty(array.hbm).shape().to_vec();
        Copy { source: array.hbm, target: b.first_of(array.chip, &shape), semaphore: self.semaphore(b, lane) }
    }

    /// The DMA of some rows of x.
    fn rows_of_x(&self, b: &mut FunctionBuilder, (begins, rows): (usize, usize), lane: Lane) -> Copy {
        let (row, zero) = (b.i32(begins), b.i32(0));
        let shape = [rows, self.plan.given().k];
        Copy {
            source: b.slice_memref(self.x.hbm, &[row, zero], &shape),
            target: b.slice_memref(self.x.chip, &[row, zero], &shape),
            semaphore: self.semaphore(b, lane),
        }
    }

    /// The DMAs of x: of the rows that are prepared first, and of the others.
    fn parts_of_x(&self, b: &mut FunctionBuilder) -> (Copy, Option<Copy>) {
        let (first, rows) = (self.plan.rows_first(), self.plan.given().m);
        if first >= rows {
            return (self.whole(b, self.x, Lane::X), None);
        }
        (self.rows_of_x(b, (0, first), Lane::X), Some(self.rows_of_x(b, (first, rows - first), Lane::XRest)))
    }

    fn wait_for_rest_of_x(&self, b: &mut FunctionBuilder) {
        if let Some(copy) = self.parts_of_x(b).1 {
            b.located("wait x", |b| b.wait(copy));
        }
    }

    /// Where the block begins in its stage. Blocks of different sizes lie one after another in one stage.
    fn begins_in_stage(&self, begins: usize) -> usize {
        if self.pipeline.is_resident { begins } else { 0 }
    }

    /// The DMA of `columns` rows of w into a stage.
    fn weights(
        &self,
        b: &mut FunctionBuilder,
        (row, columns): (Value, usize),
        (stage, begins): (Value, usize),
        semaphore: Value,
    ) -> Copy {
        let k = self.plan.given().k;
        let (zero, lane) = (b.i32(0), b.i32(Lane::Stages as usize));
        let lane = b.addi(semaphore, lane);
        let begins = b.i32(self.begins_in_stage(begins));
        Copy {
            source: b.slice_memref(self.w.hbm, &[row, zero], &[columns, k]),
            target: b.slice_memref(self.w.chip, &[stage, begins, zero], &[columns, k]),
            semaphore: b.slice_memref(self.semaphores, &[lane], &[]),
        }
    }

    /// Steps that multiply all columns of a tile.
    fn whole_steps(&self) -> usize {
        self.plan.grid.n - usize::from(self.w_short.is_some())
    }

    /// The DMA of the weights that whole steps leave over.
    fn short_weights(&self, b: &mut FunctionBuilder, short: Value) -> Copy {
        let (begins, given) = (self.whole_steps() * self.plan.tile.n, self.plan.given());
        let (row, zero, lane) =
            (b.i32(begins), b.i32(0), b.i32(Lane::Stages as usize + self.pipeline.stages));
        let shape = [given.n - begins, given.k];
        Copy {
            source: b.slice_memref(self.w.hbm, &[row, zero], &shape),
            target: b.first_of(short, &shape),
            semaphore: b.slice_memref(self.semaphores, &[lane], &[]),
        }
    }

    /// The DMA of the weight block `index`, which may be a later one of the same stage.
    fn block(&self, b: &mut FunctionBuilder, block: WeightBlock, index: Value) -> Copy {
        if self.pipeline.is_resident {
            let (row, stage, semaphore) = (b.i32(block.begins), b.i32(0), b.i32(block.number));
            return self.weights(b, (row, block.columns), (stage, block.begins), semaphore);
        }
        let columns = b.i32(block.columns);
        let row = b.muli(index, columns);
        self.weights(b, (row, block.columns), (block.stage, 0), block.stage)
    }

    /// The weight blocks of step `n`.
    fn blocks(&self, b: &mut FunctionBuilder, n: Value) -> Vec<WeightBlock> {
        let cuts = self.plan.weight_blocks();
        let (per_step, stages) = (b.i32(cuts.len()), b.i32(self.pipeline.stages));
        let first = b.muli(n, per_step);
        let block = |(number, (begins, columns)): (usize, (usize, usize))| {
            let offset = b.i32(number);
            let index = b.addi(first, offset);
            let stage = b.remsi(index, stages);
            WeightBlock { begins, columns, number, index, stage }
        };
        cuts.into_iter().enumerate().map(block).collect()
    }

    /// Starts all DMAs that have a buffer and waits for what every block needs. Uniform weight blocks start
    /// in a loop, which keeps code short.
    fn start_all(&self, b: &mut FunctionBuilder) {
        let (x, rest) = self.parts_of_x(b);
        let mut small = vec![("x", x), ("w_scale", self.whole(b, self.w_scale, Lane::WScale))];
        if let Some(x_scale) = self.x_scale {
            small.push(("x_scale", self.whole(b, x_scale, Lane::XScale)));
        }
        for &(name, copy) in &small {
            b.located(format!("start {name}"), |b| b.start(copy));
        }
        if let Some(rest) = rest {
            b.located("start x", |b| b.start(rest));
        }
        if let Some(short) = self.w_short {
            let copy = self.short_weights(b, short);
            b.located("start w_q", |b| b.start(copy));
        }
        let cuts = self.plan.weight_blocks();
        if self.pipeline.is_resident {
            for (number, (begins, columns)) in cuts.into_iter().enumerate() {
                let (row, stage, semaphore) = (b.i32(begins), b.i32(0), b.i32(number));
                let copy = self.weights(b, (row, columns), (stage, begins), semaphore);
                b.located("start w_q", |b| b.start(copy));
            }
        } else {
            let (from, to) = (b.i32(0), b.i32(self.pipeline.stages.min(self.whole_steps() * cuts.len())));
            b.for_each("piece", from, to, |b, block| {
                let columns = b.i32(self.pipeline.columns);
                let row = b.muli(block, columns);
                let copy = self.weights(b, (row, self.pipeline.columns), (block, 0), block);
                b.located("start w_q", |b| b.start(copy));
            });
        }
        for (name, copy) in small {
            b.located(format!("wait {name}"), |b| b.wait(copy));
        }
    }

    /// The scales of a step's weights.
    fn w_scale(&self, b: &mut FunctionBuilder, n: Value) -> Scales {
        let (scale_rows, zero) = (b.i32(self.plan.w_scale_tile().0), b.i32(0));
        let first_row = b.muli(n, scale_rows);
        Scales::of_w(self.plan, self.w_scale.chip).with_origin(first_row, zero)
    }

    /// The first step, of the columns that whole steps leave over. It dequantizes the rest of x beside its
    /// matmuls.
    fn short_step(&self, b: &mut FunctionBuilder, mut computed: Computed, columns: usize) {
        let short = self.w_short.expect("the plan has a buffer of short weights");
        let copy = self.short_weights(b, short);
        b.located("wait w_q", |b| b.wait(copy));
        let (zero, n) = (b.i32(0), b.i32(self.whole_steps()));
        let w_scale = self.w_scale(b, n);
        let block = WeightBlock { begins: 0, columns, number: 0, index: zero, stage: zero };
        self.multiply(b, &mut computed, (Buffer::whole(short), &w_scale), block, n);
        let copy = self.short_out(b, columns);
        b.located("start out", |b| b.start(copy));
    }

    /// One step: waits for each of its weight blocks, multiplies it and stores the result.
    fn step(&self, b: &mut FunctionBuilder, mut computed: Computed, n: Value) {
        let zero = b.i32(0);
        let w_scale = self.w_scale(b, n);
        let blocks = self.blocks(b, n);
        let ahead = self.whole_steps() * blocks.len();
        for block in blocks {
            let copy = self.block(b, block, block.index);
            b.located("wait w_q", |b| b.wait(copy));
            let w =
                Buffer::one_of(b, self.w.chip, if self.pipeline.is_resident { zero } else { block.stage });
            self.multiply(b, &mut computed, (w, &w_scale), block, n);
            let copy = self.out(b, block);
            b.located("start out", |b| b.start(copy));
            // The stage is free: load the block that is a whole pipeline ahead.
            if self.pipeline.stages < ahead && !self.pipeline.is_resident {
                let (stages, blocks) = (b.i32(self.pipeline.stages), b.i32(ahead));
                let ahead = b.addi(block.index, stages);
                let more = b.cmpi(IntPredicate::Slt, ahead, blocks);
                b.when(more, |b| {
                    let copy = self.block(b, block, ahead);
                    b.located("start w_q", |b| b.start(copy));
                });
            }
        }
    }

    /// Multiplies x with a weight block, and moves the result to its buffer.
    fn multiply(
        &self,
        b: &mut FunctionBuilder,
        computed: &mut Computed,
        (w, w_scale): (Buffer, &Scales),
        block: WeightBlock,
        n: Value,
    ) {
        if let Some(in_lanes) = &computed.in_lanes {
            let begins = block.begins - self.begins_in_stage(block.begins);
            let w = lanes::Codes { codes: &w, begins, scale: w_scale };
            let columns = (block.begins, block.columns);
            return in_lanes
                .multiply(b, self.plan, &w, columns, |b, part| self.store(b, n, part.at, part.value));
        }
        match self.plan.arithmetic {
            Arithmetic::Dequantized => self.dequantized(b, computed, (&w, w_scale), block, n),
            Arithmetic::Fp8 | Arithmetic::Widened => self.codes(b, computed, (w, w_scale), block, n),
        }
    }

    /// Multiplies codes with a weight block; every k-block has its own matmul.
    fn codes(
        &self,
        b: &mut FunctionBuilder,
        computed: &Computed,
        (w, w_scale): (Buffer, &Scales),
        block: WeightBlock,
        n: Value,
    ) {
        let tile = Tile {
            x: computed.x_q.clone(),
            w,
            w_begins: block.begins - self.begins_in_stage(block.begins),
            x_scale: computed.x_scale.clone(),
            w_scale: w_scale.clone(),
        };
        for chunk in Chunk::cover(self.plan, (block.begins, block.columns)) {
            for part in tile.sum(b, self.plan, chunk) {
                self.store(b, n, part.at, part.value);
            }
        }
    }

    /// Multiplies a dequantized weight block, over all of K at once.
    fn dequantized(
        &self,
        b: &mut FunctionBuilder,
        computed: &mut Computed,
        (w, w_scale): (&Buffer, &Scales),
        block: WeightBlock,
        n: Value,
    ) {
        let plan = self.plan;
        let bf16 = computed.w_bf16.expect("the plan has a buffer of dequantized weights");
        let begins = block.begins - self.begins_in_stage(block.begins);
        let by_row = if computed.x_strip.is_prepared(plan) { 0 } else { plan.columns_by_row() };
        let weights = Weights { codes: w, begins, scale: w_scale, bf16 };
        let columns = (block.begins, block.columns);
        multiply(b, plan, &mut computed.x_strip, weights, columns, by_row, |b, part| {
            self.store(b, n, part.at, part.value);
        });
    }

    /// Stores a part of a step's result in its buffer.
    fn store(&self, b: &mut FunctionBuilder, n: Value, (row, col): (usize, usize), value: Value) {
        let result = b.to_float(value, float(self.plan.kernel_out()));
        let (step, col) = (b.i32(self.plan.tile.n), b.i32(col));
        let first = b.muli(n, step);
        let col = b.addi(first, col);
        let col = b.multiple_of(col, 128);
        let indices = [b.index(row), b.to_index(col)];
        b.store(result, self.out.chip, &indices);
    }

    /// The DMA of a weight block's result to HBM.
    fn out(&self, b: &mut FunctionBuilder, block: WeightBlock) -> Copy {
        let col = if self.pipeline.is_resident {
            b.i32(block.begins)
        } else {
            let columns = b.i32(block.columns);
            b.muli(block.index, columns)
        };
        self.out_columns(b, col, block.columns)
    }

    fn short_out(&self, b: &mut FunctionBuilder, columns: usize) -> Copy {
        let col = b.i32(self.whole_steps() * self.plan.tile.n);
        self.out_columns(b, col, columns)
    }

    fn out_columns(&self, b: &mut FunctionBuilder, col: Value, columns: usize) -> Copy {
        let (shape, zero) = ([self.plan.given().m, columns], b.i32(0));
        Copy {
            source: b.slice_memref(self.out.chip, &[zero, col], &shape),
            target: b.slice_memref(self.out.hbm, &[zero, col], &shape),
            semaphore: self.semaphore(b, Lane::Out),
        }
    }

    /// Waits for all stores of the result, which share a semaphore.
    fn wait_for_stores(&self, b: &mut FunctionBuilder) {
        if self.pipeline.is_resident {
            for (begins, columns) in self.plan.weight_blocks() {
                let col = b.i32(begins);
                let copy = self.out_columns(b, col, columns);
                b.located("wait out", |b| b.wait(copy));
            }
            return;
        }
        if let Some(columns) = self.plan.short_columns() {
            let copy = self.short_out(b, columns);
            b.located("wait out", |b| b.wait(copy));
        }
        let blocks = self.whole_steps() * self.plan.tile.n / self.pipeline.columns;
        let (from, to) = (b.i32(0), b.i32(blocks));
        b.for_each("piece", from, to, |b, block| {
            let columns = b.i32(self.pipeline.columns);
            let col = b.muli(block, columns);
            let copy = self.out_columns(b, col, self.pipeline.columns);
            b.located("wait out", |b| b.wait(copy));
        });
    }
}

//! The strip kernel for few rows, where loading the weights is all the work.
//!
//! A pipeline of weight blocks, each as long as K, fills most of VMEM. The first step starts every DMA that
//! has a stage; a block is waited for right before its matmul, and then its stage takes the next block.

use octile_core::plan::{
    BufferId,
    tpu::{TpuPlan, WeightPipeline},
};
use octile_mosaic::{
    FunctionBuilder, Value,
    build::{Copy, IntPredicate},
};

use crate::{
    stablehlo::float,
    tpu::{
        KernelModule,
        parts::{
            frame::{Frame, GridOrder, Operand},
            scales::Scales,
            tile::{self, Buffer, Tile},
        },
    },
};

/// Semaphores; those of the weight pipeline follow.
enum Lane {
    X,
    WScale,
    XScale,
    Out,
    Stages,
}

/// An array in HBM, and its buffer on the chip.
#[derive(Clone, Copy)]
struct HbmAndChip {
    hbm: Value,
    chip: Value,
}

struct Operands {
    pipeline: WeightPipeline,
    x: HbmAndChip,
    w: HbmAndChip,
    w_scale: HbmAndChip,
    x_scale: Option<HbmAndChip>,
    out: HbmAndChip,
    semaphores: Value,
}

pub(super) fn kernel(plan: &TpuPlan, pipeline: WeightPipeline) -> KernelModule {
    let mut f = Frame::new(plan, GridOrder::Sequential);
    let operands = declare(&mut f, pipeline);
    let x_q = tile::quantized_buffer(&mut f);
    let per_step = plan.tile.n / pipeline.columns;
    let blocks = plan.grid.n * per_step;
    let x_scale = operands.x_scale.map(|x_scale| Scales::of_x(plan, x_scale.chip));

    // Prologue: the first step fills the pipeline.
    let n = f.n;
    f.b.when_equal(n, 0, |b| operands.start_all(b, blocks));
    let x = tile::quantized_x(&mut f, Buffer::whole(operands.x.chip), x_scale.as_ref(), x_q);

    // Multiply one weight block after another.
    let b = &mut f.b;
    let first = b.i32(per_step);
    let first = b.muli(n, first);
    let (stages, scale_rows) = (b.i32(pipeline.stages), b.i32(plan.w_scale_tile().0));
    let first_row = b.muli(n, scale_rows);
    let zero = b.i32(0);
    let w_scale = Scales::of_w(plan, operands.w_scale.chip).from_origin(first_row, zero);
    for number in 0..per_step {
        let offset = b.i32(number);
        let block = b.addi(first, offset);
        let stage = b.remsi(block, stages);
        let copy = operands.weights(b, block, stage);
        b.located("wait w_q", |b| b.wait(copy));
        let tile = Tile {
            x: x.clone(),
            w: Buffer::one_of(b, operands.w.chip, stage),
            w_begins: number * pipeline.columns,
            x_scale: x_scale.clone(),
            w_scale: w_scale.clone(),
        };
        for part in tile.sum(b, plan, 0, tile.w_begins) {
            let result = b.to_float(part.value, float(plan.kernel_out()));
            operands.store(b, plan, n, part.at.1, result);
        }
        let copy = operands.out(b, block);
        b.located("start out", |b| b.start(copy));
        // The stage is free: load the block that is a whole pipeline ahead.
        if pipeline.stages < blocks {
            let (ahead, blocks) = (b.addi(block, stages), b.i32(blocks));
            let more = b.cmpi(IntPredicate::Slt, ahead, blocks);
            b.when(more, |b| {
                let copy = operands.weights(b, ahead, stage);
                b.located("start w_q", |b| b.start(copy));
            });
        }
    }

    // Epilogue: the last step waits for every store of the result.
    b.when_equal(n, plan.grid.n - 1, |b| {
        let (from, to) = (b.i32(0), b.i32(blocks));
        b.for_each("piece", from, to, |b, block| {
            let copy = operands.out(b, block);
            b.located("wait out", |b| b.wait(copy));
        });
    });
    f.finish()
}

fn declare(f: &mut Frame<'_>, pipeline: WeightPipeline) -> Operands {
    let (plan, padded) = (f.plan, f.plan.padded);
    let (w_rows, k_blocks) = plan.w_scale_tile();
    let (x_rows, _) = plan.x_scale_tile();
    let x_scale_id = plan.x_scale().map(|buffer| buffer.id);

    let x = f.in_hbm(Operand::X, BufferId::X, &[padded.m, padded.k]);
    let w = f.in_hbm(Operand::W, BufferId::WQ, &[padded.n, padded.k]);
    let w_scale = f.in_hbm(Operand::WScale, BufferId::WScale, &[plan.grid.n * w_rows, k_blocks]);
    let x_scale = x_scale_id.map(|id| f.in_hbm(Operand::XScale, id, &[x_rows, k_blocks]));
    let out = f.out_in_hbm();
    Operands {
        pipeline,
        x: HbmAndChip { hbm: x, chip: f.scratch("x_kept", BufferId::X) },
        w: HbmAndChip { hbm: w, chip: f.scratch_copies("w_ring", BufferId::WQ) },
        w_scale: HbmAndChip { hbm: w_scale, chip: f.scratch("w_scale_kept", BufferId::WScale) },
        x_scale: x_scale
            .zip(x_scale_id)
            .map(|(hbm, id)| HbmAndChip { hbm, chip: f.scratch("x_scale_kept", id) }),
        out: HbmAndChip { hbm: out, chip: f.scratch("out_kept", BufferId::Out) },
        semaphores: f.semaphores(&[plan.semaphores]),
    }
}

impl Operands {
    fn semaphore(&self, b: &mut FunctionBuilder, lane: Lane) -> Value {
        let lane = b.i32(lane as usize);
        b.slice_memref(self.semaphores, &[lane], &[])
    }

    /// The DMA of a whole array.
    fn whole(&self, b: &mut FunctionBuilder, array: HbmAndChip, lane: Lane) -> Copy {
        Copy { source: array.hbm, target: array.chip, semaphore: self.semaphore(b, lane) }
    }

    /// The DMA of one weight block into its stage.
    fn weights(&self, b: &mut FunctionBuilder, block: Value, stage: Value) -> Copy {
        let (columns, k) = (self.pipeline.columns, b.ty(self.w.hbm).shape()[1]);
        let (extent, zero, lane) = (b.i32(columns), b.i32(0), b.i32(Lane::Stages as usize));
        let row = b.muli(block, extent);
        let lane = b.addi(stage, lane);
        Copy {
            source: b.slice_memref(self.w.hbm, &[row, zero], &[columns, k]),
            target: b.slice_memref(self.w.chip, &[stage, zero, zero], &[columns, k]),
            semaphore: b.slice_memref(self.semaphores, &[lane], &[]),
        }
    }

    /// Starts all DMAs that have a buffer and waits for what every block needs. The weights start in a loop,
    /// so that the compiler cannot move them before the small arrays, which are needed first.
    fn start_all(&self, b: &mut FunctionBuilder, blocks: usize) {
        let mut small = vec![
            ("x", self.whole(b, self.x, Lane::X)),
            ("w_scale", self.whole(b, self.w_scale, Lane::WScale)),
        ];
        if let Some(x_scale) = self.x_scale {
            small.push(("x_scale", self.whole(b, x_scale, Lane::XScale)));
        }
        for &(name, copy) in &small {
            b.located(format!("start {name}"), |b| b.start(copy));
        }
        let (from, to) = (b.i32(0), b.i32(self.pipeline.stages.min(blocks)));
        b.for_each("piece", from, to, |b, block| {
            let copy = self.weights(b, block, block);
            b.located("start w_q", |b| b.start(copy));
        });
        for (name, copy) in small {
            b.located(format!("wait {name}"), |b| b.wait(copy));
        }
    }

    /// Stores columns of a step's result in its buffer.
    fn store(&self, b: &mut FunctionBuilder, plan: &TpuPlan, n: Value, col: usize, result: Value) {
        let (step, col) = (b.i32(plan.tile.n), b.i32(col));
        let first = b.muli(n, step);
        let col = b.addi(first, col);
        let col = b.multiple_of(col, 128);
        let indices = [b.index(0), b.to_index(col)];
        b.store(result, self.out.chip, &indices);
    }

    /// The DMA of one block of the result to HBM.
    fn out(&self, b: &mut FunctionBuilder, block: Value) -> Copy {
        let shape = [b.ty(self.out.hbm).shape()[0], self.pipeline.columns];
        let (columns, zero) = (b.i32(self.pipeline.columns), b.i32(0));
        let col = b.muli(block, columns);
        Copy {
            source: b.slice_memref(self.out.chip, &[zero, col], &shape),
            target: b.slice_memref(self.out.hbm, &[zero, col], &shape),
            semaphore: self.semaphore(b, Lane::Out),
        }
    }
}

//! Strips with w in VMEM for the whole kernel, and blocks of rows of x that stream past it.
//!
//! Products are computed transposed, `w * x^T`: rows of x lie along the lanes, and a scale per row is one
//! vector for all sublanes. A finished chunk is transposed once, on its way to the result.

use octile_core::plan::{BufferId, tpu::TpuPlan};
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
            scales::{Scales, scaled, times},
            tile::Buffer,
        },
    },
};

/// Semaphores; two for each block of rows follow.
enum Lane {
    W,
    WScale,
    Out,
    Blocks = 4,
}

struct Operands<'p> {
    plan: &'p TpuPlan,
    stages: usize,
    /// Arrays in HBM, and their buffers on the chip.
    x: (Value, Value),
    x_scale: (Value, Value),
    w: (Value, Value),
    w_scale: (Value, Value),
    out: (Value, Value),
    semaphores: Value,
}

/// A block of rows.
#[derive(Clone, Copy)]
struct RowBlock {
    /// First row in x, as i32.
    row: Value,
    /// First row in its stage.
    begins: usize,
    rows: usize,
    /// Its stage, as i32.
    stage: Value,
    /// Its semaphores, as i32.
    lane: Value,
}

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    let pipeline = plan.row_pipeline.expect("the plan has a pipeline of rows");
    let mut f = Frame::new(plan, GridOrder::Sequential);
    let padded = plan.padded;
    let x = f.in_hbm(Operand::X, BufferId::X, &[padded.m, padded.k]);
    let w = f.in_hbm(Operand::W, BufferId::WQ, &[padded.n, padded.k]);
    let (w_rows, k_blocks) = plan.w_scale_tile();
    let w_scale = f.in_hbm(Operand::WScale, BufferId::WScale, &[w_rows, k_blocks]);
    let x_scale = f.in_hbm(Operand::XScaleColumns, BufferId::XScale, &[k_blocks, padded.m]);
    let out = f.out_in_hbm();
    let operands = Operands {
        plan,
        stages: pipeline.stages,
        x: (x, f.scratch_copies("x_ring", BufferId::X)),
        w: (w, f.scratch("w_kept", BufferId::WQ)),
        w_scale: (w_scale, f.scratch("w_scale_kept", BufferId::WScale)),
        x_scale: (x_scale, f.scratch_copies("x_scale_ring", BufferId::XScale)),
        out: (out, f.scratch_copies("out_ring", BufferId::Out)),
        semaphores: f.semaphores(&[plan.semaphores]),
    };
    let m = f.m;
    let b = &mut f.b;
    b.when_equal(m, 0, |b| operands.start_all(b));
    operands.step(b, m);
    b.when_equal(m, plan.grid.m - 1, |b| operands.wait_for_stores(b, m));
    f.finish()
}

impl Operands<'_> {
    fn semaphore(&self, b: &mut FunctionBuilder, lane: Value) -> Value {
        b.slice_memref(self.semaphores, &[lane], &[])
    }

    /// The blocks of step `m`.
    fn blocks(&self, b: &mut FunctionBuilder, m: Value) -> Vec<RowBlock> {
        let plan = self.plan;
        let block = |(number, (begins, rows)): (usize, (usize, usize))| {
            if plan.grid.m == 1 {
                let (row, stage, lane) = (b.i32(begins), b.i32(0), b.i32(Lane::Blocks as usize + 2 * number));
                return RowBlock { row, begins, rows, stage, lane };
            }
            self.block_of_step(b, m)
        };
        plan.row_blocks().into_iter().enumerate().map(block).collect()
    }

    /// The only block of step `m`.
    fn block_of_step(&self, b: &mut FunctionBuilder, m: Value) -> RowBlock {
        let rows = self.plan.tile.m;
        let (per_step, stages, two) = (b.i32(rows), b.i32(self.stages), b.i32(2));
        let row = b.muli(m, per_step);
        let stage = b.remsi(m, stages);
        let twice = b.muli(stage, two);
        let first = b.i32(Lane::Blocks as usize);
        let lane = b.addi(first, twice);
        RowBlock { row, begins: 0, rows, stage, lane }
    }

    /// The DMAs of a block: its scales and its rows.
    fn loads(&self, b: &mut FunctionBuilder, block: RowBlock) -> [Copy; 2] {
        let (zero, one) = (b.i32(0), b.i32(1));
        let begins = b.i32(block.begins);
        let (k, k_blocks) = (self.plan.tile.k, self.plan.k_blocks());
        let row = b.multiple_of(block.row, 128);
        let next = b.addi(block.lane, one);
        [
            Copy {
                source: b.slice_memref(self.x_scale.0, &[zero, row], &[k_blocks, block.rows]),
                target: b.slice_memref(self.x_scale.1, &[block.stage, zero, begins], &[k_blocks, block.rows]),
                semaphore: self.semaphore(b, next),
            },
            Copy {
                source: b.slice_memref(self.x.0, &[row, zero], &[block.rows, k]),
                target: b.slice_memref(self.x.1, &[block.stage, begins, zero], &[block.rows, k]),
                semaphore: self.semaphore(b, block.lane),
            },
        ]
    }

    fn start_block(&self, b: &mut FunctionBuilder, block: RowBlock) {
        let [scales, rows] = self.loads(b, block);
        b.located("start x_scale", |b| b.start(scales));
        b.located("start x", |b| b.start(rows));
    }

    /// Starts all DMAs that have a buffer, and waits for the weights.
    fn start_all(&self, b: &mut FunctionBuilder) {
        let lane = |b: &mut FunctionBuilder, lane: Lane| {
            let lane = b.i32(lane as usize);
            self.semaphore(b, lane)
        };
        let scales =
            Copy { source: self.w_scale.0, target: self.w_scale.1, semaphore: lane(b, Lane::WScale) };
        let weights = Copy { source: self.w.0, target: self.w.1, semaphore: lane(b, Lane::W) };
        b.located("start w_scale", |b| b.start(scales));
        b.located("start w_q", |b| b.start(weights));
        if self.plan.grid.m == 1 {
            let zero = b.i32(0);
            for block in self.blocks(b, zero) {
                self.start_block(b, block);
            }
        } else {
            for step in 0..self.stages {
                let step = b.i32(step);
                let block = self.block_of_step(b, step);
                self.start_block(b, block);
            }
        }
        b.located("wait w_scale", |b| b.wait(scales));
        b.located("wait w_q", |b| b.wait(weights));
    }

    /// One step: waits for each of its blocks, multiplies it and stores the result.
    fn step(&self, b: &mut FunctionBuilder, m: Value) {
        let plan = self.plan;
        if plan.grid.m > 2 {
            // The result of the step before the last leaves the buffer that this step fills.
            let (one, two) = (b.i32(1), b.i32(2));
            let again = b.cmpi(IntPredicate::Sgt, m, one);
            b.when(again, |b| {
                let before = b.subi(m, two);
                let block = self.block_of_step(b, before);
                let copy = self.store(b, block, before);
                b.located("wait out", |b| b.wait(copy));
            });
        }
        for block in self.blocks(b, m) {
            for (name, copy) in ["wait x_scale", "wait x"].into_iter().zip(self.loads(b, block)) {
                b.located(name, |b| b.wait(copy));
            }
            self.multiply(b, block, m);
            let copy = self.store(b, block, m);
            b.located("start out", |b| b.start(copy));
            if self.stages < plan.grid.m {
                let (stages, steps) = (b.i32(self.stages), b.i32(plan.grid.m));
                let ahead = b.addi(m, stages);
                let more = b.cmpi(IntPredicate::Slt, ahead, steps);
                b.when(more, |b| {
                    let block = self.block_of_step(b, ahead);
                    self.start_block(b, block);
                });
            }
        }
    }

    /// The buffer of step `m`'s result, as i32.
    fn out_stage(&self, b: &mut FunctionBuilder, m: Value) -> Value {
        if self.plan.grid.m == 1 {
            return b.i32(0);
        }
        let two = b.i32(2);
        b.remsi(m, two)
    }

    fn multiply(&self, b: &mut FunctionBuilder, block: RowBlock, m: Value) {
        let plan = self.plan;
        let qb = plan.problem.quant_block.size();
        let (rows, cols) = plan.chunk;
        let width = cols.min(qb);
        let x = Buffer::one_of(b, self.x.1, block.stage);
        let x_scale = Buffer::one_of(b, self.x_scale.1, block.stage);
        let stage = self.out_stage(b, m);
        let out = Buffer::one_of(b, self.out.1, stage);
        let w = Buffer::whole(self.w.1);
        let w_scale = Scales::of_w(plan, self.w_scale.1);
        for row in (block.begins..block.begins + block.rows).step_by(rows) {
            let rows = rows.min(block.begins + block.rows - row);
            for col in (0..plan.tile.n).step_by(cols) {
                let cols = cols.min(plan.tile.n - col);
                let mut sums: Vec<Value> = Vec::new();
                for k_block in 0..plan.k_blocks() {
                    let lhs = w.load(b, (col, k_block * qb), (cols, qb));
                    let rhs = x.load(b, (row, k_block * qb), (rows, qb));
                    let product = b.matmul(lhs, rhs);
                    let of_rows = x_scale.load(b, (k_block, row), (1, rows));
                    for (part, offset) in (0..cols).step_by(width).enumerate() {
                        let of_columns = w_scale.get(b, col + offset, width, k_block);
                        let scale = times(b, of_rows, of_columns);
                        let product = b.slice(product, &[offset, 0], &[width, rows]);
                        let product = scaled(b, product, scale);
                        match sums.get_mut(part) {
                            None => sums.push(product),
                            Some(sum) => *sum = b.addf(*sum, product),
                        }
                    }
                }
                for (part, sum) in sums.into_iter().enumerate() {
                    let sum = b.transpose(sum);
                    let result = b.to_float(sum, float(plan.kernel_out()));
                    out.store(b, result, (row, col + part * width));
                }
            }
        }
    }

    /// The DMA of a block's result.
    fn store(&self, b: &mut FunctionBuilder, block: RowBlock, m: Value) -> Copy {
        let stage = self.out_stage(b, m);
        let (zero, begins) = (b.i32(0), b.i32(block.begins));
        let row = b.multiple_of(block.row, 128);
        let shape = [block.rows, self.plan.tile.n];
        let lane = b.i32(Lane::Out as usize);
        let lane = if self.plan.grid.m == 1 { lane } else { b.addi(lane, stage) };
        Copy {
            source: b.slice_memref(self.out.1, &[stage, begins, zero], &shape),
            target: b.slice_memref(self.out.0, &[row, zero], &shape),
            semaphore: self.semaphore(b, lane),
        }
    }

    /// Waits for the stores of the last steps.
    fn wait_for_stores(&self, b: &mut FunctionBuilder, m: Value) {
        if self.plan.grid.m > 1 {
            let one = b.i32(1);
            let before = b.subi(m, one);
            let block = self.block_of_step(b, before);
            let copy = self.store(b, block, before);
            b.located("wait out", |b| b.wait(copy));
        }
        for block in self.blocks(b, m) {
            let copy = self.store(b, block, m);
            b.located("wait out", |b| b.wait(copy));
        }
    }
}

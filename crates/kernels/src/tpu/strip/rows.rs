//! Strips with w in VMEM for the whole kernel, and blocks of rows of x that stream past it.
//!
//! Products are computed transposed, `w * x^T`: rows of x lie along the lanes, and a scale per row is one
//! vector for all sublanes. A finished chunk is transposed once, on its way to the result.

use octile_core::plan::{BufferId, tpu::TpuPlan};
use octile_mosaic::{
    FunctionBuilder, Value,
    build::{Copy, IntPredicate},
};

use super::transposed::{Codes, Dequantized};
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

/// Semaphores; one for each weight block and two for each block of rows follow.
enum Lane {
    WScale,
    Out,
    OutShort = 3,
    Weights = 4,
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
    short: Option<ShortBlock>,
    semaphores: Value,
    dequantized: Option<Dequantized>,
}

/// Buffers of the rows that whole blocks leave over. The first step multiplies them.
#[derive(Clone, Copy)]
struct ShortBlock {
    x: Value,
    x_scale: Value,
    out: Value,
}

/// A block of rows.
#[derive(Clone, Copy)]
struct RowBlock {
    /// First row in x, as i32.
    row: Value,
    /// First row in its stage.
    begins: usize,
    rows: usize,
    /// Its stage and that of its result, as i32; `None` for the rows that are left over.
    stages: Option<(Value, Value)>,
    /// Its semaphores, as i32: of the loads and of the store.
    lanes: (Value, Value),
}

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    let pipeline = plan.row_pipeline.expect("the plan has a pipeline of rows");
    let mut f = Frame::new(plan, GridOrder::Sequential);
    let given = plan.given();
    let x = f.in_hbm(Operand::X, BufferId::X, &[given.m, given.k]);
    let w = f.in_hbm(Operand::W, BufferId::WQ, &[given.n, given.k]);
    let (w_rows, k_blocks) = plan.w_scale_tile();
    let w_scale = f.in_hbm(Operand::WScale, BufferId::WScale, &[w_rows, k_blocks]);
    let scales = [k_blocks, given.m];
    let x_scale = f.in_hbm(Operand::XScaleColumns, BufferId::XScale, &scales);
    let out = f.out_in_hbm();
    let operands = Operands {
        plan,
        stages: pipeline.stages,
        x: (x, f.scratch_copies("x_ring", BufferId::X)),
        w: (w, f.scratch("w_kept", BufferId::WQ)),
        w_scale: (w_scale, f.scratch("w_scale_kept", BufferId::WScale)),
        x_scale: (x_scale, f.scratch_copies("x_scale_ring", BufferId::XScale)),
        out: (out, f.scratch_copies("out_ring", BufferId::Out)),
        short: (plan.grid.m > 1).then(|| ShortBlock {
            x: f.scratch("x_short", BufferId::XShort),
            x_scale: f.scratch("x_scale_short", BufferId::XScaleShort),
            out: f.scratch("out_short", BufferId::OutShort),
        }),
        dequantized: Dequantized::declare(&mut f),
        semaphores: f.semaphores(&[plan.semaphores]),
    };
    let m = f.m;
    let b = &mut f.b;
    b.when_equal(m, 0, |b| operands.start_all(b));
    if plan.grid.m == 1 {
        for (number, block) in operands.blocks(b).into_iter().enumerate() {
            operands.step(b, block, number == 0);
        }
    } else {
        let first = b.i32(0);
        let later = b.cmpi(IntPredicate::Sgt, m, first);
        b.when_equal(m, 0, |b| {
            let block = operands.short_block(b);
            operands.step(b, block, true);
        });
        b.when(later, |b| operands.later_step(b, m));
    }
    b.when_equal(m, plan.grid.m - 1, |b| operands.wait_for_stores(b));
    f.finish()
}

impl Operands<'_> {
    /// The first semaphore of blocks of rows.
    fn first_lane(&self) -> usize {
        Lane::Weights as usize + self.plan.weight_blocks().len()
    }

    /// The DMA of a weight block, by its number.
    fn weights(&self, b: &mut FunctionBuilder, number: usize) -> Copy {
        let (begins, columns) = self.plan.weight_blocks()[number];
        let (row, zero, lane) = (b.i32(begins), b.i32(0), b.i32(Lane::Weights as usize + number));
        let shape = [columns, self.plan.held().k];
        Copy {
            source: b.slice_memref(self.w.0, &[row, zero], &shape),
            target: b.slice_memref(self.w.1, &[row, zero], &shape),
            semaphore: self.semaphore(b, lane),
        }
    }

    fn semaphore(&self, b: &mut FunctionBuilder, lane: Value) -> Value {
        b.slice_memref(self.semaphores, &[lane], &[])
    }

    /// The blocks of the only step.
    fn blocks(&self, b: &mut FunctionBuilder) -> Vec<RowBlock> {
        let block = |(number, (begins, rows)): (usize, (usize, usize))| {
            let (zero, load) = (b.i32(0), b.i32(self.first_lane() + 2 * number));
            let lanes = (load, b.i32(Lane::Out as usize));
            RowBlock { row: b.i32(begins), begins, rows, stages: Some((zero, zero)), lanes }
        };
        self.plan.row_blocks().into_iter().enumerate().map(block).collect()
    }

    /// The rows that are left over after whole blocks.
    fn short_block(&self, b: &mut FunctionBuilder) -> RowBlock {
        let plan = self.plan;
        let rows = plan.short_rows();
        let lanes = (b.i32(self.first_lane()), b.i32(Lane::OutShort as usize));
        RowBlock { row: b.i32(plan.problem.m - rows), begins: 0, rows, stages: None, lanes }
    }

    /// A whole block, by its number.
    fn whole_block(&self, b: &mut FunctionBuilder, number: Value) -> RowBlock {
        let rows = self.plan.tile.m;
        let (per_block, stages, two) = (b.i32(rows), b.i32(self.stages), b.i32(2));
        let row = b.muli(number, per_block);
        let row = b.multiple_of(row, 128);
        let stage = b.remsi(number, stages);
        let out_stage = b.remsi(number, two);
        let twice = b.muli(stage, two);
        let (load, out) = (b.i32(self.first_lane() + 2), b.i32(Lane::Out as usize));
        let lanes = (b.addi(load, twice), b.addi(out, out_stage));
        RowBlock { row, begins: 0, rows, stages: Some((stage, out_stage)), lanes }
    }

    /// Whole blocks.
    fn whole_blocks(&self) -> usize {
        self.plan.grid.m - 1
    }

    /// The DMAs of a block: its scales and its rows.
    fn loads(&self, b: &mut FunctionBuilder, block: RowBlock) -> [Copy; 2] {
        let (zero, one) = (b.i32(0), b.i32(1));
        let begins = b.i32(block.begins);
        let (k, k_blocks) = (self.plan.held().k, self.plan.k_blocks());
        let next = b.addi(block.lanes.0, one);
        let (x_scale, x) = match (block.stages, self.short) {
            (None, Some(short)) => (short.x_scale, b.first_of(short.x, &[block.rows, k])),
            (stages, _) => {
                let (stage, _) = stages.expect("a block in the ring has a stage");
                (
                    b.slice_memref(self.x_scale.1, &[stage, zero, begins], &[k_blocks, block.rows]),
                    b.slice_memref(self.x.1, &[stage, begins, zero], &[block.rows, k]),
                )
            }
        };
        [
            Copy {
                source: b.slice_memref(self.x_scale.0, &[zero, block.row], &[k_blocks, block.rows]),
                target: x_scale,
                semaphore: self.semaphore(b, next),
            },
            Copy {
                source: b.slice_memref(self.x.0, &[block.row, zero], &[block.rows, k]),
                target: x,
                semaphore: self.semaphore(b, block.lanes.0),
            },
        ]
    }

    fn start_block(&self, b: &mut FunctionBuilder, block: RowBlock) {
        let [scales, rows] = self.loads(b, block);
        b.located("start x_scale", |b| b.start(scales));
        b.located("start x", |b| b.start(rows));
    }

    /// Starts all DMAs that have a buffer, and waits for the scales of w.
    fn start_all(&self, b: &mut FunctionBuilder) {
        let lane = b.i32(Lane::WScale as usize);
        let scales =
            Copy { source: self.w_scale.0, target: self.w_scale.1, semaphore: self.semaphore(b, lane) };
        b.located("start w_scale", |b| b.start(scales));
        let blocks = if self.plan.grid.m == 1 {
            self.blocks(b)
        } else {
            let mut blocks = vec![self.short_block(b)];
            for number in 0..self.stages {
                let number = b.i32(number);
                blocks.push(self.whole_block(b, number));
            }
            blocks
        };
        // The first matmuls need the first rows and the first weights.
        let (&first, later) = blocks.split_first().expect("x has rows");
        self.start_block(b, first);
        for number in 0..self.plan.weight_blocks().len() {
            let copy = self.weights(b, number);
            b.located("start w_q", |b| b.start(copy));
        }
        for &block in later {
            self.start_block(b, block);
        }
        b.located("wait w_scale", |b| b.wait(scales));
        if self.dequantized.is_none() {
            self.wait_for_weights(b, 0);
        }
    }

    fn wait_for_weights(&self, b: &mut FunctionBuilder, number: usize) {
        let copy = self.weights(b, number);
        b.located("wait w_q", |b| b.wait(copy));
    }

    /// The step of a whole block.
    fn later_step(&self, b: &mut FunctionBuilder, m: Value) {
        let one = b.i32(1);
        let number = b.subi(m, one);
        if self.whole_blocks() > 2 {
            // The result of the block before the last leaves the buffer that this one fills.
            let two = b.i32(2);
            let again = b.cmpi(IntPredicate::Sge, number, two);
            b.when(again, |b| {
                let before = b.subi(number, two);
                let block = self.whole_block(b, before);
                let copy = self.store(b, block);
                b.located("wait out", |b| b.wait(copy));
            });
        }
        let block = self.whole_block(b, number);
        self.step(b, block, false);
        if self.stages < self.whole_blocks() {
            let (stages, blocks) = (b.i32(self.stages), b.i32(self.whole_blocks()));
            let ahead = b.addi(number, stages);
            let more = b.cmpi(IntPredicate::Slt, ahead, blocks);
            b.when(more, |b| {
                let block = self.whole_block(b, ahead);
                self.start_block(b, block);
            });
        }
    }

    /// Waits for a block, multiplies it and stores the result.
    fn step(&self, b: &mut FunctionBuilder, block: RowBlock, is_first: bool) {
        for (name, copy) in ["wait x_scale", "wait x"].into_iter().zip(self.loads(b, block)) {
            b.located(name, |b| b.wait(copy));
        }
        let codes = self.codes(b, block);
        match self.dequantized {
            Some(dequantized) => self.multiply_dequantized(b, dequantized, &codes, block, is_first),
            None => self.multiply(b, &codes, block),
        }
        let copy = self.store(b, block);
        b.located("start out", |b| b.start(copy));
    }

    /// The buffers of a block and of its result.
    fn codes(&self, b: &mut FunctionBuilder, block: RowBlock) -> Codes {
        let (x, x_scale, out) = match (block.stages, self.short) {
            (None, Some(short)) => (short.x, short.x_scale, short.out),
            _ => (self.x.1, self.x_scale.1, self.out.1),
        };
        let mut buffer = |memref, stage: Option<Value>| match stage {
            Some(stage) => Buffer::one_of(b, memref, stage),
            None => Buffer::whole(memref),
        };
        let stage = block.stages.map(|(stage, _)| stage);
        Codes {
            x: buffer(x, stage),
            x_scale: buffer(x_scale, stage),
            out: buffer(out, block.stages.map(|(_, stage)| stage)),
            w: Buffer::whole(self.w.1),
            w_scale: Scales::of_w(self.plan, self.w_scale.1),
        }
    }

    /// Multiplies a block of dequantized rows. The first one waits for the weights, and dequantizes them for
    /// all others.
    fn multiply_dequantized(
        &self,
        b: &mut FunctionBuilder,
        dequantized: Dequantized,
        codes: &Codes,
        block: RowBlock,
        is_first: bool,
    ) {
        let rows = dequantized.chunks(self.plan, (block.begins, block.rows));
        if !is_first {
            return dequantized.multiply(b, self.plan, codes, &rows);
        }
        for (number, columns) in self.plan.weight_blocks().into_iter().enumerate() {
            self.wait_for_weights(b, number);
            dequantized.multiply_first(b, self.plan, codes, &rows, columns);
        }
    }

    /// Multiplies a block of codes; every k-block has its own matmul.
    fn multiply(&self, b: &mut FunctionBuilder, codes: &Codes, block: RowBlock) {
        let plan = self.plan;
        let qb = plan.problem.quant_block.size();
        let (rows, cols) = plan.chunk;
        let width = cols.min(qb);
        let Codes { x, x_scale, w, w_scale, out } = codes;
        for row in (block.begins..block.begins + block.rows).step_by(rows) {
            let rows = rows.min(block.begins + block.rows - row);
            for col in (0..plan.held().n).step_by(cols) {
                let cols = cols.min(plan.held().n - col);
                let mut sums: Vec<Value> = Vec::new();
                for k_block in 0..plan.k_blocks() {
                    let length = plan.block_length(k_block);
                    let lhs = w.load(b, (col, k_block * qb), (cols, length));
                    let rhs = x.load(b, (row, k_block * qb), (rows, length));
                    let product = b.matmul(lhs, rhs);
                    let of_rows = x_scale.load(b, (k_block, row), (1, rows));
                    for (part, offset) in (0..cols).step_by(width).enumerate() {
                        let width = width.min(cols - offset);
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
    fn store(&self, b: &mut FunctionBuilder, block: RowBlock) -> Copy {
        let (zero, begins) = (b.i32(0), b.i32(block.begins));
        let shape = [block.rows, self.plan.held().n];
        let source = match (block.stages, self.short) {
            (None, Some(short)) => short.out,
            (stages, _) => {
                let (_, stage) = stages.expect("a block in the ring has a stage");
                b.slice_memref(self.out.1, &[stage, begins, zero], &shape)
            }
        };
        Copy {
            source,
            target: b.slice_memref(self.out.0, &[block.row, zero], &shape),
            semaphore: self.semaphore(b, block.lanes.1),
        }
    }

    /// Waits for the stores that no step has waited for.
    fn wait_for_stores(&self, b: &mut FunctionBuilder) {
        let blocks = if self.plan.grid.m == 1 {
            self.blocks(b)
        } else {
            let mut blocks = vec![self.short_block(b)];
            for number in self.whole_blocks().saturating_sub(2)..self.whole_blocks() {
                let number = b.i32(number);
                blocks.push(self.whole_block(b, number));
            }
            blocks
        };
        for block in blocks {
            let copy = self.store(b, block);
            b.located("wait out", |b| b.wait(copy));
        }
    }
}

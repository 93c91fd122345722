//! Strips with w in VMEM for the whole kernel, and blocks of rows of x that stream past it.
//!
//! Products are computed transposed, `w * x^T`: rows of x lie along the lanes, and a scale per row is one
//! vector for all sublanes. A finished chunk is transposed once, on its way to the result.
//!
//! The compiler moves nothing across a wait or the start of a DMA, and the last matmuls take 216 cycles to
//! complete. So a block of dequantized rows waits for the next one, whose first k-blocks it dequantizes, and
//! transposes and stores the last products of the block before: see [`transposed`].

use octile_core::plan::{BufferId, tpu::TpuPlan};
use octile_mosaic::{
    FunctionBuilder, Value,
    build::{Copy, IntPredicate},
};

use super::{
    row_block::{RowBlock, Share, ShortBlock},
    transposed::{self, Codes, Dequantized, Part},
};
use crate::tpu::{
    KernelModule,
    parts::{
        frame::{Frame, GridOrder, Operand},
        scales::Scales,
        tile::Buffer,
    },
};

/// Semaphores; one for each weight block and two for each block of rows follow.
enum Lane {
    WScale,
    Out,
    OutShort = 3,
    /// Of the last products of a block, which are stored during the next one.
    Late,
    Weights = 6,
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
        operands.only_step(b);
    } else {
        let first = b.i32(0);
        let later = b.cmpi(IntPredicate::Sgt, m, first);
        b.when_equal(m, 0, |b| {
            let (block, next) = (operands.short_block(b), operands.whole_block(b, first));
            operands.first_block(b, block, Some(next));
        });
        b.when(later, |b| operands.later_step(b, m));
    }
    b.when_equal(m, plan.grid.m - 1, |b| operands.finish(b));
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
            let late = (self.overlaps() && number > 0).then(|| b.i32(Lane::Late as usize));
            RowBlock { row: b.i32(begins), begins, rows, stages: Some((zero, zero)), lanes, late }
        };
        self.plan.row_blocks().into_iter().enumerate().map(block).collect()
    }

    /// The rows that are left over after whole blocks.
    fn short_block(&self, b: &mut FunctionBuilder) -> RowBlock {
        let plan = self.plan;
        let rows = plan.short_rows();
        let lanes = (b.i32(self.first_lane()), b.i32(Lane::OutShort as usize));
        RowBlock { row: b.i32(plan.problem.m - rows), begins: 0, rows, stages: None, lanes, late: None }
    }

    /// A whole block, by its number.
    fn whole_block(&self, b: &mut FunctionBuilder, number: Value) -> RowBlock {
        let rows = self.plan.tile.m;
        let (per_block, stages, one, two) = (b.i32(rows), b.i32(self.stages), b.i32(1), b.i32(2));
        let row = b.muli(number, per_block);
        let row = b.multiple_of(row, 128);
        let stage = b.remsi(number, stages);
        // Numbers are not negative, so this is the remainder, in one instruction.
        let out_stage = b.andi(number, one);
        let twice = b.muli(stage, two);
        let (load, out) = (b.i32(self.first_lane() + 2), b.i32(Lane::Out as usize));
        let lanes = (b.addi(load, twice), b.addi(out, out_stage));
        let late = self.overlaps().then(|| {
            let late = b.i32(Lane::Late as usize);
            b.addi(late, out_stage)
        });
        RowBlock { row, begins: 0, rows, stages: Some((stage, out_stage)), lanes, late }
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
    }

    fn wait_for_weights(&self, b: &mut FunctionBuilder, number: usize) {
        let copy = self.weights(b, number);
        b.located("wait w_q", |b| b.wait(copy));
    }

    /// Whether a block leaves work to the next one, which then must have arrived.
    fn overlaps(&self) -> bool {
        self.dequantized.is_some_and(Dequantized::overlaps)
    }

    /// The step that has all rows.
    fn only_step(&self, b: &mut FunctionBuilder) {
        let blocks = self.blocks(b);
        self.first_block(b, blocks[0], blocks.get(1).copied());
        for number in 1..blocks.len() {
            let (block, next) = (blocks[number], blocks.get(number + 1).copied());
            let before = (number > 1).then(|| blocks[number - 1]);
            let awaited = if self.overlaps() { next } else { Some(block) };
            if let Some(awaited) = awaited {
                self.wait_for_rows(b, awaited);
            }
            let (before, next) = if self.overlaps() { (before, next) } else { (None, None) };
            self.later_block(b, block, before, next);
            self.start_stores(b, block, Share::Early);
            if let Some(before) = before {
                self.start_stores(b, before, Share::Late);
            }
        }
    }

    /// The step of a whole block.
    fn later_step(&self, b: &mut FunctionBuilder, m: Value) {
        let one = b.i32(1);
        let number = b.subi(m, one);
        let after = b.addi(number, one);
        let (block, next) = (self.whole_block(b, number), self.whole_block(b, after));
        // Results of blocks before leave the buffers that this step fills.
        self.when_before(b, number, 2, |b, before| self.wait_for_stores(b, before, Share::Early));
        self.when_before(b, number, 3, |b, before| self.wait_for_stores(b, before, Share::Late));
        if !self.overlaps() {
            self.wait_for_rows(b, block);
            self.later_block(b, block, None, None);
        } else if self.whole_blocks() == 1 {
            self.later_block(b, block, None, None);
        } else {
            let blocks = b.i32(self.whole_blocks());
            let more = b.cmpi(IntPredicate::Slt, after, blocks);
            b.when(more, |b| self.wait_for_rows(b, next));
            // The result of the block before is in the buffer of the next one. Where there is no such block,
            // what is computed of it is not used.
            self.later_block(b, block, Some(next), Some(next));
        }
        self.start_stores(b, block, Share::Early);
        self.when_before(b, number, 1, |b, before| self.start_stores(b, before, Share::Late));
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

    /// Does something with the whole block that is so many before another, if there is one.
    fn when_before(
        &self,
        b: &mut FunctionBuilder,
        number: Value,
        distance: usize,
        build: impl FnOnce(&mut FunctionBuilder, RowBlock),
    ) {
        if self.whole_blocks() <= distance {
            return;
        }
        let distance = b.i32(distance);
        let exists = b.cmpi(IntPredicate::Sge, number, distance);
        b.when(exists, |b| {
            let before = b.subi(number, distance);
            let before = self.whole_block(b, before);
            build(b, before);
        });
    }

    fn wait_for_rows(&self, b: &mut FunctionBuilder, block: RowBlock) {
        for (name, copy) in ["wait x_scale", "wait x"].into_iter().zip(self.loads(b, block)) {
            b.located(name, |b| b.wait(copy));
        }
    }

    /// Waits for the first block, multiplies it and stores the result. Dequantized rows wait for one weight
    /// block after another, and dequantize them for all other blocks.
    fn first_block(&self, b: &mut FunctionBuilder, block: RowBlock, next: Option<RowBlock>) {
        self.wait_for_rows(b, block);
        let codes = self.codes(b, block);
        if let Some(dequantized) = self.dequantized {
            let mut late = Vec::new();
            let next = next.filter(|_| self.overlaps());
            let next = next.map(|next| (next, (self.codes(b, next), next.rows())));
            let (joins_waits, weights) = (self.plan.joins_waits(), self.plan.weight_blocks());
            for (number, &columns) in weights.iter().enumerate() {
                self.wait_for_weights(b, number);
                let joined = next.as_ref().filter(|_| joins_waits && number + 1 == weights.len());
                let ahead = joined.map(|(next, (codes, rows))| {
                    self.wait_for_rows(b, *next);
                    (codes, *rows)
                });
                let rows = (&codes, block.rows());
                late = dequantized.multiply_first(b, self.plan, rows, columns, late, ahead);
            }
            if let Some((next, (codes, rows))) = next.filter(|_| !joins_waits) {
                self.wait_for_rows(b, next);
                dequantized.dequantize_ahead(b, self.plan, &codes, rows);
            }
            for products in late {
                transposed::finish(b, self.plan, &codes, products);
            }
        } else {
            let mut late = None;
            for (number, columns) in self.plan.weight_blocks().into_iter().enumerate() {
                self.wait_for_weights(b, number);
                late = transposed::multiply_codes(b, self.plan, &codes, block.rows(), columns, late);
            }
            transposed::finish_sums(b, self.plan, &codes, late);
        }
        self.start_stores(b, block, Share::Early);
    }

    /// Multiplies another block, which has been waited for.
    fn later_block(
        &self,
        b: &mut FunctionBuilder,
        block: RowBlock,
        before: Option<RowBlock>,
        next: Option<RowBlock>,
    ) {
        let codes = self.codes(b, block);
        let Some(dequantized) = self.dequantized else {
            let columns = (0, self.plan.held().n);
            let late = transposed::multiply_codes(b, self.plan, &codes, block.rows(), columns, None);
            return transposed::finish_sums(b, self.plan, &codes, late);
        };
        let [before, next] =
            [before, next].map(|block| block.map(|block| (self.codes(b, block), block.rows())));
        let [before, next] = [&before, &next].map(|block| block.as_ref().map(|(codes, rows)| (codes, *rows)));
        dequantized.multiply(b, self.plan, (&codes, block.rows()), before, next);
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

    /// The DMAs of a share of a block's result.
    fn stores(&self, b: &mut FunctionBuilder, block: RowBlock, share: Share) -> Vec<Copy> {
        let whole = Part { rows: block.rows(), columns: (0, self.plan.held().n) };
        let (parts, lane) = match (block.late, share) {
            (None, Share::Early) => (vec![whole], block.lanes.1),
            (None, Share::Late) => return Vec::new(),
            (Some(_), Share::Early) => (Dequantized::parts(self.plan, block.rows()).0, block.lanes.1),
            (Some(lane), Share::Late) => (vec![Dequantized::parts(self.plan, block.rows()).1], lane),
        };
        parts.into_iter().map(|part| self.store(b, block, part, lane)).collect()
    }

    fn store(&self, b: &mut FunctionBuilder, block: RowBlock, part: Part, lane: Value) -> Copy {
        let Part { rows: (row, rows), columns: (col, cols) } = part;
        let (shape, col) = ([rows, cols], b.i32(col));
        let to_row = match row - block.begins {
            0 => block.row,
            offset => {
                let offset = b.i32(offset);
                let row = b.addi(block.row, offset);
                b.multiple_of(row, 128)
            }
        };
        let row = b.i32(row);
        let source = match (block.stages, self.short) {
            (None, Some(short)) => short.out,
            (stages, _) => {
                let (_, stage) = stages.expect("a block in the ring has a stage");
                b.slice_memref(self.out.1, &[stage, row, col], &shape)
            }
        };
        Copy {
            source,
            target: b.slice_memref(self.out.0, &[to_row, col], &shape),
            semaphore: self.semaphore(b, lane),
        }
    }

    fn start_stores(&self, b: &mut FunctionBuilder, block: RowBlock, share: Share) {
        for copy in self.stores(b, block, share) {
            b.located("start out", |b| b.start(copy));
        }
    }

    fn wait_for_stores(&self, b: &mut FunctionBuilder, block: RowBlock, share: Share) {
        for copy in self.stores(b, block, share) {
            b.located("wait out", |b| b.wait(copy));
        }
    }

    /// Finishes the last block, and waits for the stores that no step has waited for.
    fn finish(&self, b: &mut FunctionBuilder) {
        let blocks = if self.plan.grid.m == 1 {
            self.blocks(b)
        } else {
            if let Some(number) = self.whole_blocks().checked_sub(3) {
                let number = b.i32(number);
                let before = self.whole_block(b, number);
                self.wait_for_stores(b, before, Share::Late);
            }
            let mut blocks = vec![self.short_block(b)];
            for number in self.whole_blocks().saturating_sub(2)..self.whole_blocks() {
                let number = b.i32(number);
                blocks.push(self.whole_block(b, number));
            }
            blocks
        };
        let last = *blocks.last().expect("x has rows");
        if let (Some(dequantized), Some(_)) = (self.dequantized, last.late) {
            let codes = self.codes(b, last);
            dequantized.finish_late(b, self.plan, &codes, last.rows());
            self.start_stores(b, last, Share::Late);
        }
        for block in blocks {
            self.wait_for_stores(b, block, Share::Early);
            self.wait_for_stores(b, block, Share::Late);
        }
    }
}

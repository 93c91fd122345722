//! Rows of x that are transposed before they are dequantized: rows lie along the lanes, where a scale per
//! row is one vector for all sublanes. Transposing codes takes a quarter of the XLU's time that repeating a
//! scale for each row along the lanes takes.
//!
//! Products are `w * x^T`, over all of K at once; a finished chunk is transposed on its way to the result.

use octile_core::plan::{BufferId, tpu::TpuPlan};
use octile_mosaic::{FunctionBuilder, Value};

use super::dequantized::{dequantized, is_left_over, store_block, sum_apart};
use crate::{
    stablehlo::float,
    tpu::parts::{frame::Frame, scales::Scales, tile::Buffer},
};

/// What a block of rows is computed from, and where its result goes.
pub(super) struct Codes {
    pub(super) x: Buffer,
    /// One row for each k-block.
    pub(super) x_scale: Buffer,
    pub(super) w: Buffer,
    pub(super) w_scale: Scales,
    pub(super) out: Buffer,
}

/// Buffers of dequantized operands: chunks of rows of x, transposed, and either all of w or two chunks of its
/// columns.
#[derive(Clone, Copy)]
pub(super) struct Dequantized {
    x: Value,
    w: Value,
}

/// Rows that are multiplied at once.
#[derive(Clone, Copy)]
pub(super) struct RowChunk {
    row: usize,
    rows: usize,
    /// Its buffer.
    slot: usize,
}

impl Dequantized {
    /// Declares the buffers, where the plan has any.
    pub(super) fn declare(f: &mut Frame<'_>) -> Option<Self> {
        f.plan.memory.get(BufferId::WBf16)?;
        let x = f.scratch_copies("x_bf16", BufferId::XBf16);
        Some(Self { x, w: f.scratch_copies("w_bf16", BufferId::WBf16) })
    }

    /// The chunks of a block of rows, given as first row and number.
    pub(super) fn chunks(self, plan: &TpuPlan, (begins, rows): (usize, usize)) -> Vec<RowChunk> {
        let slots = plan.memory.get(BufferId::XBf16).map_or(1, |buffer| buffer.copies);
        let end = begins + rows;
        let chunk = |(number, row): (usize, usize)| RowChunk {
            row,
            rows: plan.chunk.0.min(end - row),
            slot: number % slots,
        };
        (begins..end).step_by(plan.chunk.0).enumerate().map(chunk).collect()
    }

    /// Multiplies rows with some columns, after dequantizing these, and the rows before the first of them.
    pub(super) fn multiply_first(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        rows: &[RowChunk],
        (begins, columns): (usize, usize),
    ) {
        let columns = columns_of(plan, (begins, columns));
        let count = columns.len() * rows.len();
        let mut number = 0;
        for (col, cols) in columns {
            self.dequantize_columns(b, plan, codes, (col, cols));
            for &chunk in rows {
                if col == 0 {
                    self.dequantize_rows(b, plan, codes, chunk);
                }
                self.product(b, plan, codes, chunk, (col, cols), is_left_over(number, count));
                number += 1;
            }
        }
    }

    /// Multiplies rows with all columns, which are dequantized already.
    pub(super) fn multiply(self, b: &mut FunctionBuilder, plan: &TpuPlan, codes: &Codes, rows: &[RowChunk]) {
        let columns = columns_of(plan, (0, plan.held().n));
        let count = columns.len() * rows.len();
        let mut number = 0;
        for &chunk in rows {
            self.dequantize_rows(b, plan, codes, chunk);
            for &columns in &columns {
                self.product(b, plan, codes, chunk, columns, is_left_over(number, count));
                number += 1;
            }
        }
    }

    fn dequantize_rows(self, b: &mut FunctionBuilder, plan: &TpuPlan, codes: &Codes, chunk: RowChunk) {
        let qb = plan.problem.quant_block.size();
        let slot = b.i32(chunk.slot);
        let to = Buffer::one_of(b, self.x, slot);
        for k_block in 0..plan.k_blocks() {
            let length = plan.block_length(k_block);
            let block = codes.x.load(b, (chunk.row, k_block * qb), (chunk.rows, length));
            let block = b.transpose(block);
            let scale = codes.x_scale.load(b, (k_block, chunk.row), (1, chunk.rows));
            let values = dequantized(b, block, scale);
            store_block(b, &to, values, (k_block * qb, 0), (qb, chunk.rows));
        }
    }

    fn dequantize_columns(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        (col, cols): (usize, usize),
    ) {
        let qb = plan.problem.quant_block.size();
        let (to, first) = self.columns(b, plan, col);
        for offset in (0..cols).step_by(qb) {
            let rows = qb.min(cols - offset);
            for k_block in 0..plan.k_blocks() {
                let length = plan.block_length(k_block);
                let block = codes.w.load(b, (col + offset, k_block * qb), (rows, length));
                let scale = codes.w_scale.get(b, col + offset, rows, k_block);
                let values = dequantized(b, block, scale);
                store_block(b, &to, values, (first + offset, k_block * qb), (rows, qb));
            }
        }
    }

    /// The buffer of dequantized columns, and their first row in it.
    fn columns(self, b: &mut FunctionBuilder, plan: &TpuPlan, col: usize) -> (Buffer, usize) {
        let (slot, first) = match plan.keeps_dequantized_w() {
            true => (0, col),
            false => (col / plan.chunk.1 % 2, 0),
        };
        let slot = b.i32(slot);
        (Buffer::one_of(b, self.w, slot), first)
    }

    fn product(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        chunk: RowChunk,
        (col, cols): (usize, usize),
        is_left_over: bool,
    ) {
        let slot = b.i32(chunk.slot);
        let x = Buffer::one_of(b, self.x, slot);
        let (w, first) = self.columns(b, plan, col);
        let slices = plan.matmul_slices(is_left_over).into_iter();
        let products = slices.map(|(k, length)| {
            let lhs = w.load(b, (first, k), (cols, length));
            let rhs = x.load(b, (k, 0), (length, chunk.rows));
            b.matmul_by_columns(lhs, rhs)
        });
        let products = products.collect();
        let product = sum_apart(b, products);
        // Narrow values are transposed faster.
        let result = b.to_float(product, float(plan.kernel_out()));
        let result = b.transpose(result);
        codes.out.store(b, result, (chunk.row, col));
    }
}

/// Columns that are multiplied at once: first column and number.
fn columns_of(plan: &TpuPlan, (begins, columns): (usize, usize)) -> Vec<(usize, usize)> {
    let (end, most) = (begins + columns, plan.chunk.1);
    (begins..end).step_by(most).map(|col| (col, most.min(end - col))).collect()
}

//! Strips dequantized to bf16 and multiplied over all of their K at once: the MXUs accumulate, and the VPU,
//! which would otherwise be idle, dequantizes.

use std::ops::Range;

use octile_core::plan::{BufferId, tpu::TpuPlan};
use octile_mosaic::{Float, FunctionBuilder, Value};

use super::{PrefetchedScales, Sink};
use crate::tpu::{
    KernelModule,
    parts::{
        frame::{Along, Frame, GridOrder, Operand},
        scales::{Scales, scaled},
        tile::{Buffer, Chunk, LANES, Part, quantized_block, shape_of},
    },
};

/// MXUs of a core, each of which works on a matmul of its own.
pub(super) const MXUS: usize = 2;

/// Whether a matmul, by its number, is left over when each MXU works on one. It is cut along K into two.
pub(super) fn is_left_over(number: usize, count: usize) -> bool {
    number + 1 == count && number.is_multiple_of(MXUS)
}

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    let mut f = Frame::new(plan, GridOrder::AnyTile);
    let size = plan.held();

    // Scales and windows as for strips of codes, and bf16 buffers.
    let mut scales = PrefetchedScales::declare(&mut f);
    let x_along_k = if plan.keeps_quantized_x { Along::KOnce } else { Along::K };
    let x = f.window(Operand::X, BufferId::X, &[Along::M, x_along_k]);
    let w = f.window(Operand::W, BufferId::WQ, &[Along::N, Along::K]);
    scales.declare_windows(&mut f);
    let out = f.out_window();
    let sink = Sink::new(&mut f, out);
    let x_bf16 = plan.memory.get(BufferId::XBf16).map(|buffer| f.scratch_copies("x_bf16", buffer.id));
    let w_bf16 = f.scratch_copies("w_bf16", BufferId::WBf16);

    // Dequantize and multiply.
    let (x_scale, w_scale) = scales.of_step(&mut f);
    let (n, k) = (f.n, f.k);
    let b = &mut f.b;
    let strip = if plan.keeps_quantized_x { k } else { b.i32(0) };
    let mut x = XStrip::new(b, Buffer::whole(x), x_bf16, strip, x_scale);
    if plan.keeps_quantized_x {
        b.when_equal(n, 0, |b| x.dequantize(b, plan, (0, size.m)));
        x.ready = size.m;
    }
    let w = Buffer::whole(w);
    let weights = Weights { codes: &w, begins: 0, scale: &w_scale, bf16: w_bf16 };
    multiply(b, plan, &mut x, weights, (0, size.n), plan.columns_by_row(), |b, part| sink.put(b, plan, part));
    sink.finish(b, plan);
    f.finish()
}

/// Weights in VMEM: codes, scales, and buffers of dequantized chunks.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) codes: &'a Buffer,
    /// Column of the tile whose weights are the first row of the codes.
    pub(super) begins: usize,
    pub(super) scale: &'a Scales,
    pub(super) bf16: Value,
}

impl Weights<'_> {
    /// The buffer of a chunk, which has dequantized weights from this slice on.
    fn dequantized(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        chunk: &Chunk,
        slice: (usize, usize),
    ) -> Buffer {
        let slot = b.i32(chunk.column % plan.dequantized_chunks());
        let buffer = Buffer::one_of(b, self.bf16, slot);
        if chunk.row == 0 {
            self.dequantize(b, plan, chunk, slice, &buffer);
        }
        buffer
    }

    /// Dequantizes a slice along K, given by its first column and length, of a chunk's weights. They are
    /// scaled in f32 and rounded to bf16 once.
    fn dequantize(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        chunk: &Chunk,
        (k, length): (usize, usize),
        to: &Buffer,
    ) {
        let qb = plan.problem.quant_block.size();
        for row in (0..chunk.cols).step_by(qb) {
            let rows = qb.min(chunk.cols - row);
            for k_block in k / qb..(k + length).div_ceil(qb) {
                let shape = (rows, plan.block_length(k_block));
                let codes = self.codes.load(b, (chunk.col - self.begins + row, k_block * qb), shape);
                let scale = self.scale.get(b, chunk.col + row, rows, k_block);
                let values = dequantized(b, codes, scale);
                store_block(b, to, values, (row, k_block * qb), (qb, qb));
            }
        }
    }
}

/// Multiplies x with some columns of a tile, given as first and number: dequantizes a chunk of w, then
/// multiplies the rows of x with it. The VPU works on one buffer of w while the MXUs read the other.
///
/// The first `by_row` columns of chunks are multiplied row by row.
pub(super) fn multiply(
    b: &mut FunctionBuilder,
    plan: &TpuPlan,
    x: &mut XStrip,
    weights: Weights<'_>,
    columns: (usize, usize),
    by_row: usize,
    mut put: impl FnMut(&mut FunctionBuilder, Part),
) {
    let chunks = Chunk::cover_by_row(plan, columns, by_row);
    let (by_row, by_column) = chunks.split_at(chunks.partition_point(|chunk| chunk.column < by_row));
    let mut number = 0;
    for row in by_row.chunk_by(|a, b| a.row == b.row) {
        number += row.len();
        let leaves_over = is_left_over(number - 1, by_row.len());
        multiply_slices(b, plan, x, weights, (row, leaves_over), &mut put);
    }
    for (number, chunk) in by_column.iter().enumerate() {
        let w_bf16 = weights.dequantized(b, plan, chunk, (0, plan.tile.k));
        x.prepare(b, plan, (chunk.row, chunk.rows));
        let slices = plan.matmul_slices(is_left_over(number, by_column.len())).into_iter();
        let products = slices.map(|slice| {
            let lhs = x.load(b, plan, (chunk.row, chunk.rows), slice);
            times_weights(b, lhs, &w_bf16, slice.0, chunk.cols)
        });
        let products = products.collect();
        let value = sum_apart(b, products);
        put(b, Part { at: (chunk.row, chunk.col), value });
    }
}

/// Multiplies rows with several chunks of columns, slice by slice along K: the VPU dequantizes the next slice
/// of x while the MXUs multiply this one with all of the columns. The sums of slices are added in f32.
fn multiply_slices(
    b: &mut FunctionBuilder,
    plan: &TpuPlan,
    x: &mut XStrip,
    weights: Weights<'_>,
    (chunks, leaves_over): (&[Chunk], bool),
    put: &mut impl FnMut(&mut FunctionBuilder, Part),
) {
    let mut sums: Vec<Vec<Value>> = vec![Vec::new(); chunks.len()];
    for (slice_number, slice) in plan.k_slices().into_iter().enumerate() {
        for (number, (chunk, sums)) in chunks.iter().zip(&mut sums).enumerate() {
            let w_bf16 = weights.dequantized(b, plan, chunk, slice);
            let lhs = x.slice(b, plan, (chunk.row, chunk.rows), slice);
            let product = times_weights(b, lhs, &w_bf16, slice.0, chunk.cols);
            // Columns that are left over have a sum for even slices and one for odd slices.
            let is_left_over = leaves_over && number + 1 == chunks.len();
            let sum = if is_left_over { slice_number % MXUS } else { 0 };
            match sums.get_mut(sum) {
                Some(sum) => *sum = b.addf(*sum, product),
                None => sums.push(product),
            }
        }
    }
    for (chunk, sums) in chunks.iter().zip(sums) {
        let value = sum_apart(b, sums);
        put(b, Part { at: (chunk.row, chunk.col), value });
    }
}

/// Stores a dequantized block. A short one is followed by zeros, so that matmuls need no masks.
pub(super) fn store_block(
    b: &mut FunctionBuilder,
    to: &Buffer,
    values: Value,
    at: (usize, usize),
    whole: (usize, usize),
) {
    if shape_of(b, values) != whole {
        let zeros = b.splat_of(0.0, [whole.0, whole.1], Float::Bf16);
        to.store(b, zeros, at);
    }
    to.store(b, values, at);
}

/// Multiplies rows with some columns of dequantized weights, from column `k` of both on.
fn times_weights(b: &mut FunctionBuilder, lhs: Value, weights: &Buffer, k: usize, cols: usize) -> Value {
    let (rows, length) = shape_of(b, lhs);
    let rhs = weights.load(b, (0, k), (cols.next_multiple_of(LANES), length));
    let product = b.matmul(lhs, rhs);
    b.slice(product, &[0, 0], &[rows, cols])
}

/// Adds products that different MXUs shall compute: of a plain sum the compiler makes one matmul.
pub(super) fn sum_apart(b: &mut FunctionBuilder, products: Vec<Value>) -> Value {
    let add = |sum: Value, product: Value| {
        let (rows, cols) = shape_of(b, product);
        let zero = b.splat(0.0, [rows, cols]);
        let negative = b.subf(zero, product);
        b.subf(sum, negative)
    };
    products.into_iter().reduce(add).expect("there is a product")
}

pub(super) fn dequantized(b: &mut FunctionBuilder, codes: Value, scale: Value) -> Value {
    let wide = b.to_float(codes, Float::F32);
    let value = scaled(b, wide, scale);
    b.to_float(value, Float::Bf16)
}

/// A strip of x, dequantized to bf16 when a matmul first needs its rows.
#[derive(Clone)]
pub(super) struct XStrip {
    given: Buffer,
    /// `None` where x is bf16 already.
    bf16: Option<Buffer>,
    scale: Option<Scales>,
    /// Rows that are dequantized already.
    ready: usize,
    /// K-blocks of the rows that follow them that are dequantized already.
    ready_blocks: usize,
}

impl XStrip {
    pub(super) fn new(
        b: &mut FunctionBuilder,
        given: Buffer,
        bf16: Option<Value>,
        strip: Value,
        scale: Option<Scales>,
    ) -> Self {
        Self {
            given,
            bf16: bf16.map(|memref| Buffer::one_of(b, memref, strip)),
            scale,
            ready: 0,
            ready_blocks: 0,
        }
    }

    /// The same strip, with the first rows dequantized already.
    pub(super) fn prepared(self, rows: usize) -> Self {
        Self { ready: rows, ..self }
    }

    /// Whether all rows are dequantized already.
    pub(super) fn is_prepared(&self, plan: &TpuPlan) -> bool {
        self.ready == plan.held().m
    }

    /// Dequantizes rows if no matmul needed them before.
    fn prepare(&mut self, b: &mut FunctionBuilder, plan: &TpuPlan, (row, rows): (usize, usize)) {
        if row + rows > self.ready {
            self.dequantize(b, plan, (row, rows));
            self.ready = row + rows;
        }
    }

    /// Loads a slice along K of rows in bf16.
    fn load(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        (row, rows): (usize, usize),
        (k, length): (usize, usize),
    ) -> Value {
        let values = self.bf16.as_ref().unwrap_or(&self.given);
        values.load(b, (row, k), (rows, self.length(plan, (k, length))))
    }

    /// Loads a slice along K of rows in bf16, after dequantizing it if no matmul needed it before. Slices of
    /// the same rows must be loaded in order.
    fn slice(
        &mut self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        (row, rows): (usize, usize),
        (k, length): (usize, usize),
    ) -> Value {
        let qb = plan.problem.quant_block.size();
        let last = (k + length).div_ceil(qb);
        if row + rows > self.ready && last > self.ready_blocks {
            self.dequantize_blocks(b, plan, (row, rows), k / qb..last);
            self.ready_blocks = last;
            if last == plan.k_blocks() {
                (self.ready, self.ready_blocks) = (row + rows, 0);
            }
        }
        self.load(b, plan, (row, rows), (k, length))
    }

    /// Length of a slice in the buffer that is multiplied: x that is bf16 already ends with K.
    fn length(&self, plan: &TpuPlan, (k, length): (usize, usize)) -> usize {
        if self.bf16.is_some() { length } else { length.min(plan.held().k - k) }
    }

    /// Dequantizes rows, after quantizing them where the kernel does that.
    pub(super) fn dequantize(&self, b: &mut FunctionBuilder, plan: &TpuPlan, rows: (usize, usize)) {
        self.dequantize_blocks(b, plan, rows, 0..plan.k_blocks());
    }

    /// Dequantizes some k-blocks of rows.
    fn dequantize_blocks(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        (first, rows): (usize, usize),
        k_blocks: Range<usize>,
    ) {
        let (Some(bf16), Some(scale)) = (&self.bf16, &self.scale) else {
            return;
        };
        let qb = plan.problem.quant_block.size();
        for row in (first..first + rows).step_by(qb) {
            for k_block in k_blocks.clone() {
                let shape = (qb.min(first + rows - row), plan.block_length(k_block));
                let at = (row, k_block * qb);
                let codes = if plan.quantizes_x() {
                    quantized_block(b, &self.given, scale, at, shape, k_block)
                } else {
                    self.given.load(b, at, shape)
                };
                let scale = scale.get(b, row, shape.0, k_block);
                let values = dequantized(b, codes, scale);
                store_block(b, bf16, values, at, (shape.0, qb));
            }
        }
    }
}

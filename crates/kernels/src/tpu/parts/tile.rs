//! What happens inside one tile, the same for every strategy: quantize, multiply, scale, accumulate.

use octile_core::plan::{
    BufferId,
    tpu::{Arithmetic, TpuPlan},
};
use octile_mosaic::{Float, FunctionBuilder, Type, Value};

use super::{
    frame::Frame,
    scales::{Scales, inverse, scaled, times},
};
use crate::stablehlo::float;

/// Lanes of a vector register. A matmul masks an operand that is no multiple of them.
pub(crate) const LANES: usize = 128;

/// A matrix inside a memref.
#[derive(Clone)]
pub(crate) struct Buffer {
    memref: Value,
    /// Indices of the dimensions before the last two.
    leading: Vec<Value>,
}

impl Buffer {
    /// A memref that is a matrix.
    pub(crate) fn whole(memref: Value) -> Self {
        Self { memref, leading: Vec::new() }
    }

    /// One of several matrices, by a 32-bit index.
    pub(crate) fn one_of(b: &mut FunctionBuilder, memref: Value, index: Value) -> Self {
        Self { memref, leading: vec![b.to_index(index)] }
    }

    /// Loads the block of `shape` at a row and column.
    pub(crate) fn load(&self, b: &mut FunctionBuilder, at: (usize, usize), shape: (usize, usize)) -> Value {
        let indices = self.indices(b, at);
        b.load(self.memref, &indices, [shape.0, shape.1])
    }

    /// Stores a matrix at a row and column.
    pub(crate) fn store(&self, b: &mut FunctionBuilder, value: Value, at: (usize, usize)) {
        let indices = self.indices(b, at);
        b.store(value, self.memref, &indices);
    }

    fn indices(&self, b: &mut FunctionBuilder, at: (usize, usize)) -> Vec<Value> {
        let at = [b.index(at.0), b.index(at.1)];
        self.leading.iter().copied().chain(at).collect()
    }
}

/// The operands of one tile.
pub(crate) struct Tile {
    /// Activations: codes, or floats that are not quantized.
    pub(crate) x: Buffer,
    pub(crate) w: Buffer,
    /// First column of the tile whose weights `w` holds.
    pub(crate) w_begins: usize,
    /// `None` where x is not quantized.
    pub(crate) x_scale: Option<Scales>,
    pub(crate) w_scale: Scales,
}

impl Tile {
    /// Adds the tile's products to an accumulator, chunk by chunk.
    pub(crate) fn accumulate(&self, b: &mut FunctionBuilder, plan: &TpuPlan, acc: &Buffer) {
        for chunk in Chunk::cover(plan, (0, plan.held().n)) {
            for Part { at, value } in self.sum(b, plan, chunk) {
                let so_far = acc.load(b, at, shape_of(b, value));
                let sum = b.addf(so_far, value);
                acc.store(b, sum, at);
            }
        }
    }

    /// The scaled products of one chunk, summed over the k-blocks of the tile; one part per weight block.
    pub(crate) fn sum(&self, b: &mut FunctionBuilder, plan: &TpuPlan, chunk: Chunk) -> Vec<Part> {
        let mut parts = self.products(b, plan, chunk, 0);
        for k_block in 1..plan.k_blocks() {
            let products = self.products(b, plan, chunk, k_block);
            for (part, product) in parts.iter_mut().zip(products) {
                part.value = b.addf(part.value, product.value);
            }
        }
        parts
    }

    /// The scaled products of one chunk over one k-block.
    fn products(&self, b: &mut FunctionBuilder, plan: &TpuPlan, chunk: Chunk, k_block: usize) -> Vec<Part> {
        let qb = plan.problem.quant_block.size();
        let Chunk { row, col, rows, cols, .. } = chunk;
        let length = plan.block_length(k_block);
        let x = self.x.load(b, (row, k_block * qb), (rows, length));
        let w = self.w.load(b, (col - self.w_begins, k_block * qb), (cols, length));
        let w = match (plan.arithmetic, b.ty(x).element()) {
            (Arithmetic::Widened, &Type::Float(wide)) => b.to_float(w, wide),
            _ => w,
        };
        let product = b.matmul(x, w);
        let x_scale = self.x_scale.as_ref().map(|scales| scales.get(b, row, rows, k_block));
        // Columns of different weight blocks have different scales.
        let part = |offset: usize| {
            let at = (row, col + offset);
            let width = qb.min(cols - offset);
            let value = b.slice(product, &[0, offset], &[rows, width]);
            let w_scale = self.w_scale.get(b, at.1, width, k_block);
            let scale = match x_scale {
                None => w_scale,
                Some(x_scale) => {
                    let x_scale = first_lanes(b, x_scale, width);
                    times(b, x_scale, w_scale)
                }
            };
            let value = scaled(b, value, scale);
            Part { at, value }
        };
        (0..cols).step_by(qb).map(part).collect()
    }
}

/// A block of a tile's result.
pub(crate) struct Part {
    /// Row and column in the tile.
    pub(crate) at: (usize, usize),
    /// The matrix.
    pub(crate) value: Value,
}

/// The part of a tile that one matmul computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// First row in the tile.
    pub(crate) row: usize,
    /// First column in the tile.
    pub(crate) col: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Number of its columns, counted in chunks.
    pub(crate) column: usize,
}

impl Chunk {
    /// The chunks of a tile's columns, given as first and number, column by column. The last ones may be
    /// smaller than the plan's.
    pub(crate) fn cover(plan: &TpuPlan, columns: (usize, usize)) -> Vec<Self> {
        Self::cover_by_row(plan, columns, 1)
    }

    /// As [`Self::cover`], with the first `by_row` columns of chunks row by row.
    pub(crate) fn cover_by_row(plan: &TpuPlan, (first, columns): (usize, usize), by_row: usize) -> Vec<Self> {
        let (rows, cols) = plan.chunk;
        let mut chunks = Vec::new();
        let end = first + columns;
        let mut starts: Vec<usize> = (first..end).step_by(cols).collect();
        // Columns of codes that do not fill the lanes have a matmul of their own, because it masks weights.
        let ragged = end / LANES * LANES;
        if plan.arithmetic == Arithmetic::Fp8 && ragged < end && ragged > starts[starts.len() - 1] {
            starts.push(ragged);
        }
        for (column, &col) in starts.iter().enumerate() {
            let next = starts.get(column + 1).copied().unwrap_or(end);
            let cols = next - col;
            for row in (0..plan.held().m).step_by(rows) {
                let rows = rows.min(plan.held().m - row);
                chunks.push(Self { row, col, rows, cols, column });
            }
        }
        chunks.sort_by_key(|chunk| match chunk.column < by_row {
            true => (0, chunk.row, chunk.col),
            false => (1, chunk.col, chunk.row),
        });
        chunks
    }
}

/// Rows and columns of a matrix.
pub(crate) fn shape_of(b: &FunctionBuilder, matrix: Value) -> (usize, usize) {
    match b.ty(matrix).shape() {
        &[rows, cols] => (rows, cols),
        other => panic!("{other:?} is not the shape of a matrix"),
    }
}

/// A scale per row that is repeated along more lanes than a block has.
fn first_lanes(b: &mut FunctionBuilder, scale: Value, width: usize) -> Value {
    match b.ty(scale).shape() {
        &[rows, lanes] if lanes > width => b.slice(scale, &[0, 0], &[rows, width]),
        _ => scale,
    }
}

/// Zeroes an accumulator.
pub(crate) fn zero(b: &mut FunctionBuilder, plan: &TpuPlan, acc: &Buffer) {
    let tile = plan.held();
    let zeros = b.splat(0.0, [tile.m, tile.n]);
    acc.store(b, zeros, (0, 0));
}

/// Converts an accumulator to the type of the result and stores it.
pub(crate) fn write_out(b: &mut FunctionBuilder, plan: &TpuPlan, acc: &Buffer, out: &Buffer) {
    let tile = plan.held();
    let sum = acc.load(b, (0, 0), (tile.m, tile.n));
    let result = b.to_float(sum, float(plan.kernel_out()));
    out.store(b, result, (0, 0));
}

/// Quantizes a tile of activations, block by block.
fn quantize(b: &mut FunctionBuilder, plan: &TpuPlan, x: &Buffer, x_scale: &Scales, codes: &Buffer) {
    for_each_block(plan, |at, shape, k_block| {
        let code = quantized_block(b, x, x_scale, at, shape, k_block);
        codes.store(b, code, at);
    });
}

/// Visits the quantization blocks of a tile of x: position, shape, k-block.
fn for_each_block(plan: &TpuPlan, mut visit: impl FnMut((usize, usize), (usize, usize), usize)) {
    let qb = plan.problem.quant_block.size();
    let all_rows = plan.held().m;
    for row in (0..all_rows).step_by(qb) {
        let rows = qb.min(all_rows - row);
        for k_block in 0..plan.k_blocks() {
            visit((row, k_block * qb), (rows, plan.block_length(k_block)), k_block);
        }
    }
}

/// Quantizes one block of activations.
pub(crate) fn quantized_block(
    b: &mut FunctionBuilder,
    x: &Buffer,
    x_scale: &Scales,
    at: (usize, usize),
    shape: (usize, usize),
    k_block: usize,
) -> Value {
    let values = x.load(b, at, shape);
    let wide = b.to_float(values, Float::F32);
    let scale = x_scale.get(b, at.0, shape.0, k_block);
    let inverse = inverse(b, scale);
    let scaled = scaled(b, wide, inverse);
    b.to_float(scaled, Float::F8E4M3FN)
}

/// The buffer of x where the kernel quantizes it.
pub(crate) fn quantized_buffer(f: &mut Frame<'_>) -> Option<Value> {
    f.plan.quantizes_x().then(|| f.scratch_copies("x_q", BufferId::XQ))
}

/// The activations to multiply: as loaded, or quantized here by the first step that needs them.
pub(crate) fn quantized_x(
    f: &mut Frame<'_>,
    x: Buffer,
    x_scale: Option<&Scales>,
    codes: Option<Value>,
) -> Buffer {
    let (Some(codes), Some(x_scale)) = (codes, x_scale) else {
        return x;
    };
    let (plan, n, k) = (f.plan, f.n, f.k);
    let b = &mut f.b;
    if plan.keeps_quantized_x {
        let codes = Buffer::one_of(b, codes, k);
        b.when_equal(n, 0, |b| quantize(b, plan, &x, x_scale, &codes));
        codes
    } else {
        let first = b.i32(0);
        let codes = Buffer::one_of(b, codes, first);
        quantize(b, plan, &x, x_scale, &codes);
        codes
    }
}

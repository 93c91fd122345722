//! Strips turned into bf16, scales included, and multiplied over all of their K at once: the matrix units add up,
//! and the vector units, which would otherwise be idle, do the turning.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::{Float, FunctionBuilder, MemorySpace, Value};

use super::{Sink, StripScales};
use crate::{
    stablehlo::float,
    tpu::{
        Kernel,
        frame::{Along, Frame, Operand},
        scale::{Scales, scaled},
        tile::{Buffer, Part, quantized_block, quantizes, x_element},
    },
};

/// Chunks of w that are turned into bf16 ahead of their products.
const BUFFERS: usize = 2;

pub(super) fn kernel(plan: &TpuPlan) -> Kernel {
    let mut f = Frame::new(plan, false);
    let size = plan.tile;
    let (rows, cols) = plan.chunk;

    // Buffers.
    let mut scales = StripScales::prefetched(&mut f);
    let x_along_k = if plan.keeps_quantized_x { Along::KOnce } else { Along::K };
    let x = f.window("x", Operand::X, x_element(plan), &[size.m, size.k], &[Along::M, x_along_k]);
    let w = f.window("w_q", Operand::W, Float::F8E4M3FN, &[size.n, size.k], &[Along::N, Along::K]);
    scales.windows(&mut f);
    let out = f.out_window(float(plan.kernel_out()));
    let sink = Sink::new(&mut f, out);
    let strips = if plan.keeps_quantized_x { plan.grid.k } else { 1 };
    let x_bf16 = plan
        .problem
        .x
        .granularity()
        .map(|_| f.scratch("x_bf16", &[strips, size.m, size.k], Float::Bf16, MemorySpace::Vmem));
    let w_bf16 = f.scratch("w_bf16", &[BUFFERS, cols, size.k], Float::Bf16, MemorySpace::Vmem);

    // The step.
    let (x_scale, w_scale) = scales.of_step(&mut f);
    let (n, k) = (f.n, f.k);
    let b = &mut f.b;
    let strip = if plan.keeps_quantized_x { k } else { b.i32(0) };
    let mut x = Strip::new(b, Buffer::whole(x), x_bf16, strip, x_scale);
    if plan.keeps_quantized_x {
        b.when_equal(n, 0, |b| x.turn(b, plan, (0, size.m)));
        x.turned = size.m;
    }
    let w = Buffer::whole(w);
    for (chunk, col) in (0..size.n).step_by(cols).enumerate() {
        let slot = b.i32(chunk % BUFFERS);
        let w_bf16 = Buffer::one_of(b, w_bf16, slot);
        turn_weights(b, plan, &w, &w_scale, col, &w_bf16);
        for row in (0..size.m).step_by(rows) {
            let lhs = x.rows(b, plan, row, rows);
            let rhs = w_bf16.load(b, (0, 0), (cols, size.k));
            let value = b.matmul(lhs, rhs);
            sink.put(b, plan, Part { at: (row, col), value });
        }
    }
    sink.finish(b, plan);
    f.finish()
}

/// The codes of a chunk's columns, times their scales, in bf16. One rounding: the product is taken in f32.
fn turn_weights(
    b: &mut FunctionBuilder,
    plan: &TpuPlan,
    w: &Buffer,
    w_scale: &Scales,
    col: usize,
    to: &Buffer,
) {
    let qb = plan.problem.quant_block.size();
    for row in (0..plan.chunk.1).step_by(qb) {
        for k_block in 0..plan.k_blocks() {
            let codes = w.load(b, (col + row, k_block * qb), (qb, qb));
            let scale = w_scale.get(b, col + row, qb, k_block);
            let turned = dequantized(b, codes, scale);
            to.store(b, turned, (row, k_block * qb));
        }
    }
}

fn dequantized(b: &mut FunctionBuilder, codes: Value, scale: Value) -> Value {
    let wide = b.to_float(codes, Float::F32);
    let value = scaled(b, wide, scale);
    b.to_float(value, Float::Bf16)
}

/// A strip of x, turned into bf16 row by row when a product first needs it.
struct Strip {
    given: Buffer,
    /// None where x is bf16 as it comes.
    bf16: Option<Buffer>,
    scale: Option<Scales>,
    /// Rows that are turned already.
    turned: usize,
}

impl Strip {
    fn new(
        b: &mut FunctionBuilder,
        given: Buffer,
        bf16: Option<Value>,
        strip: Value,
        scale: Option<Scales>,
    ) -> Self {
        Self { given, bf16: bf16.map(|memref| Buffer::one_of(b, memref, strip)), scale, turned: 0 }
    }

    /// Rows in bf16.
    fn rows(&mut self, b: &mut FunctionBuilder, plan: &TpuPlan, row: usize, rows: usize) -> Value {
        if row + rows > self.turned {
            self.turn(b, plan, (row, rows));
            self.turned = row + rows;
        }
        let turned = self.bf16.as_ref().unwrap_or(&self.given);
        turned.load(b, (row, 0), (rows, plan.tile.k))
    }

    /// Turns rows into bf16: by way of codes where x is quantized here.
    fn turn(&self, b: &mut FunctionBuilder, plan: &TpuPlan, (first, rows): (usize, usize)) {
        let (Some(bf16), Some(scale)) = (&self.bf16, &self.scale) else {
            return;
        };
        let qb = plan.problem.quant_block.size();
        let shape = (qb.min(rows), qb);
        for row in (first..first + rows).step_by(shape.0) {
            for k_block in 0..plan.k_blocks() {
                let at = (row, k_block * qb);
                let codes = if quantizes(plan) {
                    quantized_block(b, &self.given, scale, at, shape, k_block)
                } else {
                    self.given.load(b, at, shape)
                };
                let scale = scale.get(b, row, shape.0, k_block);
                let turned = dequantized(b, codes, scale);
                bf16.store(b, turned, at);
            }
        }
    }
}

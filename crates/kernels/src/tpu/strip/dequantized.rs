//! Strips dequantized to bf16 and multiplied over all of their K at once: the MXUs accumulate, and the VPU,
//! which would otherwise be idle, dequantizes.

use octile_core::plan::{BufferId, tpu::TpuPlan};
use octile_mosaic::{Float, FunctionBuilder, Value};

use super::{PrefetchedScales, Sink};
use crate::tpu::{
    KernelModule,
    parts::{
        frame::{Along, Frame, GridOrder, Operand},
        scales::{Scales, scaled},
        tile::{Buffer, Chunk, Part, quantized_block},
    },
};

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    let mut f = Frame::new(plan, GridOrder::AnyTile);
    let size = plan.tile;

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

    // Dequantize a chunk of w, then multiply the rows of x with it. The VPU works on one buffer of w while
    // the MXUs read the other.
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
    for chunk in Chunk::cover_by_row(plan, (0, size.n), plan.columns_by_row()) {
        let slot = b.i32(chunk.column % plan.dequantized_chunks());
        let w_bf16 = Buffer::one_of(b, w_bf16, slot);
        if chunk.row == 0 {
            let of = WeightChunk { row: chunk.col, col: chunk.col, cols: chunk.cols };
            dequantize_weights(b, plan, &w, &w_scale, of, &w_bf16);
        }
        let lhs = x.rows(b, plan, chunk.row, chunk.rows);
        let rhs = w_bf16.load(b, (0, 0), (chunk.cols, size.k));
        let value = b.matmul(lhs, rhs);
        sink.put(b, plan, Part { at: (chunk.row, chunk.col), value });
    }
    sink.finish(b, plan);
    f.finish()
}

/// Weights of a chunk's columns.
#[derive(Clone, Copy)]
pub(super) struct WeightChunk {
    /// First row in the buffer of codes.
    pub(super) row: usize,
    /// First column in the tile.
    pub(super) col: usize,
    pub(super) cols: usize,
}

/// Dequantizes the weights of a chunk's columns. They are scaled in f32 and rounded to bf16 once.
pub(super) fn dequantize_weights(
    b: &mut FunctionBuilder,
    plan: &TpuPlan,
    w: &Buffer,
    w_scale: &Scales,
    chunk: WeightChunk,
    to: &Buffer,
) {
    let qb = plan.problem.quant_block.size();
    for row in (0..chunk.cols).step_by(qb) {
        for k_block in 0..plan.k_blocks() {
            let codes = w.load(b, (chunk.row + row, k_block * qb), (qb, qb));
            let scale = w_scale.get(b, chunk.col + row, qb, k_block);
            let values = dequantized(b, codes, scale);
            to.store(b, values, (row, k_block * qb));
        }
    }
}

fn dequantized(b: &mut FunctionBuilder, codes: Value, scale: Value) -> Value {
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
}

impl XStrip {
    pub(super) fn new(
        b: &mut FunctionBuilder,
        given: Buffer,
        bf16: Option<Value>,
        strip: Value,
        scale: Option<Scales>,
    ) -> Self {
        Self { given, bf16: bf16.map(|memref| Buffer::one_of(b, memref, strip)), scale, ready: 0 }
    }

    /// The same strip, with the first rows dequantized already.
    pub(super) fn prepared(self, rows: usize) -> Self {
        Self { ready: rows, ..self }
    }

    /// Whether all rows are dequantized already.
    pub(super) fn is_prepared(&self, plan: &TpuPlan) -> bool {
        self.ready == plan.tile.m
    }

    /// Loads rows in bf16, after dequantizing them if no matmul needed them before.
    pub(super) fn rows(&mut self, b: &mut FunctionBuilder, plan: &TpuPlan, row: usize, rows: usize) -> Value {
        if row + rows > self.ready {
            self.dequantize(b, plan, (row, rows));
            self.ready = row + rows;
        }
        let values = self.bf16.as_ref().unwrap_or(&self.given);
        values.load(b, (row, 0), (rows, plan.tile.k))
    }

    /// Dequantizes rows, after quantizing them where the kernel does that.
    pub(super) fn dequantize(&self, b: &mut FunctionBuilder, plan: &TpuPlan, (first, rows): (usize, usize)) {
        let (Some(bf16), Some(scale)) = (&self.bf16, &self.scale) else {
            return;
        };
        let qb = plan.problem.quant_block.size();
        for row in (first..first + rows).step_by(qb) {
            let shape = (qb.min(first + rows - row), qb);
            for k_block in 0..plan.k_blocks() {
                let at = (row, k_block * qb);
                let codes = if plan.quantizes_x() {
                    quantized_block(b, &self.given, scale, at, shape, k_block)
                } else {
                    self.given.load(b, at, shape)
                };
                let scale = scale.get(b, row, shape.0, k_block);
                let values = dequantized(b, codes, scale);
                bf16.store(b, values, at);
            }
        }
    }
}

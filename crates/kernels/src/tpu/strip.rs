//! `strip`, version 4: whole-K strips of x and w, scales in SMEM before the first step.
//!
//! As [`auto`](super::auto), the compiler pipelines the strips; as in [`smem`](super::smem), scales are
//! scalars, but prefetched once for the whole kernel. No pass zeroes an accumulator: the first k-block of a
//! strip begins the sum in registers, and the last one writes the result.
//!
//! [`dequantized`] is the variant for quantization blocks narrower than an MXU, [`streamed`] for an x that
//! stays in VMEM.

mod dequantized;
mod lanes;
mod mxus;
mod prefetch;
mod row_block;
mod rows;
mod sink;
mod streamed;
mod transposed;

use octile_core::plan::{
    BufferId,
    tpu::{Arithmetic, TpuPlan},
};

use super::{
    KernelModule,
    parts::{
        frame::{Along, Frame, GridOrder, Operand},
        tile::{self, Buffer, Chunk, Tile},
    },
};
use prefetch::PrefetchedScales;
use sink::Sink;

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    if plan.mxu_pipeline.is_some() {
        return mxus::kernel(plan);
    }
    if plan.row_pipeline.is_some() {
        return rows::kernel(plan);
    }
    match (plan.weight_pipeline, plan.arithmetic) {
        (Some(pipeline), _) => streamed::kernel(plan, pipeline),
        (None, Arithmetic::Dequantized) => dequantized::kernel(plan),
        (None, Arithmetic::Fp8 | Arithmetic::Widened) => codes(plan),
    }
}

/// Strips of codes: every k-block has its own matmul, which is scaled and summed in registers, chunk by
/// chunk.
fn codes(plan: &TpuPlan) -> KernelModule {
    let mut f = Frame::new(plan, GridOrder::AnyTile);

    // Scales first: they are prefetched. Then the windows of the strips.
    let mut scales = PrefetchedScales::declare(&mut f);
    let x_along_k = if plan.keeps_quantized_x { Along::KOnce } else { Along::K };
    let x = f.window(Operand::X, BufferId::X, &[Along::M, x_along_k]);
    let w = f.window(Operand::W, BufferId::WQ, &[Along::N, Along::K]);
    scales.declare_windows(&mut f);
    let out = f.out_window();
    let sink = Sink::new(&mut f, out);
    let x_q = tile::quantized_buffer(&mut f);

    // Multiply the strips. A chunk of the result is complete after all of its k-blocks, and goes to the sink.
    let (x_scale, w_scale) = scales.of_step(&mut f);
    let x = tile::quantized_x(&mut f, Buffer::whole(x), x_scale.as_ref(), x_q);
    let tile = Tile { x, w: Buffer::whole(w), w_begins: 0, x_scale, w_scale };
    let b = &mut f.b;
    for chunk in Chunk::cover(plan, (0, plan.held().n)) {
        for part in tile.sum(b, plan, chunk) {
            sink.put(b, plan, part);
        }
    }
    sink.finish(b, plan);
    f.finish()
}

//! Strips of codes, or of wide activations and widened codes: every k-block has its own product, which is scaled
//! and added up in registers, chunk by chunk of the result.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::Float;

use super::{Sink, StripScales};
use crate::{
    stablehlo::float,
    tpu::{
        Kernel,
        frame::{Along, Frame, Operand},
        tile::{self, Buffer, Tile, for_each_chunk, x_element},
    },
};

pub(super) fn kernel(plan: &TpuPlan) -> Kernel {
    let mut f = Frame::new(plan, false);
    let size = plan.tile;

    // Buffers.
    let mut scales = StripScales::prefetched(&mut f);
    let x_along_k = if plan.keeps_quantized_x { Along::KOnce } else { Along::K };
    let x = f.window("x", Operand::X, x_element(plan), &[size.m, size.k], &[Along::M, x_along_k]);
    let w = f.window("w_q", Operand::W, Float::F8E4M3FN, &[size.n, size.k], &[Along::N, Along::K]);
    scales.windows(&mut f);
    let out = f.out_window(float(plan.kernel_out()));
    let sink = Sink::new(&mut f, out);
    let codes = tile::codes(&mut f);

    // The step.
    let (x_scale, w_scale) = scales.of_step(&mut f);
    let x = tile::ready_x(&mut f, Buffer::whole(x), x_scale.as_ref(), codes);
    let tile = Tile { x, w: Buffer::whole(w), w_begins: 0, x_scale, w_scale };
    let b = &mut f.b;
    for_each_chunk(plan, |row, col| {
        for part in tile.sum(b, plan, row, col) {
            sink.put(b, plan, part);
        }
    });
    sink.finish(b, plan);
    f.finish()
}

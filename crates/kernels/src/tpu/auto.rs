//! `auto`, version 1: the compiler double-buffers every operand, the scales beside the data. A step adds one tile
//! to the accumulator; the first along K clears it, the last writes it out.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::{Float, MemorySpace};

use super::{
    Kernel,
    frame::{Along, Frame, Operand},
    scale::{Scales, x_scale_name},
    tile::{self, Buffer, Tile, quantizes, x_element},
};
use crate::stablehlo::float;

pub(super) fn kernel(plan: &TpuPlan) -> Kernel {
    use Along::{First, K, KOnce, M, N};
    let mut f = Frame::new(plan, false);
    let size = plan.tile;

    // Buffers.
    let x_along_k = if plan.keeps_quantized_x { KOnce } else { K };
    let x = f.window("x", Operand::X, x_element(plan), &[size.m, size.k], &[M, x_along_k]);
    let w = f.window("w_q", Operand::W, Float::F8E4M3FN, &[size.n, size.k], &[N, K]);
    let (rows, cols) = plan.w_scale_tile();
    let along = [N, K, First, First];
    let w_scale = f.window("w_scale", Operand::WScaleTiles, Float::F32, &[1, 1, rows, cols], &along);
    let x_scale = plan.problem.x.granularity().map(|_| {
        let (rows, cols) = plan.x_scale_tile();
        let along = [M, K, First, First];
        f.window(x_scale_name(plan), Operand::XScaleTiles, Float::F32, &[1, 1, rows, cols], &along)
    });
    let out = f.out_window(float(plan.kernel_out()));
    let acc = Buffer::whole(f.scratch("acc", &[size.m, size.n], Float::F32, MemorySpace::Vmem));
    let codes = tile::codes(&mut f);

    // The step.
    let (k, zero) = (f.k, f.b.index(0));
    let scales = |memref, rows, from_abs_max| Scales {
        memref,
        leading: vec![zero, zero],
        origin: None,
        rows,
        from_abs_max,
    };
    let x_scale = x_scale.map(|memref| scales(memref, plan.x_scale_rows(), quantizes(plan)));
    let w_scale = scales(w_scale, plan.problem.quant_block.size(), false);
    f.b.when_equal(k, 0, |b| tile::zero(b, plan, &acc));
    let x = tile::ready_x(&mut f, Buffer::whole(x), x_scale.as_ref(), codes);
    let w = Buffer::whole(w);
    let tile = Tile { x, w, w_begins: 0, x_scale, w_scale };
    tile.accumulate(&mut f.b, plan, &acc);
    let out = Buffer::whole(out);
    f.b.when_equal(k, plan.grid.k - 1, |b| tile::write_out(b, plan, &acc, &out));
    f.finish()
}

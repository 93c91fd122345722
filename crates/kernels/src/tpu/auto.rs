//! `auto`, version 1: the compiler double-buffers every operand, scales beside the data in VMEM.
//!
//! A grid step adds one tile product to the accumulator. The first step along K zeroes it, the last one
//! writes it out.

use octile_core::plan::{BufferId, tpu::TpuPlan};

use super::{
    KernelModule,
    parts::{
        frame::{Along, Frame, GridOrder, Operand},
        scales::Scales,
        tile::{self, Buffer, Tile},
    },
};

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    use Along::{First, K, KOnce, M, N};
    let mut f = Frame::new(plan, GridOrder::AnyTile);

    // Windows: before every step the compiler's DMAs bring the step's blocks to VMEM.
    let x_along_k = if plan.keeps_quantized_x { KOnce } else { K };
    let x = f.window(Operand::X, BufferId::X, &[M, x_along_k]);
    let w = f.window(Operand::W, BufferId::WQ, &[N, K]);
    let w_scale = f.window(Operand::WScaleTiles, BufferId::WScale, &[N, K, First, First]);
    let x_scale =
        plan.x_scale().map(|buffer| f.window(Operand::XScaleTiles, buffer.id, &[M, K, First, First]));
    let out = f.out_window();
    let acc = Buffer::whole(f.scratch("acc", BufferId::Acc));
    let x_q = tile::quantized_buffer(&mut f);

    // Multiply the tile.
    let (k, zero) = (f.k, f.b.index(0));
    let x_scale = x_scale.map(|memref| Scales::of_x(plan, memref).at(vec![zero, zero]));
    let w_scale = Scales::of_w(plan, w_scale).at(vec![zero, zero]);
    f.b.when_equal(k, 0, |b| tile::zero(b, plan, &acc));
    let x = tile::quantized_x(&mut f, Buffer::whole(x), x_scale.as_ref(), x_q);
    let tile = Tile { x, w: Buffer::whole(w), w_begins: 0, x_scale, w_scale };
    tile.accumulate(&mut f.b, plan, &acc);

    // Epilogue: the last step along K writes the result's window.
    let out = Buffer::whole(out);
    f.b.when_equal(k, plan.grid.k - 1, |b| tile::write_out(b, plan, &acc, &out));
    f.finish()
}

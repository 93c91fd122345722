//! `dma`, version 2: explicit DMAs into two buffers per operand, scales beside the data in VMEM.
//!
//! As [`auto`](super::auto), but the kernel moves the data: a step starts the DMAs of the next step, also
//! across tiles, and then waits for its own, which the step before has started.

use octile_core::plan::{BufferId, tpu::TpuPlan};

use super::{
    KernelModule,
    parts::{
        double_buffer::{DoubleBuffered, Step},
        frame::{Frame, GridOrder},
        scales::Scales,
        tile::{self, Buffer, Tile},
    },
};

pub(super) fn kernel(plan: &TpuPlan) -> KernelModule {
    let mut f = Frame::new(plan, GridOrder::Sequential);

    // Operands stay in HBM. Each has two buffers on the chip and a DMA semaphore per buffer.
    let operands = DoubleBuffered::declare(&mut f);
    let acc = Buffer::whole(f.scratch("acc", BufferId::Acc));
    let x_q = tile::quantized_buffer(&mut f);
    let step = Step::current(&mut f);
    let (at, slot) = (step.at, step.slot);

    // Prologue: the first step starts its own DMAs.
    let b = &mut f.b;
    b.when_equal(step.number, 0, |b| operands.start(b, plan, at, slot));

    // Start the DMAs of the next step into the other buffers, then wait for those of this step.
    if plan.steps() > 1 {
        let next = step.next(b, plan);
        b.when(next.exists, |b| operands.start(b, plan, next.at, next.slot));
    }
    operands.wait(b, plan, at, slot);

    // Multiply the tile. Scales are vectors in VMEM: the VPU broadcasts a (1, 1) vector, or a column of one
    // per row.
    b.when_equal(at.k, 0, |b| tile::zero(b, plan, &acc));
    let (x, w) = (operands.x.at(b, slot), operands.w.at(b, slot));
    let w_scale = operands.w_scale.in_vmem(b);
    let w_scale = Scales::of_w(plan, w_scale).at(vec![b.to_index(slot)]);
    let x_scale = operands.x_scale.map(|x_scale| {
        let x_scale = x_scale.in_vmem(b);
        Scales::of_x(plan, x_scale).at(vec![b.to_index(slot)])
    });
    let x = tile::quantized_x(&mut f, x, x_scale.as_ref(), x_q);
    let tile = Tile { x, w, w_begins: 0, x_scale, w_scale };
    tile.accumulate(&mut f.b, plan, &acc);

    // Epilogue: the last step along K stores the tile; the last step of all waits for every store.
    f.b.when_equal(at.k, plan.grid.k - 1, |b| operands.store(b, plan, &step, &acc));
    f.finish()
}

//! The skeleton of `dma`, `smem` and `strip`: some warps fetch into a ring of stages, the others multiply.

use octile_core::{
    Strategy,
    plan::hopper::{ClusterMode, HopperPlan, ResultPath},
};

use super::{
    consumer,
    frame::Frame,
    outbox,
    producer::{self, FetchedOperands},
    ptx::{B32, Ptx, Shared},
    scales,
};

/// A position in the ring.
pub(super) struct Cursor {
    pub(super) stage: B32,
    /// Parity of the turn around the ring.
    pub(super) turn: B32,
}

impl Cursor {
    pub(super) fn new(ptx: &mut Ptx) -> Self {
        Self { stage: ptx.variable(0), turn: ptx.variable(0) }
    }

    /// Goes to where `stages` stages from the start, at most one turn, lead.
    pub(super) fn set(&self, ptx: &mut Ptx, frame: &Frame<'_>, stages: B32) {
        let wraps = ptx.eq(stages, frame.plan.stages as u32);
        let stage = ptx.select(0, stages, wraps);
        ptx.set(self.stage, stage);
        let turn = ptx.select(1, 0, wraps);
        ptx.set(self.turn, turn);
    }

    /// Goes to the next stage.
    pub(super) fn advance(&self, ptx: &mut Ptx, frame: &Frame<'_>) {
        ptx.increase(self.stage, 1);
        let wraps = ptx.eq(self.stage, frame.plan.stages as u32);
        let stage = ptx.select(0, self.stage, wraps);
        ptx.set(self.stage, stage);
        let flip = ptx.select(1, 0, wraps);
        ptx.flip(self.turn, flip);
    }
}

/// Whether scales travel through the ring.
pub(super) fn carries_scales(plan: &HopperPlan) -> bool {
    plan.strategy != Strategy::Dma
}

/// Registers of a fetching and of a multiplying thread, once the fetching warpgroup has handed over what it does not need:
/// cluster no more than the 64 Ki of a multiprocessor. With one multiplying warpgroup there is enough for all.
fn registers(plan: &HopperPlan) -> Option<(u32, u32)> {
    match plan.consumers {
        3 => Some((32, 160)),
        2 if plan.blocks_per_sm == 2 => Some((32, 104)),
        2 => Some((40, 232)),
        _ => None,
    }
}

pub(super) fn emit(ptx: &mut Ptx, plan: &HopperPlan) {
    let frame = Frame::new(ptx, plan);
    let registers = registers(plan);
    prepare(ptx, &frame);

    let first_producer = 4 * plan.consumers as u32;
    let (produces, end) = (ptx.label(), ptx.label());
    let is_producer = ptx.ge(frame.warp, first_producer);
    ptx.jump_if(is_producer, produces);

    if let Some((_, multiplying)) = registers {
        ptx.claim_registers(multiplying);
    }
    // What the kernel before may still read must not be overwritten. The next kernel starts no sooner: it would take
    // bandwidth from this one.
    ptx.wait_for_previous_kernel();
    ptx.let_next_kernel_start();
    consumer::emit(ptx, &frame);
    ptx.jump(end);

    ptx.place(produces);
    if let Some((fetching, _)) = registers {
        ptx.release_registers(fetching);
    }
    if plan.fetches_with_one_warp() {
        in_warp(ptx, &frame, first_producer, |ptx| {
            let operands = FetchedOperands::new(ptx, &frame);
            scales::fetch(ptx, &frame, Some(&operands));
        });
    } else {
        in_warp(ptx, &frame, first_producer, |ptx| producer::emit(ptx, &frame));
        if carries_scales(plan) {
            in_warp(ptx, &frame, first_producer + 1, |ptx| scales::fetch(ptx, &frame, None));
        }
    }
    if let ClusterMode::SplitK(_) = plan.shape.cluster {
        // The multiplying threads meet their like in other blocks once all have begun, and once the sums are exchanged.
        ptx.cluster_wait();
        ptx.cluster_arrive();
    }
    ptx.place(end);
    if plan.shape.cluster.is_multicast() {
        // No block may leave while another fetches into it or counts on its barriers.
        ptx.cluster_barrier();
    }
}

/// What one warp of the block does.
fn in_warp(ptx: &mut Ptx, frame: &Frame<'_>, warp: u32, body: impl FnOnce(&mut Ptx)) {
    let is_it = ptx.eq(frame.warp, warp);
    ptx.when(is_it, body);
}

/// Makes the barriers and brings the tensor maps close.
fn prepare(ptx: &mut Ptx, frame: &Frame<'_>) {
    let plan = frame.plan;
    let is_first = ptx.eq(frame.thread, 0);
    ptx.when(is_first, |ptx| {
        for name in ["map_a", "map_b"] {
            let map = ptx.tensor_map(name);
            ptx.prefetch_tensor_map(map);
        }
        // The copy thread arrives once at a full stage, and every lane of the scale warp when its scales landed.
        let full = 1 + if carries_scales(plan) { 32 } else { 0 };
        let empty = plan.releases_per_stage() as u32;
        for stage in 0..plan.stages as u32 {
            ptx.barrier_init(Shared(frame.base, plan.offset("full") as u32 + 8 * stage), full);
            ptx.barrier_init(Shared(frame.base, plan.offset("empty") as u32 + 8 * stage), empty);
        }
        if plan.result_path == ResultPath::TmaStoreByProducer {
            outbox::make_barriers(ptx, frame);
        }
        ptx.fence_barrier_init();
    });
    if plan.shape.cluster.is_multicast() {
        ptx.cluster_barrier()
    } else {
        ptx.block_barrier()
    }
    if let ClusterMode::SplitK(_) = plan.shape.cluster {
        // Waited for where the sums are exchanged.
        ptx.cluster_arrive();
    }
}

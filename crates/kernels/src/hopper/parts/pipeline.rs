//! The shared-memory pipeline between producers and consumers. Every stage has two mbarriers: TMA completes
//! the *full* barrier when its bytes have landed, consumers arrive on the *empty* barrier when they have read
//! them.

use octile_core::plan::{BufferId, hopper::Release};

use super::cta::{Cta, WARPGROUP};
use crate::hopper::ptx::{B32, Ptx, Shared};

/// A position in the pipeline.
pub(crate) struct PipelineState {
    pub(crate) stage: B32,
    /// Parity of the barriers' phase; flips with every pass through the stages.
    pub(crate) phase: B32,
}

impl PipelineState {
    pub(crate) fn new(ptx: &mut Ptx) -> Self {
        Self { stage: ptx.variable(0), phase: ptx.variable(0) }
    }

    /// Moves to the position after `count` stages from the start, at most one pass.
    pub(crate) fn skip(&self, ptx: &mut Ptx, cta: &Cta<'_>, count: B32) {
        let wraps = ptx.eq(count, cta.plan.stages as u32);
        let stage = ptx.select(0, count, wraps);
        ptx.set(self.stage, stage);
        let phase = ptx.select(1, 0, wraps);
        ptx.set(self.phase, phase);
    }

    /// Moves to the next stage.
    pub(crate) fn advance(&self, ptx: &mut Ptx, cta: &Cta<'_>) {
        ptx.increase(self.stage, 1);
        let wraps = ptx.eq(self.stage, cta.plan.stages as u32);
        let stage = ptx.select(0, self.stage, wraps);
        ptx.set(self.stage, stage);
        let flip = ptx.select(1, 0, wraps);
        ptx.flip(self.phase, flip);
    }

    /// Waits on the stage's `empty` barrier until the consumers have released the stage.
    pub(crate) fn wait_until_empty(&self, ptx: &mut Ptx, empty: B32) {
        // A barrier counts its phase -1 as complete: in the first pass this does not wait.
        let previous_phase = ptx.xor(self.phase, 1);
        ptx.wait(empty, previous_phase);
    }
}

/// Initializes the pipeline's barriers in one thread and prefetches the tensor maps. `init_more` adds
/// barriers that a strategy has beside these. The caller synchronizes the CTA or cluster afterwards.
pub(crate) fn init(ptx: &mut Ptx, cta: &Cta<'_>, init_more: impl FnOnce(&mut Ptx)) {
    let plan = cta.plan;
    let is_first = ptx.eq(cta.thread, 0);
    ptx.when(is_first, |ptx| {
        for name in ["map_a", "map_b"] {
            let map = ptx.tensor_map(name);
            ptx.prefetch_tensor_map(map);
        }
        let (full, empty) = (plan.full_arrivals() as u32, plan.empty_arrivals() as u32);
        for stage in 0..plan.stages as u32 {
            ptx.barrier_init(Shared(cta.base, plan.offset(BufferId::Full) as u32 + 8 * stage), full);
            ptx.barrier_init(Shared(cta.base, plan.offset(BufferId::Empty) as u32 + 8 * stage), empty);
        }
        init_more(ptx);
        ptx.fence_barrier_init();
    });
}

/// Arrives on a stage's empty barrier: the consumers have read the stage. With multicast both CTAs of the
/// cluster load into it, so both are told.
pub(crate) fn release(ptx: &mut Ptx, cta: &Cta<'_>, stage: B32) {
    let empty = cta.buffer(ptx, BufferId::Empty, stage);
    // A thread that arrives for others first synchronizes with them.
    let index = match cta.plan.release {
        Release::Warp => {
            ptx.warp_barrier();
            cta.lane
        }
        Release::Warpgroup => {
            cta.warpgroup_barrier(ptx);
            ptx.and(cta.thread, WARPGROUP - 1)
        }
        Release::Thread => {
            ptx.arrive(empty);
            ptx.warp_barrier();
            cta.lane
        }
    };
    if cta.plan.shape.cluster.is_multicast() {
        // Thread i arrives in CTA i.
        let arrives = ptx.lt(index, 2);
        ptx.when(arrives, |ptx| {
            let empty = ptx.of_block(empty, index);
            ptx.arrive_in_cluster(empty);
        });
    } else if cta.plan.release != Release::Thread {
        let arrives = ptx.eq(index, 0);
        ptx.when(arrives, |ptx| ptx.arrive(empty));
    }
}

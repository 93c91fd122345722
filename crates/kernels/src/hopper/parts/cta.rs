//! A CTA: its buffers, its roles, and which part of a tile each consumer thread holds.

use octile_core::plan::{
    BufferId,
    hopper::{HopperPlan, STAGE_K, WAVE_ROWS},
};

use crate::hopper::ptx::{B32, B64, Ptx, Source};

/// Threads of a warpgroup.
pub(crate) const WARPGROUP: u32 = 128;

/// Registers that every role needs.
pub(crate) struct Cta<'a> {
    pub(crate) plan: &'a HopperPlan,
    /// Start of shared memory.
    pub(crate) base: B32,
    /// Index of the thread in its CTA.
    pub(crate) thread: B32,
    /// Index of the warp in its CTA, known to the assembler to be uniform.
    pub(crate) warp: B32,
    /// Index of the thread in its warp.
    pub(crate) lane: B32,
}

impl<'a> Cta<'a> {
    pub(crate) fn new(ptx: &mut Ptx, plan: &'a HopperPlan) -> Self {
        let base = ptx.shared_memory();
        let thread = ptx.thread();
        let warp = ptx.shr(thread, 5);
        let warp = ptx.of_first_lane(warp);
        let lane = ptx.and(thread, 31);
        Self { plan, base, thread, warp, lane }
    }

    /// Address of copy `index` of a shared-memory buffer.
    pub(crate) fn buffer(&self, ptx: &mut Ptx, id: BufferId, index: impl Into<Source>) -> B32 {
        let at = ptx.mad(index, self.plan.buffer_bytes(id) as u32, self.base);
        ptx.add(at, self.plan.offset(id) as u32)
    }

    /// Splits the warps by role: consumer warpgroups come first, producer warps after them. Registers move
    /// from the producers to the consumers where the plan says so.
    pub(crate) fn specialize_warps(
        &self,
        ptx: &mut Ptx,
        consume: impl FnOnce(&mut Ptx),
        produce: impl FnOnce(&mut Ptx),
    ) {
        let split = self.plan.register_split();
        let (producer, end) = (ptx.label(), ptx.label());
        let is_producer = ptx.ge(self.warp, self.first_producer());
        ptx.jump_if(is_producer, producer);
        if let Some(split) = split {
            ptx.claim_registers(split.consumer as u32);
        }
        // PDL: the preceding kernel may still read what the epilogue overwrites. The next kernel may start
        // only now, because its loads would take bandwidth from this one's.
        ptx.wait_for_previous_kernel();
        ptx.let_next_kernel_start();
        consume(ptx);
        ptx.jump(end);
        ptx.place(producer);
        if let Some(split) = split {
            ptx.release_registers(split.producer as u32);
        }
        produce(ptx);
        ptx.place(end);
    }

    /// Emits `body` for one warp of the CTA.
    pub(crate) fn in_warp(&self, ptx: &mut Ptx, warp: u32, body: impl FnOnce(&mut Ptx)) {
        let is_it = ptx.eq(self.warp, warp);
        ptx.when(is_it, body);
    }

    /// Index of the first producer warp.
    pub(crate) fn first_producer(&self) -> u32 {
        4 * self.plan.consumers as u32
    }

    /// Waits for the other threads of this warpgroup.
    pub(crate) fn warpgroup_barrier(&self, ptx: &mut Ptx) {
        let group = ptx.shr(self.warp, 2);
        // Barrier 0 is the one of the whole CTA.
        let barrier = ptx.add(group, 1);
        ptx.barrier_of(barrier, WARPGROUP);
    }

    /// Threads of all consumer warpgroups.
    pub(crate) fn consumer_threads(&self) -> u32 {
        self.plan.consumers as u32 * WARPGROUP
    }
}

/// Where in the tile a consumer thread's accumulators lie.
///
/// Of every 64 rows x 8 columns of a wgmma a thread holds four: two neighbouring columns of row `lane_row`,
/// and of the row 8 below.
#[derive(Clone, Copy)]
pub(crate) struct Fragment {
    /// First of the warp's 16 rows in the first wave, counted from the tile's first row.
    pub(crate) warp_row: B32,
    /// The thread's row among the warp's.
    pub(crate) lane_row: B32,
    /// The thread's first column among 8.
    pub(crate) column: B32,
    /// The thread's index in its quad, the four lanes that share a row.
    pub(crate) quad: B32,
}

impl Fragment {
    pub(crate) fn new(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let (group, warp) = (ptx.shr(cta.warp, 2), ptx.and(cta.warp, 3));
        let group_row = ptx.mul(group, (cta.plan.waves() * WAVE_ROWS) as u32);
        let warp_row = ptx.mad(warp, 16, group_row);
        let lane_row = ptx.shr(cta.lane, 2);
        let quad = ptx.and(cta.lane, 3);
        let column = ptx.shl(quad, 1);
        Self { warp_row, lane_row, column, quad }
    }
}

/// Low halves of the wgmma descriptors of A and B in stage 0. Stages, waves and k-steps are constant
/// distances away.
pub(crate) struct Descriptors {
    a: B32,
    b: B32,
}

/// wgmma instructions along K of a stage: each takes 32 bytes of a row.
pub(crate) const K_STEPS: u32 = 4;

/// Bytes along K of one wgmma, in the descriptors' units of 16.
const K_STEP: u32 = 2;

impl Descriptors {
    pub(crate) fn new(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let group = ptx.shr(cta.warp, 2);
        let a = ptx.add(cta.base, cta.plan.offset(BufferId::A) as u32);
        let a = ptx.mad(group, (cta.plan.waves() * WAVE_ROWS * STAGE_K) as u32, a);
        let b = ptx.add(cta.base, cta.plan.offset(BufferId::B) as u32);
        Self { a: ptx.descriptor_low(a), b: ptx.descriptor_low(b) }
    }

    /// Descriptor of A in a stage, wave and k-step.
    pub(crate) fn a(&self, ptx: &mut Ptx, cta: &Cta<'_>, stage: B32, wave: usize, step: u32) -> B64 {
        let low = ptx.mad(stage, row_units(cta.plan.shape.tile.a), self.a);
        let low = ptx.add(low, row_units(wave * WAVE_ROWS) + step * K_STEP);
        ptx.descriptor(low)
    }

    /// Descriptor of B in a stage and k-step.
    pub(crate) fn b(&self, ptx: &mut Ptx, cta: &Cta<'_>, stage: B32, step: u32) -> B64 {
        let low = ptx.mad(stage, row_units(cta.plan.shape.tile.b), self.b);
        let low = ptx.add(low, step * K_STEP);
        ptx.descriptor(low)
    }
}

/// Size of some rows of a stage, in the descriptors' units of 16 bytes.
fn row_units(rows: usize) -> u32 {
    (rows * STAGE_K / 16) as u32
}

//! What every thread of a multiplying kernel knows: where it is and where its buffers are.

use octile_core::plan::hopper::{HopperPlan, STAGE_K, WAVE_ROWS};

use super::ptx::{B32, B64, Ptx, Source};

/// Threads of a warpgroup.
pub(super) const WARPGROUP: u32 = 128;

/// Registers that every role needs.
pub(super) struct Frame<'a> {
    pub(super) plan: &'a HopperPlan,
    /// Start of shared memory.
    pub(super) base: B32,
    /// Index of the thread in its block.
    pub(super) thread: B32,
    /// Index of the warp in its block, known to be the same in all its lanes.
    pub(super) warp: B32,
    /// Index of the thread in its warp.
    pub(super) lane: B32,
}

impl<'a> Frame<'a> {
    pub(super) fn new(ptx: &mut Ptx, plan: &'a HopperPlan) -> Self {
        let base = ptx.shared_memory();
        let thread = ptx.thread();
        let warp = ptx.shr(thread, 5);
        let warp = ptx.of_first_lane(warp);
        let lane = ptx.and(thread, 31);
        Self { plan, base, thread, warp, lane }
    }

    /// The address of copy `index` of a buffer.
    pub(super) fn buffer(&self, ptx: &mut Ptx, name: &str, index: impl Into<Source>) -> B32 {
        let at = ptx.mad(index, self.plan.buffer_bytes(name) as u32, self.base);
        ptx.add(at, self.plan.offset(name) as u32)
    }

    /// Waits for the other threads of this warpgroup.
    pub(super) fn warpgroup_barrier(&self, ptx: &mut Ptx) {
        let group = ptx.shr(self.warp, 2);
        // The first is that of the whole block.
        let barrier = ptx.add(group, 1);
        ptx.barrier_of(barrier, WARPGROUP);
    }

    /// Threads that multiply.
    pub(super) fn consumer_threads(&self) -> u32 {
        self.plan.consumers as u32 * WARPGROUP
    }
}

/// Where in the tile a multiplying thread's sums lie.
///
/// Of 64 rows x 8 columns a thread holds four sums: two neighbouring columns of row `row`, and of row `row + 8`.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The first of the warp's 16 rows in the first wave, counted from the tile's first row.
    pub(super) warp_row: B32,
    /// The thread's row among the warp's.
    pub(super) lane_row: B32,
    /// The thread's first column among 8.
    pub(super) column: B32,
    /// Lane within its four.
    pub(super) quad: B32,
}

impl Place {
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let (group, warp) = (ptx.shr(frame.warp, 2), ptx.and(frame.warp, 3));
        let group_row = ptx.mul(group, (frame.plan.waves() * WAVE_ROWS) as u32);
        let warp_row = ptx.mad(warp, 16, group_row);
        let lane_row = ptx.shr(frame.lane, 2);
        let quad = ptx.and(frame.lane, 3);
        let column = ptx.shl(quad, 1);
        Self { warp_row, lane_row, column, quad }
    }
}

/// Lower halves of the operands' descriptors in stage 0: later stages, waves and k-steps are constants away.
pub(super) struct Operands {
    a: B32,
    b: B32,
}

/// Steps along K of a stage.
pub(super) const K_STEPS: u32 = 4;

/// Bytes of a k-step of one matrix instruction, in the descriptors' units of 16.
const K_STEP: u32 = 2;

impl Operands {
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let group = ptx.shr(frame.warp, 2);
        let a = ptx.add(frame.base, frame.plan.offset("a") as u32);
        let a = ptx.mad(group, (frame.plan.waves() * WAVE_ROWS * STAGE_K) as u32, a);
        let b = ptx.add(frame.base, frame.plan.offset("b") as u32);
        Self { a: ptx.descriptor_low(a), b: ptx.descriptor_low(b) }
    }

    /// The descriptor of A in a stage, wave and k-step.
    pub(super) fn a(&self, ptx: &mut Ptx, frame: &Frame<'_>, stage: B32, wave: usize, step: u32) -> B64 {
        let low = ptx.mad(stage, units(frame.plan.shape.tile.a), self.a);
        let low = ptx.add(low, units(wave * WAVE_ROWS) + step * K_STEP);
        ptx.descriptor(low)
    }

    /// The descriptor of B in a stage and k-step.
    pub(super) fn b(&self, ptx: &mut Ptx, frame: &Frame<'_>, stage: B32, step: u32) -> B64 {
        let low = ptx.mad(stage, units(frame.plan.shape.tile.b), self.b);
        let low = ptx.add(low, step * K_STEP);
        ptx.descriptor(low)
    }
}

/// Rows in the descriptors' units of 16 bytes.
fn units(rows: usize) -> u32 {
    (rows * STAGE_K / 16) as u32
}

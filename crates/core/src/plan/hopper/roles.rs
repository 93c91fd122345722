//! Producer and consumer warps: threads, registers, and the arrivals that complete their barriers.

use super::{HopperPlan, Release};
use crate::Strategy;

/// Fewest stages that a CTA multiplies for which bulk copies of scales pay.
const BULK_STAGES: usize = 40;

/// Registers per thread of each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterSplit {
    /// Of a producer thread.
    pub producer: usize,
    /// Of a consumer thread.
    pub consumer: usize,
}

impl HopperPlan {
    /// Threads of a CTA: consumer warpgroups, then producer warps.
    pub fn threads(&self) -> usize {
        let producers = match (self.strategy, self.consumers) {
            (Strategy::Auto, _) => 0,
            // A whole warpgroup, because `setmaxnreg` works on warpgroups.
            (_, 2..) => 128,
            _ => 64,
        };
        128 * self.consumers + producers
    }

    /// Registers per thread after `setmaxnreg` has moved some from the producer to the consumer warpgroups.
    /// `None` with one consumer warpgroup, for which the launch's even share suffices.
    pub fn register_split(&self) -> Option<RegisterSplit> {
        let (producer, consumer) = match (self.strategy, self.consumers) {
            (Strategy::Auto, _) | (_, ..2) => return None,
            (_, 2) if self.blocks_per_sm == 2 => (32, 104),
            (_, 2) => (40, 232),
            _ => (32, 160),
        };
        Some(RegisterSplit { producer, consumer })
    }

    /// Whether scales are staged in shared memory beside the operands.
    pub fn stages_scales(&self) -> bool {
        matches!(self.strategy, Strategy::Smem | Strategy::Strip)
    }

    /// Whether one lane copies the scales of x of a stage in bulk. That leaves the load and store units to
    /// the consumers, but the first bulk copies land later than those of all lanes, which few stages cannot
    /// make up for.
    pub fn copies_scales_in_bulk(&self) -> bool {
        let tiles = (self.units.0 * self.units.1).div_ceil(self.blocks / self.shape.cluster.ctas_per_unit());
        let stages = tiles * self.k_blocks() / self.shape.cluster.parts();
        self.strategy == Strategy::Strip && !self.shape.swapped && stages >= BULK_STAGES
    }

    /// Arrivals that complete a stage's full barrier, beside its bytes: the thread that issues the TMA loads,
    /// and every lane of the warp that copies scales, or one lane for all of them.
    pub fn full_arrivals(&self) -> usize {
        if self.stages_scales() { 1 + 32 } else { 1 }
    }

    /// Arrivals that complete a stage's empty barrier: from the consumers of every CTA that this one's loads
    /// go to.
    pub fn empty_arrivals(&self) -> usize {
        let multicast = self.shape.cluster.is_multicast();
        let ctas = if multicast { 2 } else { 1 };
        let per_warpgroup = match self.release {
            Release::Warp => 4 * ctas,
            Release::Warpgroup => ctas,
            Release::Thread if multicast => 128 + 4 * ctas,
            Release::Thread => 128,
        };
        self.consumers * per_warpgroup
    }

    /// Arrivals that tell the producer warp of
    /// [`ResultPath::TmaStoreByProducer`](super::ResultPath::TmaStoreByProducer) that a tile is in shared
    /// memory.
    pub fn result_ready_arrivals(&self) -> usize {
        let per_warp = if self.release == Release::Thread { 32 } else { 1 };
        4 * self.consumers * per_warp
    }

    /// Whether one warp loads operands and scales. Each polling warp costs the consumers issue slots: beside
    /// three consumer warpgroups that outweighs loads that start a little sooner and a weight prefetched
    /// under PDL.
    pub fn has_single_producer_warp(&self) -> bool {
        self.strategy == Strategy::Strip && self.consumers == 3
    }
}

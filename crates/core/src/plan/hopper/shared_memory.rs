//! What a block keeps in shared memory, and where.

use super::{
    ClusterMode, GpuTile, HopperPlan, RESULT_COLUMNS, RESULT_ROWS, ResultPath, STAGE_K, TileConfig,
    chunks_per_part, w_scales_per_stage, waves,
};
use crate::{
    Problem, Strategy,
    plan::{MemoryMap, MemorySpace, Region},
};

/// Bytes of one mbarrier object (PTX ISA, "mbarrier").
const BARRIER_BYTES: usize = 8;

impl HopperPlan {
    /// Bytes of shared memory that a block asks for.
    pub fn shared_bytes(&self) -> usize {
        self.memory.total(MemorySpace::Shared)
    }

    /// Bytes of one copy of the buffer of this name.
    ///
    /// # Panics
    /// When the plan has no such buffer.
    pub fn buffer_bytes(&self, name: &str) -> usize {
        let region = self.memory.regions().iter().find(|region| region.name == name);
        region.expect("the plan has this buffer").bytes
    }

    /// Where the buffer of this name starts in shared memory.
    ///
    /// # Panics
    /// When the plan has no such buffer.
    pub fn offset(&self, name: &str) -> usize {
        let regions = self.memory.regions();
        let at = regions.iter().position(|region| region.name == name).expect("the plan has this buffer");
        regions[..at].iter().map(Region::total).sum()
    }
}

pub(super) fn shared_memory(
    problem: &Problem,
    strategy: Strategy,
    shape: TileConfig,
    result_path: ResultPath,
    consumers: usize,
    stages: usize,
) -> MemoryMap {
    let mut memory = MemoryMap::default();
    let GpuTile { a, b } = shape.tile;
    memory.push("a", MemorySpace::Shared, stages, a * STAGE_K);
    memory.push("b", MemorySpace::Shared, stages, b * STAGE_K);
    // Every warp writes parts of its own.
    let piece = RESULT_ROWS * RESULT_COLUMNS * problem.out.bytes();
    match result_path {
        ResultPath::Direct => {}
        ResultPath::Lines => memory.push("result", MemorySpace::Shared, 4 * consumers, piece),
        ResultPath::TmaStore | ResultPath::TmaStoreByWave => {
            let pieces = waves(shape, consumers) * b / RESULT_COLUMNS;
            memory.push("result", MemorySpace::Shared, 4 * consumers, pieces * piece);
        }
        ResultPath::TmaStoreByProducer => {
            // Those of a wave's four warps are stored cluster.
            let pieces = waves(shape, consumers) * consumers * b / RESULT_COLUMNS;
            memory.push("result", MemorySpace::Shared, pieces, 4 * piece);
        }
    }
    if let ClusterMode::SplitK(parts) = shape.cluster {
        let share = exchanged_sums(shape, consumers, parts);
        memory.push("exchange", MemorySpace::Shared, parts - 1, share * 128 * consumers * 4);
    }
    if matches!(strategy, Strategy::Smem | Strategy::Strip) {
        let x_rows = if shape.swapped { b } else { a };
        memory.push("x_scale", MemorySpace::Shared, stages, x_rows * 4);
        // Two at a time are read at once, so they start at a multiple of 8 bytes.
        let w_scales = w_scales_per_stage(shape).next_multiple_of(2);
        memory.push("w_scale", MemorySpace::Shared, stages, w_scales * 4);
    }
    if strategy != Strategy::Auto {
        memory.push("full", MemorySpace::Shared, stages, BARRIER_BYTES);
        memory.push("empty", MemorySpace::Shared, stages, BARRIER_BYTES);
        if result_path == ResultPath::TmaStoreByProducer {
            memory.push("result_ready", MemorySpace::Shared, 1, BARRIER_BYTES);
            memory.push("result_taken", MemorySpace::Shared, 1, BARRIER_BYTES);
            // Its first row and column.
            memory.push("result_tile", MemorySpace::Shared, 1, 8);
        }
    }
    memory
}

/// Sums that a thread of a block that divides K gets from each of the others: those of its share of the
/// tile's parts.
fn exchanged_sums(shape: TileConfig, consumers: usize, parts: usize) -> usize {
    let per_part = chunks_per_part(shape);
    let all = waves(shape, consumers) * (shape.tile.b / 8).div_ceil(per_part);
    all.div_ceil(parts) * 4 * per_part
}

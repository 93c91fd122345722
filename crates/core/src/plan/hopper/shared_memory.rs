//! Shared memory of a CTA: its buffers and their offsets.

use super::{
    ClusterMode, GpuTile, HopperPlan, RESULT_COLUMNS, RESULT_ROWS, ResultPath, STAGE_K, TileConfig,
    chunks_per_part, w_scales_per_stage, waves,
};
use crate::{
    Problem, Strategy,
    plan::{BufferId, ElementType, MemoryMap, MemorySpace, PlannedBuffer},
};

impl HopperPlan {
    /// Shared memory of a CTA, in bytes.
    pub fn shared_bytes(&self) -> usize {
        self.memory.total(MemorySpace::Shared)
    }

    /// Bytes of one copy of a buffer.
    ///
    /// # Panics
    /// When the plan has no such buffer.
    pub fn buffer_bytes(&self, id: BufferId) -> usize {
        self.memory.get(id).expect("the plan has this buffer").bytes
    }

    /// Offset of a buffer in shared memory.
    ///
    /// # Panics
    /// When the plan has no such buffer.
    pub fn offset(&self, id: BufferId) -> usize {
        let buffers = self.memory.buffers();
        let at = buffers.iter().position(|buffer| buffer.id == id).expect("the plan has this buffer");
        buffers[..at].iter().map(PlannedBuffer::total).sum()
    }
}

/// Where the CTAs of a cluster exchange accumulators of a tile that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Offset in shared memory.
    pub offset: usize,
    /// Bytes that a CTA receives from each of the others.
    pub share: usize,
}

impl HopperPlan {
    /// The exchange of clusters of `parts` CTAs: a buffer of its own with split-K. A tail takes the place of
    /// the stages that have been multiplied.
    pub fn exchange(&self, parts: usize) -> Exchange {
        let accumulators = exchanged_accumulators(self.shape, self.consumers, parts);
        let share = accumulators * 128 * self.consumers * size_of::<f32>();
        let offset = match self.shape.cluster {
            ClusterMode::SplitK(_) => self.offset(BufferId::Exchange),
            _ => self.offset(BufferId::A),
        };
        Exchange { offset, share }
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
    let mut push = |id, copies, element, shape: &[usize]| {
        memory.push(PlannedBuffer::new(id, MemorySpace::Shared, copies, element, shape));
    };
    let GpuTile { a, b } = shape.tile;
    push(BufferId::A, stages, ElementType::F8E4M3, &[a, STAGE_K]);
    push(BufferId::B, stages, ElementType::F8E4M3, &[b, STAGE_K]);
    let out = problem.out.into();
    match result_path {
        ResultPath::Direct => {}
        ResultPath::Lines | ResultPath::Elements => {
            push(BufferId::Result, 4 * consumers, out, &[RESULT_ROWS, RESULT_COLUMNS]);
        }
        ResultPath::TmaStore | ResultPath::TmaStoreByWave => {
            let subtiles = waves(shape, consumers) * b / RESULT_COLUMNS;
            push(BufferId::Result, 4 * consumers, out, &[subtiles, RESULT_ROWS, RESULT_COLUMNS]);
        }
        ResultPath::TmaStoreByProducer => {
            // One TMA store takes the subtiles of a wave's four warps.
            let subtiles = waves(shape, consumers) * consumers * b / RESULT_COLUMNS;
            push(BufferId::Result, subtiles, out, &[4, RESULT_ROWS, RESULT_COLUMNS]);
        }
    }
    if let ClusterMode::SplitK(parts) = shape.cluster {
        let share = exchanged_accumulators(shape, consumers, parts);
        push(BufferId::Exchange, parts - 1, ElementType::F32, &[share, 128 * consumers]);
    }
    if matches!(strategy, Strategy::Smem | Strategy::Strip) {
        let x_rows = if shape.swapped { b } else { a };
        push(BufferId::XScale, stages, ElementType::F32, &[x_rows]);
        // Consumers read two at once, so they are 8-byte aligned.
        let w_scales = w_scales_per_stage(shape).next_multiple_of(2);
        push(BufferId::WScale, stages, ElementType::F32, &[w_scales]);
    }
    if strategy != Strategy::Auto {
        push(BufferId::Full, stages, ElementType::B64, &[1]);
        push(BufferId::Empty, stages, ElementType::B64, &[1]);
        if result_path == ResultPath::TmaStoreByProducer {
            push(BufferId::ResultReady, 1, ElementType::B64, &[1]);
            push(BufferId::ResultTaken, 1, ElementType::B64, &[1]);
            // The tile's first row and column.
            push(BufferId::ResultTile, 1, ElementType::B64, &[1]);
        }
    }
    memory
}

/// Accumulators that a thread of a split-K CTA receives from each other CTA: those of the parts that its CTA
/// owns.
fn exchanged_accumulators(shape: TileConfig, consumers: usize, parts: usize) -> usize {
    let per_part = chunks_per_part(shape);
    let all = waves(shape, consumers) * (shape.tile.b / 8).div_ceil(per_part);
    all.div_ceil(parts) * 4 * per_part
}

//! TMA loads of operands A and B into a pipeline stage.

use octile_core::plan::{
    BufferId,
    hopper::{CachePriority, ClusterMode, STAGE_K},
};

use super::{cta::Cta, schedule::Tile};
use crate::hopper::ptx::{B32, B64, Policy, Ptx, TmaLoad};

/// Both operands.
pub(crate) struct TmaOperands {
    pub(crate) x: TmaOperand,
    pub(crate) w: TmaOperand,
}

impl TmaOperands {
    pub(crate) fn new(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let x_is_a = !cta.plan.shape.swapped;
        Self { x: TmaOperand::new(ptx, cta, x_is_a), w: TmaOperand::new(ptx, cta, !x_is_a) }
    }

    /// Loads both operands into an empty stage.
    pub(crate) fn load(&self, ptx: &mut Ptx, cta: &Cta<'_>, tile: Tile, k_block: B32, stage: B32) {
        expect_stage(ptx, cta, stage);
        self.x.load(ptx, cta, tile, k_block, stage);
        self.w.load(ptx, cta, tile, k_block, stage);
    }
}

/// Arrives on a stage's full barrier and announces the bytes of both operands.
pub(crate) fn expect_stage(ptx: &mut Ptx, cta: &Cta<'_>, stage: B32) {
    let tile = cta.plan.shape.tile;
    let full = cta.buffer(ptx, BufferId::Full, stage);
    ptx.arrive_expecting(full, ((tile.a + tile.b) * STAGE_K) as u32);
}

/// One operand.
pub(crate) struct TmaOperand {
    is_a: bool,
    map: B64,
    /// With multicast of this operand: first row of the half that this CTA loads for both.
    half: Option<B32>,
    policy: Policy,
}

impl TmaOperand {
    fn new(ptx: &mut Ptx, cta: &Cta<'_>, is_a: bool) -> Self {
        let tile = cta.plan.shape.tile;
        let (map, rows, multicast) = if is_a {
            ("map_a", tile.a, ClusterMode::MulticastA)
        } else {
            ("map_b", tile.b, ClusterMode::MulticastB)
        };
        let half = (cta.plan.shape.cluster == multicast).then(|| {
            let rank = ptx.cluster_rank();
            ptx.mul(rank, (rows / 2) as u32)
        });
        let is_weight = is_a == cta.plan.shape.swapped;
        let streams = is_weight && cta.plan.streams_weight;
        let policy = ptx.policy(if streams { CachePriority::EvictFirst } else { CachePriority::Normal });
        Self { is_a, map: ptx.tensor_map(map), half, policy }
    }

    /// Loads this operand's part of a stage.
    pub(crate) fn load(&self, ptx: &mut Ptx, cta: &Cta<'_>, tile: Tile, k_block: B32, stage: B32) {
        let (id, row) = if self.is_a { (BufferId::A, tile.a_row) } else { (BufferId::B, tile.b_row) };
        let load = TmaLoad {
            destination: cta.buffer(ptx, id, stage),
            map: self.map,
            column: ptx.mul(k_block, STAGE_K as u32),
            row,
            barrier: cta.buffer(ptx, BufferId::Full, stage),
            multicast: None,
            policy: self.policy,
        };
        let load = match self.half {
            Some(first_row) => multicast(ptx, load, first_row),
            None => load,
        };
        ptx.tma_load(load);
    }
}

/// Restricts a load to the rows from `first_row` on and sends them to both CTAs of the cluster.
fn multicast(ptx: &mut Ptx, load: TmaLoad, first_row: B32) -> TmaLoad {
    TmaLoad {
        destination: ptx.mad(first_row, STAGE_K as u32, load.destination),
        row: ptx.add(load.row, first_row),
        multicast: Some(0b11),
        ..load
    }
}

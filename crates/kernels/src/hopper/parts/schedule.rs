//! The tile scheduler: which tiles a CTA computes, in which order.

use octile_core::plan::hopper::ClusterMode;

use super::cta::Cta;
use crate::hopper::ptx::{B32, Ptx};

/// A CTA's tile of the result.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    /// First row of A.
    pub(crate) a_row: B32,
    /// First row of B.
    pub(crate) b_row: B32,
}

/// The blocks of [`STAGE_K`](octile_core::plan::hopper::STAGE_K) columns of K that a CTA multiplies.
#[derive(Clone, Copy)]
pub(crate) struct KRange {
    pub(crate) first: B32,
    /// One past the last.
    pub(crate) end: B32,
}

impl KRange {
    /// All of K, or with split-K this CTA's share.
    pub(crate) fn new(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let k_blocks = ptx.number("k_blocks");
        let ClusterMode::SplitK(parts) = cta.plan.shape.cluster else {
            return Self { first: ptx.variable(0), end: k_blocks };
        };
        let rank = ptx.cluster_rank();
        let share = |ptx: &mut Ptx, rank: B32| {
            let blocks = ptx.mul(k_blocks, rank);
            ptx.div(blocks, parts as u32)
        };
        let first = share(ptx, rank);
        let next = ptx.add(rank, 1);
        Self { first, end: share(ptx, next) }
    }
}

/// A unit of scheduling: the tile of a CTA, or the tiles of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct ClusterTile {
    index: B32,
    a_units: B32,
    b_units: B32,
}

impl ClusterTile {
    /// The first one of this CTA.
    pub(crate) fn first(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let first = if is_clustered(cta) { ptx.cluster() } else { ptx.block() };
        Self { index: ptx.variable(first), a_units: ptx.number("a_units"), b_units: ptx.number("b_units") }
    }

    /// This CTA's tile of it. The raster order takes groups of `raster` along A: within a group, A runs
    /// fastest.
    pub(crate) fn tile(self, ptx: &mut Ptx, cta: &Cta<'_>) -> Tile {
        let Self { index, a_units, b_units } = self;
        let raster = ptx.number("raster");
        let per_group = ptx.mul(raster, b_units);
        let group = ptx.div(index, per_group);
        let in_group = ptx.rem(index, per_group);
        let group_start = ptx.mul(group, raster);
        let left = ptx.sub(a_units, group_start);
        let width = ptx.min(raster, left);
        let a_in_group = ptx.rem(in_group, width);
        let mut a = ptx.add(group_start, a_in_group);
        let mut b = ptx.div(in_group, width);
        match cta.plan.shape.cluster {
            ClusterMode::Single | ClusterMode::SplitK(_) => {}
            ClusterMode::MulticastA => {
                let rank = ptx.cluster_rank();
                b = ptx.mad(b, 2, rank);
            }
            ClusterMode::MulticastB => {
                let rank = ptx.cluster_rank();
                a = ptx.mad(a, 2, rank);
            }
        }
        let tile = cta.plan.shape.tile;
        Tile { a_row: ptx.mul(a, tile.a as u32), b_row: ptx.mul(b, tile.b as u32) }
    }
}

/// Runs `body` for every cluster tile of this CTA. Every role goes through the same ones in the same order.
pub(crate) fn for_each_tile(ptx: &mut Ptx, cta: &Cta<'_>, body: impl FnOnce(&mut Ptx, ClusterTile)) {
    let work = ClusterTile::first(ptx, cta);
    let step = if is_clustered(cta) { ptx.clusters() } else { ptx.blocks() };
    let count = ptx.mul(work.a_units, work.b_units);
    ptx.while_(
        |ptx| ptx.lt(work.index, count),
        |ptx| {
            body(ptx, work);
            ptx.increase(work.index, step);
        },
    );
}

fn is_clustered(cta: &Cta<'_>) -> bool {
    cta.plan.shape.cluster.ctas() > 1
}

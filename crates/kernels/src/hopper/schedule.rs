//! Which tiles a block computes, in which order.

use octile_core::plan::hopper::ClusterMode;

use super::{
    frame::Frame,
    ptx::{B32, Ptx},
};

/// Where a tile is.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// First row of A.
    pub(super) a_row: B32,
    /// First row of B.
    pub(super) b_row: B32,
}

/// The stages of K that a block multiplies.
#[derive(Clone, Copy)]
pub(super) struct Stages {
    pub(super) first: B32,
    /// The one after the last.
    pub(super) end: B32,
}

impl Stages {
    /// All of K, or this block's part of it.
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let k_blocks = ptx.number("k_blocks");
        let ClusterMode::SplitK(parts) = frame.plan.shape.cluster else {
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

/// A piece of work: a tile, or one of the tiles that a cluster computes cluster.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    index: B32,
    a_units: B32,
    b_units: B32,
}

impl Unit {
    /// The first one of this block.
    pub(super) fn first(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let first = if is_clustered(frame) { ptx.cluster() } else { ptx.block() };
        Self { index: ptx.variable(first), a_units: ptx.number("a_units"), b_units: ptx.number("b_units") }
    }

    /// Its tile. Units are taken in groups of `raster` along A: within a group, A runs fastest.
    pub(super) fn tile(self, ptx: &mut Ptx, frame: &Frame<'_>) -> Tile {
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
        match frame.plan.shape.cluster {
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
        let tile = frame.plan.shape.tile;
        Tile { a_row: ptx.mul(a, tile.a as u32), b_row: ptx.mul(b, tile.b as u32) }
    }
}

/// Runs `body` for every unit of this block. Every role runs through the same units in the same order.
pub(super) fn for_each_unit(ptx: &mut Ptx, frame: &Frame<'_>, body: impl FnOnce(&mut Ptx, Unit)) {
    let unit = Unit::first(ptx, frame);
    let step = if is_clustered(frame) { ptx.clusters() } else { ptx.blocks() };
    let units = ptx.mul(unit.a_units, unit.b_units);
    ptx.while_(
        |ptx| ptx.lt(unit.index, units),
        |ptx| {
            body(ptx, unit);
            ptx.increase(unit.index, step);
        },
    );
}

fn is_clustered(frame: &Frame<'_>) -> bool {
    frame.plan.shape.cluster.ctas() > 1
}

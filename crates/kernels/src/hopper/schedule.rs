//! Which tiles a block computes, in which order.

use octile_core::plan::hopper::Together;

use super::{
    frame::Frame,
    ptx::{B32, Ptx},
};

/// One tile.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// First row of A.
    pub(super) a_row: B32,
    /// First row of B.
    pub(super) b_row: B32,
    /// First stage along K.
    pub(super) first: B32,
    /// Stage after the last.
    pub(super) end: B32,
}

/// Runs `body` for every tile of this block. Every role runs through the same tiles in the same order.
pub(super) fn for_each_tile(ptx: &mut Ptx, frame: &Frame<'_>, body: impl FnOnce(&mut Ptx, Tile)) {
    let clustered = frame.plan.shape.together.blocks() > 1;
    let (first, step) = if clustered { (ptx.cluster(), ptx.clusters()) } else { (ptx.block(), ptx.blocks()) };
    let (a_units, b_units) = (ptx.number("a_units"), ptx.number("b_units"));
    let units = ptx.mul(a_units, b_units);
    let unit = ptx.variable(first);
    ptx.while_(
        |ptx| ptx.lt(unit, units),
        |ptx| {
            let tile = tile_of(ptx, frame, unit, a_units, b_units);
            body(ptx, tile);
            ptx.increase(unit, step);
        },
    );
}

/// Units are taken in groups of `raster` along A: within a group, A runs fastest.
fn tile_of(ptx: &mut Ptx, frame: &Frame<'_>, unit: B32, a_units: B32, b_units: B32) -> Tile {
    let plan = frame.plan;
    let raster = ptx.number("raster");
    let per_group = ptx.mul(raster, b_units);
    let group = ptx.div(unit, per_group);
    let in_group = ptx.rem(unit, per_group);
    let group_start = ptx.mul(group, raster);
    let left = ptx.sub(a_units, group_start);
    let width = ptx.min(raster, left);
    let a_in_group = ptx.rem(in_group, width);
    let mut a = ptx.add(group_start, a_in_group);
    let mut b = ptx.div(in_group, width);
    let k_blocks = ptx.number("k_blocks");
    let (mut first, mut end) = (ptx.variable(0), k_blocks);
    match plan.shape.together {
        Together::Alone => {}
        Together::ShareA => {
            let rank = ptx.cluster_rank();
            b = ptx.mad(b, 2, rank);
        }
        Together::ShareB => {
            let rank = ptx.cluster_rank();
            a = ptx.mad(a, 2, rank);
        }
        Together::SplitK(parts) => {
            let rank = ptx.cluster_rank();
            let share = |ptx: &mut Ptx, rank: B32| {
                let blocks = ptx.mul(k_blocks, rank);
                ptx.div(blocks, parts as u32)
            };
            first = share(ptx, rank);
            let next = ptx.add(rank, 1);
            end = share(ptx, next);
        }
    }
    let a_row = ptx.mul(a, plan.shape.tile.a as u32);
    let b_row = ptx.mul(b, plan.shape.tile.b as u32);
    Tile { a_row, b_row, first, end }
}

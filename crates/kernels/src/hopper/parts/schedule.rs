//! The tile scheduler: which tiles a CTA computes, in which order.

use octile_core::plan::hopper::ClusterMode;

use super::cta::Cta;
use crate::hopper::ptx::{B32, Pred, Ptx};

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
        let parts = match cta.plan.shape.cluster {
            ClusterMode::SplitK(parts) => parts,
            ClusterMode::SplitTail => return Self { first: ptx.variable(0), end: ptx.variable(k_blocks) },
            _ => return Self { first: ptx.variable(0), end: k_blocks },
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

    /// Shrinks to the half of this CTA, where the range is a pair of variables.
    fn halve(self, ptx: &mut Ptx) {
        let middle = ptx.shr(self.end, 1);
        let rank = ptx.cluster_rank();
        let is_first = ptx.eq(rank, 0);
        let (first, end) = (ptx.select(0, middle, is_first), ptx.select(middle, self.end, is_first));
        ptx.set(self.first, first);
        ptx.set(self.end, end);
    }
}

/// A unit of scheduling: the tile of a CTA, or the tiles of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct ClusterTile {
    index: B32,
    a_units: B32,
    b_units: B32,
    /// With [`ClusterMode::SplitTail`]: whether the cluster shares this tile, 0 or 1.
    in_tail: Option<B32>,
}

impl ClusterTile {
    /// The first one of this CTA.
    pub(crate) fn first(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let first = if has_tile_per_cluster(cta) { ptx.cluster() } else { ptx.block() };
        let index = ptx.variable(first);
        let (a_units, b_units) = (ptx.number("a_units"), ptx.number("b_units"));
        let in_tail = (cta.plan.shape.cluster == ClusterMode::SplitTail).then(|| ptx.variable(0));
        Self { index, a_units, b_units, in_tail }
    }

    /// Emits `shared` for a tile that the cluster shares, and `whole` for others.
    pub(crate) fn if_shared(
        self,
        ptx: &mut Ptx,
        shared: impl FnOnce(&mut Ptx),
        whole: impl FnOnce(&mut Ptx),
    ) {
        let Some(in_tail) = self.in_tail else { return whole(ptx) };
        let (is_whole, end) = (ptx.label(), ptx.label());
        let is_shared = ptx.ne(in_tail, 0);
        ptx.jump_unless(is_shared, is_whole);
        shared(ptx);
        ptx.jump(end);
        ptx.place(is_whole);
        whole(ptx);
        ptx.place(end);
    }

    /// This CTA's tile of it. The raster order takes groups of `raster` along A: within a group, A runs
    /// fastest.
    pub(crate) fn tile(self, ptx: &mut Ptx, cta: &Cta<'_>) -> Tile {
        let Self { index, a_units, b_units, .. } = self;
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
            ClusterMode::Single | ClusterMode::SplitK(_) | ClusterMode::SplitTail => {}
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
/// For a tile that a cluster shares, `k` shrinks to this CTA's half.
pub(crate) fn for_each_tile(
    ptx: &mut Ptx,
    cta: &Cta<'_>,
    k: KRange,
    body: impl FnOnce(&mut Ptx, ClusterTile),
) {
    let work = ClusterTile::first(ptx, cta);
    let step = if has_tile_per_cluster(cta) { ptx.clusters() } else { ptx.blocks() };
    let count = ptx.mul(work.a_units, work.b_units);
    let tail = work.in_tail.map(|in_tail| (in_tail, Tail::new(ptx, count, step)));
    ptx.while_(
        |ptx| ptx.lt(work.index, count),
        |ptx| {
            body(ptx, work);
            ptx.increase(work.index, step);
            let Some((in_tail, tail)) = tail else { return };
            let is_over = ptx.ge(work.index, tail.first);
            ptx.when(is_over, |ptx| {
                let was_in_tail = ptx.ne(in_tail, 0);
                let next = ptx.select(count, tail.of_cluster, was_in_tail);
                ptx.set(work.index, next);
                ptx.set(in_tail, 1);
                k.halve(ptx);
            });
        },
    );
}

/// Whether this CTA's cluster shares a tile.
pub(crate) fn shares_tile(ptx: &mut Ptx, cta: &Cta<'_>) -> Pred {
    let ClusterTile { a_units, b_units, .. } = ClusterTile::first(ptx, cta);
    let (count, step) = (ptx.mul(a_units, b_units), ptx.blocks());
    let tail = Tail::new(ptx, count, step);
    ptx.lt(tail.of_cluster, count)
}

/// The tiles behind the last full wave, one for each of the first clusters.
#[derive(Clone, Copy)]
struct Tail {
    first: B32,
    /// The tile of this CTA's cluster; behind the last one where there is none.
    of_cluster: B32,
}

impl Tail {
    fn new(ptx: &mut Ptx, count: B32, ctas: B32) -> Self {
        let left = ptx.rem(count, ctas);
        let first = ptx.sub(count, left);
        let cluster = ptx.cluster();
        Self { first, of_cluster: ptx.add(first, cluster) }
    }
}

/// Whether the CTAs of a cluster work on one tile or on neighbouring ones, not each on tiles of its own.
fn has_tile_per_cluster(cta: &Cta<'_>) -> bool {
    !matches!(cta.plan.shape.cluster, ClusterMode::Single | ClusterMode::SplitTail)
}

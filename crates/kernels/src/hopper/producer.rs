//! The warp that tells the copy engine what to fetch, and in some plans what to store.

use octile_core::plan::hopper::{ClusterMode, ResultPath, STAGE_K};

use super::{
    frame::Frame,
    outbox::Outbox,
    ptx::{B32, B64, CachePriority, Policy, Ptx, TmaLoad},
    ring::Cursor,
    schedule::{Stages, Tile, Unit, for_each_unit},
};

pub(super) fn emit(ptx: &mut Ptx, frame: &Frame<'_>) {
    let stages = Stages::new(ptx, frame);
    let operands = FetchedOperands::new(ptx, frame);
    let cursor = Cursor::new(ptx);
    let done = start_ring(ptx, frame, &cursor, stages, &operands);
    let by_stage = frame.plan.result_path == ResultPath::TmaStoreByProducer;
    let outbox = by_stage.then(|| Outbox::new(ptx, frame, stages.end, done));
    for_each_unit(ptx, frame, |ptx, unit| {
        let tile = unit.tile(ptx, frame);
        if let Some(outbox) = &outbox {
            outbox.expect_tile(ptx);
        }
        let k_block = ptx.variable(stages.first);
        ptx.increase(k_block, done);
        ptx.set(done, 0);
        ptx.while_(
            |ptx| ptx.lt(k_block, stages.end),
            |ptx| {
                let empty = frame.buffer(ptx, "empty", cursor.stage);
                // Before the first turn every stage is empty: waiting for the turn before it passes at once.
                let turn_before = ptx.xor(cursor.turn, 1);
                ptx.wait(empty, turn_before);
                ptx.in_one_lane(|ptx| operands.fetch(ptx, frame, tile, k_block, cursor.stage));
                if let Some(outbox) = &outbox {
                    outbox.take_some(ptx, frame);
                }
                cursor.advance(ptx, frame);
                ptx.increase(k_block, 1);
            },
        );
    });
    if let Some(outbox) = &outbox {
        outbox.take_rest(ptx, frame);
    }
}

/// Fills the ring for the first time, as far as the first unit reaches, and returns how many stages that were. Where the
/// weight is constant its part is fetched while the kernel before this one still works on x.
fn start_ring(
    ptx: &mut Ptx,
    frame: &Frame<'_>,
    cursor: &Cursor,
    stages: Stages,
    FetchedOperands { x, w }: &FetchedOperands,
) -> B32 {
    let tile = Unit::first(ptx, frame).tile(ptx, frame);
    let count = ptx.sub(stages.end, stages.first);
    let count = ptx.min(count, frame.plan.stages as u32);
    let constant = ptx.number("constant_weight");
    let may_change = ptx.eq(constant, 0);
    ptx.when(may_change, Ptx::wait_for_previous_kernel);
    let each = |ptx: &mut Ptx, fetch: &dyn Fn(&mut Ptx, B32, B32)| {
        let stage = ptx.variable(0);
        ptx.while_(
            |ptx| ptx.lt(stage, count),
            |ptx| {
                let k_block = ptx.add(stages.first, stage);
                ptx.in_one_lane(|ptx| fetch(ptx, stage, k_block));
                ptx.increase(stage, 1);
            },
        );
    };
    each(ptx, &|ptx, stage, k_block| {
        expect_stage(ptx, frame, stage);
        w.fetch(ptx, frame, tile, k_block, stage);
    });
    ptx.wait_for_previous_kernel();
    each(ptx, &|ptx, stage, k_block| x.fetch(ptx, frame, tile, k_block, stage));
    cursor.set(ptx, frame, count);
    ptx.variable(count)
}

/// Tells a stage how much will land in it.
fn expect_stage(ptx: &mut Ptx, frame: &Frame<'_>, stage: B32) {
    let tile = frame.plan.shape.tile;
    let full = frame.buffer(ptx, "full", stage);
    ptx.arrive_expecting(full, ((tile.a + tile.b) * STAGE_K) as u32);
}

/// Both operands.
pub(super) struct FetchedOperands {
    x: Operand,
    w: Operand,
}

impl FetchedOperands {
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let x_is_a = !frame.plan.shape.swapped;
        Self { x: Operand::new(ptx, frame, x_is_a), w: Operand::new(ptx, frame, !x_is_a) }
    }

    /// Asks for a stage, which is empty.
    pub(super) fn fetch(&self, ptx: &mut Ptx, frame: &Frame<'_>, tile: Tile, k_block: B32, stage: B32) {
        expect_stage(ptx, frame, stage);
        self.x.fetch(ptx, frame, tile, k_block, stage);
        self.w.fetch(ptx, frame, tile, k_block, stage);
    }
}

/// One operand as the copy engine knows it.
struct Operand {
    is_a: bool,
    map: B64,
    /// In a cluster that shares this operand: the first row of the half that this block fetches for both.
    part: Option<B32>,
    policy: Policy,
}

impl Operand {
    fn new(ptx: &mut Ptx, frame: &Frame<'_>, is_a: bool) -> Self {
        let tile = frame.plan.shape.tile;
        let (map, rows, sharing) = if is_a {
            ("map_a", tile.a, ClusterMode::MulticastA)
        } else {
            ("map_b", tile.b, ClusterMode::MulticastB)
        };
        let part = (frame.plan.shape.cluster == sharing).then(|| {
            let rank = ptx.cluster_rank();
            ptx.mul(rank, (rows / 2) as u32)
        });
        let is_weight = is_a == frame.plan.shape.swapped;
        let passes = is_weight && frame.plan.streams_weight;
        let policy = ptx.policy(if passes { CachePriority::EvictFirst } else { CachePriority::Normal });
        Self { is_a, map: ptx.tensor_map(map), part, policy }
    }

    /// Asks for this operand's part of a stage.
    fn fetch(&self, ptx: &mut Ptx, frame: &Frame<'_>, tile: Tile, k_block: B32, stage: B32) {
        let (name, row) = if self.is_a { ("a", tile.a_row) } else { ("b", tile.b_row) };
        let load = TmaLoad {
            destination: frame.buffer(ptx, name, stage),
            map: self.map,
            column: ptx.mul(k_block, STAGE_K as u32),
            row,
            barrier: frame.buffer(ptx, "full", stage),
            multicast: None,
            policy: self.policy,
        };
        let load = match self.part {
            Some(part) => for_both(ptx, load, part),
            None => load,
        };
        ptx.tma_load(load);
    }
}

/// The part of a tile that this block fetches for both blocks of the cluster.
fn for_both(ptx: &mut Ptx, load: TmaLoad, first_row: B32) -> TmaLoad {
    TmaLoad {
        destination: ptx.mad(first_row, STAGE_K as u32, load.destination),
        row: ptx.add(load.row, first_row),
        multicast: Some(0b11),
        ..load
    }
}

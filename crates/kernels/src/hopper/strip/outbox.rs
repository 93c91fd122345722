//! The producer warp issues TMA stores of the previous tile, interleaved with its loads. All SMs finish their
//! tiles at the same time: stored at once, the results would hold up everyone's operand loads.
//!
//! Two barriers order the two sides: consumers arrive on `result_ready` when a tile is in shared memory, the
//! producer on `result_taken` when TMA has read it.

use octile_core::plan::{
    BufferId,
    hopper::{HopperPlan, RESULT_COLUMNS, Release, WAVE_ROWS},
};

use super::staged::Staging;
use crate::hopper::{
    parts::{accumulators::Accumulators, cta::Cta, schedule::Tile},
    ptx::{B32, Ptx, Shared},
};

/// Initializes the two barriers.
pub(super) fn init_barriers(ptx: &mut Ptx, cta: &Cta<'_>) {
    let plan = cta.plan;
    let ready = plan.result_ready_arrivals() as u32;
    ptx.barrier_init(Shared(cta.base, plan.offset(BufferId::ResultReady) as u32), ready);
    ptx.barrier_init(Shared(cta.base, plan.offset(BufferId::ResultTaken) as u32), 1);
}

/// The consumers' side.
pub(super) struct ResultSender {
    /// Parity of the tile.
    phase: B32,
}

impl ResultSender {
    pub(super) fn new(ptx: &mut Ptx) -> Self {
        Self { phase: ptx.variable(0) }
    }

    /// Writes the warp's part of a tile to shared memory, once TMA has read the previous tile.
    pub(super) fn send(&self, ptx: &mut Ptx, cta: &Cta<'_>, tile: Tile, accumulators: &Accumulators) {
        let taken = cta.buffer(ptx, BufferId::ResultTaken, 0);
        let previous_phase = ptx.xor(self.phase, 1);
        ptx.wait(taken, previous_phase);
        let subtiles = accumulators.promoted.len() * cta.plan.shape.tile.b / RESULT_COLUMNS;
        Staging::of_waves(ptx, cta).write_subtiles(ptx, cta, accumulators, 0..subtiles);
        let is_first = ptx.eq(cta.thread, 0);
        ptx.when(is_first, |ptx| {
            let at = cta.buffer(ptx, BufferId::ResultTile, 0);
            ptx.store_shared_8(Shared(at, 0), [tile.a_row, tile.b_row]);
        });
        ptx.fence_shared_stores();
        let ready = cta.buffer(ptx, BufferId::ResultReady, 0);
        if cta.plan.release == Release::Thread {
            ptx.arrive(ready);
        } else {
            ptx.warp_barrier();
            ptx.in_one_lane(|ptx| ptx.arrive(ready));
        }
        ptx.flip(self.phase, 1);
    }
}

/// The producer's side.
///
/// The producer loads a stage when its previous contents, one pass through the pipeline ago, have been
/// multiplied. If those were of the CTA's second tile, the first tile is ready. Its subtiles are stored with
/// the loads of the following stages, and those of the last tiles after the last load.
pub(super) struct Outbox {
    /// Stages of a tile.
    stages: B32,
    /// Loads until the first tile is ready. Waiting for one more would deadlock: consumers may wait for the
    /// staging buffer before they release another stage.
    until_ready: B32,
    /// Tiles started, and tiles whose results have been stored.
    started: B32,
    stored: B32,
    /// Parity of the current tile.
    phase: B32,
    /// Loads since the current tile is ready.
    loads: B32,
    /// Subtiles of it that are stored; one more once the staging buffer is handed back.
    subtile: B32,
    subtiles_per_load: B32,
}

impl Outbox {
    /// To be made when `loaded` stages are loaded.
    pub(super) fn new(ptx: &mut Ptx, cta: &Cta<'_>, stages: B32, loaded: B32) -> Self {
        let until_ready = ptx.add(stages, cta.plan.stages as u32);
        let until_ready = ptx.sub(until_ready, loaded);
        // Consumers that finish the next tile wait for the staging buffer: hand it back before its last
        // stage.
        let is_short = ptx.lt(stages, 3);
        let spread = ptx.sub(stages, 2);
        let spread = ptx.select(1, spread, is_short);
        let subtiles_per_load = ptx.add(spread, subtiles(cta.plan) - 1);
        Self {
            // A copy: the range of a tile that the cluster shares is shorter.
            stages: ptx.variable(stages),
            until_ready: ptx.variable(until_ready),
            started: ptx.variable(0),
            stored: ptx.variable(0),
            phase: ptx.variable(0),
            loads: ptx.variable(0),
            subtile: ptx.variable(0),
            subtiles_per_load: ptx.div(subtiles_per_load, spread),
        }
    }

    /// Counts a tile that the producer starts to load.
    pub(super) fn expect_tile(&self, ptx: &mut Ptx) {
        ptx.increase(self.started, 1);
    }

    /// Stores what is due with the load just issued.
    pub(super) fn store_some(&self, ptx: &mut Ptx, cta: &Cta<'_>) {
        let (is_early, end) = (ptx.label(), ptx.label());
        let early = ptx.ne(self.until_ready, 0);
        ptx.jump_if(early, is_early);
        self.wait_for_tile(ptx, cta);
        let is_left = ptx.lt(self.subtile, subtiles(cta.plan));
        let (all_stored, next) = (ptx.label(), ptx.label());
        ptx.jump_unless(is_left, all_stored);
        self.store(ptx, cta, self.subtiles_per_load);
        ptx.jump(next);
        ptx.place(all_stored);
        self.hand_back(ptx, cta);
        ptx.place(next);
        ptx.increase(self.loads, 1);
        let is_over = ptx.eq(self.loads, self.stages);
        ptx.when(is_over, |ptx| self.next_tile(ptx, cta));
        ptx.jump(end);
        ptx.place(is_early);
        let less = ptx.sub(self.until_ready, 1);
        ptx.set(self.until_ready, less);
        ptx.place(end);
    }

    /// Stores what is left after the last load.
    pub(super) fn store_rest(&self, ptx: &mut Ptx, cta: &Cta<'_>) {
        let all = ptx.variable(subtiles(cta.plan));
        ptx.while_(
            |ptx| ptx.lt(self.stored, self.started),
            |ptx| {
                self.wait_for_tile(ptx, cta);
                self.store(ptx, cta, all);
                self.next_tile(ptx, cta);
            },
        );
    }

    /// Before a tile's first subtile: waits until the tile is in shared memory.
    fn wait_for_tile(&self, ptx: &mut Ptx, cta: &Cta<'_>) {
        let begins = ptx.eq(self.loads, 0);
        ptx.when(begins, |ptx| {
            let ready = cta.buffer(ptx, BufferId::ResultReady, 0);
            ptx.wait(ready, self.phase);
        });
    }

    /// Starts TMA stores of `count` subtiles, or as many as are left.
    fn store(&self, ptx: &mut Ptx, cta: &Cta<'_>, count: B32) {
        let per_wave = (cta.plan.shape.tile.b / RESULT_COLUMNS) as u32;
        let end = ptx.add(self.subtile, count);
        let end = ptx.min(end, subtiles(cta.plan));
        ptx.while_(
            |ptx| ptx.lt(self.subtile, end),
            |ptx| {
                ptx.in_one_lane(|ptx| {
                    let tile = cta.buffer(ptx, BufferId::ResultTile, 0);
                    let [row, column] = ptx.load_shared_8(Shared(tile, 0));
                    let (wave, in_wave) = (ptx.div(self.subtile, per_wave), ptx.rem(self.subtile, per_wave));
                    let row = ptx.mad(wave, WAVE_ROWS as u32, row);
                    let column = ptx.mad(in_wave, RESULT_COLUMNS as u32, column);
                    let source = cta.buffer(ptx, BufferId::Result, self.subtile);
                    let map = ptx.tensor_map("map_out");
                    ptx.tma_store(map, column, row, Shared(source, 0));
                    ptx.tma_store_commit();
                });
                ptx.increase(self.subtile, 1);
            },
        );
    }

    /// Hands the staging buffer back once TMA has read it, unless that is done.
    fn hand_back(&self, ptx: &mut Ptx, cta: &Cta<'_>) {
        let is_due = ptx.eq(self.subtile, subtiles(cta.plan));
        ptx.when(is_due, |ptx| {
            ptx.in_one_lane(|ptx| {
                ptx.tma_store_wait_until_read();
                let taken = cta.buffer(ptx, BufferId::ResultTaken, 0);
                ptx.arrive(taken);
            });
            ptx.increase(self.subtile, 1);
        });
    }

    fn next_tile(&self, ptx: &mut Ptx, cta: &Cta<'_>) {
        self.hand_back(ptx, cta);
        ptx.increase(self.stored, 1);
        ptx.flip(self.phase, 1);
        ptx.set(self.loads, 0);
        ptx.set(self.subtile, 0);
    }
}

/// Subtiles of a tile, each of a wave's 64 rows.
fn subtiles(plan: &HopperPlan) -> u32 {
    let tile = plan.shape.tile;
    (tile.a / WAVE_ROWS * (tile.b / RESULT_COLUMNS)) as u32
}

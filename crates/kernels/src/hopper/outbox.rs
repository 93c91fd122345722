//! Results that leave through the warp that fetches, a part of a tile with every stage that it asks for. All multiprocessors finish their tiles
//! at the same time: handed over at once, their results would hold up everyone's operands.

use octile_core::plan::hopper::{HopperPlan, RESULT_COLUMNS, Release, WAVE_ROWS};

use super::{
    frame::Frame,
    ptx::{B32, Ptx, Shared},
    schedule::Tile,
    staged::Staging,
    sums::Sums,
};

/// Makes the barriers between the two sides.
pub(super) fn make_barriers(ptx: &mut Ptx, frame: &Frame<'_>) {
    let plan = frame.plan;
    let arrivals_per_warp = if plan.release == Release::Thread { 32 } else { 1 };
    let arrivals = 4 * plan.consumers as u32 * arrivals_per_warp;
    ptx.barrier_init(Shared(frame.base, plan.offset("result_ready") as u32), arrivals);
    ptx.barrier_init(Shared(frame.base, plan.offset("result_taken") as u32), 1);
}

/// The side of the warps that multiply.
pub(super) struct Sender {
    /// Parity of the tile.
    turn: B32,
}

impl Sender {
    pub(super) fn new(ptx: &mut Ptx) -> Self {
        Self { turn: ptx.variable(0) }
    }

    /// Puts the warp's part of a tile where the other side finds it, once the tile before has been taken.
    pub(super) fn put(&self, ptx: &mut Ptx, frame: &Frame<'_>, tile: Tile, sums: &Sums) {
        let taken = frame.buffer(ptx, "result_taken", 0);
        let turn_before = ptx.xor(self.turn, 1);
        ptx.wait(taken, turn_before);
        let pieces_of_warp = sums.waves.len() * frame.plan.shape.tile.b / RESULT_COLUMNS;
        Staging::of_waves(ptx, frame).write_pieces(ptx, frame, sums, 0..pieces_of_warp);
        let is_first = ptx.eq(frame.thread, 0);
        ptx.when(is_first, |ptx| {
            let at = frame.buffer(ptx, "result_tile", 0);
            ptx.store_shared_8(Shared(at, 0), [tile.a_row, tile.b_row]);
        });
        ptx.fence_shared_stores();
        let ready = frame.buffer(ptx, "result_ready", 0);
        if frame.plan.release == Release::Thread {
            ptx.arrive(ready);
        } else {
            ptx.warp_barrier();
            ptx.in_one_lane(|ptx| ptx.arrive(ready));
        }
        ptx.flip(self.turn, 1);
    }
}

/// The side of the warp that fetches.
///
/// It asks for a stage when the one that was there before, a turn of the ring ago, has been multiplied. If that was one of a block's second tile,
/// the first tile is ready; a tile's pieces are taken with the stages of the next one, and what is left when there are no more stages, at the end.
pub(super) struct Outbox {
    /// Stages of a tile.
    stages: B32,
    /// Stages to ask for until the first tile is ready. One more would be too late: those who multiply may wait for the place of
    /// its results before they free another stage.
    until_ready: B32,
    /// Tiles that were begun to be fetched, and of them those whose results were taken.
    tiles: B32,
    taken: B32,
    /// Parity of the tile at hand.
    turn: B32,
    /// Stages asked for since that one is ready.
    at: B32,
    /// Pieces of it that the copy engine was told of; one more when their place was given back.
    piece: B32,
    pieces_per_stage: B32,
}

impl Outbox {
    /// To be made when `asked` stages have been asked for.
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>, stages: B32, asked: B32) -> Self {
        let until_ready = ptx.add(stages, frame.plan.stages as u32);
        let until_ready = ptx.sub(until_ready, asked);
        // Their place should be given back before the next tile's last stage: whoever finishes that one waits for it.
        let is_short = ptx.lt(stages, 3);
        let spread = ptx.sub(stages, 2);
        let spread = ptx.select(1, spread, is_short);
        let pieces_per_stage = ptx.add(spread, pieces(frame.plan) - 1);
        Self {
            stages,
            until_ready: ptx.variable(until_ready),
            tiles: ptx.variable(0),
            taken: ptx.variable(0),
            turn: ptx.variable(0),
            at: ptx.variable(0),
            piece: ptx.variable(0),
            pieces_per_stage: ptx.div(pieces_per_stage, spread),
        }
    }

    /// One more tile is fetched.
    pub(super) fn expect_tile(&self, ptx: &mut Ptx) {
        ptx.increase(self.tiles, 1);
    }

    /// Takes what is due with a stage that was just asked for.
    pub(super) fn take_some(&self, ptx: &mut Ptx, frame: &Frame<'_>) {
        let (is_early, end) = (ptx.label(), ptx.label());
        let early = ptx.ne(self.until_ready, 0);
        ptx.jump_if(early, is_early);
        self.wait_for_tile(ptx, frame);
        let is_left = ptx.lt(self.piece, pieces(frame.plan));
        let (all_taken, next) = (ptx.label(), ptx.label());
        ptx.jump_unless(is_left, all_taken);
        self.take(ptx, frame, self.pieces_per_stage);
        ptx.jump(next);
        ptx.place(all_taken);
        self.give_back(ptx, frame);
        ptx.place(next);
        ptx.increase(self.at, 1);
        let is_over = ptx.eq(self.at, self.stages);
        ptx.when(is_over, |ptx| self.next_tile(ptx, frame));
        ptx.jump(end);
        ptx.place(is_early);
        let less = ptx.sub(self.until_ready, 1);
        ptx.set(self.until_ready, less);
        ptx.place(end);
    }

    /// Takes what is left when the last stage was asked for.
    pub(super) fn take_rest(&self, ptx: &mut Ptx, frame: &Frame<'_>) {
        let all = ptx.variable(pieces(frame.plan));
        ptx.while_(
            |ptx| ptx.lt(self.taken, self.tiles),
            |ptx| {
                self.wait_for_tile(ptx, frame);
                self.take(ptx, frame, all);
                self.next_tile(ptx, frame);
            },
        );
    }

    fn wait_for_tile(&self, ptx: &mut Ptx, frame: &Frame<'_>) {
        let begins = ptx.eq(self.at, 0);
        ptx.when(begins, |ptx| {
            let ready = frame.buffer(ptx, "result_ready", 0);
            ptx.wait(ready, self.turn);
        });
    }

    /// Tells the copy engine of `count` pieces, or as many as are left.
    fn take(&self, ptx: &mut Ptx, frame: &Frame<'_>, count: B32) {
        let per_wave = (frame.plan.shape.tile.b / RESULT_COLUMNS) as u32;
        let end = ptx.add(self.piece, count);
        let end = ptx.min(end, pieces(frame.plan));
        ptx.while_(
            |ptx| ptx.lt(self.piece, end),
            |ptx| {
                ptx.in_one_lane(|ptx| {
                    let tile = frame.buffer(ptx, "result_tile", 0);
                    let [row, column] = ptx.load_shared_8(Shared(tile, 0));
                    let (wave, in_wave) = (ptx.div(self.piece, per_wave), ptx.rem(self.piece, per_wave));
                    let row = ptx.mad(wave, WAVE_ROWS as u32, row);
                    let column = ptx.mad(in_wave, RESULT_COLUMNS as u32, column);
                    let source = frame.buffer(ptx, "result", self.piece);
                    let map = ptx.tensor_map("map_out");
                    ptx.tma_store(map, column, row, Shared(source, 0));
                    ptx.tma_store_commit();
                });
                ptx.increase(self.piece, 1);
            },
        );
    }

    /// Gives the place of a tile's pieces back, once they are read, unless that was done.
    fn give_back(&self, ptx: &mut Ptx, frame: &Frame<'_>) {
        let is_due = ptx.eq(self.piece, pieces(frame.plan));
        ptx.when(is_due, |ptx| {
            ptx.in_one_lane(|ptx| {
                ptx.tma_store_wait_until_read();
                let taken = frame.buffer(ptx, "result_taken", 0);
                ptx.arrive(taken);
            });
            ptx.increase(self.piece, 1);
        });
    }

    fn next_tile(&self, ptx: &mut Ptx, frame: &Frame<'_>) {
        self.give_back(ptx, frame);
        ptx.increase(self.taken, 1);
        ptx.flip(self.turn, 1);
        ptx.set(self.at, 0);
        ptx.set(self.piece, 0);
    }
}

/// Pieces of a tile.
fn pieces(plan: &HopperPlan) -> u32 {
    let tile = plan.shape.tile;
    (tile.a / WAVE_ROWS * (tile.b / RESULT_COLUMNS)) as u32
}

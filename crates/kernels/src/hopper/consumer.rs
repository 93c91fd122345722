//! The warpgroups that multiply.

use octile_core::plan::hopper::{ClusterMode, Release, ResultPath};

use super::{
    epilogue,
    frame::{Frame, Operands, Place, WARPGROUP},
    outbox::Sender,
    ptx::{B32, Pred, Ptx},
    ring::{Cursor, carries_scales},
    scales::{Boundary, Reader},
    schedule::{Stages, Tile, Unit, for_each_unit},
    split, staged,
    sums::{Chain, Products, Promotion, Sums},
};

pub(super) fn emit(ptx: &mut Ptx, frame: &Frame<'_>) {
    let plan = frame.plan;
    let consumer = Consumer::new(ptx, frame);
    let sender = (plan.result_path == ResultPath::TmaStoreByProducer).then(|| Sender::new(ptx));
    for_each_unit(ptx, frame, |ptx, unit| {
        let k_block = ptx.variable(consumer.stages.first);
        let tile = consumer.multiply(ptx, unit, k_block);
        let (place, sums) = (consumer.place, &consumer.sums);
        match plan.shape.cluster {
            ClusterMode::SplitK(parts) => split::add_up(ptx, frame, place, tile, sums, parts),
            _ => match plan.result_path {
                ResultPath::Direct => epilogue::store(ptx, frame, place, tile, sums, |_, _, _| None),
                ResultPath::Lines => staged::store_lines(ptx, frame, place, tile, sums),
                ResultPath::TmaStoreByProducer => {
                    let sender = sender.as_ref().expect("it was made for this path");
                    sender.put(ptx, frame, tile, sums);
                }
                ResultPath::TmaStore | ResultPath::TmaStoreByWave => {
                    let first = consumer.waves_handed_over();
                    staged::hand_over(ptx, frame, place, tile, sums, first..plan.waves());
                }
            },
        }
    });
    if matches!(plan.result_path, ResultPath::TmaStore | ResultPath::TmaStoreByWave) {
        staged::wait_until_read(ptx);
    }
}

/// What a multiplying thread keeps from stage to stage.
pub(super) struct Consumer<'a> {
    pub(super) frame: &'a Frame<'a>,
    pub(super) place: Place,
    pub(super) operands: Operands,
    pub(super) sums: Sums,
    pub(super) stages: Stages,
    pub(super) boundary: Boundary,
    pub(super) cursor: Cursor,
    /// Whether the stage at the cursor was already seen to be full.
    ready: Pred,
}

impl<'a> Consumer<'a> {
    fn new(ptx: &mut Ptx, frame: &'a Frame<'a>) -> Self {
        Self {
            frame,
            place: Place::new(ptx, frame),
            operands: Operands::new(ptx, frame),
            sums: Sums::new(ptx, frame),
            stages: Stages::new(ptx, frame),
            boundary: Boundary::new(ptx, frame.plan),
            cursor: Cursor::new(ptx),
            ready: ptx.ne(0, 0),
        }
    }

    /// Waves whose results are handed over while the last one is multiplied.
    fn waves_handed_over(&self) -> usize {
        let plan = self.frame.plan;
        if plan.result_path == ResultPath::TmaStoreByWave { plan.waves() - 1 } else { 0 }
    }

    /// Multiplies all stages of a unit.
    fn multiply(&self, ptx: &mut Ptx, unit: Unit, k_block: B32) -> Tile {
        let (frame, plan) = (self.frame, self.frame.plan);
        if plan.overlaps_stages {
            return self.overlapped_stages(ptx, unit, k_block);
        }
        if !carries_scales(plan) || plan.stages_per_chain() > 1 {
            let tile = self.go_to(ptx, unit);
            let reader = if carries_scales(plan) {
                Reader::Ring
            } else {
                Reader::of_memory(ptx, frame, self.place, tile)
            };
            self.sums.clear(ptx);
            self.remaining_stages(ptx, &reader, k_block, self.stages.end);
            return tile;
        }
        if self.waves_handed_over() > 0 {
            // A block's only tile: there is time for this before the first stage is there.
            let tile = self.go_to(ptx, unit);
            self.sums.clear(ptx);
            let last = ptx.sub(self.stages.end, 1);
            self.remaining_stages(ptx, &Reader::Ring, k_block, last);
            self.stage(ptx, &Reader::Ring, None, k_block, Promotion::Add, |ptx, wave| {
                if let Some(done) = wave.checked_sub(1) {
                    staged::hand_over(ptx, frame, self.place, tile, &self.sums, done..wave);
                }
            });
            return tile;
        }
        // Where a unit is takes a while to work out. Where only its results need to know, the first products hide that.
        let mut tile = self.boundary.differs().then(|| self.go_to(ptx, unit));
        self.stage(ptx, &Reader::Ring, None, k_block, Promotion::Set, |ptx, _| {
            tile.get_or_insert_with(|| self.go_to(ptx, unit));
        });
        self.remaining_stages(ptx, &Reader::Ring, k_block, self.stages.end);
        tile.expect("the stage worked it out")
    }

    /// Works out where a unit is, and where its second weight scale begins.
    pub(super) fn go_to(&self, ptx: &mut Ptx, unit: Unit) -> Tile {
        let tile = unit.tile(ptx, self.frame);
        self.boundary.set(ptx, tile);
        tile
    }

    /// Multiplies the stage at the cursor and goes to the next. `meanwhile` is done while the first products of a wave are on their way.
    fn stage(
        &self,
        ptx: &mut Ptx,
        reader: &Reader,
        begins: Option<usize>,
        k_block: B32,
        promotion: Promotion,
        mut meanwhile: impl FnMut(&mut Ptx, usize),
    ) {
        let Self { frame, operands, sums, cursor, .. } = self;
        let plan = frame.plan;
        self.wait_for_stage(ptx);
        // The scales first: behind the products they would wait for shared memory, and hold up the products after them.
        let scales = reader.read(ptx, frame, self.place, cursor.stage, k_block);
        let chains = Chain::of_stage(ptx, frame, k_block, self.stages);
        let ends = Chain::ends(ptx, frame, k_block, self.stages);
        for wave in 0..plan.waves() {
            for (at, chain) in chains.iter().enumerate() {
                let (is_first, is_last) = (at == 0, at + 1 == chains.len());
                let products = Products::of_wave(wave);
                sums.start(ptx, frame, operands, cursor.stage, products, chain.clone());
                if is_first {
                    meanwhile(ptx, wave);
                }
                ptx.wgmma_wait(0);
                // Swapped products still read their scales from the ring.
                let leaves = is_last && wave + 1 == plan.waves();
                if leaves && !plan.shape.swapped {
                    self.leave_stage(ptx);
                }
                let promotion = if is_first { promotion } else { Promotion::Add };
                let promote =
                    |ptx: &mut Ptx| sums.promote(ptx, &scales, &self.boundary, begins, products, promotion);
                match ends {
                    Some(ends) => ptx.when(ends, promote),
                    None => promote(ptx),
                }
                if leaves && plan.shape.swapped {
                    self.leave_stage(ptx);
                }
            }
        }
        ptx.increase(k_block, 1);
    }

    /// Multiplies the stages from `k_block` to `end`. Where the second weight scale begins in one of many columns, to choose in every stage
    /// costs too much: then each has a loop of its own.
    fn remaining_stages(&self, ptx: &mut Ptx, reader: &Reader, k_block: B32, end: B32) {
        if self.frame.plan.has_loop_per_boundary() {
            self.boundary.for_each_column(ptx, |ptx, column| {
                self.stages_until(ptx, reader, Some(column), k_block, end)
            });
        } else {
            self.stages_until(ptx, reader, None, k_block, end);
        }
    }

    /// A loop over the stages from `k_block` to `end`.
    fn stages_until(&self, ptx: &mut Ptx, reader: &Reader, begins: Option<usize>, k_block: B32, end: B32) {
        let next = |ptx: &mut Ptx| self.stage(ptx, reader, begins, k_block, Promotion::Add, |_, _| {});
        let over = ptx.label();
        ptx.while_(
            |ptx| ptx.lt(k_block, end),
            |ptx| {
                next(ptx);
                for _ in 1..self.frame.plan.stages_per_turn() {
                    let is_over = ptx.ge(k_block, end);
                    ptx.jump_if(is_over, over);
                    next(ptx);
                }
            },
        );
        ptx.place(over);
    }

    /// Waits until the stage at the cursor is full.
    pub(super) fn wait_for_stage(&self, ptx: &mut Ptx) {
        let is_full = ptx.label();
        ptx.jump_if(self.ready, is_full);
        let full = self.frame.buffer(ptx, "full", self.cursor.stage);
        ptx.wait(full, self.cursor.turn);
        ptx.place(is_full);
    }

    /// Hands the stage at the cursor back and goes to the next.
    fn leave_stage(&self, ptx: &mut Ptx) {
        release(ptx, self.frame, self.cursor.stage);
        self.next_stage(ptx);
    }

    /// Goes to the next stage and looks whether that is full, so that the answer is there when it is needed.
    pub(super) fn next_stage(&self, ptx: &mut Ptx) {
        self.cursor.advance(ptx, self.frame);
        let full = self.frame.buffer(ptx, "full", self.cursor.stage);
        ptx.has_completed(self.ready, full, self.cursor.turn);
    }
}

/// Tells whoever fetches into this stage that it was read.
pub(super) fn release(ptx: &mut Ptx, frame: &Frame<'_>, stage: B32) {
    let empty = frame.buffer(ptx, "empty", stage);
    // Whoever speaks for others does so after they have read what they need.
    let speaker = match frame.plan.release {
        Release::Warp => {
            ptx.warp_barrier();
            frame.lane
        }
        Release::Warpgroup => {
            frame.warpgroup_barrier(ptx);
            ptx.and(frame.thread, WARPGROUP - 1)
        }
        Release::Thread => {
            ptx.arrive(empty);
            ptx.warp_barrier();
            frame.lane
        }
    };
    // One for each block that hears of it from this one.
    if frame.plan.shape.cluster.is_multicast() {
        let arrives = ptx.lt(speaker, 2);
        ptx.when(arrives, |ptx| {
            let empty = ptx.of_block(empty, speaker);
            ptx.arrive_in_cluster(empty);
        });
    } else if frame.plan.release != Release::Thread {
        let arrives = ptx.eq(speaker, 0);
        ptx.when(arrives, |ptx| ptx.arrive(empty));
    }
}

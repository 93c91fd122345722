//! The warpgroups that multiply.

use std::ops::Range;

use octile_core::plan::hopper::{Release, ResultPath, Together};

use super::{
    epilogue,
    frame::{Frame, K_STEPS, Operands, Place, WARPGROUP},
    ptx::{B32, F32, Pred, Ptx, Shared},
    ring::{Cursor, carries_scales},
    scales::{Boundary, Reader, StageScales},
    schedule::{Stages, Tile, Unit, for_each_unit},
    split, staged,
};

/// What becomes of a stage's products.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Promotion {
    /// They are the first and become the sums.
    Set,
    /// They are added to the sums.
    Add,
}

impl Promotion {
    fn apply(self, ptx: &mut Ptx, sum: F32, product: F32, scale: F32) {
        match self {
            Self::Set => ptx.mul_into(sum, product, scale),
            Self::Add => ptx.fma_into(sum, product, scale),
        }
    }
}

/// Products that are added up before they are promoted.
#[derive(Clone)]
pub(super) struct Chain {
    /// Steps along K of the stage.
    steps: Range<u32>,
    /// Where the chain began in a stage before: whether it did so for this stage.
    goes_on: Option<Pred>,
}

impl Chain {
    /// A whole stage.
    pub(super) const STAGE: Self = Self { steps: 0..K_STEPS, goes_on: None };

    /// The chains of a stage.
    fn of_stage(ptx: &mut Ptx, frame: &Frame<'_>, k_block: B32, stages: Stages) -> Vec<Self> {
        let per_chain = frame.plan.stages_per_chain() as u32;
        if per_chain > 1 {
            let begins = ptx.and(k_block, per_chain - 1);
            let (later, after_first) = (ptx.ne(begins, 0), ptx.ne(k_block, stages.first));
            return vec![Self { goes_on: Some(ptx.both(later, after_first)), ..Self::STAGE }];
        }
        let steps = K_STEPS / frame.plan.chains_per_stage() as u32;
        (0..K_STEPS).step_by(steps as usize).map(|at| Self { steps: at..at + steps, goes_on: None }).collect()
    }

    /// Whether the chain ends with this stage; `None` where all do.
    fn ends(ptx: &mut Ptx, frame: &Frame<'_>, k_block: B32, stages: Stages) -> Option<Pred> {
        let per_chain = frame.plan.stages_per_chain() as u32;
        (per_chain > 1).then(|| {
            let next = ptx.add(k_block, 1);
            let into = ptx.and(next, per_chain - 1);
            let left = ptx.sub(stages.end, next);
            // Zero when either is: both stay far below 2^16.
            let product = ptx.mul(into, left);
            ptx.eq(product, 0)
        })
    }
}

/// The f32 sums of a thread, and the registers that the tensor cores add up one stage in.
pub(super) struct Sums {
    /// One block of sums per wave.
    pub(super) waves: Vec<Vec<F32>>,
    partial: Vec<F32>,
}

impl Sums {
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let count = frame.plan.shape.tile.b / 2;
        let waves = (0..frame.plan.waves()).map(|_| ptx.f32s(count)).collect();
        Self { waves, partial: ptx.f32s(count) }
    }

    pub(super) fn clear(&self, ptx: &mut Ptx) {
        for &sum in self.waves.iter().flatten() {
            ptx.set_float(sum, 0.0);
        }
    }

    /// Starts the products of one wave of a stage, or of the part of it that is a chain: the tensor cores keep about 13 bits
    /// inside a chain, so its products are added to the sums in f32. With `goes_on` they join those of the stage before.
    pub(super) fn start(
        &self,
        ptx: &mut Ptx,
        frame: &Frame<'_>,
        operands: &Operands,
        stage: B32,
        wave: usize,
        chain: Chain,
    ) {
        let columns = frame.plan.shape.tile.b;
        ptx.wgmma_fence();
        for step in chain.steps.clone() {
            let is_first = step == chain.steps.start;
            let add = chain.goes_on.filter(|_| is_first).unwrap_or_else(|| ptx.ne(u32::from(!is_first), 0));
            let a = operands.a(ptx, frame, stage, wave, step);
            let b = operands.b(ptx, frame, stage, step);
            ptx.wgmma(&self.partial, columns, a, b, add);
        }
        ptx.wgmma_commit();
    }

    /// Adds the finished products of one wave to the sums, scaled. `begins` says where the second weight scale does if this code is for
    /// one such column.
    pub(super) fn promote(
        &self,
        ptx: &mut Ptx,
        scales: &StageScales,
        boundary: &Boundary,
        begins: Option<usize>,
        wave: usize,
        promotion: Promotion,
    ) {
        let chunks = self.waves[wave].chunks(4).zip(self.partial.chunks(4)).enumerate();
        if let Some(columns) = scales.x_columns {
            for (chunk, (sums, partial)) in chunks {
                let x: [F32; 2] = ptx.load_shared_floats(Shared(columns, 32 * chunk as u32));
                let scale = x.map(|x| ptx.mul_f32(x, scales.w[wave]));
                for (at, (&sum, &partial)) in sums.iter().zip(partial).enumerate() {
                    promotion.apply(ptx, sum, partial, scale[at % 2]);
                }
            }
            return;
        }
        let of_columns = boundary.scales_of_columns(ptx, 2 * self.partial.len(), begins, |ptx, w| {
            scales.x[wave].map(|x| ptx.mul_f32(x, scales.w[w]))
        });
        for (chunk, (sums, partial)) in chunks {
            for (at, (&sum, &partial)) in sums.iter().zip(partial).enumerate() {
                promotion.apply(ptx, sum, partial, of_columns[chunk][at / 2]);
            }
        }
    }
}

pub(super) fn emit(ptx: &mut Ptx, frame: &Frame<'_>) {
    let plan = frame.plan;
    let consumer = Consumer::new(ptx, frame);
    let stages = consumer.stages;
    for_each_unit(ptx, frame, |ptx, unit| {
        let k_block = ptx.variable(stages.first);
        let tile = if carries_scales(plan) && plan.stages_per_chain() == 1 {
            // Where a unit is takes a while to work out. Where only its results need to know, the first products hide that.
            let mut tile = consumer.boundary.differs().then(|| consumer.go_to(ptx, unit));
            consumer.stage(ptx, &Reader::Ring, None, k_block, Promotion::Set, |ptx| {
                tile.get_or_insert_with(|| consumer.go_to(ptx, unit));
            });
            consumer.remaining_stages(ptx, &Reader::Ring, k_block);
            tile.expect("the stage worked it out")
        } else {
            let tile = consumer.go_to(ptx, unit);
            let reader = if carries_scales(plan) {
                Reader::Ring
            } else {
                Reader::of_memory(ptx, frame, consumer.place, tile)
            };
            consumer.sums.clear(ptx);
            consumer.remaining_stages(ptx, &reader, k_block);
            tile
        };
        let (place, sums) = (consumer.place, &consumer.sums);
        match plan.shape.together {
            Together::SplitK(parts) => split::add_up(ptx, frame, place, tile, sums, parts),
            _ => match plan.result_path {
                ResultPath::Direct => epilogue::store(ptx, frame, place, tile, sums, |_, _, _| None),
                ResultPath::Lines => staged::store_lines(ptx, frame, place, tile, sums),
                ResultPath::CopyEngine => staged::hand_over(ptx, frame, place, tile, sums),
            },
        }
    });
    if plan.result_path == ResultPath::CopyEngine {
        staged::wait_until_read(ptx, frame);
    }
}

/// What a multiplying thread keeps from stage to stage.
struct Consumer<'a> {
    frame: &'a Frame<'a>,
    place: Place,
    operands: Operands,
    sums: Sums,
    stages: Stages,
    boundary: Boundary,
    cursor: Cursor,
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

    /// Works out where a unit is, and where its second weight scale begins.
    fn go_to(&self, ptx: &mut Ptx, unit: Unit) -> Tile {
        let tile = unit.tile(ptx, self.frame);
        self.boundary.set(ptx, tile);
        tile
    }

    /// Multiplies the stage at the cursor and goes to the next. `meanwhile` is done while the first products are on their way.
    fn stage(
        &self,
        ptx: &mut Ptx,
        reader: &Reader,
        begins: Option<usize>,
        k_block: B32,
        promotion: Promotion,
        meanwhile: impl FnOnce(&mut Ptx),
    ) {
        let Self { frame, operands, sums, cursor, .. } = self;
        let plan = frame.plan;
        self.wait_for_stage(ptx);
        // The scales first: behind the products they would wait for shared memory, and hold up the products after them.
        let scales = reader.read(ptx, frame, self.place, cursor.stage, k_block);
        let chains = Chain::of_stage(ptx, frame, k_block, self.stages);
        let ends = Chain::ends(ptx, frame, k_block, self.stages);
        let mut meanwhile = Some(meanwhile);
        for wave in 0..plan.waves() {
            for (at, chain) in chains.iter().enumerate() {
                let (is_first, is_last) = (at == 0, at + 1 == chains.len());
                sums.start(ptx, frame, operands, cursor.stage, wave, chain.clone());
                if let Some(meanwhile) = meanwhile.take() {
                    meanwhile(ptx);
                }
                ptx.wgmma_wait(0);
                // Swapped products still read their scales from the ring.
                let leaves = is_last && wave + 1 == plan.waves();
                if leaves && !plan.shape.swapped {
                    self.leave_stage(ptx);
                }
                let promotion = if is_first { promotion } else { Promotion::Add };
                let promote =
                    |ptx: &mut Ptx| sums.promote(ptx, &scales, &self.boundary, begins, wave, promotion);
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

    /// Multiplies the stages from `k_block` on. Where the second weight scale begins in one of many columns, to choose in every stage costs
    /// too much: then each has a loop of its own.
    fn remaining_stages(&self, ptx: &mut Ptx, reader: &Reader, k_block: B32) {
        if self.frame.plan.has_loop_per_boundary() {
            self.boundary.for_each_column(ptx, |ptx, column| {
                self.stages_until_end(ptx, reader, Some(column), k_block)
            });
        } else {
            self.stages_until_end(ptx, reader, None, k_block);
        }
    }

    /// A loop over the stages from `k_block` on.
    fn stages_until_end(&self, ptx: &mut Ptx, reader: &Reader, begins: Option<usize>, k_block: B32) {
        let end = self.stages.end;
        let next = |ptx: &mut Ptx| self.stage(ptx, reader, begins, k_block, Promotion::Add, |_| {});
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

    fn wait_for_stage(&self, ptx: &mut Ptx) {
        let is_full = ptx.label();
        ptx.jump_if(self.ready, is_full);
        let full = self.frame.buffer(ptx, "full", self.cursor.stage);
        ptx.wait(full, self.cursor.turn);
        ptx.place(is_full);
    }

    /// Hands the stage back, goes to the next and looks whether that is full, so that the answer is there when it is needed.
    fn leave_stage(&self, ptx: &mut Ptx) {
        release(ptx, self.frame, &self.cursor);
        self.cursor.advance(ptx, self.frame);
        let full = self.frame.buffer(ptx, "full", self.cursor.stage);
        ptx.has_completed(self.ready, full, self.cursor.turn);
    }
}

/// Tells whoever fetches into this stage that it was read.
fn release(ptx: &mut Ptx, frame: &Frame<'_>, cursor: &Cursor) {
    let empty = frame.buffer(ptx, "empty", cursor.stage);
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
    if frame.plan.shape.together.shares() {
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

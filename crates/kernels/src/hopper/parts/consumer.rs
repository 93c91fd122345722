//! The main loop of a consumer warpgroup: wait for a full stage, multiply it, release it, promote.

use octile_core::plan::BufferId;

use super::{
    accumulators::{Accumulators, Chain, Promotion, WaveProduct},
    boundary::Boundary,
    cta::{Cta, Descriptors, Fragment},
    pipeline::{self, PipelineState},
    scales::ScaleReader,
    schedule::{ClusterTile, KRange, Tile},
};
use crate::hopper::ptx::{B32, Pred, Ptx};

/// What a consumer thread keeps from stage to stage.
pub(crate) struct Consumer<'a> {
    pub(crate) cta: &'a Cta<'a>,
    pub(crate) fragment: Fragment,
    pub(crate) descriptors: Descriptors,
    pub(crate) accumulators: Accumulators,
    pub(crate) k: KRange,
    pub(crate) boundary: Boundary,
    pub(crate) pipeline: PipelineState,
    /// Whether an early look found the current stage full.
    is_full: Pred,
}

impl<'a> Consumer<'a> {
    pub(crate) fn new(ptx: &mut Ptx, cta: &'a Cta<'a>) -> Self {
        Self {
            cta,
            fragment: Fragment::new(ptx, cta),
            descriptors: Descriptors::new(ptx, cta),
            accumulators: Accumulators::new(ptx, cta),
            k: KRange::new(ptx, cta),
            boundary: Boundary::new(ptx, cta.plan),
            pipeline: PipelineState::new(ptx),
            is_full: ptx.ne(0, 0),
        }
    }

    /// Multiplies all stages of a tile with scales that are staged beside the operands. Nothing but the
    /// epilogue needs the tile's coordinates then, so the first wgmma hide the divisions that compute them.
    pub(crate) fn multiply_tile(&self, ptx: &mut Ptx, work: ClusterTile, k_block: B32) -> Tile {
        if self.cta.plan.stages_per_chain() > 1 {
            let tile = self.locate(ptx, work);
            self.accumulators.clear(ptx);
            self.multiply_stages(ptx, &ScaleReader::Stage, k_block, self.k.end);
            return tile;
        }
        let mut tile = self.boundary.differs().then(|| self.locate(ptx, work));
        self.multiply_stage(ptx, &ScaleReader::Stage, None, k_block, Promotion::Set, |ptx, _| {
            tile.get_or_insert_with(|| self.locate(ptx, work));
        });
        self.multiply_stages(ptx, &ScaleReader::Stage, k_block, self.k.end);
        tile.expect("the first stage located it")
    }

    /// Computes a tile's coordinates and its scale boundary.
    pub(crate) fn locate(&self, ptx: &mut Ptx, work: ClusterTile) -> Tile {
        let tile = work.tile(ptx, self.cta);
        self.boundary.set(ptx, tile);
        tile
    }

    /// Multiplies the stages from `k_block` to `end`. Where the boundary can lie at many columns, selecting
    /// scales in every stage costs too much: then each column has a loop of its own.
    pub(crate) fn multiply_stages(&self, ptx: &mut Ptx, scales: &ScaleReader, k_block: B32, end: B32) {
        if self.cta.plan.has_loop_per_boundary() {
            self.boundary.for_each_column(ptx, |ptx, column| {
                self.stage_loop(ptx, scales, Some(column), k_block, end);
            });
        } else {
            self.stage_loop(ptx, scales, None, k_block, end);
        }
    }

    /// The loop over the stages from `k_block` to `end`, unrolled.
    fn stage_loop(
        &self,
        ptx: &mut Ptx,
        scales: &ScaleReader,
        boundary_column: Option<usize>,
        k_block: B32,
        end: B32,
    ) {
        let next = |ptx: &mut Ptx| {
            self.multiply_stage(ptx, scales, boundary_column, k_block, Promotion::Add, |_, _| {})
        };
        let over = ptx.label();
        ptx.while_(
            |ptx| ptx.lt(k_block, end),
            |ptx| {
                next(ptx);
                for _ in 1..self.cta.plan.loop_unroll() {
                    let is_over = ptx.ge(k_block, end);
                    ptx.jump_if(is_over, over);
                    next(ptx);
                }
            },
        );
        ptx.place(over);
    }

    /// Multiplies the current stage and moves to the next. `meanwhile` is emitted behind the first wgmma of
    /// each wave, which hide it.
    pub(crate) fn multiply_stage(
        &self,
        ptx: &mut Ptx,
        scales: &ScaleReader,
        boundary_column: Option<usize>,
        k_block: B32,
        promotion: Promotion,
        mut meanwhile: impl FnMut(&mut Ptx, usize),
    ) {
        let Self { cta, descriptors, accumulators, pipeline, boundary, .. } = self;
        let plan = cta.plan;
        self.wait_until_full(ptx);
        // Scales first: behind the wgmma their loads would queue for shared memory and delay the next wgmma.
        let scales = scales.read(ptx, cta, self.fragment, pipeline.stage, k_block);
        let chains = Chain::of_stage(ptx, cta, k_block, self.k);
        let ends = Chain::ends(ptx, cta, k_block, self.k);
        for wave in 0..plan.waves() {
            for (at, chain) in chains.iter().enumerate() {
                let (is_first, is_last) = (at == 0, at + 1 == chains.len());
                let product = WaveProduct::of_wave(wave);
                accumulators.multiply(ptx, cta, descriptors, pipeline.stage, product, chain.clone());
                if is_first {
                    meanwhile(ptx, wave);
                }
                ptx.wgmma_wait(0);
                // With swapped operands, promotion still reads scales from the stage.
                let releases = is_last && wave + 1 == plan.waves();
                if releases && !plan.shape.swapped {
                    self.release_stage(ptx);
                }
                let promotion = if is_first { promotion } else { Promotion::Add };
                let promote = |ptx: &mut Ptx| {
                    accumulators.promote(ptx, &scales, boundary, boundary_column, product, promotion);
                };
                match ends {
                    Some(ends) => ptx.when(ends, promote),
                    None => promote(ptx),
                }
                if releases && plan.shape.swapped {
                    self.release_stage(ptx);
                }
            }
        }
        ptx.increase(k_block, 1);
    }

    /// Waits on the current stage's full barrier.
    pub(crate) fn wait_until_full(&self, ptx: &mut Ptx) {
        let is_full = ptx.label();
        ptx.jump_if(self.is_full, is_full);
        let full = self.cta.buffer(ptx, BufferId::Full, self.pipeline.stage);
        ptx.wait(full, self.pipeline.phase);
        ptx.place(is_full);
    }

    /// Releases the current stage and moves to the next.
    fn release_stage(&self, ptx: &mut Ptx) {
        pipeline::release(ptx, self.cta, self.pipeline.stage);
        self.next_stage(ptx);
    }

    /// Moves to the next stage and tests its full barrier early, so that the answer is there when it is
    /// needed.
    pub(crate) fn next_stage(&self, ptx: &mut Ptx) {
        self.pipeline.advance(ptx, self.cta);
        let full = self.cta.buffer(ptx, BufferId::Full, self.pipeline.stage);
        ptx.has_completed(self.is_full, full, self.pipeline.phase);
    }
}

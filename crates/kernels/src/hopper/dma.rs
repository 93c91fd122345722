//! `dma`: a producer warp has TMA fill a pipeline of shared-memory stages, and two consumer warpgroups
//! multiply them. Full and empty barriers order the two. Consumers load scales from global memory, beside the
//! data.

use octile_core::plan::{BufferId, hopper::HopperPlan};

use super::{
    parts::{
        consumer::Consumer,
        cta::Cta,
        epilogue,
        pipeline::{self, PipelineState},
        scales::ScaleReader,
        schedule::{ClusterTile, KRange, Tile, for_each_tile},
        tma::{TmaOperands, expect_stage},
    },
    ptx::{B32, Ptx},
};

pub(super) fn emit(ptx: &mut Ptx, plan: &HopperPlan) {
    let cta = Cta::new(ptx, plan);
    pipeline::init(ptx, &cta, |_| {});
    ptx.block_barrier();
    cta.specialize_warps(ptx, |ptx| consume(ptx, &cta), |ptx| produce(ptx, &cta));
}

/// The producer warp.
fn produce(ptx: &mut Ptx, cta: &Cta<'_>) {
    cta.in_warp(ptx, cta.first_producer(), |ptx| load_operands(ptx, cta));
}

/// Loads the operands of every tile.
pub(super) fn load_operands(ptx: &mut Ptx, cta: &Cta<'_>) {
    let producer = Producer::new(ptx, cta);
    for_each_tile(ptx, cta, |ptx, work| {
        let tile = work.tile(ptx, cta);
        producer.load_stages(ptx, tile, |_| {});
    });
}

/// A consumer warpgroup.
fn consume(ptx: &mut Ptx, cta: &Cta<'_>) {
    let consumer = Consumer::new(ptx, cta);
    for_each_tile(ptx, cta, |ptx, work| {
        let k_block = ptx.variable(consumer.k.first);
        let tile = consumer.locate(ptx, work);
        let scales = ScaleReader::global(ptx, cta, consumer.fragment, tile);
        consumer.accumulators.clear(ptx);
        consumer.multiply_stages(ptx, &scales, k_block, consumer.k.end);
        epilogue::store(ptx, cta, consumer.fragment, tile, &consumer.accumulators);
    });
}

/// What the producer warp keeps from stage to stage.
pub(super) struct Producer<'a> {
    cta: &'a Cta<'a>,
    pub(super) k: KRange,
    operands: TmaOperands,
    pipeline: PipelineState,
    /// Stages of the current tile that are already loaded.
    pub(super) prefilled: B32,
}

impl<'a> Producer<'a> {
    /// Fills the pipeline for the first time, as far as the first tile reaches.
    pub(super) fn new(ptx: &mut Ptx, cta: &'a Cta<'a>) -> Self {
        let k = KRange::new(ptx, cta);
        let operands = TmaOperands::new(ptx, cta);
        let pipeline = PipelineState::new(ptx);
        let prefilled = prefill(ptx, cta, &pipeline, k, &operands);
        Self { cta, k, operands, pipeline, prefilled }
    }

    /// Loads the stages of a tile, each as soon as it is empty. `after_load` is emitted behind every load.
    pub(super) fn load_stages(&self, ptx: &mut Ptx, tile: Tile, after_load: impl FnOnce(&mut Ptx)) {
        let Self { cta, k, operands, pipeline, prefilled } = self;
        let k_block = ptx.variable(k.first);
        ptx.increase(k_block, *prefilled);
        ptx.set(*prefilled, 0);
        ptx.while_(
            |ptx| ptx.lt(k_block, k.end),
            |ptx| {
                let empty = cta.buffer(ptx, BufferId::Empty, pipeline.stage);
                pipeline.wait_until_empty(ptx, empty);
                ptx.in_one_lane(|ptx| operands.load(ptx, cta, tile, k_block, pipeline.stage));
                after_load(ptx);
                pipeline.advance(ptx, cta);
                ptx.increase(k_block, 1);
            },
        );
    }
}

/// Loads the first stages, all of which are empty, and returns their number. Under PDL a constant weight is
/// loaded while the preceding kernel still writes x.
fn prefill(
    ptx: &mut Ptx,
    cta: &Cta<'_>,
    pipeline: &PipelineState,
    k: KRange,
    TmaOperands { x, w }: &TmaOperands,
) -> B32 {
    let tile = ClusterTile::first(ptx, cta).tile(ptx, cta);
    let count = ptx.sub(k.end, k.first);
    let count = ptx.min(count, cta.plan.stages as u32);
    let constant = ptx.number("constant_weight");
    let may_change = ptx.eq(constant, 0);
    ptx.when(may_change, Ptx::wait_for_previous_kernel);
    let for_each_stage = |ptx: &mut Ptx, load: &dyn Fn(&mut Ptx, B32, B32)| {
        let stage = ptx.variable(0);
        ptx.while_(
            |ptx| ptx.lt(stage, count),
            |ptx| {
                let k_block = ptx.add(k.first, stage);
                ptx.in_one_lane(|ptx| load(ptx, stage, k_block));
                ptx.increase(stage, 1);
            },
        );
    };
    for_each_stage(ptx, &|ptx, stage, k_block| {
        expect_stage(ptx, cta, stage);
        w.load(ptx, cta, tile, k_block, stage);
    });
    ptx.wait_for_previous_kernel();
    for_each_stage(ptx, &|ptx, stage, k_block| x.load(ptx, cta, tile, k_block, stage));
    pipeline.skip(ptx, cta, count);
    ptx.variable(count)
}

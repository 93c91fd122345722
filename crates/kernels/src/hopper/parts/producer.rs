//! The producer warp: fills pipeline stages with TMA loads.

use octile_core::plan::BufferId;

use super::{
    cta::Cta,
    pipeline::PipelineState,
    schedule::{ClusterTile, KRange, Tile},
    tma::{TmaOperands, expect_stage},
};
use crate::hopper::ptx::{B32, Ptx};

/// What the producer warp keeps from stage to stage.
pub(crate) struct Producer<'a> {
    cta: &'a Cta<'a>,
    pub(crate) k: KRange,
    operands: TmaOperands,
    pipeline: PipelineState,
    /// Stages of the current tile that are already loaded.
    pub(crate) prefilled: B32,
}

impl<'a> Producer<'a> {
    /// Fills the pipeline for the first time, as far as the first tile reaches.
    pub(crate) fn new(ptx: &mut Ptx, cta: &'a Cta<'a>) -> Self {
        let k = KRange::new(ptx, cta);
        let operands = TmaOperands::new(ptx, cta);
        let pipeline = PipelineState::new(ptx);
        let prefilled = prefill(ptx, cta, &pipeline, k, &operands);
        Self { cta, k, operands, pipeline, prefilled }
    }

    /// Loads the stages of a tile, each as soon as it is empty. `after_load` is emitted behind every load.
    pub(crate) fn load_stages(&self, ptx: &mut Ptx, tile: Tile, after_load: impl FnOnce(&mut Ptx)) {
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

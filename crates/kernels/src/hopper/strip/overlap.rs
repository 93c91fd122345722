//! Overlapping stages: wgmma of one stage run while the previous stage is promoted. Two sets of partial
//! accumulators take turns. This keeps the tensor cores busy where no other warpgroup does.

use octile_core::plan::hopper::STAGE_K;

use crate::hopper::{
    parts::{
        accumulators::{Chain, Promotion, WaveProduct},
        consumer::Consumer,
        pipeline::release,
        scales::{ScaleReader, StageScales},
        schedule::{ClusterTile, Tile},
    },
    ptx::{B32, Ptx},
};

/// A stage whose wgmma are in flight.
struct InFlight {
    product: WaveProduct,
    scales: StageScales,
    /// Its index in the pipeline.
    stage: B32,
}

/// Multiplies all stages of a tile.
pub(super) fn multiply_tile(ptx: &mut Ptx, consumer: &Consumer<'_>, work: ClusterTile, k_block: B32) -> Tile {
    let plan = consumer.cta.plan;
    assert!(plan.waves() == 1 && plan.promote_every == STAGE_K && plan.stages > 1, "{plan:?}");
    let in_flight = [0, 1].map(|at| InFlight {
        product: WaveProduct::of_stage(at),
        scales: StageScales::variables(ptx, plan),
        stage: ptx.variable(0),
    });
    start(ptx, consumer, &in_flight[0], k_block);
    // The first wgmma hide this.
    let tile = consumer.locate(ptx, work);
    consumer.accumulators.clear(ptx);
    multiply_rest(ptx, consumer, &in_flight, k_block);
    tile
}

/// With the first stage in flight, starts the others and promotes all.
fn multiply_rest(ptx: &mut Ptx, consumer: &Consumer<'_>, in_flight: &[InFlight; 2], k_block: B32) {
    let (again, over) = (ptx.label(), ptx.label());
    let last = [ptx.label(), ptx.label()];
    ptx.place(again);
    for at in 0..2 {
        ptx.increase(k_block, 1);
        let is_last = ptx.ge(k_block, consumer.k.end);
        ptx.jump_if(is_last, last[at]);
        start(ptx, consumer, &in_flight[1 - at], k_block);
        ptx.wgmma_wait(1);
        promote(ptx, consumer, &in_flight[at]);
    }
    ptx.jump(again);
    for (stage, last) in in_flight.iter().zip(last) {
        ptx.place(last);
        ptx.wgmma_wait(0);
        promote(ptx, consumer, stage);
        ptx.jump(over);
    }
    ptx.place(over);
}

/// Starts the wgmma of the current stage and moves to the next.
fn start(ptx: &mut Ptx, consumer: &Consumer<'_>, in_flight: &InFlight, k_block: B32) {
    let Consumer { cta, descriptors, pipeline, .. } = consumer;
    consumer.wait_until_full(ptx);
    let scales = ScaleReader::Stage.read(ptx, cta, consumer.fragment, pipeline.stage, k_block);
    in_flight.scales.set(ptx, &scales);
    consumer.accumulators.multiply(ptx, cta, descriptors, pipeline.stage, in_flight.product, Chain::STAGE);
    ptx.set(in_flight.stage, pipeline.stage);
    consumer.next_stage(ptx);
}

/// Promotes a finished stage and releases it.
fn promote(ptx: &mut Ptx, consumer: &Consumer<'_>, InFlight { product, scales, stage }: &InFlight) {
    let swapped = consumer.cta.plan.shape.swapped;
    if !swapped {
        release(ptx, consumer.cta, *stage);
    }
    consumer.accumulators.promote(ptx, scales, &consumer.boundary, None, *product, Promotion::Add);
    // With swapped operands, promotion still reads scales from the stage.
    if swapped {
        release(ptx, consumer.cta, *stage);
    }
}

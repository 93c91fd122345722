//! `smem`: as `dma`, with the scales staged in shared memory beside the operands. A second producer warp
//! copies them with `cp.async`, so that no consumer waits for global memory.

use octile_core::plan::hopper::HopperPlan;

use super::{
    parts::{
        consumer::Consumer, cta::Cta, epilogue, pipeline, producer::Producer, scale_warp::load_scales,
        schedule::for_each_tile,
    },
    ptx::Ptx,
};

pub(super) fn emit(ptx: &mut Ptx, plan: &HopperPlan) {
    let cta = Cta::new(ptx, plan);
    pipeline::init(ptx, &cta, |_| {});
    ptx.block_barrier();
    cta.specialize_warps(ptx, |ptx| consume(ptx, &cta), |ptx| produce(ptx, &cta));
}

/// The producer warps: TMA loads of operands by one, copies of scales by the other.
fn produce(ptx: &mut Ptx, cta: &Cta<'_>) {
    cta.in_warp(ptx, cta.first_producer(), |ptx| {
        let producer = Producer::new(ptx, cta);
        for_each_tile(ptx, cta, producer.k, |ptx, work| {
            let tile = work.tile(ptx, cta);
            producer.load_stages(ptx, tile, |_| {});
        });
    });
    cta.in_warp(ptx, cta.first_producer() + 1, |ptx| load_scales(ptx, cta, None));
}

/// A consumer warpgroup. Scales come with the stage, so only the epilogue needs the tile's coordinates.
fn consume(ptx: &mut Ptx, cta: &Cta<'_>) {
    let consumer = Consumer::new(ptx, cta);
    for_each_tile(ptx, cta, consumer.k, |ptx, work| {
        let k_block = ptx.variable(consumer.k.first);
        let tile = consumer.multiply_tile(ptx, work, k_block);
        epilogue::store(ptx, cta, consumer.fragment, tile, &consumer.accumulators);
    });
}

//! `dma`: a producer warp has TMA fill a pipeline of shared-memory stages, and two consumer warpgroups
//! multiply them. Full and empty barriers order the two. Consumers load scales from global memory, beside the
//! data.

use octile_core::plan::hopper::HopperPlan;

use super::{
    parts::{
        consumer::Consumer, cta::Cta, epilogue, pipeline, producer::Producer, scales::ScaleReader,
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

/// The producer warp: TMA loads of every stage, each as soon as the consumers have released it.
fn produce(ptx: &mut Ptx, cta: &Cta<'_>) {
    cta.in_warp(ptx, cta.first_producer(), |ptx| {
        let producer = Producer::new(ptx, cta);
        for_each_tile(ptx, cta, producer.k, |ptx, work| {
            let tile = work.tile(ptx, cta);
            producer.load_stages(ptx, tile, |_| {});
        });
    });
}

/// A consumer warpgroup. It needs the tile's coordinates from the start, to find its scales.
fn consume(ptx: &mut Ptx, cta: &Cta<'_>) {
    let consumer = Consumer::new(ptx, cta);
    for_each_tile(ptx, cta, consumer.k, |ptx, work| {
        let k_block = ptx.variable(consumer.k.first);
        let tile = consumer.locate(ptx, work);
        let scales = ScaleReader::global(ptx, cta, consumer.fragment, tile);
        consumer.accumulators.clear(ptx);
        consumer.multiply_stages(ptx, &scales, k_block, consumer.k.end);
        epilogue::store(ptx, cta, consumer.fragment, tile, &consumer.accumulators);
    });
}

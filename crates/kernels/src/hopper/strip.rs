//! `strip`: as `smem`, persistent and with everything that pays. Clusters multicast operands or split K
//! (`split`); stages overlap (`overlap`); results go through shared memory (`staged`), from which warps store
//! them (`lines`, `elements`), or TMA, in some plans by way of the producer (`outbox`).

mod elements;
mod lines;
mod outbox;
mod overlap;
mod split;
mod staged;

use octile_core::plan::hopper::{ClusterMode, HopperPlan, ResultPath};

use self::{
    elements::ElementStore,
    lines::LineStore,
    outbox::{Outbox, ResultSender},
};
use super::{
    parts::{
        consumer::Consumer,
        cta::Cta,
        epilogue, pipeline,
        producer::Producer,
        scale_warp::load_scales,
        schedule::{Tile, for_each_tile, shares_tile},
        tma::TmaOperands,
    },
    ptx::Ptx,
};

pub(super) fn emit(ptx: &mut Ptx, plan: &HopperPlan) {
    let cta = Cta::new(ptx, plan);
    pipeline::init(ptx, &cta, |ptx| {
        if plan.result_path == ResultPath::TmaStoreByProducer {
            outbox::init_barriers(ptx, &cta);
        }
    });
    begin_cluster(ptx, &cta);
    cta.specialize_warps(ptx, |ptx| consume(ptx, &cta), |ptx| produce(ptx, &cta));
    if plan.shape.cluster.is_multicast() {
        // No CTA may exit while another loads into it or arrives on its barriers.
        ptx.cluster_barrier();
    }
}

/// Waits until the barriers are initialized in every CTA that uses them.
fn begin_cluster(ptx: &mut Ptx, cta: &Cta<'_>) {
    let cluster = cta.plan.shape.cluster;
    if cluster.is_multicast() {
        ptx.cluster_barrier();
    } else {
        ptx.block_barrier();
    }
    if let ClusterMode::SplitK(_) = cluster {
        // Nobody touches another CTA's memory before the reduction, which waits.
        ptx.cluster_arrive();
    }
}

/// The producer warps: one for operands and one for scales, or one for both.
fn produce(ptx: &mut Ptx, cta: &Cta<'_>) {
    let first = cta.first_producer();
    if cta.plan.has_single_producer_warp() {
        cta.in_warp(ptx, first, |ptx| {
            let operands = TmaOperands::new(ptx, cta);
            load_scales(ptx, cta, Some(&operands));
        });
    } else {
        cta.in_warp(ptx, first, |ptx| load_operands(ptx, cta));
        cta.in_warp(ptx, first + 1, |ptx| load_scales(ptx, cta, None));
    }
    // The reduction synchronizes all threads of the cluster twice; these take part.
    match cta.plan.shape.cluster {
        ClusterMode::SplitK(_) => {
            ptx.cluster_wait();
            ptx.cluster_arrive();
        }
        ClusterMode::SplitTail => {
            let shares = shares_tile(ptx, cta);
            ptx.when(shares, |ptx| {
                ptx.cluster_barrier();
                ptx.cluster_arrive();
            });
        }
        _ => {}
    }
}

/// Loads the operands of every tile; where the plan says so, interleaved with TMA stores of the previous
/// tile.
fn load_operands(ptx: &mut Ptx, cta: &Cta<'_>) {
    let producer = Producer::new(ptx, cta);
    let by_producer = cta.plan.result_path == ResultPath::TmaStoreByProducer;
    let outbox = by_producer.then(|| Outbox::new(ptx, cta, producer.k.end, producer.prefilled));
    for_each_tile(ptx, cta, producer.k, |ptx, work| {
        let tile = work.tile(ptx, cta);
        if let Some(outbox) = &outbox {
            work.if_shared(ptx, |_| {}, |ptx| outbox.expect_tile(ptx));
        }
        producer.load_stages(ptx, tile, |ptx| {
            if let Some(outbox) = &outbox {
                outbox.store_some(ptx, cta);
            }
        });
    });
    if let Some(outbox) = &outbox {
        outbox.store_rest(ptx, cta);
    }
}

/// A consumer warpgroup.
fn consume(ptx: &mut Ptx, cta: &Cta<'_>) {
    let plan = cta.plan;
    let consumer = Consumer::new(ptx, cta);
    let sender = (plan.result_path == ResultPath::TmaStoreByProducer).then(|| ResultSender::new(ptx));
    for_each_tile(ptx, cta, consumer.k, |ptx, work| {
        let k_block = ptx.variable(consumer.k.first);
        let tile = if plan.overlaps_stages {
            overlap::multiply_tile(ptx, &consumer, work, k_block)
        } else if staged::early_waves(plan) > 0 {
            staged::multiply_only_tile(ptx, &consumer, work, k_block)
        } else {
            consumer.multiply_tile(ptx, work, k_block)
        };
        if let ClusterMode::SplitK(parts) = plan.shape.cluster {
            return split::reduce_and_store(ptx, &consumer, tile, parts);
        }
        work.if_shared(
            ptx,
            |ptx| split::reduce_and_store(ptx, &consumer, tile, plan.shape.cluster.ctas()),
            |ptx| match &sender {
                Some(sender) => sender.send(ptx, cta, tile, &consumer.accumulators),
                None => store(ptx, &consumer, tile),
            },
        );
    });
    if matches!(plan.result_path, ResultPath::TmaStore | ResultPath::TmaStoreByWave) {
        staged::wait_until_read(ptx);
    }
}

/// Stores a tile from the warps that computed it.
fn store(ptx: &mut Ptx, consumer: &Consumer<'_>, tile: Tile) {
    let Consumer { cta, fragment, accumulators, .. } = consumer;
    match cta.plan.result_path {
        ResultPath::Direct => epilogue::store(ptx, cta, *fragment, tile, accumulators),
        ResultPath::Lines => {
            let lines = LineStore::new(ptx, cta, *fragment, tile);
            staged::store_subtiles(ptx, cta, accumulators, &lines);
        }
        ResultPath::Elements => {
            let elements = ElementStore::new(ptx, cta, *fragment, tile);
            staged::store_subtiles(ptx, cta, accumulators, &elements);
        }
        ResultPath::TmaStore | ResultPath::TmaStoreByWave => {
            let waves = staged::early_waves(cta.plan)..cta.plan.waves();
            staged::tma_store(ptx, consumer, tile, waves);
        }
        ResultPath::TmaStoreByProducer => unreachable!("the producer warp stores these results"),
    }
}

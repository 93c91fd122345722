//! `smem`: as `dma`, with the scales staged in shared memory beside the operands. A second producer warp
//! copies them with `cp.async`, so that no consumer waits for global memory.

use octile_core::plan::{BufferId, hopper::HopperPlan};

use super::{
    dma,
    parts::{
        consumer::Consumer,
        cta::Cta,
        epilogue,
        pipeline::{self, PipelineState},
        scale_copies::for_each_layout,
        schedule::{KRange, for_each_tile},
        tma::TmaOperands,
    },
    ptx::Ptx,
};

pub(super) fn emit(ptx: &mut Ptx, plan: &HopperPlan) {
    let cta = Cta::new(ptx, plan);
    pipeline::init(ptx, &cta, |_| {});
    ptx.block_barrier();
    cta.specialize_warps(ptx, |ptx| consume(ptx, &cta), |ptx| produce(ptx, &cta));
}

/// The producer warps: one for operands, one for scales.
fn produce(ptx: &mut Ptx, cta: &Cta<'_>) {
    cta.in_warp(ptx, cta.first_producer(), |ptx| dma::load_operands(ptx, cta));
    cta.in_warp(ptx, cta.first_producer() + 1, |ptx| load_scales(ptx, cta, None));
}

/// A consumer warpgroup.
fn consume(ptx: &mut Ptx, cta: &Cta<'_>) {
    let consumer = Consumer::new(ptx, cta);
    for_each_tile(ptx, cta, |ptx, work| {
        let k_block = ptx.variable(consumer.k.first);
        let tile = consumer.multiply_tile(ptx, work, k_block);
        epilogue::store(ptx, cta, consumer.fragment, tile, &consumer.accumulators);
    });
}

/// The scale warp: copies the scales of every stage and arrives on its full barrier when they have landed.
/// With `operands` it issues their TMA loads as well.
pub(super) fn load_scales(ptx: &mut Ptx, cta: &Cta<'_>, operands: Option<&TmaOperands>) {
    for_each_layout(ptx, cta, |ptx, copies| {
        let pipeline = PipelineState::new(ptx);
        let k = KRange::new(ptx, cta);
        let has_waited = ptx.variable(0);
        for_each_tile(ptx, cta, |ptx, work| {
            let tile = work.tile(ptx, cta);
            let sources = copies.sources(ptx, tile);
            let k_block = ptx.variable(k.first);
            // PDL: the preceding kernel may write these scales. In a branch, because otherwise the assembler
            // moves the address arithmetic above behind the wait.
            let is_first = ptx.eq(has_waited, 0);
            ptx.when(is_first, |ptx| {
                ptx.wait_for_previous_kernel();
                ptx.set(has_waited, 1);
            });
            ptx.while_(
                |ptx| ptx.lt(k_block, k.end),
                |ptx| {
                    let empty = cta.buffer(ptx, BufferId::Empty, pipeline.stage);
                    let full = cta.buffer(ptx, BufferId::Full, pipeline.stage);
                    pipeline.wait_until_empty(ptx, empty);
                    copies.copy(ptx, &sources, pipeline.stage, k_block);
                    // Behind the scales: loading operands first took 0.4 % longer for 192 x 128 tiles and K
                    // of 8192.
                    if let Some(operands) = operands {
                        ptx.in_one_lane(|ptx| operands.load(ptx, cta, tile, k_block, pipeline.stage));
                    }
                    ptx.arrive_after_copies(full);
                    pipeline.advance(ptx, cta);
                    ptx.increase(k_block, 1);
                },
            );
        });
    });
}

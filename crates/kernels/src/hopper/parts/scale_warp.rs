//! The producer warp for scales: fills pipeline stages, with a bulk copy where it can.

use octile_core::plan::{BufferId, hopper::COPIED_AT_ONCE};

use super::{
    bulk_scales::BulkScales,
    cta::Cta,
    pipeline::PipelineState,
    scale_copies::ScaleCopies,
    scales::has_scale_per_wave,
    schedule::{KRange, Tile, for_each_tile},
    tma::TmaOperands,
};
use crate::hopper::ptx::{B32, Ptx};

/// How the warp copies the scales of a stage.
pub(crate) trait ScaleSource {
    /// What is the same for all stages of a tile.
    type Sources;

    fn sources(&self, ptx: &mut Ptx, tile: Tile) -> Self::Sources;

    /// Starts what it can before the first stage, all of which are empty.
    fn prefill(&self, _: &mut Ptx, _: &Self::Sources) {}

    /// Starts the copies of a stage that are not started yet. Its full barrier gets 32 arrivals, and
    /// completes when they have landed.
    fn copy(&self, ptx: &mut Ptx, sources: &Self::Sources, stage: B32, k_block: B32);
}

/// The scale warp: copies the scales of every stage. With `operands` it issues their TMA loads as well.
pub(crate) fn load_scales(ptx: &mut Ptx, cta: &Cta<'_>, operands: Option<&TmaOperands>) {
    let k = KRange::new(ptx, cta);
    if has_scale_per_wave(cta.plan) {
        let copies = ScaleCopies::one_per_wave(ptx, cta);
        return load_with(ptx, cta, k, &copies, operands);
    }
    if_adjacent(
        ptx,
        |ptx| {
            if cta.plan.copies_scales_in_bulk() {
                let copies = BulkScales::new(ptx, cta, k);
                load_with(ptx, cta, k, &copies, operands);
            } else {
                let copies = ScaleCopies::of_rows(ptx, cta, COPIED_AT_ONCE as u32);
                load_with(ptx, cta, k, &copies, operands);
            }
        },
        |ptx| {
            let copies = ScaleCopies::of_rows(ptx, cta, 1);
            load_with(ptx, cta, k, &copies, operands);
        },
    );
}

fn load_with(
    ptx: &mut Ptx,
    cta: &Cta<'_>,
    k: KRange,
    copies: &impl ScaleSource,
    operands: Option<&TmaOperands>,
) {
    let pipeline = PipelineState::new(ptx);
    let has_waited = ptx.variable(0);
    for_each_tile(ptx, cta, k, |ptx, work| {
        let tile = work.tile(ptx, cta);
        let sources = copies.sources(ptx, tile);
        let k_block = ptx.variable(k.first);
        // PDL: the preceding kernel may write these scales. In a branch, because otherwise the assembler
        // moves the address arithmetic above behind the wait.
        let is_first = ptx.eq(has_waited, 0);
        ptx.when(is_first, |ptx| {
            ptx.wait_for_previous_kernel();
            copies.prefill(ptx, &sources);
            ptx.set(has_waited, 1);
        });
        ptx.while_(
            |ptx| ptx.lt(k_block, k.end),
            |ptx| {
                let empty = cta.buffer(ptx, BufferId::Empty, pipeline.stage);
                pipeline.wait_until_empty(ptx, empty);
                copies.copy(ptx, &sources, pipeline.stage, k_block);
                // Behind the scales: loading operands first took 0.4 % longer for 192 x 128 tiles and K of
                // 8192.
                if let Some(operands) = operands {
                    ptx.in_one_lane(|ptx| operands.load(ptx, cta, tile, k_block, pipeline.stage));
                }
                pipeline.advance(ptx, cta);
                ptx.increase(k_block, 1);
            },
        );
    });
}

/// Emits `then` for scales of x whose rows are adjacent and whose groups of [`COPIED_AT_ONCE`] rows are
/// aligned, `otherwise` for all others, and a branch between the two.
fn if_adjacent(ptx: &mut Ptx, then: impl FnOnce(&mut Ptx), otherwise: impl FnOnce(&mut Ptx)) {
    let (row, k, shift) = (ptx.number("x_scale_row"), ptx.number("x_scale_k"), ptx.number("x_scale_shift"));
    let misaligned = ptx.and(k, COPIED_AT_ONCE as u32 - 1);
    let other = ptx.sub(row, 1);
    let other = ptx.or(other, shift);
    let other = ptx.or(other, misaligned);
    let is_other = ptx.ne(other, 0);
    let (one_by_one, end) = (ptx.label(), ptx.label());
    ptx.jump_if(is_other, one_by_one);
    then(ptx);
    ptx.jump(end);
    ptx.place(one_by_one);
    otherwise(ptx);
    ptx.place(end);
}

//! Bulk copies of a stage's scales by one lane: they pass by the load and store units, which the consumers
//! use.

use octile_core::plan::{BufferId, hopper::COPIED_AT_ONCE};

use super::{
    cta::Cta,
    scale_warp::ScaleSource,
    scales::{GlobalScales, quant_k, weight_scale_rows},
    schedule::{KRange, Tile},
};
use crate::hopper::ptx::{B32, B64, F32, Ptx, Shared};

/// Lanes of a warp.
const LANES: u32 = 32;

/// The lanes take turns: lane `i` copies the scales of stages `i`, `i` + 32 and so on of a tile, and holds
/// their weight scales.
///
/// Only for operands that are not swapped. Their consumers read scales before they wait for the wgmma of a
/// stage, and release it after that. Swapped, they would read while the bulk copy of a later stage
/// overwrites.
pub(crate) struct BulkScales<'a> {
    cta: &'a Cta<'a>,
    k: KRange,
    x: GlobalScales,
    w: GlobalScales,
    m: B32,
    n: B32,
    /// This lane's weight scales of the current 32 stages.
    held: [F32; 2],
    /// Stages ahead whose scales of x are on their way.
    prefilled: B32,
}

/// Where the scales of one tile lie.
pub(crate) struct BulkSources {
    x: B64,
    x_bytes: B32,
    w: [B64; 2],
}

impl<'a> BulkScales<'a> {
    pub(crate) fn new(ptx: &mut Ptx, cta: &'a Cta<'a>, k: KRange) -> Self {
        assert!(!cta.plan.shape.swapped, "swapped operands' scales are read too late");
        clear_stages(ptx, cta);
        let (x, w) = (GlobalScales::of_x(ptx), GlobalScales::of_w(ptx));
        let (m, n) = (ptx.number("m"), ptx.number("n"));
        let held = [ptx.f32(), ptx.f32()];
        Self { cta, k, x, w, m, n, held, prefilled: ptx.variable(0) }
    }

    /// Loads this lane's weight scales of 32 stages.
    fn hold(&self, ptx: &mut Ptx, sources: &BulkSources, k_block: B32) {
        let last = ptx.sub(self.k.end, 1);
        let own = ptx.add(k_block, self.cta.lane);
        let own = ptx.min(own, last);
        let own = quant_k(ptx, own);
        for (held, start) in self.held.into_iter().zip(sources.w) {
            let at = self.w.at(ptx, start, own);
            let scale = ptx.load_global_f32(at);
            ptx.copy_float(held, scale);
        }
    }

    /// Starts the copy of a stage's scales of x, and arrives once.
    fn copy_x(&self, ptx: &mut Ptx, sources: &BulkSources, stage: B32, k_block: B32) {
        let full = self.cta.buffer(ptx, BufferId::Full, stage);
        ptx.arrive_expecting(full, sources.x_bytes);
        let destination = self.cta.buffer(ptx, BufferId::XScale, stage);
        let quant_k = quant_k(ptx, k_block);
        let source = self.x.at(ptx, sources.x, quant_k);
        ptx.copy_block(destination, source, sources.x_bytes, full);
    }
}

impl ScaleSource for BulkScales<'_> {
    type Sources = BulkSources;

    fn sources(&self, ptx: &mut Ptx, tile: Tile) -> BulkSources {
        let Self { cta, m, n, .. } = *self;
        let group = COPIED_AT_ONCE as u32;
        // The second tile of a cluster may lie beyond the last row: it copies some scales all the same.
        let last = ptx.sub(m, 1);
        let last = ptx.and(last, !(group - 1));
        let row = ptx.min(tile.a_row, last);
        let left = ptx.sub(m, row);
        let left = ptx.min(left, cta.plan.shape.tile.a as u32);
        // Groups of rows are whole, that of the last row too.
        let left = ptx.add(left, group - 1);
        let left = ptx.and(left, !(group - 1));
        let w_rows = weight_scale_rows(ptx, tile);
        BulkSources {
            x: self.x.row_start(ptx, row, m),
            x_bytes: ptx.shl(left, 2),
            w: w_rows.map(|row| self.w.row_start(ptx, row, n)),
        }
    }

    /// Every lane starts the first copy of its own, so that none waits for the weight scales.
    fn prefill(&self, ptx: &mut Ptx, sources: &BulkSources) {
        let Self { cta, k, prefilled, .. } = *self;
        self.hold(ptx, sources, k.first);
        let count = ptx.sub(k.end, k.first);
        let count = ptx.min(count, cta.plan.stages as u32);
        ptx.set(prefilled, count);
        let has_own = ptx.lt(cta.lane, count);
        ptx.when(has_own, |ptx| {
            let k_block = ptx.add(k.first, cta.lane);
            self.copy_x(ptx, sources, cta.lane, k_block);
        });
    }

    fn copy(&self, ptx: &mut Ptx, sources: &BulkSources, stage: B32, k_block: B32) {
        let Self { cta, k, prefilled, held, .. } = *self;
        let turn = ptx.sub(k_block, k.first);
        let turn = ptx.and(turn, LANES - 1);
        let is_held = ptx.or(turn, prefilled);
        let starts_over = ptx.eq(is_held, 0);
        ptx.when(starts_over, |ptx| self.hold(ptx, sources, k_block));
        let is_own = ptx.eq(turn, cta.lane);
        ptx.when(is_own, |ptx| {
            let is_missing = ptx.eq(prefilled, 0);
            ptx.when(is_missing, |ptx| self.copy_x(ptx, sources, stage, k_block));
            let w_scales = cta.buffer(ptx, BufferId::WScale, stage);
            for (at, scale) in (0..).zip(held) {
                ptx.store_shared_f32(Shared(w_scales, 4 * at), scale);
            }
            let full = cta.buffer(ptx, BufferId::Full, stage);
            ptx.arrive_times(full, LANES - 1);
        });
        let one = ptx.min(prefilled, 1);
        let left = ptx.sub(prefilled, one);
        ptx.set(prefilled, left);
        // Nothing else keeps the lanes together: a full barrier completes without those whose turn it is not.
        ptx.warp_barrier();
    }
}

/// Zeros the scales of x in every stage: a tile that ends beyond the last row copies only those of its rows.
fn clear_stages(ptx: &mut Ptx, cta: &Cta<'_>) {
    let bytes = (cta.plan.stages * cta.plan.buffer_bytes(BufferId::XScale)) as u32;
    let first = cta.buffer(ptx, BufferId::XScale, 0);
    let first = ptx.mad(cta.lane, 16, first);
    let zero = ptx.variable(0);
    for start in (0..bytes).step_by(16 * LANES as usize) {
        let store = |ptx: &mut Ptx| ptx.store_shared_16(Shared(first, start), [zero; 4]);
        let lanes = (bytes - start) / 16;
        if lanes >= LANES {
            store(ptx);
        } else {
            let exists = ptx.lt(cta.lane, lanes);
            ptx.when(exists, store);
        }
    }
    ptx.fence_shared_stores();
    ptx.warp_barrier();
}

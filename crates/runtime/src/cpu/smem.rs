//! `smem`: as `dma`, with the scales of a row block in a compact table that stays in the L1 cache.

use std::ops::Range;

use octile_core::plan::cpu::Step;

use super::{
    dma::Dma,
    nest::{Fetch, SharedWork, Weights},
};

pub(super) struct Smem<'a> {
    pub dma: Dma<'a>,
    pub table: ScaleTable<'a>,
}

impl Fetch for Smem<'_> {
    fn enter_rows(&mut self, rows: Range<usize>) {
        self.table.fill(self.dma.work, rows);
    }

    fn begin(&mut self, first: &Step) {
        self.dma.begin(first);
    }

    fn weights(&mut self, step: &Step) -> Weights {
        self.dma.weights(step)
    }

    fn meanwhile(&mut self, next: Option<&Step>, done: Range<usize>, count: usize) {
        self.dma.meanwhile(next, done, count);
    }

    fn keeps_scales(&self) -> bool {
        true
    }

    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        self.table.scales(self.dma.work, step, rows)
    }
}

/// The activation scales of a row block; those of one quantization block are contiguous.
pub(super) struct ScaleTable<'a> {
    pub scales: &'a mut [f32],
}

impl ScaleTable<'_> {
    /// Gathers the scales of `rows`.
    pub(super) fn fill(&mut self, work: &SharedWork<'_>, rows: Range<usize>) {
        let stride = work.call.plan.block_rows;
        for (at, row) in rows.enumerate() {
            let scales = self.scales[at..].iter_mut().step_by(stride).take(work.blocks());
            match work.x_scales(row, 0..work.blocks()) {
                Some(row_scales) => scales.zip(row_scales).for_each(|(scale, own)| *scale = own),
                None => scales.for_each(|scale| *scale = 1.0),
            }
        }
    }

    /// The scales of some rows of a step, and the stride between quantization blocks.
    pub(super) fn scales(&self, work: &SharedWork<'_>, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        let stride = work.call.plan.block_rows;
        (&self.scales[work.blocks_of(step).start * stride + rows.start - step.rows.start..], stride)
    }
}

//! `strip`: the weight is prepacked, so a panel is one stream of bytes for the whole K. With few rows it is
//! decoded in registers; with many rows the tiles share a decoded buffer. Scales as in `smem`.

use std::ops::Range;

use octile_core::plan::cpu::Step;

use super::{
    PackedView,
    nest::{Fetch, SharedWork, Weights},
    smem::ScaleTable,
};

pub(super) struct Strip<'a> {
    pub work: &'a SharedWork<'a>,
    pub weight: PackedView<'a>,
    /// One decoded panel, shared by several tiles.
    pub buffer: &'a mut [u8],
    pub table: ScaleTable<'a>,
}

impl Fetch for Strip<'_> {
    fn enter_rows(&mut self, rows: Range<usize>) {
        self.table.fill(self.work, rows);
    }

    fn weights(&mut self, step: &Step) -> Weights {
        let codes = self.weight.codes(step.panel, step.depth.start);
        self.work.weights_of(step, codes, self.buffer)
    }

    fn codes_ahead(&self, next: Option<&Step>) -> Option<*const u8> {
        next.map(|next| self.weight.codes(next.panel, next.depth.start).as_ptr())
    }

    fn tiles_at_once(&self) -> usize {
        usize::MAX
    }

    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        self.table.scales(self.work, step, rows)
    }
}

//! `strip`: the weight is prepacked, so a panel is one stream of bytes for the whole K. With few rows it is
//! decoded in registers; with many rows the tiles share a decoded buffer. AMX fills it while it multiplies:
//! with few rows by the panel before, with many by the first tile. Scales as in `smem`.

use std::{ops::Range, ptr};

use octile_core::plan::cpu::Step;

use super::{
    PackedView,
    nest::{Ahead, Fetch, Following, SharedWork, Weights},
    smem::ScaleTable,
};

pub(super) struct Strip<'a> {
    pub work: &'a SharedWork<'a>,
    pub weight: PackedView<'a>,
    /// One decoded panel, shared by several tiles.
    buffer: &'a mut [u8],
    /// The panel to decode ahead, if the tiles do that.
    next: &'a mut [u8],
    /// The codes of the step, if its first tile decodes them while it multiplies.
    own: Option<Ahead>,
    table: ScaleTable<'a>,
}

impl<'a> Strip<'a> {
    /// Splits `buffer` in two if tiles decode the next weights.
    pub(super) fn new(
        work: &'a SharedWork<'a>,
        weight: PackedView<'a>,
        buffer: &'a mut [u8],
        table: ScaleTable<'a>,
    ) -> Self {
        let parts = if work.call.plan.decodes_next_weights() { 2 } else { 1 };
        let (buffer, next) = buffer.split_at_mut(buffer.len() / parts);
        Self { work, weight, buffer, next, own: None, table }
    }
}

fn pairs(step: &Step) -> usize {
    step.depth.len().div_ceil(2)
}

impl Fetch for Strip<'_> {
    fn enter_rows(&mut self, rows: Range<usize>) {
        self.table.fill(self.work, rows);
    }

    fn begin(&mut self, first: &Step) {
        if !self.next.is_empty() {
            let codes = self.weight.codes(first.panel, first.depth.start);
            self.work.decode_panel(codes, pairs(first), self.next, 0..pairs(first));
        }
    }

    fn weights(&mut self, step: &Step) -> Weights {
        if !self.next.is_empty() {
            std::mem::swap(&mut self.buffer, &mut self.next);
            return Weights::Decoded(self.buffer.as_ptr());
        }
        let codes = self.weight.codes(step.panel, step.depth.start);
        if self.work.call.plan.tile.decodes_ahead {
            let decoded = self.buffer.as_mut_ptr();
            self.own = Some(Ahead { codes: codes.as_ptr(), pairs: pairs(step), decoded });
            return Weights::Decoded(decoded);
        }
        self.work.weights_of(step, codes, self.buffer)
    }

    fn following(&mut self, step: &Step, slabs: usize) -> Option<Following> {
        if self.next.is_empty() {
            return None;
        }
        let codes = self.weight.codes(step.panel, step.depth.end);
        let following = Following { codes: codes.as_ptr(), buffer: self.next.as_mut_ptr() };
        // The last slab decodes the next panel into the buffer that it does not read.
        if slabs.is_multiple_of(2) {
            std::mem::swap(&mut self.buffer, &mut self.next);
        }
        Some(following)
    }

    fn ahead(&mut self, next: Option<&Step>) -> Option<Ahead> {
        if self.own.is_some() {
            return self.own;
        }
        let next = next?;
        let codes = self.weight.codes(next.panel, next.depth.start);
        let decoded = if self.next.is_empty() { ptr::null_mut() } else { self.next.as_mut_ptr() };
        Some(Ahead { codes: codes.as_ptr(), pairs: pairs(next), decoded })
    }

    fn tiles_at_once(&self) -> usize {
        usize::MAX
    }

    fn keeps_scales(&self) -> bool {
        true
    }

    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        self.table.scales(self.work, step, rows)
    }
}

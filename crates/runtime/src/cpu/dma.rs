//! `dma`: two buffers. While the tiles use the weights in one, the next panel is packed and decoded into the other,
//! a piece after each tile. Scales are looked up beside the data.

use std::ops::Range;

use octile_core::{QuantizedWeight, plan::cpu::Step};

use super::{
    nest::{Fetch, Job, TileScales, Weights},
    packed::{GROUP, pack},
};

pub(super) struct Dma<'a> {
    pub job: &'a Job<'a>,
    weight: &'a QuantizedWeight,
    /// Codes of one panel, packed.
    codes: &'a mut [u8],
    /// The same decoded: the one being filled, then the one in use.
    buffers: [&'a mut [u8]; 2],
    scales: TileScales,
}

/// Pairs of k that are copied at a time: a cache line of every row.
const PIECE: usize = 32;

impl<'a> Dma<'a> {
    /// Cuts `buffer` in two.
    pub(super) fn new(
        job: &'a Job<'a>,
        weight: &'a QuantizedWeight,
        codes: &'a mut [u8],
        buffer: &'a mut [u8],
    ) -> Self {
        let buffers = buffer.split_at_mut(buffer.len() / 2).into();
        Self { job, weight, codes, buffers, scales: TileScales::default() }
    }

    /// Copies the pieces `pieces` of a step's panel.
    fn copy(&mut self, step: &Step, pieces: Range<usize>) {
        let pairs = step.depth.len().div_ceil(2);
        let range = pieces.start * PIECE..pairs.min(pieces.end * PIECE);
        let columns =
            step.depth.start + 2 * range.start..step.depth.end.min(step.depth.start + 2 * range.end);
        pack(self.weight, step.panel, columns, &mut self.codes[range.start * GROUP..]);
        self.job.decode_panel(self.codes, pairs, self.buffers[0], range);
    }
}

fn pieces(step: &Step) -> usize {
    step.depth.len().div_ceil(2 * PIECE)
}

impl Fetch for Dma<'_> {
    fn begin(&mut self, first: &Step) {
        self.copy(first, 0..pieces(first));
    }

    fn weights(&mut self, _step: &Step) -> Weights {
        self.buffers.swap(0, 1);
        Weights::Decoded(self.buffers[1].as_ptr())
    }

    fn meanwhile(&mut self, next: Option<&Step>, tile: usize, tiles: usize) {
        let Some(next) = next else { return };
        let pieces = pieces(next);
        let due = pieces * tile / tiles..pieces * (tile + 1) / tiles;
        if !due.is_empty() {
            self.copy(next, due);
        }
    }

    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        self.scales = self.job.scales_beside_data(step, rows);
        (self.scales.as_flattened(), self.scales[0].len())
    }
}

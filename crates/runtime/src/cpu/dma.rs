//! `dma`: double buffering. While the tiles use the weights in one buffer, the next panel is prefetched,
//! packed and decoded into the other, a piece at a time between tiles. Scales are read beside the data.

use std::ops::Range;

use octile_core::{
    WeightView,
    plan::cpu::{PANEL, Step},
};

use super::{
    isa::prefetch,
    nest::{Fetch, SharedWork, TileScales, Weights},
    pack::{GROUP, pack},
};

pub(super) struct Dma<'a> {
    pub work: &'a SharedWork<'a>,
    weight: WeightView<'a>,
    /// Codes of one panel, packed.
    codes: &'a mut [u8],
    /// Decoded codes: the buffer being filled, then the one in use.
    buffers: [&'a mut [u8]; 2],
    scales: TileScales,
}

/// Pairs of k copied at a time: a cache line of every row.
const PIECE: usize = 32;

impl<'a> Dma<'a> {
    /// Splits `buffer` in two.
    pub(super) fn new(
        work: &'a SharedWork<'a>,
        weight: WeightView<'a>,
        codes: &'a mut [u8],
        buffer: &'a mut [u8],
    ) -> Self {
        let buffers = buffer.split_at_mut(buffer.len() / 2).into();
        Self { work, weight, codes, buffers, scales: TileScales::default() }
    }

    /// Packs piece `piece` of a step's panel, and prefetches the next piece.
    fn copy(&mut self, step: &Step, piece: usize) {
        self.request(step, piece + 1);
        let pairs = step.depth.len().div_ceil(2);
        let columns = columns(step, piece);
        let range = piece * PIECE..pairs.min((piece + 1) * PIECE);
        pack(self.weight, step.panel, columns, &mut self.codes[range.start * GROUP..]);
        self.work.decode_panel(self.codes, pairs, self.buffers[0], range);
    }

    /// Prefetches a cache line of every row of the panel: the CPU's closest equivalent to starting a DMA.
    fn request(&self, step: &Step, piece: usize) {
        let (rows, cols) = (self.weight.rows(), self.weight.cols());
        let start = columns(step, piece).start;
        for row in step.panel * PANEL..rows.min((step.panel + 1) * PANEL) {
            if let Some(code) = self.weight.codes().get(row * cols + start) {
                prefetch(code);
            }
        }
    }
}

fn pieces(step: &Step) -> usize {
    step.depth.len().div_ceil(2 * PIECE)
}

fn columns(step: &Step, piece: usize) -> Range<usize> {
    let start = step.depth.start + 2 * PIECE * piece;
    start..step.depth.end.min(start + 2 * PIECE)
}

impl Fetch for Dma<'_> {
    fn begin(&mut self, first: &Step) {
        for piece in 0..pieces(first) {
            self.copy(first, piece);
        }
    }

    fn weights(&mut self, _step: &Step) -> Weights {
        self.buffers.swap(0, 1);
        Weights::Decoded(self.buffers[1].as_ptr())
    }

    fn meanwhile(&mut self, next: Option<&Step>, done: Range<usize>, count: usize) {
        let Some(next) = next else { return };
        let pieces = pieces(next);
        for piece in pieces * done.start / count..pieces * done.end / count {
            self.copy(next, piece);
        }
    }

    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        self.scales = self.work.scales_beside_data(step, rows);
        (self.scales.as_flattened(), self.scales[0].len())
    }
}

//! `auto`: the weight stays row-major. Each panel is packed and decoded just before its tiles, and fetching
//! is left to the hardware prefetchers. Scales are read beside the data.

use std::ops::Range;

use octile_core::{WeightView, plan::cpu::Step};

use super::{
    nest::{Fetch, SharedWork, TileScales, Weights},
    pack::pack,
};

pub(super) struct Auto<'a> {
    pub work: &'a SharedWork<'a>,
    pub weight: WeightView<'a>,
    /// Codes of one panel, packed.
    pub codes: &'a mut [u8],
    /// The same decoded.
    pub buffer: &'a mut [u8],
    pub scales: TileScales,
}

impl Fetch for Auto<'_> {
    fn weights(&mut self, step: &Step) -> Weights {
        pack(self.weight, step.panel, step.depth.clone(), self.codes);
        self.work.weights_of(step, self.codes, self.buffer)
    }

    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        self.scales = self.work.scales_beside_data(step, rows);
        (self.scales.as_flattened(), self.scales[0].len())
    }
}

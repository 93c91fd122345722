//! `strip`: the weight was packed beforehand, so a panel is one stream of bytes for the whole of K. Few rows decode
//! it in registers as they go; many rows share a decoded buffer. Scales as in `smem`.

use std::ops::Range;

use octile_core::plan::cpu::{Step, WeightPath};

use super::{
    PackedWeight,
    nest::{Call, Fetch, Job, Weights},
    smem::ScaleTable,
};

pub(super) struct Strip<'a> {
    pub job: &'a Job<'a>,
    pub weight: &'a PackedWeight,
    /// One panel decoded, for more rows than a tile has.
    pub buffer: &'a mut [u8],
    pub table: ScaleTable<'a>,
}

impl Fetch for Strip<'_> {
    fn enter_rows(&mut self, rows: Range<usize>) {
        self.table.fill(self.job, rows);
    }

    fn weights(&mut self, step: &Step) -> Weights {
        let Call { plan, kernels, .. } = self.job.call;
        let codes = self.weight.panel(step.panel, step.depth.start);
        let pairs = step.depth.len().div_ceil(2);
        match plan.path {
            WeightPath::Streamed => Weights::Codes(codes.as_ptr()),
            WeightPath::Buffered if kernels.keeping_tiles.is_empty() => {
                self.job.decode_panel(codes, pairs, self.buffer, 0..pairs);
                Weights::Decoded(self.buffer.as_ptr())
            }
            WeightPath::Buffered => Weights::CodesFor(codes.as_ptr(), self.buffer.as_mut_ptr()),
        }
    }

    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize) {
        self.table.scales(self.job, step, rows)
    }
}

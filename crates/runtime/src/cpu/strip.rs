//! `strip`: the weight was packed beforehand, so a panel is one stream of bytes for the whole of K. Few rows decode
//! it in registers as they go; many rows share a decoded buffer. Scales as in `smem`.

use std::ops::Range;

use octile_core::plan::cpu::{Step, WeightPath};

use super::{
    PackedWeight,
    nest::{Fetch, Job, MAX_TILE_ROWS},
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

    fn weights(&mut self, step: &Step) -> *const u8 {
        let codes = self.weight.panel(step.panel, step.depth.start);
        match self.job.call.plan.path {
            WeightPath::Streamed => codes.as_ptr(),
            WeightPath::Buffered => {
                let pairs = step.depth.len().div_ceil(2);
                self.job.decode_panel(codes, pairs, self.buffer, 0..pairs);
                self.buffer.as_ptr()
            }
        }
    }

    fn scales(&self, step: &Step, rows: Range<usize>) -> [f32; MAX_TILE_ROWS] {
        self.table.scales(self.job, step, rows)
    }
}

//! Copies of a stage's scales from global to shared memory with `cp.async`, by one warp.

use octile_core::plan::{BufferId, hopper::WAVE_ROWS};

use super::{
    cta::Cta,
    scale_warp::ScaleSource,
    scales::{GlobalScales, quant_k, weight_scale_rows},
    schedule::Tile,
};
use crate::hopper::ptx::{B32, B64, Pred, Ptx, Shared};

/// How the lanes of the warp divide the scales of a stage.
pub(crate) struct ScaleCopies<'a> {
    cta: &'a Cta<'a>,
    /// Scales of x that a lane copies at once.
    at_once: u32,
    /// Scales of x in a stage.
    x_scales: u32,
    /// Rows of x from one scale to the next.
    rows_apart: u32,
    x: GlobalScales,
    w: GlobalScales,
    m: B32,
    n: B32,
    /// The lane's first scale of x in the stage, and the row of the tile that it is for.
    first_scale: B32,
    first_row: B32,
}

/// What a lane copies for one tile.
pub(crate) struct ScaleSources {
    /// Rows of scales of x, and bytes to copy there: fewer, down to 0, beyond the last row. The rest is
    /// filled with zeros.
    x: Vec<(B64, B32)>,
    w: B64,
    w_bytes: B32,
    /// Whether the lane copies a weight scale.
    copies_w: Pred,
}

impl<'a> ScaleCopies<'a> {
    /// `at_once` adjacent rows per lane.
    pub(crate) fn of_rows(ptx: &mut Ptx, cta: &'a Cta<'a>, at_once: u32) -> Self {
        Self::new(ptx, cta, at_once, cta.plan.x_and_w_rows().0 as u32, 1)
    }

    /// The one scale that the rows of a wave share.
    pub(crate) fn one_per_wave(ptx: &mut Ptx, cta: &'a Cta<'a>) -> Self {
        Self::new(ptx, cta, 1, (cta.plan.shape.tile.a / WAVE_ROWS) as u32, WAVE_ROWS as u32)
    }

    fn new(ptx: &mut Ptx, cta: &'a Cta<'a>, at_once: u32, x_scales: u32, rows_apart: u32) -> Self {
        let (x, w) = (GlobalScales::of_x(ptx), GlobalScales::of_w(ptx));
        let (m, n) = (ptx.number("m"), ptx.number("n"));
        let first_scale = ptx.mul(cta.lane, at_once);
        let first_row = ptx.mul(first_scale, rows_apart);
        Self { cta, at_once, x_scales, rows_apart, x, w, m, n, first_scale, first_row }
    }
}

impl ScaleSource for ScaleCopies<'_> {
    type Sources = ScaleSources;

    /// Addresses of what this lane copies for a tile.
    fn sources(&self, ptx: &mut Ptx, tile: Tile) -> ScaleSources {
        let Self { cta, at_once, m, .. } = *self;
        let swapped = cta.plan.shape.swapped;
        let x_row = if swapped { tile.b_row } else { tile.a_row };
        let per_warp = 32 * at_once;
        let x = (0..self.x_scales.div_ceil(per_warp))
            .map(|part| {
                let row = ptx.add(x_row, self.first_row);
                let row = ptx.add(row, per_warp * self.rows_apart * part);
                let inside = ptx.min(row, m);
                let left = ptx.sub(m, inside);
                let left = ptx.min(left, at_once);
                let last = ptx.sub(m, 1);
                // The address stays aligned even where no byte is copied.
                let last = ptx.and(last, !(at_once - 1));
                let row = ptx.min(row, last);
                (self.x.row_start(ptx, row, m), ptx.shl(left, 2))
            })
            .collect();
        let w_row = if swapped {
            ptx.mad(cta.lane, WAVE_ROWS as u32, tile.a_row)
        } else {
            let rows = weight_scale_rows(ptx, tile);
            let is_first = ptx.eq(cta.lane, 0);
            ptx.select(rows[0], rows[1], is_first)
        };
        let w = self.w.row_start(ptx, w_row, self.n);
        let w_bytes = ptx.variable(4);
        let copies_w = ptx.lt(cta.lane, cta.plan.w_scales_per_stage() as u32);
        ScaleSources { x, w, w_bytes, copies_w }
    }

    fn copy(&self, ptx: &mut Ptx, sources: &ScaleSources, stage: B32, k_block: B32) {
        let quant_k = quant_k(ptx, k_block);
        let x_scales = self.cta.buffer(ptx, BufferId::XScale, stage);
        let x_scales = ptx.mad(self.first_scale, 4, x_scales);
        let per_warp = 32 * self.at_once;
        for (part, (source, bytes)) in (0..).zip(&sources.x) {
            let source = self.x.at(ptx, *source, quant_k);
            let destination = Shared(x_scales, 4 * per_warp * part);
            let copy = |ptx: &mut Ptx| match self.at_once {
                1 => ptx.copy_4(destination, source, *bytes),
                _ => ptx.copy_16(destination, source, *bytes),
            };
            let left = self.x_scales - per_warp * part;
            if left >= per_warp {
                copy(ptx);
            } else {
                let exists = ptx.lt(self.first_scale, left);
                ptx.when(exists, copy);
            }
        }
        ptx.when(sources.copies_w, |ptx| {
            let w_scales = self.cta.buffer(ptx, BufferId::WScale, stage);
            let w_scales = ptx.mad(self.cta.lane, 4, w_scales);
            let source = self.w.at(ptx, sources.w, quant_k);
            ptx.copy_4(Shared(w_scales, 0), source, sources.w_bytes);
        });
        let full = self.cta.buffer(ptx, BufferId::Full, stage);
        ptx.arrive_after_copies(full);
    }
}

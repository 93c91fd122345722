//! The scaling of accumulators, in AVX-512, between the tile instructions of the next tile.

use std::{arch::x86_64::*, ops::Range, ptr};

use octile_core::plan::cpu::PANEL;

use super::tiles::TILE_ROWS;

/// The scales of a tile's rows.
#[repr(C, align(64))]
pub(super) struct RowScales(pub [f32; 2 * TILE_ROWS]);

/// The accumulators of a quantization block, and the scales of its rows and its columns.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub stored: *const f32,
    pub x_scales: *const f32,
    pub w_scale: f32,
}

/// What is left to do with a tile: `out = old + scale * accumulators`, for one quantization block or two.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub rows: usize,
    pub first: Option<Block>,
    pub last: Block,
    /// Null if there are no earlier sums.
    pub old: *const f32,
    pub out: *mut f32,
    pub out_stride: usize,
    /// Whether the result passes the caches by.
    pub streams: bool,
}

impl Pending {
    pub(super) const NOTHING: Self = Self {
        rows: 0,
        first: None,
        last: Block { stored: ptr::null(), x_scales: ptr::null(), w_scale: 0.0 },
        old: ptr::null(),
        out: ptr::null_mut(),
        out_stride: 0,
        streams: false,
    };

    /// The products of scales of both blocks.
    #[inline(always)]
    pub(super) unsafe fn scales(&self, scales: &mut [RowScales; 2]) {
        let mask = (1u64 << self.rows) - 1;
        for (scales, block) in scales.iter_mut().zip([self.first.unwrap_or(self.last), self.last]) {
            for half in 0..2 {
                let mask = (mask >> (TILE_ROWS * half)) as u16;
                let x_scales = block.x_scales.wrapping_add(TILE_ROWS * half);
                // SAFETY: masked loads read the scales of existing rows only; the caller guarantees the ISA.
                unsafe {
                    let x_scales = _mm512_maskz_loadu_ps(mask, x_scales);
                    let products = _mm512_mul_ps(x_scales, _mm512_set1_ps(block.w_scale));
                    _mm512_store_ps(scales.0.as_mut_ptr().add(TILE_ROWS * half), products);
                }
            }
        }
    }

    /// Scales some of the rows.
    #[inline(always)]
    pub(super) unsafe fn add_rows(&self, scales: &[RowScales; 2], rows: Range<usize>) {
        // SAFETY: the caller guarantees the ISA and the pointers.
        unsafe {
            match (self.first.is_some(), self.old.is_null(), self.streams) {
                (false, false, false) => self.add::<false, false, false>(scales, rows),
                (false, false, true) => self.add::<false, false, true>(scales, rows),
                (false, true, false) => self.add::<false, true, false>(scales, rows),
                (false, true, true) => self.add::<false, true, true>(scales, rows),
                (true, false, false) => self.add::<true, false, false>(scales, rows),
                (true, false, true) => self.add::<true, false, true>(scales, rows),
                (true, true, false) => self.add::<true, true, false>(scales, rows),
                (true, true, true) => self.add::<true, true, true>(scales, rows),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const TWO: bool, const FIRST: bool, const STREAMS: bool>(
        &self,
        scales: &[RowScales; 2],
        rows: Range<usize>,
    ) {
        let first = self.first.unwrap_or(self.last).stored;
        for row in rows.start..rows.end.min(self.rows) {
            // SAFETY: as above.
            unsafe {
                let [first_scale, last_scale] = [0, 1].map(|block| _mm512_set1_ps(scales[block].0[row]));
                for half in 0..2 {
                    let at = row * PANEL + TILE_ROWS * half;
                    let mut total =
                        if FIRST { _mm512_setzero_ps() } else { _mm512_loadu_ps(self.old.add(at)) };
                    if TWO {
                        total = _mm512_fmadd_ps(first_scale, _mm512_load_ps(first.add(at)), total);
                    }
                    total = _mm512_fmadd_ps(last_scale, _mm512_load_ps(self.last.stored.add(at)), total);
                    let out = self.out.add(row * self.out_stride + TILE_ROWS * half);
                    if STREAMS { _mm512_stream_ps(out, total) } else { _mm512_storeu_ps(out, total) }
                }
            }
        }
    }
}

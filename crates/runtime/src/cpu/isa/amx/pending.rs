//! The scaling of accumulators, in AVX-512, between the tile instructions of the next tile.

use std::{
    arch::{asm, x86_64::*},
    ops::Range,
    ptr,
};

use octile_core::{FloatKind, plan::cpu::PANEL};

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
    pub out: Destination,
}

/// Where scaled rows go.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    pub first: *mut u8,
    /// Bytes from row to row.
    pub stride: usize,
    pub kind: FloatKind,
    /// Whether rows are whole cache lines that pass the caches by.
    pub streams: bool,
}

impl Destination {
    /// Bytes of a row.
    pub(super) const fn row_bytes(kind: FloatKind) -> usize {
        PANEL * kind.bytes()
    }

    /// Requests the cache lines of some rows for writing: a row that is no whole number of lines shares them
    /// with its neighbours, and must be read first.
    #[inline(always)]
    pub(super) unsafe fn prefetch(&self, rows: Range<usize>) {
        for row in rows {
            let first = self.first.wrapping_add(row * self.stride);
            let last = first.wrapping_add(Self::row_bytes(self.kind) - 1);
            for line in [first, first.wrapping_add(64), last] {
                // SAFETY: a prefetch has no visible effect; all CPUs with AVX-512 have this one.
                unsafe {
                    asm!("prefetchw [{0}]", in(reg) line, options(readonly, nostack, preserves_flags));
                }
            }
        }
    }
}

impl Pending {
    pub(super) const NOTHING: Self = Self {
        rows: 0,
        first: None,
        last: Block { stored: ptr::null(), x_scales: ptr::null(), w_scale: 0.0 },
        old: ptr::null(),
        out: Destination { first: ptr::null_mut(), stride: 0, kind: FloatKind::F32, streams: false },
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
            match (self.first.is_some(), self.out.streams, self.out.kind) {
                (false, false, FloatKind::F32) => self.add::<false, 0>(scales, rows),
                (false, true, FloatKind::F32) => self.add::<false, 1>(scales, rows),
                (true, false, FloatKind::F32) => self.add::<true, 0>(scales, rows),
                (true, true, FloatKind::F32) => self.add::<true, 1>(scales, rows),
                (false, ..) => self.add::<false, 2>(scales, rows),
                (true, ..) => self.add::<true, 2>(scales, rows),
            }
        }
    }

    /// `STORE`: 0 stores f32, 1 streams f32, 2 narrows.
    #[inline(always)]
    unsafe fn add<const TWO: bool, const STORE: u8>(&self, scales: &[RowScales; 2], rows: Range<usize>) {
        let first = self.first.unwrap_or(self.last).stored;
        // Where there are no earlier sums, nothing is loaded from an address that is valid.
        let (old, mask) = if self.old.is_null() { (first, 0) } else { (self.old, u16::MAX) };
        for row in rows.start..rows.end.min(self.rows) {
            // SAFETY: as above.
            unsafe {
                let first_scale = _mm512_set1_ps(*scales[0].0.as_ptr().add(row));
                let last_scale = _mm512_set1_ps(*scales[1].0.as_ptr().add(row));
                let mut totals = [_mm512_setzero_ps(); 2];
                for (half, total) in totals.iter_mut().enumerate() {
                    let at = row * PANEL + TILE_ROWS * half;
                    *total = _mm512_maskz_loadu_ps(mask, old.add(at));
                    if TWO {
                        *total = _mm512_fmadd_ps(first_scale, _mm512_load_ps(first.add(at)), *total);
                    }
                    *total = _mm512_fmadd_ps(last_scale, _mm512_load_ps(self.last.stored.add(at)), *total);
                }
                let out = self.out.first.add(row * self.out.stride);
                match STORE {
                    0 => {
                        _mm512_storeu_ps(out.cast(), totals[0]);
                        _mm512_storeu_ps(out.cast::<f32>().add(TILE_ROWS), totals[1]);
                    }
                    1 => {
                        _mm512_stream_ps(out.cast(), totals[0]);
                        _mm512_stream_ps(out.cast::<f32>().add(TILE_ROWS), totals[1]);
                    }
                    _ => {
                        let row = narrow(self.out.kind, totals);
                        if self.out.streams {
                            _mm512_stream_si512(out.cast(), row);
                        } else {
                            _mm512_storeu_si512(out.cast(), row);
                        }
                    }
                }
            }
        }
    }
}

/// Rounds a row to nearest, ties to even.
#[inline(always)]
unsafe fn narrow(kind: FloatKind, [left, right]: [__m512; 2]) -> __m512i {
    // SAFETY: the caller guarantees the ISA. No closures: unless they are inlined they lack the features of
    // the ISA, and intrinsics in them become calls.
    unsafe {
        let [left, right] = match kind {
            FloatKind::F16 => [
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(left),
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(right),
            ],
            _ => [narrow_to_bf16(left), narrow_to_bf16(right)],
        };
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(left), right)
    }
}

/// The instruction for this would flush subnormals.
#[inline(always)]
unsafe fn narrow_to_bf16(values: __m512) -> __m256i {
    // SAFETY: the caller guarantees the ISA.
    unsafe {
        let bits = _mm512_castps_si512(values);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
        let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
        let rounded = _mm512_mask_mov_epi32(rounded, is_nan, quiet);
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
    }
}

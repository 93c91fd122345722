//! AVX-512 F, BW, DQ and VL: f32 arithmetic, sixteen lanes.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::{
    Vector,
    avx2::{self, F16_BIAS},
};
use crate::cpu::kernel::Kernels;

pub(super) struct Avx512;

impl Vector<4> for Avx512 {
    type Stored = __m512;
    type Weights = __m512;
    type Sums = __m512;

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Stored; 4] {
        // SAFETY: the caller guarantees 64 bytes and the ISA.
        unsafe {
            let (zero, codes) = (_mm512_setzero_si512(), _mm512_loadu_si512(codes.cast()));
            // A code in the high byte of a word.
            let [a, b] = decode_words(_mm512_srai_epi16::<1>(_mm512_unpacklo_epi8(zero, codes)));
            let [c, d] = decode_words(_mm512_srai_epi16::<1>(_mm512_unpackhi_epi8(zero, codes)));
            [a, b, c, d]
        }
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        for at in 0..2 {
            // SAFETY: the caller guarantees 64 codes, room for 64 floats, and the ISA.
            unsafe {
                let words = _mm512_cvtepi8_epi16(_mm256_loadu_si256(codes.add(32 * at).cast()));
                let values = decode_words(_mm512_slli_epi16::<7>(words));
                for (half, values) in values.into_iter().enumerate() {
                    let values = _mm512_mul_ps(values, _mm512_set1_ps(F16_BIAS));
                    _mm512_storeu_ps(out.cast::<f32>().add(32 * at + 16 * half), values);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn widen(stored: Self::Stored) -> Self::Weights {
        stored
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller guarantees one pair and the ISA.
        unsafe {
            let pair = _mm512_castpd_ps(_mm512_set1_pd(x.cast::<f64>().read_unaligned()));
            _mm512_fmadd_ps(pair, weights, sums)
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { _mm512_fmadd_ps(_mm512_set1_ps(scale), sums, total) }
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        // SAFETY: the caller guarantees sixteen floats and the ISA.
        unsafe {
            let even = _mm512_shuffle_ps::<0b10_00_10_00>(low, high);
            let odd = _mm512_shuffle_ps::<0b11_01_11_01>(low, high);
            // Two columns of `low`, two of `high`, and so on.
            let sums = _mm512_castps_pd(_mm512_add_ps(even, odd));
            let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
            let sums = _mm512_castpd_ps(_mm512_permutexvar_pd(order, sums));
            let old = if old.is_null() { Self::zero() } else { _mm512_loadu_ps(old) };
            _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_set1_ps(F16_BIAS), sums, old));
        }
    }
}

/// 32 codes, shifted arithmetically into the exponent and mantissa of an f16.
#[inline(always)]
unsafe fn decode_words(words: __m512i) -> [__m512; 2] {
    // SAFETY: the caller guarantees the ISA.
    unsafe {
        // Clears the bit between sign and exponent.
        let halves = _mm512_and_si512(words, _mm512_set1_epi16(0xbf80u16 as i16));
        [
            _mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(halves)),
        ]
    }
}

/// A single row is faster with AVX2, whose narrower vectors are widened straight from memory.
pub(super) const KERNELS: Kernels = Kernels {
    decoding_tiles: &[
        avx2::KERNELS.decoding_tiles[0],
        wide::KERNELS.decoding_tiles[1],
        wide::KERNELS.decoding_tiles[2],
        wide::KERNELS.decoding_tiles[3],
    ],
    ..wide::KERNELS
};

mod wide {
    use super::*;
    use crate::cpu::kernel::kernels;

    kernels!(
        [target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
        Avx512, group 4, tile 4, rows [1 2 3 4 5 6], DECODED rows [1 2 3 4],
        keeping_rows [1 2 3 4 5 6], peak 12
    );
}

//! AVX2 with FMA and F16C: f32 arithmetic, eight lanes.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::Vector;
use crate::cpu::kernel::kernels;

pub(super) struct Avx2;

/// An e4m3 code shifted into the exponent and mantissa of an f16 is its value times this power of two,
/// subnormals included.
pub(super) const F16_BIAS: f32 = 256.0;

impl Vector<8> for Avx2 {
    type Stored = __m128i;
    type Weights = __m256;
    type Sums = __m256;

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Stored; 8] {
        // SAFETY: the caller guarantees 64 bytes and the ISA.
        unsafe {
            let zero = _mm256_setzero_si256();
            let first = _mm256_loadu_si256(codes.cast());
            let second = _mm256_loadu_si256(codes.add(32).cast());
            // A code in the high byte of a word.
            let [a, b] = halves(to_f16(_mm256_srai_epi16::<1>(_mm256_unpacklo_epi8(zero, first))));
            let [c, d] = halves(to_f16(_mm256_srai_epi16::<1>(_mm256_unpacklo_epi8(zero, second))));
            let [e, f] = halves(to_f16(_mm256_srai_epi16::<1>(_mm256_unpackhi_epi8(zero, first))));
            let [g, h] = halves(to_f16(_mm256_srai_epi16::<1>(_mm256_unpackhi_epi8(zero, second))));
            [a, b, c, d, e, f, g, h]
        }
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        for at in 0..4 {
            // SAFETY: the caller guarantees 64 codes, room for 64 floats, and the ISA.
            unsafe {
                let words = _mm256_cvtepi8_epi16(_mm_loadu_si128(codes.add(16 * at).cast()));
                let values = halves(to_f16(_mm256_slli_epi16::<7>(words)));
                for (half, values) in values.into_iter().enumerate() {
                    let values = _mm256_mul_ps(Self::widen(values), _mm256_set1_ps(F16_BIAS));
                    _mm256_storeu_ps(out.cast::<f32>().add(16 * at + 8 * half), values);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn widen(stored: Self::Stored) -> Self::Weights {
        // SAFETY: the caller guarantees the ISA.
        unsafe { _mm256_cvtph_ps(stored) }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller guarantees one pair and the ISA.
        unsafe {
            let pair = _mm256_castpd_ps(_mm256_set1_pd(x.cast::<f64>().read_unaligned()));
            _mm256_fmadd_ps(pair, weights, sums)
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { _mm256_fmadd_ps(_mm256_set1_ps(scale), sums, total) }
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        // SAFETY: the caller guarantees eight floats and the ISA.
        unsafe {
            // Columns 01 45 23 67 after the pairwise sums.
            let sums = _mm256_castps_pd(_mm256_hadd_ps(low, high));
            let sums = _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(sums));
            let old = if old.is_null() { Self::zero() } else { _mm256_loadu_ps(old) };
            _mm256_storeu_ps(out, _mm256_fmadd_ps(_mm256_set1_ps(F16_BIAS), sums, old));
        }
    }
}

/// Clears the bit between sign and exponent of sixteen codes that were shifted arithmetically into the
/// exponent and mantissa of an f16.
#[inline(always)]
unsafe fn to_f16(words: __m256i) -> __m256i {
    // SAFETY: the caller guarantees the ISA.
    unsafe { _mm256_and_si256(words, _mm256_set1_epi16(0xbf80u16 as i16)) }
}

#[inline(always)]
unsafe fn halves(words: __m256i) -> [__m128i; 2] {
    // SAFETY: the caller guarantees the ISA.
    unsafe { [_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words)] }
}

kernels!(
    [target_feature(enable = "avx2,fma,f16c")]
    Avx2, group 8, tile 2, rows [1 2 3 4 5 6], STAGED rows [1], keeping_rows [], peak 12
);

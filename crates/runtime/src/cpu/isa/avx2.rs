//! AVX2 with FMA and F16C: f32 arithmetic, eight lanes.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::Vector;
use crate::cpu::kernel::kernels;

pub(super) struct Avx2;

/// A code moved to the place of an f16's exponent and mantissa stands for this part of its value. It makes even
/// the subnormal codes decode without arithmetic.
const F16_BIAS: f32 = 256.0;

impl Vector<8> for Avx2 {
    type Codes = [__m256i; 2];
    type Weights = __m256;
    type Sums = __m256;

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load_group(codes: *const u8) -> Self::Codes {
        // SAFETY: the caller vouches for 64 bytes and the instruction set.
        unsafe { [_mm256_loadu_si256(codes.cast()), _mm256_loadu_si256(codes.add(32).cast())] }
    }

    #[inline(always)]
    unsafe fn load_line(codes: *const u8) -> Self::Codes {
        // SAFETY: the caller vouches for 64 bytes and the instruction set.
        unsafe {
            // From eights 0123 and 4567 to 0415 and 2637, which `decode` takes apart again.
            let [low, high] = Self::load_group(codes);
            let even = _mm256_unpacklo_epi64(low, high);
            let odd = _mm256_unpackhi_epi64(low, high);
            [_mm256_permute2x128_si256::<0x20>(even, odd), _mm256_permute2x128_si256::<0x31>(even, odd)]
        }
    }

    #[inline(always)]
    unsafe fn decode(codes: Self::Codes) -> [Self::Weights; 8] {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let zero = _mm256_setzero_si256();
            let [a, b] = decode_words(_mm256_unpacklo_epi8(zero, codes[0]));
            let [c, d] = decode_words(_mm256_unpacklo_epi8(zero, codes[1]));
            let [e, f] = decode_words(_mm256_unpackhi_epi8(zero, codes[0]));
            let [g, h] = decode_words(_mm256_unpackhi_epi8(zero, codes[1]));
            [a, b, c, d, e, f, g, h]
        }
    }

    #[inline(always)]
    unsafe fn exact(weights: Self::Weights) -> Self::Weights {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { _mm256_mul_ps(weights, _mm256_set1_ps(F16_BIAS)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Weights {
        // SAFETY: the caller vouches for the bytes and the instruction set.
        unsafe { _mm256_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(weights: Self::Weights, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes and the instruction set.
        unsafe { _mm256_storeu_ps(to.cast(), weights) }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller vouches for one pair and the instruction set.
        unsafe {
            let pair = _mm256_castpd_ps(_mm256_set1_pd(x.cast::<f64>().read_unaligned()));
            _mm256_fmadd_ps(pair, weights, sums)
        }
    }

    #[inline(always)]
    unsafe fn add_sums(low: Self::Sums, high: Self::Sums, scale: f32, out: *mut f32, replace: bool) {
        // SAFETY: the caller vouches for eight floats and the instruction set.
        unsafe {
            // Columns 01 45 23 67 after the pairwise sums.
            let sums = _mm256_castps_pd(_mm256_hadd_ps(low, high));
            let sums = _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(sums));
            let sums = _mm256_mul_ps(sums, _mm256_set1_ps(F16_BIAS));
            let old = if replace { Self::zero() } else { _mm256_loadu_ps(out) };
            _mm256_storeu_ps(out, _mm256_fmadd_ps(_mm256_set1_ps(scale), sums, old));
        }
    }
}

/// Sixteen codes, each in the high byte of a word.
#[inline(always)]
unsafe fn decode_words(words: __m256i) -> [__m256; 2] {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let mask = _mm256_set1_epi16(0xbf80u16 as i16);
        let halves = _mm256_and_si256(_mm256_srai_epi16::<1>(words), mask);
        [
            _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)),
        ]
    }
}

kernels!(
    [target_feature(enable = "avx2,fma,f16c")]
    Avx2, group 8, tile 2, rows [1 2 3 4 5 6], decoding_rows [1], peak 12
);

//! AVX-512 F, BW, DQ and VL: f32 arithmetic, sixteen lanes.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::Vector;
use crate::cpu::kernel::kernels;

pub(super) struct Avx512;

/// A code moved to the place of an f16's exponent and mantissa stands for this part of its value. It makes even
/// the subnormal codes decode without arithmetic.
const F16_BIAS: f32 = 256.0;

impl Vector<4> for Avx512 {
    type Codes = __m512i;
    type Weights = __m512;
    type Sums = __m512;

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load_group(codes: *const u8) -> Self::Codes {
        // SAFETY: the caller vouches for 64 bytes and the instruction set.
        unsafe { _mm512_loadu_si512(codes.cast()) }
    }

    #[inline(always)]
    unsafe fn load_line(codes: *const u8) -> Self::Codes {
        // SAFETY: the caller vouches for 64 bytes and the instruction set.
        unsafe { line_to_group(Self::load_group(codes)) }
    }

    #[inline(always)]
    unsafe fn decode(codes: Self::Codes) -> [Self::Weights; 4] {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let zero = _mm512_setzero_si512();
            let [a, b] = decode_words(_mm512_unpacklo_epi8(zero, codes));
            let [c, d] = decode_words(_mm512_unpackhi_epi8(zero, codes));
            [a, b, c, d]
        }
    }

    #[inline(always)]
    unsafe fn exact(weights: Self::Weights) -> Self::Weights {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { _mm512_mul_ps(weights, _mm512_set1_ps(F16_BIAS)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Weights {
        // SAFETY: the caller vouches for the bytes and the instruction set.
        unsafe { _mm512_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(weights: Self::Weights, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes and the instruction set.
        unsafe { _mm512_storeu_ps(to.cast(), weights) }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller vouches for one pair and the instruction set.
        unsafe {
            let pair = _mm512_castpd_ps(_mm512_set1_pd(x.cast::<f64>().read_unaligned()));
            _mm512_fmadd_ps(pair, weights, sums)
        }
    }

    #[inline(always)]
    unsafe fn add_sums(low: Self::Sums, high: Self::Sums, scale: f32, out: *mut f32, replace: bool) {
        // SAFETY: the caller vouches for sixteen floats and the instruction set.
        unsafe {
            let even = _mm512_shuffle_ps::<0b10_00_10_00>(low, high);
            let odd = _mm512_shuffle_ps::<0b11_01_11_01>(low, high);
            // Two columns of `low`, two of `high`, and so on.
            let sums = _mm512_castps_pd(_mm512_add_ps(even, odd));
            let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
            let sums = _mm512_castpd_ps(_mm512_permutexvar_pd(order, sums));
            let sums = _mm512_mul_ps(sums, _mm512_set1_ps(F16_BIAS));
            let old = if replace { Self::zero() } else { _mm512_loadu_ps(out) };
            _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_set1_ps(scale), sums, old));
        }
    }
}

/// Puts 64 neighbouring values in the order that interleaving the halves of each 16 bytes undoes.
#[inline(always)]
pub(super) unsafe fn line_to_group(codes: __m512i) -> __m512i {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), codes) }
}

/// 32 codes, each in the high byte of a word.
#[inline(always)]
unsafe fn decode_words(words: __m512i) -> [__m512; 2] {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let mask = _mm512_set1_epi16(0xbf80u16 as i16);
        let halves = _mm512_and_si512(_mm512_srai_epi16::<1>(words), mask);
        [
            _mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(halves)),
        ]
    }
}

kernels!(
    [target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    Avx512, group 4, tile 4, rows [1 2 3 4 5 6], decoding_rows [1 2 3 4], peak 12
);

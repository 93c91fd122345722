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

    #[inline(always)]
    unsafe fn encode(values: &[f32], factor: f32, codes: &mut [u8]) {
        // SAFETY: the caller guarantees the ISA.
        unsafe { encode(values, factor, codes) }
    }
}

/// [`Vector::encode`], 64 values at a time: the generic form is not vectorized.
#[inline(always)]
pub(super) unsafe fn encode(values: &[f32], factor: f32, codes: &mut [u8]) {
    assert_eq!(values.len(), codes.len());
    let whole = values.len() / 64 * 64;
    // SAFETY: indices and masks end with the slices; the caller guarantees the ISA.
    unsafe {
        let factor = _mm512_set1_ps(factor);
        // Packing interleaves the 16-byte lanes of four vectors.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        for at in (0..whole).step_by(64) {
            let mut encoded = [_mm512_setzero_si512(); 4];
            for (vector, encoded) in encoded.iter_mut().enumerate() {
                let value = _mm512_loadu_ps(values.as_ptr().add(at + 16 * vector));
                *encoded = encode_vector(_mm512_mul_ps(value, factor));
            }
            let words =
                [_mm512_packus_epi32(encoded[0], encoded[1]), _mm512_packus_epi32(encoded[2], encoded[3])];
            let bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words[0], words[1]));
            _mm512_storeu_si512(codes.as_mut_ptr().add(at).cast(), bytes);
        }
        for at in (whole..values.len()).step_by(16) {
            let mask = u16::MAX >> (16 - (values.len() - at).min(16));
            let value = _mm512_maskz_loadu_ps(mask, values.as_ptr().add(at));
            let code = encode_vector(_mm512_mul_ps(value, factor));
            _mm_mask_storeu_epi8(codes.as_mut_ptr().add(at).cast(), mask, _mm512_cvtepi32_epi8(code));
        }
    }
}

/// f8e4m3fn codes, rounded to nearest, ties to even; NaN and what overflows become NaN.
#[inline(always)]
unsafe fn encode_vector(value: __m512) -> __m512i {
    // SAFETY: the caller guarantees the ISA.
    unsafe {
        let bits = _mm512_castps_si512(value);
        let magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(i32::MAX));
        // Rounds away 20 of 23 mantissa bits, and exchanges the bias of 127 for 7.
        let odd = _mm512_and_si512(_mm512_srli_epi32::<20>(magnitude), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(magnitude, _mm512_set1_epi32(0x7_ffff)), odd);
        let normal = _mm512_sub_epi32(_mm512_srli_epi32::<20>(rounded), _mm512_set1_epi32((127 - 7) << 3));
        let normal = _mm512_min_epi32(normal, _mm512_set1_epi32(0x7f));
        // Below the smallest normal number 2^-6, codes are multiples of 2^-9, the last bit of 2^14.
        let shift = _mm512_set1_ps(16384.0);
        let multiple = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(magnitude), shift));
        let subnormal = _mm512_sub_epi32(multiple, _mm512_castps_si512(shift));
        let is_subnormal = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32((127 - 6) << 23));
        let code = _mm512_mask_mov_epi32(normal, is_subnormal, subnormal);
        // code | (sign & 0x80)
        _mm512_ternarylogic_epi32::<0b1111_1000>(code, _mm512_srli_epi32::<24>(bits), _mm512_set1_epi32(0x80))
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

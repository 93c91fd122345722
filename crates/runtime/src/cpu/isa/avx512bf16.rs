//! AVX-512 with VBMI and BF16: codes become bf16 by table, and pairs of bf16 are multiplied and added at once.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::{Vector, avx512::line_to_group};
use crate::cpu::kernel::kernels;

pub(super) struct Avx512Bf16;

/// Byte `byte` of the bf16 of every f8e4m3fn code without its sign.
const fn bytes_of_bf16(byte: usize) -> [u8; 128] {
    let mut table = [0; 128];
    let mut code = 0;
    while code < 128 {
        let (exponent, mantissa) = (code as u32 >> 3, code as u32 & 7);
        let value = match exponent {
            0 => mantissa as f32 / 512.0,
            _ => (8 + mantissa) as f32 * f32::from_bits((exponent + 127 - 10) << 23),
        };
        table[code] = value.to_bits().to_le_bytes()[2 + byte];
        code += 1;
    }
    table
}

static LOW_BYTES: [u8; 128] = bytes_of_bf16(0);
static HIGH_BYTES: [u8; 128] = bytes_of_bf16(1);

impl Vector<2> for Avx512Bf16 {
    type Codes = __m512i;
    type Weights = __m512bh;
    type Sums = __m512;

    const OPERAND: FloatKind = FloatKind::Bf16;

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
    unsafe fn decode(codes: Self::Codes) -> [Self::Weights; 2] {
        // SAFETY: the caller vouches for the instruction set; the tables have 128 bytes.
        unsafe {
            let look_up = |table: &[u8; 128]| {
                let first = _mm512_loadu_si512(table.as_ptr().cast());
                let second = _mm512_loadu_si512(table.as_ptr().add(64).cast());
                _mm512_permutex2var_epi8(first, codes, second)
            };
            let low = look_up(&LOW_BYTES);
            let high = look_up(&HIGH_BYTES);
            // high | (codes & sign)
            let sign = _mm512_set1_epi8(i8::MIN);
            let high = _mm512_ternarylogic_epi64::<0b1111_1000>(high, codes, sign);
            [as_bf16(_mm512_unpacklo_epi8(low, high)), as_bf16(_mm512_unpackhi_epi8(low, high))]
        }
    }

    #[inline(always)]
    unsafe fn exact(weights: Self::Weights) -> Self::Weights {
        weights
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Weights {
        // SAFETY: the caller vouches for the bytes and the instruction set.
        unsafe { as_bf16(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(weights: Self::Weights, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes.
        unsafe { to.cast::<Self::Weights>().write_unaligned(weights) }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller vouches for one pair and the instruction set.
        unsafe {
            let pair = _mm512_set1_epi32(x.cast::<i32>().read_unaligned());
            _mm512_dpbf16_ps(sums, weights, as_bf16(pair))
        }
    }

    #[inline(always)]
    unsafe fn add_sums(low: Self::Sums, high: Self::Sums, scale: f32, out: *mut f32, replace: bool) {
        for (at, sums) in [low, high].into_iter().enumerate() {
            // SAFETY: the caller vouches for 32 floats and the instruction set.
            unsafe {
                let out = out.add(16 * at);
                let old = if replace { Self::zero() } else { _mm512_loadu_ps(out) };
                _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_set1_ps(scale), sums, old));
            }
        }
    }
}

#[inline(always)]
fn as_bf16(bits: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes without invalid values.
    unsafe { std::mem::transmute(bits) }
}

kernels!(
    [target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
    Avx512Bf16, group 2, tile 2, rows [1 2 3 4 5 6 7 8], decoding_rows [1 2 3 4 5 6 7 8], peak 12
);

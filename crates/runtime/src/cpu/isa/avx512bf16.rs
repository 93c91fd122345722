//! AVX-512 with VBMI and BF16: codes are decoded to bf16 by table lookup and multiplied by bf16 dot products.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::{Vector, avx512};
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
    type Stored = __m512bh;
    type Weights = __m512bh;
    type Sums = __m512;

    const OPERAND: FloatKind = FloatKind::Bf16;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Stored; 2] {
        // SAFETY: the caller guarantees 64 bytes and the ISA.
        unsafe {
            let [low, high] = Tables::load().decode(_mm512_loadu_si512(codes.cast()));
            [as_bf16(low), as_bf16(high)]
        }
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        // SAFETY: the caller guarantees 64 codes, room for 64 values, and the ISA.
        unsafe {
            // Decoding interleaves the halves of each 16 bytes; this permutation compensates.
            let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
            let codes = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(codes.cast()));
            let [low, high] = Tables::load().decode(codes);
            _mm512_storeu_si512(out.cast(), low);
            _mm512_storeu_si512(out.add(64).cast(), high);
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
            let pair = _mm512_set1_epi32(x.cast::<i32>().read_unaligned());
            _mm512_dpbf16_ps(sums, weights, as_bf16(pair))
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { _mm512_fmadd_ps(_mm512_set1_ps(scale), sums, total) }
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        for (at, sums) in [low, high].into_iter().enumerate() {
            // SAFETY: the caller guarantees 32 floats and the ISA.
            unsafe {
                let old = if old.is_null() { Self::zero() } else { _mm512_loadu_ps(old.add(16 * at)) };
                _mm512_storeu_ps(out.add(16 * at), _mm512_add_ps(old, sums));
            }
        }
    }

    #[inline(always)]
    unsafe fn encode(values: &[f32], factor: f32, codes: &mut [u8]) {
        // SAFETY: the caller guarantees the ISA.
        unsafe { avx512::encode(values, factor, codes) }
    }
}

/// [`LOW_BYTES`] and [`HIGH_BYTES`].
#[derive(Clone, Copy)]
pub(super) struct Tables {
    pub low: [__m512i; 2],
    pub high: [__m512i; 2],
}

impl Tables {
    #[inline(always)]
    pub(super) unsafe fn load() -> Self {
        // SAFETY: tables have 128 bytes, and the caller guarantees the ISA.
        unsafe {
            let (low, high) = (LOW_BYTES.as_ptr(), HIGH_BYTES.as_ptr());
            Self {
                low: [_mm512_loadu_si512(low.cast()), _mm512_loadu_si512(low.add(64).cast())],
                high: [_mm512_loadu_si512(high.cast()), _mm512_loadu_si512(high.add(64).cast())],
            }
        }
    }

    /// The lower, then the upper eight codes of each 16 bytes as bf16.
    #[inline(always)]
    pub(super) unsafe fn decode(self, codes: __m512i) -> [__m512i; 2] {
        // SAFETY: the caller guarantees the ISA.
        unsafe {
            let low = _mm512_permutex2var_epi8(self.low[0], codes, self.low[1]);
            let high = _mm512_permutex2var_epi8(self.high[0], codes, self.high[1]);
            // high | (codes & sign)
            let high = _mm512_ternarylogic_epi64::<0b1111_1000>(high, codes, _mm512_set1_epi8(i8::MIN));
            [_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)]
        }
    }
}

#[inline(always)]
fn as_bf16(bits: __m512i) -> __m512bh {
    // SAFETY: both types are 64 bytes, and every bit pattern is valid.
    unsafe { std::mem::transmute(bits) }
}

kernels!(
    [target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
    Avx512Bf16, group 2, tile 2, rows [1 2 3 4 5 6 7 8], DECODED rows [1 2 3 4 5 6 7 8],
    keeping_rows [1 2 3 4 5 6 7 8], peak 16
);

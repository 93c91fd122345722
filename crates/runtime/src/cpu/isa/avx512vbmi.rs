//! AVX-512 with VBMI: codes become bf16 by table, as in [`super::avx512bf16`], and those f32 by shifting, which is
//! faster than converting f16. The arithmetic is f32.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::{
    Vector,
    avx512::{self, Avx512},
    avx512bf16::decode_bf16,
};
use crate::cpu::kernel::Kernels;

pub(super) struct Avx512Vbmi;

/// The even k of sixteen columns, then the odd ones.
impl Vector<2> for Avx512Vbmi {
    type Weights = [__m512; 2];
    type Sums = [__m512; 2];

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { [_mm512_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Weights; 2] {
        // SAFETY: the caller vouches for 64 bytes and the instruction set.
        unsafe {
            let [low, high] = decode_bf16(_mm512_loadu_si512(codes.cast()));
            [widen(low), widen(high)]
        }
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { Avx512::decode_line(codes, out) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Weights {
        // SAFETY: the caller vouches for the bytes and the instruction set.
        unsafe { [_mm512_loadu_ps(from.cast()), _mm512_loadu_ps(from.add(64).cast())] }
    }

    #[inline(always)]
    unsafe fn store(weights: Self::Weights, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes and the instruction set.
        unsafe {
            _mm512_storeu_ps(to.cast(), weights[0]);
            _mm512_storeu_ps(to.add(64).cast(), weights[1]);
        }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller vouches for one pair and the instruction set.
        unsafe {
            let [even, odd] = x.cast::<[f32; 2]>().read_unaligned();
            [
                _mm512_fmadd_ps(_mm512_set1_ps(even), weights[0], sums[0]),
                _mm512_fmadd_ps(_mm512_set1_ps(odd), weights[1], sums[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let scale = _mm512_set1_ps(scale);
            [_mm512_fmadd_ps(scale, sums[0], total[0]), _mm512_fmadd_ps(scale, sums[1], total[1])]
        }
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        for (at, sums) in [low, high].into_iter().enumerate() {
            // SAFETY: the caller vouches for 32 floats and the instruction set.
            unsafe {
                let sums = _mm512_add_ps(sums[0], sums[1]);
                let old = if old.is_null() { _mm512_setzero_ps() } else { _mm512_loadu_ps(old.add(16 * at)) };
                _mm512_storeu_ps(out.add(16 * at), _mm512_add_ps(old, sums));
            }
        }
    }
}

/// The even and the odd ones of 32 bf16, as f32.
#[inline(always)]
unsafe fn widen(pairs: __m512i) -> [__m512; 2] {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let odd = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000u32 as i32));
        [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)), _mm512_castsi512_ps(odd)]
    }
}

/// One row is faster this way, more rows are not.
pub(super) const KERNELS: Kernels = Kernels {
    decoding_tiles: &[
        one_row::KERNELS.decoding_tiles[0],
        avx512::KERNELS.decoding_tiles[1],
        avx512::KERNELS.decoding_tiles[2],
        avx512::KERNELS.decoding_tiles[3],
    ],
    ..avx512::KERNELS
};

mod one_row {
    use super::*;
    use crate::cpu::kernel::kernels;

    kernels!(
        [target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
        Avx512Vbmi, group 2, tile 2, rows [], decoding_rows [1], keeping_rows [], peak 12
    );
}

//! AVX-512 with VBMI, f32 arithmetic on few rows: codes are decoded to bf16 by table lookup, and widened by
//! shifting. That takes half as many instructions as widening f16, so that one row is bound by memory.

use std::arch::x86_64::*;

use octile_core::FloatKind;

use super::{
    Vector,
    avx512::{self, Avx512},
    avx512bf16::Tables,
};
use crate::cpu::kernel::Kernels;

pub(super) struct Avx512Vbmi;

impl Vector<2> for Avx512Vbmi {
    /// bf16 pairs of sixteen columns.
    type Stored = __m512i;
    type Weights = __m512i;
    /// Of the first and of the second k of each pair.
    type Sums = [__m512; 2];

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { [_mm512_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Stored; 2] {
        // SAFETY: the caller guarantees 64 bytes and the ISA.
        unsafe { Tables::load().decode(_mm512_loadu_si512(codes.cast())) }
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        // SAFETY: the caller guarantees 64 codes, room for 64 floats, and the ISA.
        unsafe { <Avx512 as Vector<4>>::decode_line(codes, out) }
    }

    #[inline(always)]
    unsafe fn widen(stored: Self::Stored) -> Self::Weights {
        stored
    }

    #[inline(always)]
    unsafe fn dot([first, second]: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller guarantees one pair and the ISA.
        unsafe {
            let x = x.cast::<f32>();
            // The upper half of an f32 is its bf16.
            let firsts = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(weights));
            let upper = _mm512_set1_epi32(0xffff_0000u32 as i32);
            let seconds = _mm512_castsi512_ps(_mm512_and_si512(weights, upper));
            [
                _mm512_fmadd_ps(_mm512_set1_ps(x.read_unaligned()), firsts, first),
                _mm512_fmadd_ps(_mm512_set1_ps(x.add(1).read_unaligned()), seconds, second),
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe {
            let scale = _mm512_set1_ps(scale);
            [_mm512_fmadd_ps(scale, sums[0], total[0]), _mm512_fmadd_ps(scale, sums[1], total[1])]
        }
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        for (at, [first, second]) in [low, high].into_iter().enumerate() {
            // SAFETY: the caller guarantees 32 floats and the ISA.
            unsafe {
                let sums = _mm512_add_ps(first, second);
                let old = if old.is_null() { _mm512_setzero_ps() } else { _mm512_loadu_ps(old.add(16 * at)) };
                _mm512_storeu_ps(out.add(16 * at), _mm512_add_ps(old, sums));
            }
        }
    }
}

/// Those of AVX-512, except for few rows. More rows would need more registers than there are.
pub(super) const KERNELS: Kernels = Kernels {
    decoding_tiles: &[
        few_rows::KERNELS.decoding_tiles[0],
        few_rows::KERNELS.decoding_tiles[1],
        avx512::KERNELS.decoding_tiles[2],
        avx512::KERNELS.decoding_tiles[3],
    ],
    ..avx512::KERNELS
};

mod few_rows {
    use super::*;
    use crate::cpu::kernel::kernels;

    kernels!(
        [target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
        Avx512Vbmi, group 2, tile 2, rows [], DECODED rows [1 2], keeping_rows [], peak 4
    );
}

//! NEON with BF16: bf16 dot products of pairs, accumulated in f32.
//!
//! BFDOT adds the two products of a pair, which are exact, and then adds their sum to the accumulator; both
//! additions round to odd. That errs by up to twice as much as rounding to nearest, but two products take the
//! two additions that one takes with FMAs: the error bound of f32 accumulation holds, and exact sums stay
//! exact. Subnormals are flushed to zero.

use std::arch::{aarch64::*, asm};

use octile_core::FloatKind;

use super::{Vector, neon};
use crate::cpu::kernel::kernels;

pub(super) struct NeonBf16;

impl Vector<8> for NeonBf16 {
    type Stored = uint16x8_t;
    type Weights = uint16x8_t;
    type Sums = float32x4_t;

    const OPERAND: FloatKind = FloatKind::Bf16;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { vdupq_n_f32(0.0) }
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Stored; 8] {
        // SAFETY: the caller guarantees 64 bytes and the ISA.
        unsafe { neon::decode_group(codes) }
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        for at in 0..4 {
            // SAFETY: the caller guarantees 64 codes, room for 64 values, and the ISA.
            unsafe {
                let [low, high] = neon::decode_bf16(vld1q_u8(codes.add(16 * at)));
                let out = out.cast::<u16>().add(16 * at);
                vst1q_u16(out, low);
                vst1q_u16(out.add(8), high);
            }
        }
    }

    #[inline(always)]
    unsafe fn widen(stored: Self::Stored) -> Self::Weights {
        stored
    }

    #[inline(always)]
    unsafe fn dot(mut sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller guarantees one pair and the ISA.
        unsafe {
            let pair = vld1q_dup_u32(x.cast());
            // The intrinsic is not stable yet.
            asm!(
                "bfdot {sums:v}.4s, {weights:v}.8h, {pair:v}.8h",
                sums = inout(vreg) sums,
                weights = in(vreg) weights,
                pair = in(vreg) pair,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sums
    }

    #[inline(always)]
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { vfmaq_n_f32(total, sums, scale) }
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        // SAFETY: the caller guarantees eight floats and the ISA.
        unsafe { neon::put_columns(low, high, old, out) }
    }
}

kernels!(
    [target_feature(enable = "neon,bf16")]
    NeonBf16, group 8, tile 4, rows [1 2 3 4 5 6], DECODED rows [1 2], keeping_rows [], peak 16
);

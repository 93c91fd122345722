//! NEON: f32 arithmetic, four lanes. Weights are kept as bf16, which takes one instruction to widen.

use std::arch::aarch64::*;

use octile_core::FloatKind;

use super::Vector;
use crate::cpu::kernel::kernels;

pub(super) struct Neon;

impl Vector<8> for Neon {
    type Stored = uint16x8_t;
    /// The even k of four columns, then the odd k.
    type Weights = [float32x4_t; 2];
    type Sums = float32x4_t;

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { vdupq_n_f32(0.0) }
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Stored; 8] {
        // SAFETY: the caller guarantees 64 bytes and the ISA.
        unsafe { decode_group(codes) }
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        for at in 0..4 {
            // SAFETY: the caller guarantees 64 codes, room for 64 floats, and the ISA.
            unsafe {
                let values = decode_bf16(vld1q_u8(codes.add(16 * at)));
                for (half, values) in values.into_iter().enumerate() {
                    // A bf16 is the upper half of its f32.
                    let zero = vdupq_n_u16(0);
                    let out = out.cast::<u16>().add(32 * at + 16 * half);
                    vst1q_u16(out, vzip1q_u16(zero, values));
                    vst1q_u16(out.add(8), vzip2q_u16(zero, values));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn widen(stored: Self::Stored) -> Self::Weights {
        // SAFETY: the caller guarantees the ISA.
        unsafe {
            let pairs = vreinterpretq_u32_u16(stored);
            let (even, odd) = (vshlq_n_u32::<16>(pairs), vandq_u32(pairs, vdupq_n_u32(0xffff_0000)));
            [vreinterpretq_f32_u32(even), vreinterpretq_f32_u32(odd)]
        }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, x: *const u8, [even, odd]: Self::Weights) -> Self::Sums {
        // SAFETY: the caller guarantees one pair and the ISA.
        unsafe {
            let pair = vld1_f32(x.cast());
            vfmaq_lane_f32::<1>(vfmaq_lane_f32::<0>(sums, even, pair), odd, pair)
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: the caller guarantees the ISA.
        unsafe { vfmaq_n_f32(total, sums, scale) }
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        // SAFETY: the caller guarantees eight floats and the ISA.
        unsafe { put_columns(low, high, old, out) }
    }
}

/// The bf16 of the sixteen smallest codes: subnormals are not a matter of shifting.
const SMALLEST: [u16; 16] = {
    let mut table = [0; 16];
    let mut code = 1;
    while code < table.len() {
        // From 2^-9 to 15 * 2^-9: the second binade continues the subnormals.
        table[code] = ((code as f32 / 512.0).to_bits() >> 16) as u16;
        code += 1;
    }
    table
};

/// Byte `byte` of [`SMALLEST`].
const fn bytes_of_smallest(byte: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut code = 0;
    while code < bytes.len() {
        bytes[code] = SMALLEST[code].to_le_bytes()[byte];
        code += 1;
    }
    bytes
}

static LOW_BYTES: [u8; 16] = bytes_of_smallest(0);
static HIGH_BYTES: [u8; 16] = bytes_of_smallest(1);

/// The difference of the exponent biases of bf16 and e4m3, in the upper byte of a bf16.
const BIAS: u8 = (127 - 7) / 2;

/// Sixteen codes as bf16, in order; exact.
#[inline(always)]
pub(super) unsafe fn decode_bf16(codes: uint8x16_t) -> [uint16x8_t; 2] {
    // SAFETY: the tables have sixteen bytes, and the caller guarantees the ISA.
    unsafe {
        let sign = vdupq_n_u8(0x80);
        let magnitudes = vbicq_u8(codes, sign);
        // Normal numbers: exponent and mantissa four bits further left, exponent rebiased.
        let low = vshlq_n_u8::<4>(magnitudes);
        let high = vaddq_u8(vshrq_n_u8::<4>(magnitudes), vdupq_n_u8(BIAS));
        // Codes beyond the tables keep these bytes.
        let low = vqtbx1q_u8(low, vld1q_u8(LOW_BYTES.as_ptr()), magnitudes);
        let high = vqtbx1q_u8(high, vld1q_u8(HIGH_BYTES.as_ptr()), magnitudes);
        let high = vbslq_u8(sign, codes, high);
        [vreinterpretq_u16_u8(vzip1q_u8(low, high)), vreinterpretq_u16_u8(vzip2q_u8(low, high))]
    }
}

/// The codes of one pair of k and the columns of a panel as bf16, four columns to a vector.
#[inline(always)]
pub(super) unsafe fn decode_group(codes: *const u8) -> [uint16x8_t; 8] {
    // SAFETY: the caller guarantees 64 bytes and the ISA.
    unsafe {
        // Each 16 bytes hold a part of the first sixteen columns, then of the others.
        let [a, e] = decode_bf16(vld1q_u8(codes));
        let [b, f] = decode_bf16(vld1q_u8(codes.add(16)));
        let [c, g] = decode_bf16(vld1q_u8(codes.add(32)));
        let [d, h] = decode_bf16(vld1q_u8(codes.add(48)));
        [a, b, c, d, e, f, g, h]
    }
}

/// [`Vector::put_columns`] where each lane is a column.
#[inline(always)]
pub(super) unsafe fn put_columns(low: float32x4_t, high: float32x4_t, old: *const f32, out: *mut f32) {
    for (at, sums) in [low, high].into_iter().enumerate() {
        // SAFETY: the caller guarantees eight floats and the ISA.
        unsafe {
            let old = if old.is_null() { vdupq_n_f32(0.0) } else { vld1q_f32(old.add(4 * at)) };
            vst1q_f32(out.add(4 * at), vaddq_f32(old, sums));
        }
    }
}

kernels!(
    [target_feature(enable = "neon")]
    Neon, group 8, tile 4, rows [1 2 3 4 5], DECODED rows [1 2], keeping_rows [], peak 16
);

//! Plain Rust on fixed-size arrays, which the compiler vectorizes for the target's baseline.

use octile_core::{E4m3, FloatKind};

use super::Vector;
use crate::cpu::kernel::kernels;

pub(super) struct Portable;

/// Floats of one vector: four columns, two k.
const LANES: usize = 8;

impl Vector<8> for Portable {
    type Stored = [f32; LANES];
    type Weights = [f32; LANES];
    type Sums = [f32; LANES];

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn decode(codes: *const u8) -> [Self::Stored; 8] {
        // SAFETY: the caller guarantees 64 bytes.
        let codes = unsafe { codes.cast::<[u8; 64]>().read() };
        let mut weights = [[0.0; LANES]; 8];
        for (vector, weights) in weights.iter_mut().enumerate() {
            // Each 16 bytes hold a part of the first sixteen columns, then of the others.
            let first = vector % 4 * 16 + vector / 4 * 8;
            for (weight, code) in weights.iter_mut().zip(&codes[first..]) {
                *weight = E4m3::from_bits(*code).to_f32();
            }
        }
        weights
    }

    #[inline(always)]
    unsafe fn decode_line(codes: *const u8, out: *mut u8) {
        for at in 0..64 {
            // SAFETY: the caller guarantees 64 codes and room for 64 floats.
            unsafe {
                let value = E4m3::from_bits(*codes.add(at)).to_f32();
                out.cast::<f32>().add(at).write(value);
            }
        }
    }

    #[inline(always)]
    unsafe fn widen(stored: Self::Stored) -> Self::Weights {
        stored
    }

    #[inline(always)]
    unsafe fn dot(mut sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller guarantees one pair.
        let pair = unsafe { x.cast::<[f32; 2]>().read_unaligned() };
        for lane in 0..LANES {
            sums[lane] += pair[lane % 2] * weights[lane];
        }
        sums
    }

    #[inline(always)]
    unsafe fn add_scaled(mut total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums {
        for (total, sum) in total.iter_mut().zip(sums) {
            *total += scale * sum;
        }
        total
    }

    #[inline(always)]
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32) {
        for (at, sums) in [low, high].into_iter().enumerate() {
            for col in 0..4 {
                // SAFETY: the caller guarantees `2 * COLS` floats.
                unsafe {
                    let old = if old.is_null() { 0.0 } else { *old.add(at * 4 + col) };
                    *out.add(at * 4 + col) = old + (sums[2 * col] + sums[2 * col + 1]);
                }
            }
        }
    }
}

kernels!(
    [] Portable, group 8, tile 2, rows [1 2], DECODED rows [1], keeping_rows [], peak 4
);

//! Plain Rust. Fixed-size arrays leave it to the compiler to use whatever vectors the target always has.

use octile_core::{E4m3, FloatKind};

use super::Vector;
use crate::cpu::kernel::kernels;

pub(super) struct Portable;

/// Floats of one vector: four columns, two k.
const LANES: usize = 8;

impl Vector<8> for Portable {
    type Codes = [u8; 64];
    type Weights = [f32; LANES];
    type Sums = [f32; LANES];

    const OPERAND: FloatKind = FloatKind::F32;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn load_group(codes: *const u8) -> Self::Codes {
        // SAFETY: the caller vouches for 64 bytes.
        unsafe { codes.cast::<Self::Codes>().read() }
    }

    #[inline(always)]
    unsafe fn load_line(codes: *const u8) -> Self::Codes {
        // SAFETY: the caller vouches for 64 bytes.
        let line = unsafe { codes.cast::<[[u8; 8]; 8]>().read() };
        let mut group = [0; 64];
        for (at, eight) in line.into_iter().enumerate() {
            // Vector `at` of a group is the lower or upper half of 16 bytes.
            group[at % 4 * 16 + at / 4 * 8..][..8].copy_from_slice(&eight);
        }
        group
    }

    #[inline(always)]
    unsafe fn decode(codes: Self::Codes) -> [Self::Weights; 8] {
        std::array::from_fn(|vector| {
            std::array::from_fn(|lane| {
                E4m3::from_bits(codes[vector % 4 * 16 + vector / 4 * 8 + lane]).to_f32()
            })
        })
    }

    #[inline(always)]
    unsafe fn exact(weights: Self::Weights) -> Self::Weights {
        weights
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Weights {
        // SAFETY: the caller vouches for the bytes.
        unsafe { from.cast::<Self::Weights>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(weights: Self::Weights, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes.
        unsafe { to.cast::<Self::Weights>().write_unaligned(weights) }
    }

    #[inline(always)]
    unsafe fn dot(mut sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums {
        // SAFETY: the caller vouches for one pair.
        let pair = unsafe { x.cast::<[f32; 2]>().read_unaligned() };
        for lane in 0..LANES {
            sums[lane] += pair[lane % 2] * weights[lane];
        }
        sums
    }

    #[inline(always)]
    unsafe fn add_sums(low: Self::Sums, high: Self::Sums, scale: f32, out: *mut f32, replace: bool) {
        for (at, sums) in [low, high].into_iter().enumerate() {
            for col in 0..4 {
                // SAFETY: the caller vouches for `2 * COLS` floats.
                let out = unsafe { &mut *out.add(at * 4 + col) };
                let old = if replace { 0.0 } else { *out };
                *out = old + scale * (sums[2 * col] + sums[2 * col + 1]);
            }
        }
    }
}

kernels!([] Portable, group 8, tile 2, rows [1 2], decoding_rows [1], peak 4);

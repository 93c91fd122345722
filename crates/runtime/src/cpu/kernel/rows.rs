//! Conversions around the microkernels: of packed panels, rows of activations, and rows of the result.

use std::ops::Range;

use half::bf16;
use octile_core::{QuantBlock, plan::cpu::PANEL, quantize::scale_of};

use crate::cpu::{
    convert::StoredFloat,
    isa::{Vector, prefetch_stream},
};

/// Decodes the pairs `range` of a packed panel of `pairs` pairs. `VECTORS` vectors are one tile's columns;
/// the output is tile-major.
#[inline(always)]
pub(in crate::cpu) unsafe fn decode_panel<V, const GROUP: usize, const VECTORS: usize>(
    codes: *const u8,
    pairs: usize,
    out: *mut u8,
    range: Range<usize>,
) where
    V: Vector<GROUP>,
{
    for pair in range {
        // SAFETY: the caller guarantees `pairs` groups of codes, room for their values, and the instruction
        // set.
        unsafe {
            let weights = V::decode(codes.add(pair * 2 * PANEL));
            for (at, weights) in weights.into_iter().enumerate() {
                let vector = (at / VECTORS * pairs + pair) * VECTORS + at % VECTORS;
                out.cast::<V::Stored>().add(vector).write_unaligned(weights);
            }
        }
    }
}

/// Decodes a row of activations.
#[inline(always)]
pub(in crate::cpu) unsafe fn decode_row<V, const GROUP: usize>(codes: &[u8], mut out: *mut u8)
where
    V: Vector<GROUP>,
{
    let (lines, rest) = codes.as_chunks::<64>();
    // SAFETY: the caller guarantees room for whole runs of 64 values, and for the ISA.
    unsafe {
        for line in lines {
            prefetch_stream(line.as_ptr());
            V::decode_line(line.as_ptr(), out);
            out = out.add(32 * V::PAIR);
        }
        if !rest.is_empty() {
            let mut line = [0; 64];
            line[..rest.len()].copy_from_slice(rest);
            V::decode_line(line.as_ptr(), out);
        }
    }
}

/// The largest magnitude, as bits.
#[inline(always)]
pub(in crate::cpu) fn abs_max_bits(values: &[f32]) -> u32 {
    values.iter().fold(0, |max, value| max.max(value.to_bits() & 0x7fff_ffff))
}

/// Widens bf16 to f32, exactly.
#[inline(always)]
pub(in crate::cpu) fn widen_bf16(values: &[bf16], out: &mut [f32]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = f32::from_bits(u32::from(value.to_bits()) << 16);
    }
}

/// Quantizes a row, each block of columns with a scale of its own. Returns false at a value that is not
/// finite. One call for all blocks: those of several would leave little to overlap.
#[inline(always)]
pub(in crate::cpu) unsafe fn quantize_row<V, const GROUP: usize>(
    values: &[bf16],
    block: usize,
    codes: &mut [u8],
    scales: &mut [f32],
) -> bool
where
    V: Vector<GROUP>,
{
    // All scales first: within a block, codes would wait for the maximum and two divisions.
    for (values, scale) in values.chunks(block).zip(&mut *scales) {
        let largest = values.iter().fold(0, |max: u16, value| max.max(value.to_bits() & 0x7fff));
        if largest >= bf16::INFINITY.to_bits() {
            return false;
        }
        *scale = scale_of(bf16::from_bits(largest).widen()).0;
    }
    let mut buffer = [0.0; QuantBlock::B512.size()];
    for ((values, codes), scale) in values.chunks(block).zip(codes.chunks_mut(block)).zip(scales) {
        let inverse = if *scale == 0.0 { 0.0 } else { 1.0 / *scale };
        let buffer = &mut buffer[..values.len()];
        widen_bf16(values, buffer);
        // SAFETY: the caller guarantees the ISA.
        unsafe { V::encode(buffer, inverse, codes) };
    }
    true
}

/// Rounds rows of accumulators to bf16.
#[inline(always)]
pub(in crate::cpu) unsafe fn narrow_bf16(sums: &[f32], mut out: *mut bf16, stride: usize, cols: usize) {
    for sums in sums.as_chunks::<PANEL>().0 {
        // `array::map` would not be inlined, and so not be compiled for the ISA.
        let mut row = [bf16::ZERO; PANEL];
        for (out, sum) in row.iter_mut().zip(sums) {
            *out = StoredFloat::narrow(*sum);
        }
        // SAFETY: the caller guarantees `cols` elements in every row of `out`.
        unsafe {
            match cols {
                PANEL => out.cast::<[bf16; PANEL]>().write_unaligned(row),
                _ => out.copy_from_nonoverlapping(row.as_ptr(), cols),
            }
        }
        out = out.wrapping_add(stride);
    }
}

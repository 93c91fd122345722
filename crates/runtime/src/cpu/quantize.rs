//! Quantization of activations within a call.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use octile_core::{QuantBlock, QuantizeError, quantize::scale_of};

use super::{
    executor::{Chunks, Team},
    kernel::Kernels,
    operands::Floats,
};

/// One strip of activations to quantize.
pub(super) struct Quantize<'a> {
    pub kernels: &'static Kernels,
    pub floats: Floats<'a>,
    pub rows: Range<usize>,
    pub rows_per_scale: usize,
    pub quant_block: usize,
}

/// Activations that one thread quantizes in less time than others take to help.
const MOST_ALONE: usize = 16 << 10;

/// Bits of the f32 infinity: larger bits are NaN.
const INFINITY: u32 = f32::INFINITY.to_bits();

impl Quantize<'_> {
    /// The same codes and scales as [`octile_core::QuantizedActivation::quantize`]. Returns the scales of the
    /// strip.
    pub(super) fn run<'a>(
        &self,
        team: Team<'_>,
        codes: &mut [u8],
        scales: &'a mut [f32],
    ) -> Result<&'a [f32], QuantizeError> {
        let k = self.floats.cols();
        let blocks = k.div_ceil(self.quant_block);
        let codes = &mut codes[..self.rows.len() * k];
        let scales = &mut scales[..self.rows.len().div_ceil(self.rows_per_scale) * blocks];
        let codes_per_scale = self.rows_per_scale * k;
        let all_finite = AtomicBool::new(true);
        let block_row = |(index, (codes, scales)): (usize, (&mut [u8], &mut [f32]))| {
            let first = self.rows.start + index * self.rows_per_scale;
            if !self.block_row(first, codes, scales) {
                all_finite.store(false, Ordering::Relaxed);
            }
        };
        let team = if codes.len() > MOST_ALONE { team } else { Team::Alone };
        let chunks = (Chunks::new(codes, codes_per_scale), Chunks::new(scales, blocks));
        team.for_each(chunks.0.count(), |index| {
            // SAFETY: each index comes once.
            block_row((index, unsafe { (chunks.0.get(index), chunks.1.get(index)) }));
        });
        if all_finite.into_inner() {
            return Ok(scales);
        }
        Err(self.first_offender())
    }

    /// Quantizes the rows that share scales; returns false if a value is not finite.
    fn block_row(&self, first: usize, codes: &mut [u8], scales: &mut [f32]) -> bool {
        let k = self.floats.cols();
        let rows = codes.len() / k;
        let mut buffer = [0.0; QuantBlock::B512.size()];
        for (block, scale) in scales.iter_mut().enumerate() {
            let columns = block * self.quant_block..k.min((block + 1) * self.quant_block);
            let mut values: &[f32] = &[];
            let mut largest = 0;
            for row in 0..rows {
                values = self.widened(first + row, columns.clone(), &mut buffer);
                // SAFETY: the kernels were selected for this CPU.
                largest = largest.max(unsafe { (self.kernels.abs_max_bits)(values) });
            }
            if largest >= INFINITY {
                return false;
            }
            let (block_scale, inverse) = scale_of(f32::from_bits(largest));
            *scale = block_scale;
            for (row, codes) in codes.chunks_exact_mut(k).enumerate() {
                // A single row is still there.
                if rows > 1 {
                    values = self.widened(first + row, columns.clone(), &mut buffer);
                }
                // SAFETY: the kernels were selected for this CPU.
                unsafe { (self.kernels.encode)(values, inverse, &mut codes[columns.clone()]) };
            }
        }
        true
    }

    /// Columns of a row as f32: in place, or widened into `buffer`.
    fn widened<'b>(&'b self, row: usize, columns: Range<usize>, buffer: &'b mut [f32]) -> &'b [f32] {
        let Floats::Bf16(mat) = &self.floats else { return self.floats.widened(row, columns, buffer) };
        let buffer = &mut buffer[..columns.len()];
        // SAFETY: the kernels were selected for this CPU.
        unsafe { (self.kernels.widen_bf16)(&mat.row(row)[columns], buffer) };
        buffer
    }

    fn first_offender(&self) -> QuantizeError {
        let mut buffer = vec![0.0; self.floats.cols()];
        for row in self.rows.clone() {
            let values = self.floats.widened(row, 0..self.floats.cols(), &mut buffer);
            if let Some(col) = values.iter().position(|v| !v.is_finite()) {
                return QuantizeError::NonFinite { what: "activation", row, col, value: values[col] };
            }
        }
        // Another thread has overwritten it since.
        let row = self.rows.start;
        QuantizeError::NonFinite { what: "activation", row, col: 0, value: f32::NAN }
    }
}

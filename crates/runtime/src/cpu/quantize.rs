//! Quantization of activations within a call.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread::panicking,
};

use octile_core::{QuantBlock, QuantizeError, quantize::scale_of};

use super::{executor::Chunks, kernel::Kernels, operands::Floats, pool::wait_while};

/// A strip of activations to quantize.
pub(super) struct Quantize<'a> {
    pub kernels: &'static Kernels,
    pub floats: Floats<'a>,
    pub rows: Range<usize>,
    pub rows_per_scale: usize,
    pub quant_block: usize,
}

/// Fewest codes that a thread claims at a time, since claims cost a cache line that passes between cores.
const FEWEST_CLAIMED: usize = 4 << 10;

/// Bits of the f32 infinity: larger bits are NaN.
const INFINITY: u32 = f32::INFINITY.to_bits();

/// Quantization that threads share, each as much as it claims, before they multiply: what they quantize and
/// what they multiply is one job, since the threads of another one would have to be called again.
pub(super) struct Quantization<'a> {
    strip: Quantize<'a>,
    codes: Chunks<'a, u8>,
    scales: Chunks<'a, f32>,
    /// Numbers of chunks that threads have claimed, and completed.
    claimed: AtomicUsize,
    completed: AtomicUsize,
    has_failed: AtomicBool,
}

impl<'a> Quantization<'a> {
    /// Of a strip into buffers that have room for it.
    pub(super) fn new(strip: Quantize<'a>, codes: &'a mut [u8], scales: &'a mut [f32]) -> Self {
        let k = strip.floats.cols();
        let (rows, blocks) = (strip.rows.len(), k.div_ceil(strip.quant_block));
        let codes = &mut codes[..rows * k];
        let scales = &mut scales[..rows.div_ceil(strip.rows_per_scale) * blocks];
        let chunk_rows = strip.chunk_rows();
        Self {
            codes: Chunks::new(codes, chunk_rows * k),
            scales: Chunks::new(scales, chunk_rows / strip.rows_per_scale * blocks),
            strip,
            claimed: AtomicUsize::new(0),
            completed: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Quantizes what no other thread has claimed, and waits for those that have claimed something. Returns
    /// the same codes and scales as [`octile_core::QuantizedActivation::quantize`]; none if a value is not
    /// finite.
    pub(super) fn complete(&self) -> Option<(&[u8], &[f32])> {
        let count = self.codes.count();
        loop {
            let index = self.claimed.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let claim = Claim(self);
            // SAFETY: each index is claimed once.
            let is_finite = unsafe { self.strip.chunk(index, self.codes.get(index), self.scales.get(index)) };
            if !is_finite {
                self.has_failed.store(true, Ordering::Relaxed);
            }
            drop(claim);
        }
        wait_while(|| self.completed.load(Ordering::Acquire) < count);
        // SAFETY: all chunks are complete, and none is claimed again.
        let all = || unsafe { (self.codes.all(), self.scales.all()) };
        (!self.has_failed.load(Ordering::Relaxed)).then(all)
    }

    /// The first value that is not finite.
    pub(super) fn error(&self) -> QuantizeError {
        self.strip.first_offender()
    }
}

/// A chunk that a thread works on. Dropping it, also while its thread unwinds, lets the others go on.
struct Claim<'a, 'b>(&'a Quantization<'b>);

impl Drop for Claim<'_, '_> {
    fn drop(&mut self) {
        if panicking() {
            self.0.has_failed.store(true, Ordering::Relaxed);
        }
        self.0.completed.fetch_add(1, Ordering::Release);
    }
}

impl Quantize<'_> {
    /// Quantizes a chunk of whole block rows; returns false if a value is not finite.
    fn chunk(&self, index: usize, codes: &mut [u8], scales: &mut [f32]) -> bool {
        let k = self.floats.cols();
        let (block_rows, blocks) = (codes.chunks_mut(self.rows_per_scale * k), k.div_ceil(self.quant_block));
        let first = self.rows.start + index * self.chunk_rows();
        let firsts = (first..).step_by(self.rows_per_scale);
        block_rows.zip(scales.chunks_mut(blocks)).zip(firsts).all(|((codes, scales), first)| {
            match &self.floats {
                Floats::Bf16(mat) if self.rows_per_scale == 1 => {
                    let row = mat.row(first);
                    // SAFETY: the kernels were selected for this CPU.
                    unsafe { (self.kernels.quantize_row)(row, self.quant_block, codes, scales) }
                }
                _ => self.block_row(first, codes, scales),
            }
        })
    }

    /// Rows of a chunk: whole quantization blocks.
    fn chunk_rows(&self) -> usize {
        FEWEST_CLAIMED.div_ceil(self.rows_per_scale * self.floats.cols()) * self.rows_per_scale
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

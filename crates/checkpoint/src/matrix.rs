//! A matrix inside a shard, read a part at a time.

use std::ops::Range;

use bytemuck::Pod;
use safetensors::Dtype;

use crate::{
    error::Result,
    read::{ShardFile, Tensor, TensorId},
};

/// A matrix inside a shard of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub shard: usize,
    pub dtype: Dtype,
    /// File offset of its first element.
    pub offset: u64,
    pub rows: usize,
    pub cols: usize,
    /// Elements between consecutive rows of the file.
    pub stride: usize,
    /// Whether the file stores the transpose.
    pub is_transposed: bool,
}

impl Matrix {
    /// All of a 2-D tensor.
    pub(crate) fn whole(id: TensorId, tensor: &Tensor, rows: usize, cols: usize) -> Self {
        let Tensor { dtype, offset, .. } = *tensor;
        Self { shard: id.shard, dtype, offset, rows, cols, stride: cols, is_transposed: false }
    }

    /// Reads some rows and columns into `input`, row-major.
    pub(crate) fn read(
        &self,
        file: &ShardFile,
        rows: &Range<usize>,
        cols: &Range<usize>,
        input: &mut Vec<u64>,
        transposed: &mut Vec<u64>,
    ) -> Result<()> {
        let size = self.dtype.bitsize() / 8;
        // Rows of the file, and the elements within each.
        let (outer, inner) = if self.is_transposed { (cols, rows) } else { (rows, cols) };
        let length = outer.len() * inner.len() * size;
        let bytes = bytes_of(if self.is_transposed { transposed } else { input }, length);
        let place = |row: usize| self.offset + ((row * self.stride + inner.start) * size) as u64;
        if inner.len() == self.stride {
            file.read_at(bytes, place(outer.start))?;
        } else {
            for (row, bytes) in outer.clone().zip(bytes.chunks_exact_mut(inner.len() * size)) {
                file.read_at(bytes, place(row))?;
            }
        }
        if self.is_transposed {
            let (from, to) = (transposed, bytes_of(input, length));
            match size {
                2 => transpose::<u16>(elements(from, length / 2), inner.len(), bytemuck::cast_slice_mut(to)),
                _ => transpose::<u32>(elements(from, length / 4), inner.len(), bytemuck::cast_slice_mut(to)),
            }
        }
        Ok(())
    }
}

/// Returns the first `length` bytes of a buffer, which grows as needed.
pub(crate) fn bytes_of(buffer: &mut Vec<u64>, length: usize) -> &mut [u8] {
    if buffer.len() * 8 < length {
        buffer.resize(length.div_ceil(8), 0);
    }
    &mut bytemuck::cast_slice_mut(buffer)[..length]
}

/// Views the first `count` elements of a buffer.
pub(crate) fn elements<T: Pod>(buffer: &[u64], count: usize) -> &[T] {
    &bytemuck::cast_slice(buffer)[..count]
}

/// Transposes a matrix with rows of `width`.
fn transpose<T: Copy>(from: &[T], width: usize, to: &mut [T]) {
    // Small tiles, so that source and destination stay in L1.
    const SQUARE: usize = 32;
    let height = from.len() / width;
    for top in (0..height).step_by(SQUARE) {
        for left in (0..width).step_by(SQUARE) {
            for row in top..height.min(top + SQUARE) {
                for col in left..width.min(left + SQUARE) {
                    to[col * height + row] = from[row * width + col];
                }
            }
        }
    }
}

//! Reading tensors a few rows at a time, so that no tensor has to fit in memory.

use std::ops::Range;

use half::{bf16, f16};
use safetensors::Dtype;

use super::{Checkpoint, Scales, ShardFile, TensorId};
use crate::error::Result;

/// Reads rows of a tensor, from any number of threads. A row is one index of the first dimension.
#[derive(Debug)]
pub struct TensorReader {
    file: ShardFile,
    offset: u64,
    rows: usize,
    row_bytes: usize,
}

impl TensorReader {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Replaces the content of `buffer` with the bytes of `rows`.
    ///
    /// # Panics
    /// If the rows are out of range.
    pub fn read_rows(&self, rows: Range<usize>, buffer: &mut Vec<u8>) -> Result<()> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        buffer.resize(rows.len() * self.row_bytes, 0);
        self.file.read_at(buffer, self.offset + (rows.start * self.row_bytes) as u64)
    }
}

impl Checkpoint {
    /// Opens a tensor for reading.
    ///
    /// ```no_run
    /// # let checkpoint = octile_checkpoint::Checkpoint::open("Qwen3-0.6B".as_ref())?;
    /// let (id, _) = checkpoint.tensors().next().unwrap();
    /// let (reader, mut rows) = (checkpoint.reader(id)?, Vec::new());
    /// for first in (0..reader.rows()).step_by(128) {
    ///     reader.read_rows(first..reader.rows().min(first + 128), &mut rows)?;
    /// }
    /// # Ok::<(), octile_checkpoint::CheckpointError>(())
    /// ```
    ///
    /// # Panics
    /// If the id belongs to another checkpoint.
    pub fn reader(&self, id: TensorId) -> Result<TensorReader> {
        let (tensor, file) = (self.tensor(id), self.shards()[id.shard].open()?);
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let row_bytes = tensor.bytes.checked_div(rows as u64).unwrap_or(0) as usize;
        Ok(TensorReader { file, offset: tensor.offset, rows, row_bytes })
    }

    /// Reads all scales of a layer as f32, row-major, one per block of its weight. Values are not checked.
    pub fn read_scales(&self, scales: &Scales) -> Result<Vec<f32>> {
        let (reader, mut bytes, mut values) = (self.reader(scales.tensor)?, Vec::new(), Vec::new());
        reader.read_rows(0..reader.rows(), &mut bytes)?;
        append_scales(scales.dtype, &bytes, &mut values);
        Ok(values)
    }
}

/// Decodes scales of any type that [`Scales`] can have, and appends them to `values`.
pub(crate) fn append_scales(dtype: Dtype, bytes: &[u8], values: &mut Vec<f32>) {
    match dtype {
        Dtype::BF16 => values.extend(bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32())),
        Dtype::F16 => values.extend(bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32())),
        Dtype::F8_E8M0 => values.extend(bytes.iter().map(|b| power_of_two(*b))),
        _ => values.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
    }
}

/// Decodes an f8e8m0 value: a power of two, or NaN.
fn power_of_two(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(1 << 22),
        0xff => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

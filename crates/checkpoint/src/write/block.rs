//! Quantizing, dequantizing and requantizing blocks of a matrix.

use std::ops::Range;

use bytemuck::Pod;
use half::{bf16, f16};
use octile_core::FloatKind;
use octile_runtime::cpu::{RowConverter, StoredFloat};

use super::{
    scale,
    shard::{Piece, Writer},
};
use crate::{
    BLOCK, Dtype, ScaleKind, TensorId,
    error::{CheckpointError, Result},
    matrix::{Matrix, bytes_of, elements},
    plan::TensorTask,
    read::append_scales,
};

/// Buffers that a thread reuses between units.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Input bytes, aligned for every element type.
    pub input: Vec<u64>,
    transposed: Vec<u64>,
    output: Vec<u64>,
    values: Vec<f32>,
    scales: Vec<f32>,
    new_scales: Vec<f32>,
    maxima: Vec<u32>,
    factors: Vec<f32>,
    converter: RowConverter,
}

impl Writer<'_> {
    /// Executes a part of a task. Returns the pieces written, and the bytes read.
    pub(super) fn blocks(
        &self,
        task: &TensorTask,
        rows: Range<usize>,
        cols: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(Vec<Piece>, usize)> {
        let count = rows.len() * cols.len();
        match task {
            TensorTask::Quantize { from, name, kind, codes, scales } => {
                self.read(from, &rows, &cols, scratch)?;
                let unit = Quantizing { name, kind: *kind, rows: &rows, cols: &cols };
                let input = std::mem::take(&mut scratch.input);
                let encoded = match from.dtype {
                    Dtype::BF16 => unit.encode(elements::<bf16>(&input, count), scratch),
                    Dtype::F16 => unit.encode(elements::<f16>(&input, count), scratch),
                    _ => unit.encode(elements::<f32>(&input, count), scratch),
                };
                scratch.input = input;
                encoded?;
                let pieces = self.put_quantized(from, (*codes, *scales), &rows, &cols, scratch)?;
                Ok((pieces, count * from.dtype.bitsize() / 8))
            }
            TensorTask::Dequantize { from, scales, kind, to } => {
                self.read(from, &rows, &cols, scratch)?;
                let width = self.read_scales(*scales, from.cols, &rows, &cols, scratch)?;
                let infinite = match kind {
                    FloatKind::F32 => decode::<f32>(&rows, &cols, width, scratch),
                    FloatKind::Bf16 => decode::<bf16>(&rows, &cols, width, scratch),
                    FloatKind::F16 => decode::<f16>(&rows, &cols, width, scratch),
                };
                if let Some(at) = infinite {
                    return Err(CheckpointError::Overflow {
                        tensor: self.shard.tensors[*to].name.clone(),
                        row: rows.start + at / cols.len(),
                        col: cols.start + at % cols.len(),
                        dtype: *kind,
                    });
                }
                let size = kind.bytes();
                let bytes = &bytemuck::cast_slice(&scratch.output)[..count * size];
                Ok((self.put_rows(*to, from.cols, size, &rows, &cols, bytes)?, count))
            }
            TensorTask::Requantize { from, from_scales, name, codes, scales } => {
                self.read(from, &rows, &cols, scratch)?;
                let width = self.read_scales(*from_scales, from.cols, &rows, &cols, scratch)?;
                decode::<f32>(&rows, &cols, width, scratch);
                let mut values = std::mem::take(&mut scratch.values);
                values.clear();
                values.extend_from_slice(elements::<f32>(&scratch.output, count));
                let kept = scratch.scales.clone();
                let unit = Quantizing { name, kind: ScaleKind::Ue8m0, rows: &rows, cols: &cols };
                let encoded = unit.encode(&values, scratch);
                scratch.values = values;
                encoded?;
                self.keep_powers_of_two(&kept, width, &rows, &cols, scratch);
                let pieces = self.put_quantized(from, (*codes, *scales), &rows, &cols, scratch)?;
                Ok((pieces, count))
            }
            TensorTask::Copy { .. } | TensorTask::Scales { .. } => {
                unreachable!("copies are not split into blocks")
            }
        }
    }

    /// Restores scale and codes of blocks whose scale is already a power of two.
    fn keep_powers_of_two(
        &self,
        old: &[f32],
        width: usize,
        rows: &Range<usize>,
        cols: &Range<usize>,
        scratch: &mut Scratch,
    ) {
        let count = rows.len() * cols.len();
        let Scratch { input, output, new_scales, .. } = scratch;
        let (before, after) = (elements::<u8>(input, count), bytes_of(output, count));
        for (at, &scale) in old.iter().enumerate().filter(|(_, scale)| scale::is_power_of_two(**scale)) {
            new_scales[at] = scale;
            let first = at / width * BLOCK;
            let left = at % width * BLOCK;
            let right = cols.len().min(left + BLOCK);
            for row in first..rows.len().min(first + BLOCK) {
                let span = row * cols.len() + left..row * cols.len() + right;
                after[span.clone()].copy_from_slice(&before[span]);
            }
        }
    }

    /// Reads a part of a matrix into `scratch.input`, row-major.
    fn read(
        &self,
        from: &Matrix,
        rows: &Range<usize>,
        cols: &Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        from.read(self.input(from.shard), rows, cols, &mut scratch.input, &mut scratch.transposed)
    }

    /// Reads the scales of some blocks into `scratch.scales`. Returns their number per row of blocks.
    fn read_scales(
        &self,
        tensor: TensorId,
        all_cols: usize,
        rows: &Range<usize>,
        cols: &Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<usize> {
        let (all, width) = (all_cols.div_ceil(BLOCK), cols.len().div_ceil(BLOCK));
        scratch.scales.clear();
        for block_row in rows.start / BLOCK..rows.end.div_ceil(BLOCK) {
            let first = block_row * all + cols.start / BLOCK;
            self.append_scales(tensor, first..first + width, &mut scratch.scales)?;
        }
        Ok(width)
    }

    /// Reads scales as f32, and requires them to be finite and non-negative.
    fn append_scales(&self, tensor: TensorId, range: Range<usize>, scales: &mut Vec<f32>) -> Result<()> {
        let found = self.checkpoint.tensor(tensor);
        let size = found.dtype.bitsize() / 8;
        let mut bytes = vec![0; range.len() * size];
        self.input(tensor.shard).read_at(&mut bytes, found.offset + (range.start * size) as u64)?;
        let before = scales.len();
        append_scales(found.dtype, &bytes, scales);
        if let Some(at) = scales[before..].iter().position(|scale| !(scale.is_finite() && *scale >= 0.0)) {
            let (value, width) = (scales[before + at], found.shape.last().map_or(1, |width| (*width).max(1)));
            let (row, col) = ((range.start + at) / width, (range.start + at) % width);
            return Err(CheckpointError::BadScale { scales: found.name.clone(), value, row, col });
        }
        Ok(())
    }

    /// Copies scales, converted to f32.
    pub(super) fn copy_scales(
        &self,
        task: &TensorTask,
        range: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(Vec<Piece>, usize)> {
        let TensorTask::Scales { from, kind, to } = task else { unreachable!("this unit copies scales") };
        scratch.scales.clear();
        self.append_scales(*from, range.clone(), &mut scratch.scales)?;
        let found = self.checkpoint.tensor(*from);
        let odd = scratch.scales.iter().position(|scale| !scale::is_power_of_two(*scale));
        if let (ScaleKind::Ue8m0, Some(at)) = (kind, odd) {
            let (value, width) = (scratch.scales[at], found.shape.last().map_or(1, |width| (*width).max(1)));
            let (row, col) = ((range.start + at) / width, (range.start + at) % width);
            return Err(CheckpointError::NotPowerOfTwo { scales: found.name.clone(), value, row, col });
        }
        let piece = self.put_in(*to, (range.start * 4) as u64, bytemuck::cast_slice(&scratch.scales))?;
        Ok((vec![piece], range.len() * found.dtype.bitsize() / 8))
    }

    /// Writes the codes and scales in `scratch`.
    fn put_quantized(
        &self,
        from: &Matrix,
        (codes, scales): (usize, usize),
        rows: &Range<usize>,
        cols: &Range<usize>,
        scratch: &Scratch,
    ) -> Result<Vec<Piece>> {
        let bytes = &bytemuck::cast_slice(&scratch.output)[..rows.len() * cols.len()];
        let mut pieces = self.put_rows(codes, from.cols, 1, rows, cols, bytes)?;
        let blocks = |range: &Range<usize>| range.start / BLOCK..range.end.div_ceil(BLOCK);
        let bytes = bytemuck::cast_slice(&scratch.new_scales);
        pieces.extend(self.put_rows(
            scales,
            from.cols.div_ceil(BLOCK),
            4,
            &blocks(rows),
            &blocks(cols),
            bytes,
        )?);
        Ok(pieces)
    }

    /// Writes a part of a matrix of `all_cols` columns and elements of `size` bytes.
    fn put_rows(
        &self,
        tensor: usize,
        all_cols: usize,
        size: usize,
        rows: &Range<usize>,
        cols: &Range<usize>,
        bytes: &[u8],
    ) -> Result<Vec<Piece>> {
        let place = |row: usize| ((row * all_cols + cols.start) * size) as u64;
        if cols.len() == all_cols {
            return Ok(vec![self.put_in(tensor, place(rows.start), bytes)?]);
        }
        let each = rows.clone().zip(bytes.chunks_exact(cols.len() * size));
        each.map(|(row, bytes)| self.put_in(tensor, place(row), bytes)).collect()
    }
}

/// A group of blocks to quantize.
struct Quantizing<'a> {
    name: &'a str,
    kind: ScaleKind,
    rows: &'a Range<usize>,
    cols: &'a Range<usize>,
}

impl Quantizing<'_> {
    /// Writes codes to `scratch.output` and scales to `scratch.new_scales`.
    fn encode<T: StoredFloat + Pod>(&self, values: &[T], scratch: &mut Scratch) -> Result<()> {
        let (cols, blocks) = (self.cols.len(), self.cols.len().div_ceil(BLOCK));
        let Scratch { output, new_scales, maxima, factors, converter, .. } = scratch;
        let codes = bytes_of(output, values.len());
        new_scales.clear();
        for (at, (values, codes)) in
            values.chunks(BLOCK * cols).zip(codes.chunks_mut(BLOCK * cols)).enumerate()
        {
            maxima.clear();
            maxima.resize(blocks, 0);
            converter.raise_maxima(values, cols, BLOCK, maxima);
            if maxima.iter().any(|bits| *bits >= f32::INFINITY.to_bits()) {
                return Err(self.non_finite(values, at * BLOCK));
            }
            factors.clear();
            for bits in maxima.iter() {
                let (scale, factor) = scale::of_block(f32::from_bits(*bits), self.kind);
                new_scales.push(scale);
                factors.push(factor);
            }
            converter.encode_rows(values, cols, BLOCK, factors, codes);
        }
        Ok(())
    }

    fn non_finite<T: StoredFloat>(&self, values: &[T], first: usize) -> CheckpointError {
        let at = values.iter().position(|value| !value.widen().is_finite()).unwrap_or(0);
        CheckpointError::NonFinite {
            tensor: self.name.to_owned(),
            value: values[at].widen(),
            row: self.rows.start + first + at / self.cols.len(),
            col: self.cols.start + at % self.cols.len(),
        }
    }
}

/// Dequantizes `scratch.input` into `scratch.output`, with `width` scales per row of blocks. Returns the
/// index of the first value that overflows.
fn decode<T: StoredFloat + Pod>(
    rows: &Range<usize>,
    cols: &Range<usize>,
    width: usize,
    scratch: &mut Scratch,
) -> Option<usize> {
    let count = rows.len() * cols.len();
    let Scratch { input, output, scales, maxima, converter, .. } = scratch;
    let codes = elements::<u8>(input, count);
    let values: &mut [T] = bytemuck::cast_slice_mut(bytes_of(output, count * size_of::<T>()));
    let block_row = BLOCK * cols.len();
    maxima.clear();
    maxima.resize(width, 0);
    for ((codes, values), scales) in
        codes.chunks(block_row).zip(values.chunks_mut(block_row)).zip(scales.chunks(width))
    {
        converter.decode_rows(codes, cols.len(), BLOCK, scales, values);
        converter.raise_maxima(values, cols.len(), BLOCK, maxima);
    }
    let is_finite = maxima.iter().all(|bits| *bits < f32::INFINITY.to_bits());
    // NaN codes decode to NaN; only infinity is an overflow.
    if is_finite { None } else { values.iter().position(|value| value.widen().is_infinite()) }
}

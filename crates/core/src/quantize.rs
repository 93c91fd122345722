//! Quantization to 8-bit codes with one scale per block, and dequantization.

use crate::{
    E4m3, Mat, QuantBlock, ScaleGranularity, ShapeError,
    view::{check_codes, check_scale_count},
};

/// Why operands cannot be quantized or combined.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// A weight or activation is infinite or not a number.
    #[error("{what} holds {value} at row {row}, column {col}: only finite numbers can be quantized")]
    NonFinite {
        /// Which matrix.
        what: &'static str,
        /// Row of the first such value.
        row: usize,
        /// Column of the first such value.
        col: usize,
        /// The value.
        value: f32,
    },
    /// A scale is infinite, not a number, or negative.
    #[error("{what} scale of block ({row}, {col}) is {value}: scales must be finite and not negative")]
    BadScale {
        /// Which matrix.
        what: &'static str,
        /// Block row.
        row: usize,
        /// Block column.
        col: usize,
        /// The scale.
        value: f32,
    },
    /// The product of two scales overflows.
    #[error(
        "activation scale {x:e} of block ({x_row}, {col}) times weight scale {w:e} of block ({w_row}, {col}) \
         overflows f32: make one of them smaller"
    )]
    ScaleProduct {
        /// Block row of the activation scale.
        x_row: usize,
        /// Block row of the weight scale.
        w_row: usize,
        /// Block column of both: the k-block.
        col: usize,
        /// The activation scale.
        x: f32,
        /// The weight scale.
        w: f32,
    },
    /// The scales do not cover the matrix.
    #[error(
        "{what} of {rows} x {cols} in blocks of {block_rows} x {block_cols} needs {needed} scales, \
         but {held} were given"
    )]
    ScaleCount {
        /// Which matrix.
        what: &'static str,
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Rows that share a scale.
        block_rows: usize,
        /// Columns that share a scale.
        block_cols: usize,
        /// Scales needed.
        needed: usize,
        /// Scales given.
        held: usize,
    },
    /// The scales end before their layout does.
    #[error(
        "activation scales with strides of {row} along the rows and {k} along K need {needed} elements, but \
         {held} were given"
    )]
    ScaleStrides {
        /// From the scale of one row to the next.
        row: usize,
        /// From the scale of one k-block to the next.
        k: usize,
        /// Elements needed.
        needed: usize,
        /// Elements given.
        held: usize,
    },
    /// Codes of the wrong length.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// The scale of a block whose largest magnitude is `abs_max`, and its reciprocal.
///
/// A block of zeros gets scale 0, so that it dequantizes to zeros. The scale is never subnormal, because its
/// reciprocal would overflow.
pub fn scale_of(abs_max: f32) -> (f32, f32) {
    if abs_max == 0.0 {
        return (0.0, 0.0);
    }
    let scale = (abs_max / E4m3::MAX).max(f32::MIN_POSITIVE);
    (scale, 1.0 / scale)
}

/// Returns the largest of some scales, `scale_cols` per block row; rejects those that are infinite, NaN or
/// negative.
pub fn largest_scale(what: &'static str, scales: &[f32], scale_cols: usize) -> Result<f32, QuantizeError> {
    // Without an early exit the loops are vectorized.
    let (largest, is_negative) =
        (largest_magnitude(scales), scales.iter().fold(false, |any, scale| any | (*scale < 0.0)));
    if largest.is_finite() && !is_negative {
        return Ok(largest);
    }
    let at = scales.iter().position(|scale| !(scale.is_finite() && *scale >= 0.0)).unwrap_or_default();
    let (row, col) = (at / scale_cols, at % scale_cols);
    Err(QuantizeError::BadScale { what, row, col, value: scales[at] })
}

/// The largest magnitude; NaN counts as larger than all others.
pub fn largest_magnitude(scales: &[f32]) -> f32 {
    // Non-negative floats order like their bits, and integers compare faster.
    f32::from_bits(scales.iter().fold(0, |max, scale| max.max(scale.to_bits() & !SIGN)))
}

const SIGN: u32 = 1 << 31;

/// Rejects scales whose product is infinite: times a sum of zero it would be NaN.
///
/// `x` and `w` hold `k_blocks` scales per block row, all finite and not negative.
pub fn check_scale_products(x: &[f32], w: &[f32], k_blocks: usize) -> Result<(), QuantizeError> {
    if (largest_magnitude(x) * largest_magnitude(w)).is_finite() {
        return Ok(());
    }
    // The two largest may belong to different k-blocks.
    for col in 0..k_blocks {
        let largest = |scales: &[f32]| {
            let column = scales.iter().skip(col).step_by(k_blocks).copied().enumerate();
            column.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or_default()
        };
        let ((x_row, x), (w_row, w)) = (largest(x), largest(w));
        if !(x * w).is_finite() {
            return Err(QuantizeError::ScaleProduct { x_row, w_row, col, x, w });
        }
    }
    Ok(())
}

/// Flushes a subnormal activation to zero, as bf16 dot products of CPUs and the MXUs of TPUs do.
#[inline]
pub fn flush_subnormal(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0.0 } else { value }
}

/// A matrix of 8-bit codes with one scale per block of `block_rows x qb`.
#[derive(Debug, Clone, PartialEq)]
struct Blocks {
    codes: Vec<u8>,
    scales: Vec<f32>,
    rows: usize,
    cols: usize,
    block_rows: usize,
    quant_block: QuantBlock,
}

impl Blocks {
    fn quantize(
        what: &'static str,
        values: Mat<'_, f32>,
        block_rows: usize,
        quant_block: QuantBlock,
    ) -> Result<Self, QuantizeError> {
        let (rows, cols, qb) = (values.rows(), values.cols(), quant_block.size());
        let scale_cols = quant_block.count(cols);
        let mut codes = vec![0; rows * cols];
        let mut scales = vec![0.0f32; rows.div_ceil(block_rows) * scale_cols];
        let mut inverses = vec![0.0; scale_cols];
        for (block_row, scales) in scales.chunks_mut(scale_cols).enumerate() {
            let block = block_row * block_rows..rows.min((block_row + 1) * block_rows);
            for row in block.clone() {
                let values = values.row(row);
                if let Some(col) = values.iter().position(|v| !v.is_finite()) {
                    return Err(QuantizeError::NonFinite { what, row, col, value: values[col] });
                }
                for (abs_max, values) in scales.iter_mut().zip(values.chunks(qb)) {
                    *abs_max = values.iter().fold(*abs_max, |max: f32, v| max.max(v.abs()));
                }
            }
            for (scale, inverse) in scales.iter_mut().zip(&mut inverses) {
                (*scale, *inverse) = scale_of(*scale);
            }
            for row in block {
                let codes = &mut codes[row * cols..][..cols];
                for ((codes, values), inverse) in
                    codes.chunks_mut(qb).zip(values.row(row).chunks(qb)).zip(&inverses)
                {
                    for (code, value) in codes.iter_mut().zip(values) {
                        *code = E4m3::from_f32(value * inverse).to_bits();
                    }
                }
            }
        }
        Ok(Self { codes, scales, rows, cols, block_rows, quant_block })
    }

    fn from_parts(
        what: &'static str,
        codes: Mat<'_, u8>,
        scales: &[f32],
        block_rows: usize,
        quant_block: QuantBlock,
    ) -> Result<Self, QuantizeError> {
        let (rows, cols) = (codes.rows(), codes.cols());
        check_scale_count(what, scales, [rows, cols], block_rows, quant_block)?;
        largest_scale(what, scales, quant_block.count(cols))?;
        let mut packed = Vec::with_capacity(rows * cols);
        (0..rows).for_each(|row| packed.extend_from_slice(codes.row(row)));
        check_codes(what, &packed, cols)?;
        Ok(Self { codes: packed, scales: scales.to_vec(), rows, cols, block_rows, quant_block })
    }

    fn dequantize(&self) -> Vec<f32> {
        let (qb, scale_cols) = (self.quant_block.size(), self.quant_block.count(self.cols));
        let mut values = Vec::with_capacity(self.codes.len());
        for (row, codes) in self.codes.chunks(self.cols).enumerate() {
            let scales = &self.scales[row / self.block_rows * scale_cols..][..scale_cols];
            for (codes, scale) in codes.chunks(qb).zip(scales) {
                values.extend(codes.iter().map(|&c| E4m3::from_bits(c).to_f32() * scale));
            }
        }
        values
    }
}

macro_rules! quantized_matrix {
    ($name:ident) => {
        impl $name {
            /// Number of rows.
            pub fn rows(&self) -> usize {
                self.0.rows
            }

            /// Number of columns: the K of the multiplication.
            pub fn cols(&self) -> usize {
                self.0.cols
            }

            /// Side of a block.
            pub fn quant_block(&self) -> QuantBlock {
                self.0.quant_block
            }

            /// The f8e4m3fn codes, row-major.
            pub fn codes(&self) -> &[u8] {
                &self.0.codes
            }

            /// The scales, row-major by block; a value is its code times its scale.
            pub fn scales(&self) -> &[f32] {
                &self.0.scales
            }

            /// Scales of one block row, one per block of `qb` columns.
            pub fn scale_row(&self, block_row: usize) -> &[f32] {
                let cols = self.0.quant_block.count(self.0.cols);
                &self.0.scales[block_row * cols..][..cols]
            }

            /// Dequantizes to f32.
            pub fn dequantize(&self) -> Vec<f32> {
                self.0.dequantize()
            }
        }
    };
}

/// A weight of `n x k` codes with one scale per `qb x qb` block.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedWeight(Blocks);

quantized_matrix!(QuantizedWeight);

impl QuantizedWeight {
    /// Quantizes a weight of `n x k`: scale = abs-max / 448 in every block.
    ///
    /// ```
    /// use octile_core::{Mat, QuantBlock, QuantizedWeight};
    ///
    /// let weight: Vec<f32> = (0..256 * 200).map(|i| (i % 17) as f32 - 8.0).collect();
    /// let quantized = QuantizedWeight::quantize(Mat::new(&weight, 256, 200)?, QuantBlock::B128)?;
    /// assert_eq!(quantized.scales().len(), 2 * 2);
    /// # Ok::<(), octile_core::QuantizeError>(())
    /// ```
    pub fn quantize(weight: Mat<'_, f32>, quant_block: QuantBlock) -> Result<Self, QuantizeError> {
        Blocks::quantize("weight", weight, quant_block.size(), quant_block).map(Self)
    }

    /// Wraps a weight that is already quantized, as in a checkpoint.
    pub fn from_parts(
        codes: Mat<'_, u8>,
        scales: &[f32],
        quant_block: QuantBlock,
    ) -> Result<Self, QuantizeError> {
        Blocks::from_parts("weight", codes, scales, quant_block.size(), quant_block).map(Self)
    }
}

/// Activations of `m x k` codes with one scale per block or token group.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedActivation(Blocks, ScaleGranularity);

quantized_matrix!(QuantizedActivation);

impl QuantizedActivation {
    /// Quantizes activations of `m x k`: scale = abs-max / 448 in every block or token group.
    pub fn quantize(
        x: Mat<'_, f32>,
        quant_block: QuantBlock,
        granularity: ScaleGranularity,
    ) -> Result<Self, QuantizeError> {
        let blocks = Blocks::quantize("activation", x, granularity.rows(quant_block), quant_block)?;
        Ok(Self(blocks, granularity))
    }

    /// Wraps activations that are already quantized.
    pub fn from_parts(
        codes: Mat<'_, u8>,
        scales: &[f32],
        quant_block: QuantBlock,
        granularity: ScaleGranularity,
    ) -> Result<Self, QuantizeError> {
        let block_rows = granularity.rows(quant_block);
        Ok(Self(Blocks::from_parts("activation", codes, scales, block_rows, quant_block)?, granularity))
    }

    /// Granularity of the scales.
    pub fn granularity(&self) -> ScaleGranularity {
        self.1
    }

    /// Selects rows, with a scale per row and k-block.
    ///
    /// # Panics
    /// When a row is out of range, or there are none.
    pub fn select_rows(&self, rows: &[usize]) -> Self {
        assert!(!rows.is_empty());
        let cols = self.cols();
        let blocks = Blocks {
            codes: rows.iter().flat_map(|row| &self.codes()[row * cols..][..cols]).copied().collect(),
            scales: rows.iter().flat_map(|&row| self.scales_of_row(row)).copied().collect(),
            rows: rows.len(),
            block_rows: 1,
            ..self.0
        };
        Self(blocks, ScaleGranularity::Token)
    }

    /// Scales that apply to `row`, one per block of `qb` columns.
    pub fn scales_of_row(&self, row: usize) -> &[f32] {
        self.scale_row(row / self.0.block_rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_reaches_the_largest_code_and_stays_within_half_a_step() {
        let (rows, cols) = (130, 300);
        let values: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919) % 1000) as f32 - 500.0).collect();
        let quantized =
            QuantizedWeight::quantize(Mat::new(&values, rows, cols).unwrap(), QuantBlock::B128).unwrap();
        assert_eq!(quantized.scales().len(), 6);
        for (value, back) in values.iter().zip(quantized.dequantize()) {
            assert!((value - back).abs() <= value.abs() / 16.0 + 500.0 / 448.0 / 1024.0, "{value} {back}");
        }
        assert!(quantized.codes().iter().any(|c| c & 0x7f == 0x7e));
    }

    #[test]
    fn zero_blocks_have_scale_zero_and_tiny_ones_stay_finite() {
        let mut values = vec![0.0; 128 * 256];
        values[200] = f32::from_bits(1);
        let quantized =
            QuantizedWeight::quantize(Mat::new(&values, 128, 256).unwrap(), QuantBlock::B128).unwrap();
        assert_eq!(quantized.scales()[0], 0.0);
        assert!(quantized.dequantize().iter().all(|v| v.is_finite()));
    }

    #[test]
    fn token_groups_have_a_scale_per_row() {
        let values: Vec<f32> = (0..3 * 130).map(|i| (i / 130 + 1) as f32).collect();
        let x = QuantizedActivation::quantize(
            Mat::new(&values, 3, 130).unwrap(),
            QuantBlock::B128,
            ScaleGranularity::Token,
        )
        .unwrap();
        assert_eq!(x.scales(), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0].map(|v| v / 448.0));
        assert_eq!(x.dequantize(), values);
    }

    #[test]
    fn scales_that_overflow_together_are_named() {
        let check = |x: &[f32], w: &[f32]| check_scale_products(x, w, 2);
        assert_eq!(check(&[1.0, 1e20, 1.0, 1.0], &[1e20, 1.0]), Ok(()), "not in one k-block");
        assert_eq!(check(&[0.0, 1e20], &[1.0, 3e18]), Ok(()));
        let error = check(&[1.0, 1.0, 1e20, 1.0], &[1.0, 1.0, 2e20, 1.0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "activation scale 1e20 of block (1, 0) times weight scale 2e20 of block (1, 0) overflows f32: make \
             one of them smaller"
        );
    }

    #[test]
    fn bad_operands_are_named() {
        let mut values = vec![1.0; 4 * 4];
        values[6] = f32::NAN;
        let error =
            QuantizedWeight::quantize(Mat::new(&values, 4, 4).unwrap(), QuantBlock::B128).unwrap_err();
        assert_eq!(
            error.to_string(),
            "weight holds NaN at row 1, column 2: only finite numbers can be quantized"
        );
        let codes = [0u8; 16];
        let codes = Mat::new(&codes, 4, 4).unwrap();
        let error = QuantizedWeight::from_parts(codes, &[1.0, 1.0], QuantBlock::B128).unwrap_err();
        assert_eq!(
            error.to_string(),
            "weight of 4 x 4 in blocks of 128 x 128 needs 1 scales, but 2 were given"
        );
        let error = QuantizedWeight::from_parts(codes, &[f32::INFINITY], QuantBlock::B128).unwrap_err();
        assert!(error.to_string().starts_with("weight scale of block (0, 0) is inf"));
    }
}

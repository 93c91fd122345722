//! Operands in 8 bits that stay where the caller has them.

use crate::{
    E4m3, Mat, QuantBlock, QuantizeError, QuantizedActivation, QuantizedWeight, ScaleGranularity,
    quantize::largest_scale,
};

/// A borrowed weight of `n x k` codes, row-major, with one scale per `qb x qb` block.
///
/// ```
/// use octile_core::{QuantBlock, WeightView};
///
/// let view = WeightView::new(&[0x38; 6], &[2.0], [2, 3], QuantBlock::B128)?;
/// assert_eq!((view.rows(), view.cols()), (2, 3));
/// assert_eq!(view.check_scales()?, 2.0);
/// # Ok::<(), octile_core::QuantizeError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct WeightView<'a> {
    codes: &'a [u8],
    scales: &'a [f32],
    rows: usize,
    cols: usize,
    quant_block: QuantBlock,
}

impl<'a> WeightView<'a> {
    /// Checks the lengths. Values are not looked at.
    pub fn new(
        codes: &'a [u8],
        scales: &'a [f32],
        [rows, cols]: [usize; 2],
        quant_block: QuantBlock,
    ) -> Result<Self, QuantizeError> {
        Mat::new(codes, rows, cols)?;
        check_scale_count("weight", scales, [rows, cols], quant_block.size(), quant_block)?;
        Ok(Self { codes, scales, rows, cols, quant_block })
    }

    /// Rejects scales that are infinite, NaN or negative, and returns the largest.
    pub fn check_scales(&self) -> Result<f32, QuantizeError> {
        largest_scale("weight", self.scales, self.quant_block.count(self.cols))
    }

    /// Rejects codes that are NaN.
    pub fn check_codes(&self) -> Result<(), QuantizeError> {
        check_codes("weight", self.codes, self.cols)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns: the K of the multiplication.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Side of a block.
    pub fn quant_block(&self) -> QuantBlock {
        self.quant_block
    }

    /// The f8e4m3fn codes, row-major.
    pub fn codes(&self) -> &'a [u8] {
        self.codes
    }

    /// The scales, row-major by block; a value is its code times its scale.
    pub fn scales(&self) -> &'a [f32] {
        self.scales
    }
}

impl<'a> From<&'a QuantizedWeight> for WeightView<'a> {
    fn from(weight: &'a QuantizedWeight) -> Self {
        Self {
            codes: weight.codes(),
            scales: weight.scales(),
            rows: weight.rows(),
            cols: weight.cols(),
            quant_block: weight.quant_block(),
        }
    }
}

/// Borrowed activations of `m x k` codes, row-major, with one scale per block or token group.
#[derive(Debug, Clone, Copy)]
pub struct ActivationView<'a> {
    codes: &'a [u8],
    scales: &'a [f32],
    rows: usize,
    cols: usize,
    quant_block: QuantBlock,
    granularity: ScaleGranularity,
}

impl<'a> ActivationView<'a> {
    /// Checks lengths, codes and scales.
    pub fn new(
        codes: &'a [u8],
        scales: &'a [f32],
        [rows, cols]: [usize; 2],
        quant_block: QuantBlock,
        granularity: ScaleGranularity,
    ) -> Result<Self, QuantizeError> {
        Mat::new(codes, rows, cols)?;
        check_scale_count("activation", scales, [rows, cols], granularity.rows(quant_block), quant_block)?;
        largest_scale("activation", scales, quant_block.count(cols))?;
        check_codes("activation", codes, cols)?;
        Ok(Self { codes, scales, rows, cols, quant_block, granularity })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns: the K of the multiplication.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Side of a block.
    pub fn quant_block(&self) -> QuantBlock {
        self.quant_block
    }

    /// Granularity of the scales.
    pub fn granularity(&self) -> ScaleGranularity {
        self.granularity
    }

    /// The f8e4m3fn codes, row-major.
    pub fn codes(&self) -> &'a [u8] {
        self.codes
    }

    /// The scales, row-major by block.
    pub fn scales(&self) -> &'a [f32] {
        self.scales
    }
}

impl<'a> From<&'a QuantizedActivation> for ActivationView<'a> {
    fn from(x: &'a QuantizedActivation) -> Self {
        Self {
            codes: x.codes(),
            scales: x.scales(),
            rows: x.rows(),
            cols: x.cols(),
            quant_block: x.quant_block(),
            granularity: x.granularity(),
        }
    }
}

/// Rejects scales that do not cover a matrix of `[rows, cols]`.
pub(crate) fn check_scale_count(
    what: &'static str,
    scales: &[f32],
    [rows, cols]: [usize; 2],
    block_rows: usize,
    quant_block: QuantBlock,
) -> Result<(), QuantizeError> {
    let (needed, held) = (rows.div_ceil(block_rows) * quant_block.count(cols), scales.len());
    if held == needed {
        return Ok(());
    }
    let block_cols = quant_block.size();
    Err(QuantizeError::ScaleCount { what, rows, cols, block_rows, block_cols, needed, held })
}

/// Rejects NaN among contiguous rows of codes.
pub(crate) fn check_codes(what: &'static str, codes: &[u8], cols: usize) -> Result<(), QuantizeError> {
    let is_nan = |code: &u8| E4m3::from_bits(*code).is_nan();
    // Without an early exit the loop is vectorized.
    if !codes.iter().fold(false, |any, code| any | is_nan(code)) {
        return Ok(());
    }
    let at = codes.iter().position(is_nan).unwrap_or_default();
    Err(QuantizeError::NonFinite { what, row: at / cols, col: at % cols, value: f32::NAN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_values_that_do_not_fit_are_named() {
        let block = QuantBlock::B128;
        assert!(WeightView::new(&[0; 7], &[1.0], [2, 4], block).is_err());
        assert!(WeightView::new(&[0; 9], &[1.0], [2, 4], block).is_err());
        assert!(WeightView::new(&[0; 8], &[], [2, 4], block).is_err());
        assert!(WeightView::new(&[], &[], [0, 4], block).is_err());
        let check = |scale: f32| WeightView::new(&[0; 8], &[scale], [2, 4], block).unwrap().check_scales();
        for bad in [f32::NAN, f32::INFINITY, -1.0, -f32::NAN] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.starts_with("weight scale of block (0, 0) is"), "{error}");
        }
        assert_eq!(check(-0.0), Ok(0.0));
        let mut codes = [0; 8];
        codes[6] = 0xff;
        let error = WeightView::new(&codes, &[1.0], [2, 4], block).unwrap().check_codes().unwrap_err();
        assert!(error.to_string().starts_with("weight holds NaN at row 1, column 2"), "{error}");
        let token = ScaleGranularity::Token;
        assert!(ActivationView::new(&codes, &[1.0; 2], [2, 4], block, token).is_err());
        assert!(ActivationView::new(&[0; 8], &[1.0], [2, 4], block, token).is_err());
        assert!(ActivationView::new(&[0; 8], &[1.0, -1.0], [2, 4], block, token).is_err());
        assert!(ActivationView::new(&[0; 8], &[1.0; 2], [2, 4], block, token).is_ok());
    }
}

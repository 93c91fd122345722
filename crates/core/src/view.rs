//! Operands in 8 bits that stay where the caller has them.

use crate::{
    E4m3, Mat, QuantBlock, QuantizeError, QuantizedActivation, QuantizedWeight, ScaleGranularity,
    ScaleLayout,
    quantize::{largest_magnitude, largest_scale},
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

/// Borrowed activations of `m x k` codes, row-major, with one scale per block or token group in any layout.
#[derive(Debug, Clone, Copy)]
pub struct ActivationView<'a> {
    codes: &'a [u8],
    scales: &'a [f32],
    scale_layout: ScaleLayout,
    largest_scale: f32,
    rows: usize,
    cols: usize,
    quant_block: QuantBlock,
    granularity: ScaleGranularity,
}

impl<'a> ActivationView<'a> {
    /// Checks lengths, codes and scales; these are K-major without padding, unless a layout is given.
    pub fn new(
        codes: &'a [u8],
        scales: &'a [f32],
        scale_layout: Option<ScaleLayout>,
        [rows, cols]: [usize; 2],
        quant_block: QuantBlock,
        granularity: ScaleGranularity,
    ) -> Result<Self, QuantizeError> {
        Mat::new(codes, rows, cols)?;
        let block_rows = granularity.rows(quant_block);
        let shape = (rows.div_ceil(block_rows), quant_block.count(cols));
        match scale_layout {
            Some(layout) if layout.span(shape) > scales.len() => {
                let ScaleLayout { row, k } = layout;
                let (needed, held) = (layout.span(shape), scales.len());
                return Err(QuantizeError::ScaleStrides { row, k, needed, held });
            }
            Some(_) => {}
            None => check_scale_count("activation", scales, [rows, cols], block_rows, quant_block)?,
        }
        let scale_layout = scale_layout.unwrap_or(ScaleLayout::k_major(shape));
        // Slice by slice, because padding may hold anything.
        let largest_scale = scale_layout
            .slices(scales, shape)
            .try_fold(0.0, |largest: f32, part| Ok(largest.max(largest_scale("activation", part, 1)?)))
            .or_else(|_: QuantizeError| {
                largest_scale("activation", &scale_layout.to_k_major(scales, shape), shape.1)
            })?;
        check_codes("activation", codes, cols)?;
        Ok(Self { codes, scales, scale_layout, largest_scale, rows, cols, quant_block, granularity })
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

    /// The scales, and their layout.
    pub fn scales(&self) -> (&'a [f32], ScaleLayout) {
        (self.scales, self.scale_layout)
    }

    /// The largest scale.
    pub fn largest_scale(&self) -> f32 {
        self.largest_scale
    }

    /// Copies the scales into K-major ones.
    pub fn k_major_scales(&self) -> Vec<f32> {
        let rows = self.rows.div_ceil(self.granularity.rows(self.quant_block));
        self.scale_layout.to_k_major(self.scales, (rows, self.quant_block.count(self.cols)))
    }
}

impl<'a> From<&'a QuantizedActivation> for ActivationView<'a> {
    fn from(x: &'a QuantizedActivation) -> Self {
        let k_blocks = x.quant_block().count(x.cols());
        Self {
            codes: x.codes(),
            scales: x.scales(),
            scale_layout: ScaleLayout::k_major((x.scales().len() / k_blocks, k_blocks)),
            largest_scale: largest_magnitude(x.scales()),
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
        let view = |codes, scales| {
            ActivationView::new(codes, scales, None, [2, 4], block, ScaleGranularity::Token).map(drop)
        };
        assert!(view(&codes, &[1.0; 2]).is_err());
        assert!(view(&[0; 8], &[1.0]).is_err());
        assert!(view(&[0; 8], &[1.0, -1.0]).is_err());
        assert_eq!(view(&[0; 8], &[1.0; 2]), Ok(()));
    }

    #[test]
    fn scales_of_any_layout_are_checked_without_their_padding() {
        let (shape, values) = ((3, 2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        fn view(scales: &[f32], layout: ScaleLayout) -> Result<ActivationView<'_>, QuantizeError> {
            let (block, token) = (QuantBlock::B128, ScaleGranularity::Token);
            ActivationView::new(&[0; 3 * 200], scales, Some(layout), [3, 200], block, token)
        }
        let layouts = [(1, 3), (1, 4), (2, 1), (5, 1), (3, 2), (2, 7)].map(|(row, k)| ScaleLayout { row, k });
        for layout in layouts {
            let mut scales = vec![f32::NAN; layout.span(shape)];
            for (at, value) in values.into_iter().enumerate() {
                scales[at / 2 * layout.row + at % 2 * layout.k] = value;
            }
            let found = view(&scales, layout).unwrap();
            assert_eq!(
                (found.largest_scale(), &found.k_major_scales()[..]),
                (6.0, &values[..]),
                "{layout:?}"
            );
            scales[2 * layout.row] = f32::INFINITY;
            let refused = view(&scales, layout).unwrap_err().to_string();
            assert!(refused.starts_with("activation scale of block (2, 0) is inf"), "{refused}");
            let refused = view(&scales[1..], layout).unwrap_err();
            assert!(matches!(refused, QuantizeError::ScaleStrides { .. }), "{refused}");
        }
        // One scale for all rows.
        assert_eq!(
            view(&[1.0, 2.0], ScaleLayout { row: 0, k: 1 }).unwrap().k_major_scales(),
            [1.0, 2.0].repeat(3)
        );
        let far = ScaleLayout { row: usize::MAX, k: usize::MAX };
        let refused = view(&[1.0], far).unwrap_err().to_string();
        assert!(refused.ends_with("elements, but 1 were given"), "{refused}");
    }
}

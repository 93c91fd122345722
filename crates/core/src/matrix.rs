//! Borrowed row-major matrices with a row stride.

/// A matrix shape that does not fit its slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A dimension is zero.
    #[error("a matrix of {rows} x {cols} is empty: every dimension must be at least 1")]
    Empty {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
    },
    /// Rows would overlap.
    #[error("row stride {stride} is less than the {cols} columns of a row")]
    StrideTooSmall {
        /// Row stride in elements.
        stride: usize,
        /// Elements in a row.
        cols: usize,
    },
    /// The slice is too short.
    #[error(
        "a {rows} x {cols} matrix with row stride {stride} needs {needed} elements, but the slice has \
         {held}"
    )]
    TooShort {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Row stride in elements.
        stride: usize,
        /// Elements that the matrix spans.
        needed: usize,
        /// Elements of the slice.
        held: usize,
    },
    /// The slice is longer than rows x cols: its row stride is probably larger than `cols`.
    #[error(
        "a contiguous {rows} x {cols} matrix has {needed} elements, but the slice has {held}: shorten the \
         slice, or pass the row stride to `with_stride`"
    )]
    TooLong {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Elements that the matrix spans.
        needed: usize,
        /// Elements of the slice.
        held: usize,
    },
    /// The element count does not fit in memory.
    #[error("a {rows} x {cols} matrix with row stride {stride} is larger than this machine can address")]
    TooLarge {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Row stride in elements.
        stride: usize,
    },
}

/// Elements that a matrix spans, from its first to its last.
fn span(rows: usize, cols: usize, stride: usize) -> Result<usize, ShapeError> {
    if rows == 0 || cols == 0 {
        return Err(ShapeError::Empty { rows, cols });
    }
    if stride < cols {
        return Err(ShapeError::StrideTooSmall { stride, cols });
    }
    (rows - 1)
        .checked_mul(stride)
        .and_then(|before_last| before_last.checked_add(cols))
        .ok_or(ShapeError::TooLarge { rows, cols, stride })
}

/// Rejects a slice that is longer than its contiguous rows.
fn require_no_rest(rows: usize, cols: usize, held: usize) -> Result<(), ShapeError> {
    let needed = span(rows, cols, cols)?;
    if held > needed {
        return Err(ShapeError::TooLong { rows, cols, needed, held });
    }
    Ok(())
}

/// A read-only row-major matrix.
#[derive(Debug)]
pub struct Mat<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

// Derived `Clone` and `Copy` would require `T: Copy`, which a borrowed view does not need.
impl<T> Clone for Mat<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Mat<'_, T> {}

impl<'a, T> Mat<'a, T> {
    /// A matrix of contiguous rows that fill the slice.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Result<Self, ShapeError> {
        require_no_rest(rows, cols, data.len())?;
        Self::with_stride(data, rows, cols, cols)
    }

    /// A matrix with a row stride. The slice may extend beyond the last row.
    pub fn with_stride(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Result<Self, ShapeError> {
        let needed = span(rows, cols, stride)?;
        let held = data.len();
        let data = data.get(..needed).ok_or(ShapeError::TooShort { rows, cols, stride, needed, held })?;
        Ok(Self { data, rows, cols, stride })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row stride in elements.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns a row. Panics when it is out of range, like slice indexing.
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.data[row * self.stride..][..self.cols]
    }

    /// All elements from the first to the last, with the gaps between rows.
    pub fn as_slice(&self) -> &'a [T] {
        self.data
    }
}

/// A mutable row-major matrix. Gaps between rows are never written.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, T> MatMut<'a, T> {
    /// A matrix of contiguous rows that fill the slice.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self, ShapeError> {
        require_no_rest(rows, cols, data.len())?;
        Self::with_stride(data, rows, cols, cols)
    }

    /// A matrix with a row stride. The slice may extend beyond the last row.
    pub fn with_stride(
        data: &'a mut [T],
        rows: usize,
        cols: usize,
        stride: usize,
    ) -> Result<Self, ShapeError> {
        let needed = span(rows, cols, stride)?;
        let held = data.len();
        let data = data.get_mut(..needed).ok_or(ShapeError::TooShort { rows, cols, stride, needed, held })?;
        Ok(Self { data, rows, cols, stride })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row stride in elements.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns a row. Panics when it is out of range, like slice indexing.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.stride..][..self.cols]
    }

    /// All elements from the first to the last, with the gaps between rows.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_needs_no_trailing_gap() {
        let data: Vec<u8> = (0..8).collect();
        let mat = Mat::with_stride(&data, 2, 3, 5).unwrap();
        assert_eq!(mat.row(0), [0, 1, 2]);
        assert_eq!(mat.row(1), [5, 6, 7]);
    }

    #[test]
    fn bad_shapes_are_refused_by_name() {
        let data = [0u8; 8];
        let error = |rows, cols, stride| Mat::with_stride(&data, rows, cols, stride).unwrap_err();
        assert_eq!(error(0, 3, 3), ShapeError::Empty { rows: 0, cols: 3 });
        assert_eq!(error(2, 3, 2), ShapeError::StrideTooSmall { stride: 2, cols: 3 });
        assert!(matches!(error(3, 3, 3), ShapeError::TooShort { needed: 9, held: 8, .. }));
        assert!(matches!(error(usize::MAX, 3, usize::MAX), ShapeError::TooLarge { .. }));
    }

    #[test]
    fn a_slice_that_is_longer_than_the_matrix_needs_a_stride() {
        let mut data: Vec<u8> = (0..8).collect();
        let too_long = ShapeError::TooLong { rows: 2, cols: 3, needed: 6, held: 8 };
        assert_eq!(Mat::new(&data, 2, 3).unwrap_err(), too_long);
        assert_eq!(MatMut::new(&mut data, 2, 3).unwrap_err(), too_long);
        assert_eq!(
            too_long.to_string(),
            "a contiguous 2 x 3 matrix has 6 elements, but the slice has 8: shorten the slice, or pass the row \
             stride to `with_stride`"
        );
        assert!(matches!(Mat::new(&data, usize::MAX, 3).unwrap_err(), ShapeError::TooLarge { .. }));
        assert!(matches!(Mat::new(&data, 0, 3).unwrap_err(), ShapeError::Empty { .. }));
        assert_eq!(Mat::new(&data, 2, 4).unwrap().row(1), [4, 5, 6, 7]);
        assert_eq!(Mat::with_stride(&data, 2, 3, 3).unwrap().row(1), [3, 4, 5]);
    }
}

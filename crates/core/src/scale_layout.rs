//! The order of scales in memory.

/// Strides of a scale matrix, in elements. K-major (row-major) has `k: 1`, MN-major (column-major) has
/// `row: 1`; kernels take both, with or without padding.
///
/// ```
/// use octile_core::ScaleLayout;
///
/// let (rows, k_blocks) = (5, 3);
/// let padded = ScaleLayout { row: 1, k: 8 }; // MN-major, every k-block padded to 8 scales
/// assert_eq!(padded.span((rows, k_blocks)), 2 * 8 + 5);
/// assert_eq!(ScaleLayout::k_major((rows, k_blocks)), ScaleLayout { row: 3, k: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleLayout {
    /// From the scale of one row (or block of rows) to the next.
    pub row: usize,
    /// From the scale of one k-block to the next.
    pub k: usize,
}

impl ScaleLayout {
    /// K-major: the scales of a row are adjacent.
    pub fn k_major((_, k_blocks): (usize, usize)) -> Self {
        Self { row: k_blocks, k: 1 }
    }

    /// MN-major: the scales of a k-block are adjacent.
    pub fn mn_major((rows, _): (usize, usize)) -> Self {
        Self { row: 1, k: rows }
    }

    /// Elements from the first scale to the end of the last.
    ///
    /// Saturates at `usize::MAX`, so that no memory is large enough for a layout that cannot be addressed.
    pub fn span(self, (rows, k_blocks): (usize, usize)) -> usize {
        let along_rows = rows.saturating_sub(1).saturating_mul(self.row);
        let along_k = k_blocks.saturating_sub(1).saturating_mul(self.k);
        along_rows.saturating_add(along_k).saturating_add(1)
    }

    /// Copies scales of this layout, which hold its [span](ScaleLayout::span), into K-major ones.
    ///
    /// # Panics
    /// If they hold less.
    pub fn to_k_major(self, scales: &[f32], (rows, k_blocks): (usize, usize)) -> Vec<f32> {
        (0..rows).flat_map(|row| (0..k_blocks).map(move |k| scales[row * self.row + k * self.k])).collect()
    }

    /// The scales without padding, as slices of adjacent ones.
    pub(crate) fn slices(
        self,
        scales: &[f32],
        (rows, k_blocks): (usize, usize),
    ) -> impl Iterator<Item = &[f32]> {
        let (outer, inner) = ((rows, self.row), (k_blocks, self.k));
        let (outer, inner) = if self.row == 1 { (inner, outer) } else { (outer, inner) };
        let (outer, apart, len) = match inner {
            (count, 1) if outer.1 == count => ((1, 0), (1, 0), count * outer.0),
            (count, 1) => (outer, (1, 0), count),
            _ => (outer, inner, 1),
        };
        (0..outer.0).flat_map(move |at| {
            (0..apart.0).map(move |within| &scales[at * outer.1 + within * apart.1..][..len])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With memory that holds the span and no more: every access out of bounds would panic.
    #[test]
    fn slices_hold_the_scales_of_any_layout_and_nothing_else() {
        let strides = |count| [0, 1, 2, 3, 4, 5, 9].into_iter().chain((count == 1).then_some(usize::MAX));
        for (rows, k_blocks) in (1..=4).flat_map(|rows| (1..=4).map(move |k_blocks| (rows, k_blocks))) {
            for (row, k) in strides(rows).flat_map(|row| strides(k_blocks).map(move |k| (row, k))) {
                let (layout, shape) = (ScaleLayout { row, k }, (rows, k_blocks));
                let scales: Vec<f32> = (0..layout.span(shape)).map(|at| at as f32).collect();
                let mut expected = layout.to_k_major(&scales, shape);
                assert_eq!(expected.len(), rows * k_blocks);
                let mut sliced: Vec<f32> = layout.slices(&scales, shape).flatten().copied().collect();
                expected.sort_by(f32::total_cmp);
                sliced.sort_by(f32::total_cmp);
                assert_eq!(sliced, expected, "{layout:?} of {shape:?}");
            }
        }
    }

    #[test]
    fn no_memory_holds_a_layout_that_cannot_be_addressed() {
        for (row, k) in [(usize::MAX, 1), (1, usize::MAX), (usize::MAX, usize::MAX), (usize::MAX / 2, 1)] {
            assert!(ScaleLayout { row, k }.span((3, 2)) > isize::MAX as usize);
        }
    }
}

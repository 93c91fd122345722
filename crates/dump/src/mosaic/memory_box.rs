//! Boxes inside the buffers of a kernel.

use octile_mosaic::Value;

use crate::flight::MemoryRange;

/// A box inside a buffer: an argument of the kernel, or memory that it allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryBox {
    pub root: Value,
    /// Offset along each dimension of the buffer, where it is known.
    offsets: Vec<Option<i64>>,
    /// Extent along each dimension of the buffer.
    sizes: Vec<i64>,
    /// The dimensions of the buffer that the view still has.
    kept: Vec<usize>,
}

impl MemoryBox {
    /// A whole buffer.
    pub(super) fn whole(root: Value, shape: &[usize]) -> Self {
        let sizes: Vec<_> = shape.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX)).collect();
        Self { root, offsets: vec![Some(0); sizes.len()], kept: (0..sizes.len()).collect(), sizes }
    }

    /// The box of shape `shape` at `index`. A shape of fewer dimensions means the last ones.
    pub(super) fn slice(&self, index: &[Option<i64>], shape: &[usize]) -> Self {
        let mut slice = self.clone();
        let leading = self.kept.len().saturating_sub(shape.len());
        for (position, &dimension) in self.kept.iter().enumerate() {
            let extent = position.checked_sub(leading).and_then(|position| shape.get(position));
            let extent = extent.map_or(1, |&extent| i64::try_from(extent).unwrap_or(i64::MAX));
            let step = index.get(position).copied().flatten();
            if let Some(offset) = slice.offsets.get_mut(dimension) {
                *offset = offset.zip(step).map(|(offset, step)| offset.saturating_add(step));
            }
            if let Some(size) = slice.sizes.get_mut(dimension) {
                *size = extent;
            }
        }
        slice
    }

    /// Drops dimensions of extent 1 so that `shape` remains.
    pub(super) fn squeeze(&self, shape: &[usize]) -> Option<Self> {
        let mut left = shape.iter().peekable();
        let mut kept = Vec::new();
        for &dimension in &self.kept {
            let size = *self.sizes.get(dimension)?;
            if left.peek().is_some_and(|&&extent| i64::try_from(extent) == Ok(size)) {
                left.next();
                kept.push(dimension);
            } else if size != 1 {
                return None;
            }
        }
        left.peek().is_none().then(|| Self { kept, ..self.clone() })
    }

    /// The offsets, if all are known.
    pub(super) fn place(&self) -> Option<Vec<i64>> {
        self.offsets.iter().copied().collect()
    }

    /// Whether it lies within a buffer of this shape, as far as the offsets are known.
    pub(super) fn is_within(&self, shape: &[usize]) -> bool {
        let ends = self.offsets.iter().zip(&self.sizes).zip(shape);
        ends.into_iter().all(|((offset, size), &extent)| {
            let end = offset.map(|offset| (offset, offset.saturating_add(*size)));
            end.is_none_or(|(start, end)| start >= 0 && usize::try_from(end).is_ok_and(|end| end <= extent))
        })
    }

    /// Its first element.
    pub(super) fn first_element(&self) -> Self {
        Self { sizes: vec![1; self.sizes.len()], ..self.clone() }
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> i64 {
        self.sizes.iter().fold(1, |product, &size| product.saturating_mul(size))
    }

    /// The bounding box of a strided access; `strides` are those of the last dimensions.
    pub(super) fn stretched(&self, strides: &[i64]) -> Self {
        let mut box_around = self.clone();
        for (&dimension, &stride) in self.kept.iter().rev().zip(strides.iter().rev()) {
            if let Some(size) = box_around.sizes.get_mut(dimension) {
                *size = (*size - 1).saturating_mul(stride).saturating_add(1);
            }
        }
        box_around
    }

    /// A box of the same shape anywhere in the buffer.
    pub(super) fn somewhere(&self) -> Self {
        Self { offsets: vec![None; self.offsets.len()], ..self.clone() }
    }
}

impl MemoryRange for MemoryBox {
    /// `None` where that depends on an unknown offset.
    fn overlaps(&self, other: &Self) -> Option<bool> {
        if self.root != other.root {
            return Some(false);
        }
        let meets = |dimension: usize| {
            let range = |region: &Self| {
                let start = region.offsets.get(dimension).copied().flatten()?;
                Some((start, start.saturating_add(*region.sizes.get(dimension)?)))
            };
            let ((a, b), (c, d)) = range(self).zip(range(other))?;
            Some(a < d && c < b)
        };
        let meetings: Vec<_> = (0..self.sizes.len()).map(meets).collect();
        match () {
            () if meetings.contains(&Some(false)) => Some(false),
            () if meetings.contains(&None) => None,
            () => Some(true),
        }
    }
}

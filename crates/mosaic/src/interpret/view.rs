//! Views, the runtime form of memrefs: part of a buffer with a shape and strides.

use std::sync::Arc;

use super::{element::Element, finding::Range};

/// Extent and stride of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) extent: usize,
    /// Stride in bytes, or semaphores.
    pub(crate) stride: usize,
}

/// An out-of-bounds access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) dimension: usize,
    pub(crate) index: i64,
    pub(crate) size: usize,
    pub(crate) extent: usize,
}

/// A strided view of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) buffer: usize,
    /// Offset in bytes, or semaphores, from the start of the buffer.
    pub(crate) offset: usize,
    pub(crate) dims: Vec<Dim>,
    /// Element type; `None` for semaphores.
    pub(crate) element: Option<Element>,
    /// Set if it was sliced out of bounds; an error once used.
    pub(crate) outside: Option<Arc<Outside>>,
    /// The rows that share a word, if each element is made of several narrower ones of the buffer.
    pub(crate) packed: Option<Dim>,
}

impl View {
    /// A whole row-major buffer.
    pub(crate) fn whole(buffer: usize, shape: &[usize], element: Option<Element>) -> Self {
        let unit = element.map_or(1, Element::bytes);
        Self { buffer, offset: 0, dims: row_major(shape, unit), element, outside: None, packed: None }
    }

    pub(crate) fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|dim| dim.extent).collect()
    }

    /// Element size in the buffer's unit.
    pub(crate) fn unit(&self) -> usize {
        self.element.map_or(1, Element::bytes)
    }

    /// Saturates: an out-of-bounds view may have any extent.
    pub(crate) fn elements(&self) -> usize {
        self.dims.iter().fold(1, |all: usize, dim| all.saturating_mul(dim.extent))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.unit())
    }

    /// Slices at `start` with extents `sizes`, one per dimension.
    pub(crate) fn slice(&self, start: impl Iterator<Item = i64>, sizes: &[usize]) -> Self {
        let mut view = self.clone();
        for (dimension, (index, &size)) in start.zip(sizes).enumerate() {
            let dim = &mut view.dims[dimension];
            let fits = |index: &usize| index.checked_add(size).is_some_and(|end| end <= dim.extent);
            let inside = usize::try_from(index).ok().filter(fits);
            match inside {
                // The offset is meaningless once out of bounds.
                Some(index) if view.outside.is_none() => view.offset += index * dim.stride,
                Some(_) => {}
                None => {
                    let outside = Outside { dimension, index, size, extent: dim.extent };
                    view.outside.get_or_insert_with(|| Arc::new(outside));
                }
            }
            dim.extent = size;
        }
        view
    }

    /// Dimensions of the same elements in another shape; `None` if their strides do not allow it.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Option<Vec<Dim>> {
        if shape.contains(&0) {
            return Some(row_major(shape, self.unit()));
        }
        let mut old = self.dims.iter().rev().filter(|dim| dim.extent != 1).copied();
        // The part of an old dimension that no new one covers yet.
        let mut rest = Dim { extent: 1, stride: self.unit() };
        let mut dims = Vec::with_capacity(shape.len());
        for &extent in shape.iter().rev() {
            let mut dim = Dim { extent: 1, stride: rest.stride };
            while dim.extent < extent {
                if rest.extent == 1 {
                    let next = old.next()?;
                    let joins = dim.extent == 1 || next.stride == dim.stride.checked_mul(dim.extent)?;
                    dim.stride = if dim.extent == 1 { next.stride } else { dim.stride };
                    rest = next;
                    if !joins {
                        return None;
                    }
                }
                let wanted = extent / dim.extent;
                let taken = if rest.extent <= wanted { rest.extent } else { wanted };
                if taken < 2
                    || !rest.extent.is_multiple_of(taken)
                    || !extent.is_multiple_of(dim.extent * taken)
                {
                    return None;
                }
                dim.extent *= taken;
                rest = Dim { extent: rest.extent / taken, stride: rest.stride.checked_mul(taken)? };
            }
            dims.push(Dim { extent, ..dim });
        }
        dims.reverse();
        (rest.extent == 1 && old.next().is_none()).then_some(dims)
    }

    /// The same memory as elements of another type: rows of narrow elements share a 32-bit word. `None` if
    /// the rows of this view are not laid out for it.
    pub(crate) fn bitcast(&self, element: Element, shape: &[usize]) -> Option<Self> {
        let (from, to) = (self.unit(), element.bytes());
        let mut view = Self { element: Some(element), ..self.clone() };
        if from == to {
            return Some(view);
        }
        let (row, extent) = (self.dims.len().checked_sub(2)?, *shape.get(shape.len().checked_sub(2)?)?);
        let rows = self.dims[row];
        if from < to && self.packed.is_none() {
            let ratio = to / from;
            view.packed = Some(Dim { extent: ratio, stride: rows.stride });
            view.dims[row] = Dim { extent, stride: rows.stride.checked_mul(ratio)? };
            return Some(view);
        }
        let packed = self.packed.filter(|packed| from / to == packed.extent)?;
        if rows.extent > 1 && rows.stride != packed.stride.checked_mul(packed.extent)? {
            return None;
        }
        view.packed = None;
        view.dims[row] = Dim { extent, stride: packed.stride };
        Some(view)
    }

    /// Bytes that lie together in the buffer: an element, or its part in one row.
    fn piece(&self) -> usize {
        self.unit() / self.packed.map_or(1, |packed| packed.extent.max(1))
    }

    /// One row of the innermost dimension, numbered in row-major order.
    pub(crate) fn row(&self, number: usize) -> Self {
        let Some((last, outer)) = self.dims.split_last() else { return self.clone() };
        let mut rest = number;
        let mut start = vec![0; self.dims.len()];
        for (dimension, dim) in outer.iter().enumerate().rev() {
            start[dimension] = (rest % dim.extent.max(1)) as i64;
            rest /= dim.extent.max(1);
        }
        let sizes: Vec<usize> = outer.iter().map(|_| 1).chain([last.extent]).collect();
        self.slice(start.into_iter(), &sizes)
    }

    /// One element of a row.
    pub(crate) fn column(&self, number: usize) -> Self {
        let last = self.dims.len().saturating_sub(1);
        let start = (0..self.dims.len()).map(|i| if i == last { number as i64 } else { 0 });
        self.slice(start, &vec![1; self.dims.len()])
    }

    /// Visits each contiguous run as offset and length, in row-major order.
    pub(crate) fn runs(&self, mut visit: impl FnMut(usize, usize)) {
        // Inner dimensions without gaps form one run.
        let mut run = self.piece();
        let all: Vec<Dim> = self.dims.iter().copied().chain(self.packed).collect();
        let mut outer = all.len();
        while outer > 0 && (all[outer - 1].stride == run || all[outer - 1].extent == 1) {
            run *= all[outer - 1].extent;
            outer -= 1;
        }
        let outer = &all[..outer];
        if run == 0 || outer.iter().any(|dim| dim.extent == 0) {
            return;
        }
        let mut index = vec![0; outer.len()];
        let mut offset = self.offset;
        loop {
            visit(offset, run);
            let mut dimension = outer.len();
            loop {
                if dimension == 0 {
                    return;
                }
                dimension -= 1;
                index[dimension] += 1;
                offset += outer[dimension].stride;
                if index[dimension] < outer[dimension].extent {
                    break;
                }
                offset -= outer[dimension].stride * outer[dimension].extent;
                index[dimension] = 0;
            }
        }
    }

    /// Region of the buffer that this view covers, in the buffer's own indices where possible.
    pub(crate) fn region(&self, shape: &[usize], unit: usize) -> Region {
        // A unit dimension may have any stride.
        let reach = |dim: &Dim| dim.extent.saturating_sub(1).saturating_mul(dim.stride);
        let dims = self.dims.iter().chain(&self.packed);
        let last = dims.fold(self.piece(), |all, dim| all.saturating_add(reach(dim)));
        let span = (self.offset, self.offset.saturating_add(if self.elements() == 0 { 0 } else { last }));
        let dense = row_major(shape, unit);
        let mut ranges: Vec<Range> = Vec::with_capacity(shape.len());
        let mut rest = self.offset;
        for dim in &dense {
            ranges.push(Range { start: rest / dim.stride.max(1), len: 1 });
            rest %= dim.stride.max(1);
        }
        let mut fits = rest == 0 && self.unit() == unit;
        for dim in self.dims.iter().filter(|dim| dim.extent != 1) {
            let base = dense.iter().position(|base| base.stride == dim.stride && base.extent > 1);
            match base {
                Some(base) if ranges[base].start + dim.extent <= dense[base].extent => {
                    ranges[base].len = dim.extent
                }
                _ => fits = false,
            }
        }
        Region { span, ranges: fits.then_some(ranges) }
    }
}

/// Above this many boxes, an access is approximated by its span.
const MAX_BOXES: usize = 1 << 10;

impl View {
    /// The narrow elements of the buffer that this view of words covers, in any order.
    fn unpacked(&self, packed: Dim, shape: &[usize], unit: usize) -> Option<Self> {
        let dense = row_major(shape, unit);
        let is_dense = |dim: &Dim| dim.extent == 1 || dense.iter().any(|base| base.stride == dim.stride);
        let words = packed.stride.checked_mul(packed.extent)?;
        let mut narrow = Self { packed: None, element: Some(Element::Integer(unit)), ..self.clone() };
        match narrow.dims.iter_mut().find(|dim| !is_dense(dim) && dim.stride == words) {
            // Neighbouring words hold neighbouring rows.
            Some(rows) => {
                *rows = Dim { extent: rows.extent.checked_mul(packed.extent)?, stride: packed.stride }
            }
            None => narrow.dims.push(packed),
        }
        (self.piece() == unit).then_some(narrow)
    }

    /// Regions that this view covers: one, or one per index of its strided dimensions.
    pub(crate) fn regions(&self, shape: &[usize], unit: usize) -> Vec<Region> {
        if let Some(packed) = self.packed {
            return self
                .unpacked(packed, shape, unit)
                .map_or_else(|| vec![self.region(shape, unit)], |narrow| narrow.regions(shape, unit));
        }
        let whole = self.region(shape, unit);
        let dense = row_major(shape, unit);
        let strided = |dim: &Dim| dim.extent > 1 && !dense.iter().any(|base| base.stride == dim.stride);
        let pieces = self
            .dims
            .iter()
            .filter(|dim| strided(dim))
            .fold(1, |all: usize, dim| all.saturating_mul(dim.extent));
        let Some(dimension) = self.dims.iter().position(strided).filter(|_| pieces <= MAX_BOXES) else {
            return vec![whole];
        };
        let piece = |index: usize| {
            let mut view = self.clone();
            view.offset += index * view.dims[dimension].stride;
            view.dims[dimension].extent = 1;
            view.regions(shape, unit)
        };
        (0..self.dims[dimension].extent).flat_map(piece).collect()
    }
}

/// Memory region of an access.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Region {
    /// Byte range.
    pub(crate) span: (usize, usize),
    /// Per-dimension ranges of the buffer, if the access is a box.
    pub(crate) ranges: Option<Vec<Range>>,
}

impl Region {
    /// Returns whether two regions overlap; conservatively true.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        // Empty ranges meet nothing.
        let meet = |a: (usize, usize), b: (usize, usize)| a.0.max(b.0) < a.1.min(b.1);
        if !meet(self.span, other.span) {
            return false;
        }
        match (&self.ranges, &other.ranges) {
            (Some(a), Some(b)) => {
                let bounds = |range: &Range| (range.start, range.start + range.len);
                a.iter().zip(b).all(|(a, b)| meet(bounds(a), bounds(b)))
            }
            _ => true,
        }
    }
}

impl Region {
    /// The union of two boxes, if it is a box too.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.ranges.as_ref()?, other.ranges.as_ref()?);
        let mut different = (0..a.len().min(b.len())).filter(|&i| a[i] != b[i]);
        let dimension = different.next()?;
        if different.next().is_some() || a.len() != b.len() {
            return None;
        }
        let (first, second) = match a[dimension].start <= b[dimension].start {
            true => (a[dimension], b[dimension]),
            false => (b[dimension], a[dimension]),
        };
        let end = |range: Range| range.start + range.len;
        if end(first) < second.start {
            return None;
        }
        let mut ranges = a.clone();
        ranges[dimension] = Range { start: first.start, len: end(first).max(end(second)) - first.start };
        let span = (self.span.0.min(other.span.0), self.span.1.max(other.span.1));
        Some(Self { span, ranges: Some(ranges) })
    }
}

pub(crate) fn row_major(shape: &[usize], unit: usize) -> Vec<Dim> {
    let mut stride = unit;
    let mut dims: Vec<Dim> = Vec::with_capacity(shape.len());
    for &extent in shape.iter().rev() {
        dims.push(Dim { extent, stride });
        stride = stride.saturating_mul(extent);
    }
    dims.reverse();
    dims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Float;

    fn view(shape: &[usize]) -> View {
        View::whole(0, shape, Some(Element::Float(Float::F32)))
    }

    #[test]
    fn runs_cover_a_slice_in_order() {
        let slice = view(&[2, 3, 4]).slice([1, 1, 0].into_iter(), &[1, 2, 4]);
        let mut runs = Vec::new();
        slice.runs(|offset, len| runs.push((offset, len)));
        assert_eq!(runs, [((12 + 4) * 4, 2 * 4 * 4)]);
        let column = view(&[3, 4]).slice([0, 1].into_iter(), &[3, 2]);
        runs.clear();
        column.runs(|offset, len| runs.push((offset, len)));
        assert_eq!(runs, [(4, 8), (20, 8), (36, 8)]);
    }

    #[test]
    fn a_reshape_joins_and_splits_dimensions_whose_strides_allow_it() {
        let strides = |view: &View, shape: &[usize]| -> Option<Vec<usize>> {
            view.reshaped(shape).map(|dims| dims.iter().map(|dim| dim.stride).collect())
        };
        let whole = view(&[4, 6, 8]);
        assert_eq!(strides(&whole, &[24, 8]), Some(vec![32, 4]));
        assert_eq!(strides(&whole, &[2, 2, 48]), Some(vec![384, 192, 4]));
        assert_eq!(strides(&whole, &[2, 12, 8]), Some(vec![384, 32, 4]));
        assert_eq!(strides(&whole, &[4, 1, 6, 8, 1]).map(|s| s[0]), Some(192));
        let part = whole.slice([0, 0, 0].into_iter(), &[4, 3, 8]);
        assert_eq!(strides(&part, &[4, 24]), Some(vec![192, 4]));
        assert_eq!(strides(&part, &[12, 8]), None);
        assert_eq!(strides(&part, &[2, 2, 3, 8]), Some(vec![384, 192, 32, 4]));
    }

    #[test]
    fn rows_of_narrow_elements_share_a_word() {
        let narrow = View::whole(0, &[4, 3], Some(Element::Float(Float::Bf16)));
        let words = narrow.bitcast(Element::Integer(4), &[2, 3]).unwrap();
        let mut runs = Vec::new();
        words.slice([1, 1].into_iter(), &[1, 1]).runs(|offset, len| runs.push((offset, len)));
        // Rows 2 and 3 of column 1.
        assert_eq!(runs, [(2 * 6 + 2, 2), (3 * 6 + 2, 2)]);
        let back = words.bitcast(Element::Integer(2), &[4, 3]).unwrap();
        assert_eq!((back.dims, back.packed), (narrow.dims, None));
    }

    #[test]
    fn words_cover_the_rows_that_they_pack_and_no_others() {
        let shape = [2, 8, 6, 4];
        let narrow = View::whole(0, &shape, Some(Element::Float(Float::Bf16)));
        let rows = narrow.slice([1, 2, 0, 1].into_iter(), &[1, 3, 6, 2]);
        let words = rows.bitcast(Element::Integer(4), &[1, 3, 3, 2]).unwrap();
        let second = words.slice([0, 0, 1, 0].into_iter(), &[1, 3, 1, 2]);
        assert_eq!(second.regions(&shape, 2).len(), 1);
        assert_eq!(words.regions(&shape, 2), rows.regions(&shape, 2));
        let meets = |start: [i64; 4]| {
            let other = narrow.slice(start.into_iter(), &[1, 1, 1, 1]).region(&shape, 2);
            second.regions(&shape, 2).iter().any(|region| region.overlaps(&other))
        };
        assert!(meets([1, 3, 2, 1]) && meets([1, 3, 3, 2]));
        assert!(!meets([1, 3, 4, 1]) && !meets([1, 3, 2, 0]) && !meets([1, 3, 1, 2]));
    }

    #[test]
    fn boxes_that_only_interleave_do_not_overlap() {
        let whole = view(&[4, 8]);
        let region =
            |start: [i64; 2], sizes: [usize; 2]| whole.slice(start.into_iter(), &sizes).region(&[4, 8], 4);
        let (left, right) = (region([0, 0], [4, 4]), region([0, 4], [4, 4]));
        assert!(!left.overlaps(&right));
        assert!(left.overlaps(&region([3, 3], [1, 2])));
        assert!(whole.slice([2, 0].into_iter(), &[3, 8]).outside.is_some());
    }
}

//! Buffers with one initialized bit per element.

use std::{collections::TryReserveError, sync::Arc};

use super::{
    element::Element,
    finding::{Area, Range, Trouble},
    track::Visit,
    view::{View, row_major},
    writers::Writers,
};
use crate::types::MemorySpace;

/// Which elements are initialized.
#[derive(Clone, Debug)]
enum Written {
    /// All of them.
    All,
    /// Those whose bit is set.
    Some(Vec<u64>),
}

/// A buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) space: MemorySpace,
    pub(crate) shape: Vec<usize>,
    /// Element type; `None` for semaphores.
    pub(crate) element: Option<Element>,
    /// Contents, shared with the operand that they come from until they are written.
    pub(crate) bytes: Arc<Vec<u8>>,
    written: Written,
    /// Which parallel steps wrote it, where that matters.
    pub(crate) tracked: Option<Box<Tracked>>,
    /// The earlier visit, if it holds a block of a result that was visited before.
    pub(crate) revisited: Option<Box<Visit>>,
    /// Whether it stands for memory behind an operand, not for one of the kernel's own buffers.
    pub(crate) is_far: bool,
    /// Whether it holds blocks of a result.
    pub(crate) is_result: bool,
    /// The first load of uninitialized elements that were stored to it.
    pub(crate) spoiled: Option<Box<Trouble>>,
}

/// Writers of a buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracked {
    pub(crate) writers: Writers,
}

impl Buffer {
    /// Allocates poisoned, uninitialized memory; fails if the host is out of memory.
    pub(crate) fn poisoned(
        name: String,
        space: MemorySpace,
        shape: &[usize],
        element: Option<Element>,
    ) -> Result<Self, TryReserveError> {
        let elements: usize = shape.iter().product();
        let bytes = filled_with(Element::POISON, element.map_or(0, |element| elements * element.bytes()))?;
        let written = Written::Some(filled_with(0, elements.div_ceil(64))?);
        Ok(Self { written, ..Self::filled_as(name, space, shape, element, bytes.into()) })
    }

    /// Allocates memory with contents.
    pub(crate) fn filled(
        name: String,
        space: MemorySpace,
        shape: &[usize],
        element: Element,
        bytes: Arc<Vec<u8>>,
    ) -> Self {
        Self::filled_as(name, space, shape, Some(element), bytes)
    }

    fn filled_as(
        name: String,
        space: MemorySpace,
        shape: &[usize],
        element: Option<Element>,
        bytes: Arc<Vec<u8>>,
    ) -> Self {
        Self {
            name,
            space,
            shape: shape.to_vec(),
            element,
            bytes,
            written: Written::All,
            tracked: None,
            revisited: None,
            is_far: false,
            is_result: false,
            spoiled: None,
        }
    }

    pub(crate) fn unit(&self) -> usize {
        self.element.map_or(1, Element::bytes)
    }

    pub(crate) fn view(&self, number: usize) -> View {
        View::whole(number, &self.shape, self.element)
    }

    /// Appends the bytes of `view` to `out`.
    pub(crate) fn gather(&self, view: &View, out: &mut Vec<u8>) {
        view.runs(|offset, len| out.extend_from_slice(&self.bytes[offset..][..len]));
    }

    /// Stores `bytes` to `view` and marks it initialized.
    pub(crate) fn scatter(&mut self, view: &View, bytes: &[u8]) {
        let mut at = 0;
        let own = Arc::make_mut(&mut self.bytes);
        view.runs(|offset, len| {
            own[offset..][..len].copy_from_slice(&bytes[at..][..len]);
            at += len;
        });
        self.mark(view, true);
    }

    /// Poisons `view` and marks it uninitialized.
    pub(crate) fn poison(&mut self, view: &View) {
        let own = Arc::make_mut(&mut self.bytes);
        view.runs(|offset, len| own[offset..][..len].fill(Element::POISON));
        self.mark(view, false);
    }

    /// Marks `view` initialized or not.
    pub(crate) fn mark(&mut self, view: &View, value: bool) {
        let unit = self.unit();
        let Written::Some(words) = &mut self.written else { return };
        view.runs(|offset, len| {
            let (from, to) = (offset / unit, (offset + len).div_ceil(unit));
            for_words(from, to, |word, mask| match value {
                true => words[word] |= mask,
                false => words[word] &= !mask,
            });
        });
    }

    /// Returns whether all of `view` is initialized.
    pub(crate) fn is_written(&self, view: &View) -> bool {
        let unit = self.unit();
        let Written::Some(words) = &self.written else { return true };
        let mut all = true;
        view.runs(|offset, len| {
            let (from, to) = (offset / unit, (offset + len).div_ceil(unit));
            for_words(from, to, |word, mask| all &= words[word] & mask == mask);
        });
        all
    }

    /// Which elements of `view` are uninitialized, in order.
    pub(crate) fn unwritten_elements(&self, view: &View) -> Vec<bool> {
        let Written::Some(words) = &self.written else { return vec![false; view.elements()] };
        let mut elements = Vec::with_capacity(view.elements());
        if self.has_elements_of(view) {
            let unit = self.unit();
            view.runs(|offset, len| {
                let indices = offset / unit..(offset + len) / unit;
                elements.extend(indices.map(|index| words[index / 64] >> (index % 64) & 1 == 0));
            });
            return elements;
        }
        let columns = view.dims.last().map_or(1, |dim| dim.extent);
        for row in 0..view.elements() / columns.max(1) {
            let row = view.row(row);
            elements.extend((0..columns).map(|column| !self.is_written(&row.column(column))));
        }
        elements
    }

    /// Marks those elements of `view`, in order, uninitialized that `lost` names by their number.
    pub(crate) fn lose(&mut self, view: &View, lost: impl Fn(usize) -> bool) {
        if !self.has_elements_of(view) {
            let columns = view.dims.last().map_or(1, |dim| dim.extent).max(1);
            let elements = (0..view.elements()).filter(|&element| lost(element));
            elements
                .for_each(|element| self.mark(&view.row(element / columns).column(element % columns), false));
            return;
        }
        let unit = self.unit();
        let Written::Some(words) = &mut self.written else { return };
        let mut number = 0;
        view.runs(|offset, len| {
            for index in offset / unit..(offset + len) / unit {
                words[index / 64] &= !(u64::from(lost(number)) << (index % 64));
                number += 1;
            }
        });
    }

    /// Returns whether the elements of `view` are those of the buffer, not several of them packed into one.
    fn has_elements_of(&self, view: &View) -> bool {
        view.packed.is_none() && view.unit() == self.unit()
    }

    /// Rows of `view`, by number, that are not initialized to the last element.
    pub(crate) fn unwritten_rows(&self, view: &View) -> Vec<usize> {
        if self.is_written(view) {
            return Vec::new();
        }
        let rows =
            view.dims.split_last().map_or(1, |(_, outer)| outer.iter().map(|dim| dim.extent).product());
        (0..rows).filter(|&row| !self.is_written(&view.row(row))).collect()
    }

    /// Formats one of its semaphores, `arg14[0, 2]`.
    pub(crate) fn semaphore_name(&self, index: usize) -> String {
        if self.shape.is_empty() {
            return self.name.clone();
        }
        let mut rest = index;
        let indices = row_major(&self.shape, 1).into_iter().map(|dim| {
            let index = rest / dim.stride.max(1);
            rest %= dim.stride.max(1);
            index
        });
        format!("{}[{}]", self.name, crate::types::join(indices, ", "))
    }

    /// Counts uninitialized elements, and finds the first.
    pub(crate) fn unwritten(&self) -> Option<(usize, Vec<Range>)> {
        let Written::Some(words) = &self.written else { return None };
        let elements: usize = self.shape.iter().product();
        let is_written = |element: &usize| words[element / 64] >> (element % 64) & 1 == 1;
        let first = (0..elements).find(|element| !is_written(element))?;
        let count = (first..elements).filter(|element| !is_written(element)).count();
        let mut rest = first;
        let ranges = row_major(&self.shape, 1).into_iter().map(|dim| {
            let start = rest / dim.stride;
            rest %= dim.stride;
            Range { start, len: 1 }
        });
        Some((count, ranges.collect()))
    }

    /// Name and index ranges of a view.
    pub(crate) fn area(&self, view: &View) -> Area {
        Area { buffer: self.name.clone(), ranges: view.region(&self.shape, self.unit()).ranges, device: None }
    }

    pub(crate) fn region(&self, view: &View) -> super::view::Region {
        view.region(&self.shape, self.unit())
    }

    pub(crate) fn regions(&self, view: &View) -> Vec<super::view::Region> {
        view.regions(&self.shape, self.unit())
    }

    /// Host bytes of a buffer including its bitmap; `None` on overflow.
    pub(crate) fn footprint(shape: &[usize], element: Option<Element>) -> Option<usize> {
        const BOOKS: usize = 256;
        let elements = shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent.max(1)))?;
        let bytes = elements.checked_mul(element.map_or(0, Element::bytes))?;
        bytes.checked_add(elements.div_ceil(8))?.checked_add(BOOKS)
    }
}

fn filled_with<T: Clone>(value: T, count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut items = Vec::new();
    items.try_reserve_exact(count)?;
    items.resize(count, value);
    Ok(items)
}

/// Visits the words of a bit set that hold bits `from..to`, with their masks.
fn for_words(from: usize, to: usize, mut visit: impl FnMut(usize, u64)) {
    let mut at = from;
    while at < to {
        let end = to.min((at / 64 + 1) * 64);
        let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
        visit(at / 64, mask);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Float;

    #[test]
    fn what_was_written_is_known_to_the_element() {
        let element = Some(Element::Float(Float::F32));
        let mut buffer = Buffer::poisoned("b".into(), MemorySpace::Vmem, &[3, 100], element).unwrap();
        let part = buffer.view(0).slice([1, 30].into_iter(), &[2, 60]);
        assert!(!buffer.is_written(&part));
        buffer.scatter(&part, &vec![0; 2 * 60 * 4]);
        assert!(buffer.is_written(&part));
        assert!(!buffer.is_written(&buffer.view(0).slice([1, 29].into_iter(), &[1, 2])));
        let (count, first) = buffer.unwritten().unwrap();
        assert_eq!((count, first), (180, vec![Range { start: 0, len: 1 }, Range { start: 0, len: 1 }]));
        buffer.poison(&part);
        assert_eq!(buffer.unwritten().unwrap().0, 300);
    }
}

//! Which steps wrote what, for kernels with parallel grid dimensions. Steps that differ in the index of a
//! parallel dimension may run in any order, or on different cores with memories of their own: neither may use
//! what the other wrote.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    finding::{Agent, Site},
    view::View,
};
use crate::ir::Place;

/// Steps with the same indices of all parallel dimensions; 0 stands for none.
pub(crate) type Group = u32;

/// The parallel dimensions of a grid.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParallelGrid {
    /// Number and extent of each.
    dimensions: Vec<(usize, usize)>,
}

impl ParallelGrid {
    /// Keeps the dimensions with more than one index.
    pub(crate) fn new(parallel: &[bool], grid: &[usize]) -> Self {
        let dimensions = parallel.iter().zip(grid).enumerate();
        let dimensions = dimensions.filter(|(_, (parallel, extent))| **parallel && **extent > 1);
        Self { dimensions: dimensions.map(|(number, (_, &extent))| (number, extent)).collect() }
    }

    /// Group of a step; 0 if the grid has no parallel dimension.
    pub(crate) fn group(&self, step: &[i64]) -> Group {
        if self.dimensions.is_empty() {
            return 0;
        }
        let add = |all: u64, &(dimension, extent): &(usize, usize)| {
            let index = step.get(dimension).map_or(0, |&index| index as u64);
            all.wrapping_mul(extent as u64).wrapping_add(index)
        };
        (self.dimensions.iter().fold(0, add) % u64::from(Group::MAX)) as Group + 1
    }

    /// The first parallel dimension in which two steps differ.
    pub(crate) fn difference(&self, a: &[i64], b: &[i64]) -> Option<usize> {
        let differs = |&(dimension, _): &(usize, usize)| a.get(dimension) != b.get(dimension);
        self.dimensions.iter().find(|dimension| differs(dimension)).map(|&(dimension, _)| dimension)
    }
}

/// A write.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) place: Option<Place>,
    pub(crate) op: Arc<str>,
    pub(crate) step: Vec<i64>,
}

impl Write {
    pub(crate) fn site(&self) -> Site {
        Site::new(Agent::Core, self.place, &self.op, &self.step)
    }
}

/// Last writes that are kept per buffer.
const MAX_WRITES: usize = 64;

/// The group that wrote each element of a buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers {
    /// The group that wrote all of them, while there is one.
    one: Group,
    /// The group of each element, once there are several.
    elements: Vec<Group>,
    /// Last write of each group.
    last: BTreeMap<Group, Write>,
}

impl Writers {
    /// Forgets everything: the memory holds another block now.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Records a write of `view` in a buffer of `elements`, of `unit` bytes each.
    pub(crate) fn write(&mut self, view: &View, unit: usize, elements: usize, group: Group, write: Write) {
        if view.elements() == elements {
            self.clear();
            self.one = group;
        } else if !self.elements.is_empty() || self.one != group {
            if self.elements.is_empty() {
                self.elements = vec![self.one; elements];
            }
            let all = &mut self.elements;
            view.runs(|offset, len| all[offset / unit..(offset + len).div_ceil(unit)].fill(group));
        }
        if self.last.len() >= MAX_WRITES && !self.last.contains_key(&group) {
            self.last.pop_first();
        }
        self.last.insert(group, write);
    }

    /// A write of another group to what `view` covers.
    pub(crate) fn by_another(&self, view: &View, unit: usize, group: Group) -> Option<&Write> {
        let other = |found: &Group| *found != 0 && *found != group;
        let found = match self.elements.is_empty() {
            true => Some(self.one).filter(other),
            false => {
                let mut found = None;
                view.runs(|offset, len| {
                    if found.is_none() {
                        let range = offset / unit..(offset + len).div_ceil(unit);
                        found = self.elements[range].iter().copied().find(other);
                    }
                });
                found
            }
        };
        found.and_then(|group| self.last.get(&group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{interpret::Element, types::Float};

    #[test]
    fn a_group_is_made_of_the_indices_of_parallel_dimensions() {
        let grid = ParallelGrid::new(&[true, false, true], &[2, 5, 3]);
        assert_eq!(grid.group(&[0, 0, 0]), grid.group(&[0, 4, 0]));
        assert_ne!(grid.group(&[0, 0, 1]), grid.group(&[1, 0, 0]));
        assert_eq!(grid.difference(&[1, 0, 2], &[1, 3, 1]), Some(2));
        assert_eq!(ParallelGrid::new(&[true], &[1]).group(&[0]), 0);
    }

    #[test]
    fn elements_know_the_group_that_wrote_them() {
        let whole = View::whole(0, &[4, 8], Some(Element::Float(Float::F32)));
        let rows = |first, count| whole.slice([first, 0].into_iter(), &[count, 8]);
        let write = |step: i64| Write { place: None, op: "store".into(), step: vec![step] };
        let mut writers = Writers::default();
        writers.write(&whole, 4, 32, 1, write(0));
        writers.write(&rows(2, 1), 4, 32, 2, write(1));
        assert!(writers.by_another(&rows(2, 1), 4, 2).is_none());
        assert_eq!(writers.by_another(&rows(1, 2), 4, 2).map(|write| write.step[0]), Some(0));
        assert_eq!(writers.by_another(&rows(2, 2), 4, 1).map(|write| write.step[0]), Some(1));
        writers.write(&whole, 4, 32, 2, write(1));
        assert!(writers.by_another(&whole, 4, 2).is_none());
    }
}

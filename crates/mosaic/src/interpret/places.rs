//! Strided source positions of a result's elements; an index table would take more memory than the values.

use super::value::Data;

/// Source position of every result element, in order.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Extents and strides, outermost first.
    dims: Vec<(usize, usize)>,
    start: usize,
}

impl Places {
    pub(crate) fn new(shape: &[usize], strides: &[usize], start: usize) -> Self {
        Self { dims: shape.iter().copied().zip(strides.iter().copied()).collect(), start }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.dims.iter().map(|(extent, _)| extent).product()
    }

    /// Iterates over the positions.
    pub(crate) fn list(&self) -> Vec<usize> {
        let mut places = Vec::with_capacity(self.len());
        self.for_each(|place| places.push(place));
        places
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        let Some((&(extent, stride), outer)) = self.dims.split_last() else { return visit(self.start) };
        if self.len() == 0 {
            return;
        }
        let mut index = vec![0; outer.len()];
        let mut row = self.start;
        loop {
            (0..extent).for_each(|i| visit(row + i * stride));
            let mut dimension = outer.len();
            loop {
                if dimension == 0 {
                    return;
                }
                dimension -= 1;
                let (extent, stride) = outer[dimension];
                index[dimension] += 1;
                row += stride;
                if index[dimension] < extent {
                    break;
                }
                row -= stride * extent;
                index[dimension] = 0;
            }
        }
    }

    /// Gathers the elements of `data` at these positions.
    pub(crate) fn gather(&self, data: &Data) -> Data {
        match data {
            Data::Floats(values) => Data::floats(self.take(values)),
            Data::Integers(values) => Data::integers(self.take(values)),
            splat => splat.clone(),
        }
    }

    fn take<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let mut taken = Vec::with_capacity(self.len());
        self.for_each(|place| taken.push(values[place]));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_strides() {
        assert_eq!(Places::new(&[2, 3], &[1, 2], 5).list(), [5, 7, 9, 6, 8, 10]);
        assert_eq!(Places::new(&[], &[], 4).list(), [4]);
        assert_eq!(Places::new(&[2, 0], &[0, 1], 0).list(), [0usize; 0]);
        assert_eq!(Places::new(&[2, 2], &[0, 1], 0).list(), [0, 1, 0, 1]);
    }
}

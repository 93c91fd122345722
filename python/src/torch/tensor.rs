//! What a product needs to know about a tensor.

use std::hash::{Hash, Hasher};

use octile::ScaleLayout;
use pyo3::{intern, prelude::*, types::PyTuple};

use crate::error;

/// Where a tensor is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Cpu,
    Gpu(usize),
    Elsewhere,
}

impl Place {
    fn read(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = tensor.py();
        if tensor.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
            return Ok(Self::Cpu);
        }
        if tensor.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
            return Ok(Self::Gpu(tensor.call_method0(intern!(py, "get_device"))?.extract()?));
        }
        Ok(Self::Elsewhere)
    }
}

/// A tensor as a call found it.
#[derive(PartialEq, Eq)]
pub(super) struct Operand {
    pub address: usize,
    pub properties: Properties,
    /// From one element of a side to the next.
    pub strides: Shape,
}

impl Operand {
    /// Reads a tensor attribute by attribute.
    pub(super) fn read(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = tensor.py();
        let properties = Properties {
            place: Place::read(tensor)?,
            dtype: tensor.getattr(intern!(py, "dtype"))?.as_ptr() as usize,
            shape: Shape::read(&tensor.getattr(intern!(py, "shape"))?)?,
            is_contiguous: tensor.call_method0(intern!(py, "is_contiguous"))?.is_truthy()?,
        };
        let strides = Shape::read(&tensor.call_method0(intern!(py, "stride"))?)?;
        Ok(Self { address: address(tensor)?, properties, strides })
    }

    /// The layout of scales [..., blocks of K], if their rows are equally far apart.
    pub(super) fn scale_layout(&self) -> Option<ScaleLayout> {
        let (&k_blocks, leading) = self.properties.shape.sides().split_last()?;
        // Strides of what has no elements are arbitrary.
        if leading.contains(&0) {
            return None;
        }
        let (&k, strides) = self.strides.sides().split_last()?;
        let (mut rows, mut row) = (1, 1);
        // The stride of a side of length 1 does not matter.
        for (&side, &stride) in leading.iter().zip(strides).rev().filter(|(side, _)| **side != 1) {
            if rows == 1 {
                row = stride;
            } else if stride != rows * row {
                return None;
            }
            rows *= side;
        }
        Some(ScaleLayout { row, k: if k_blocks == 1 { 1 } else { k } })
    }
}

/// What the checks of a product look at.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Properties {
    pub place: Place,
    /// A number that stands for the dtype.
    pub dtype: usize,
    pub shape: Shape,
    pub is_contiguous: bool,
}

/// Most dimensions of a tensor.
const MOST_DIMENSIONS: usize = 8;

/// The sides of a tensor, or its strides, in place: an allocation costs more than all else about them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    rank: usize,
    sides: [usize; MOST_DIMENSIONS],
}

impl Shape {
    fn read(tuple: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sides = tuple.cast::<PyTuple>()?.iter().map(|side| side.extract::<usize>());
        Self::new(&sides.collect::<PyResult<Vec<_>>>()?)
    }

    pub(super) fn new<T: Copy + TryInto<usize>>(given: &[T]) -> PyResult<Self> {
        let mut sides = [0; MOST_DIMENSIONS];
        if given.len() > MOST_DIMENSIONS {
            let rank = given.len();
            return Err(error::value(format!(
                "x has {rank} dimensions, more than {MOST_DIMENSIONS}: flatten it"
            )));
        }
        for (side, given) in sides.iter_mut().zip(given) {
            *side = (*given).try_into().unwrap_or(0);
        }
        Ok(Self { rank: given.len(), sides })
    }

    pub(super) fn sides(&self) -> &[usize] {
        &self.sides[..self.rank]
    }
}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sides().hash(state);
    }
}

/// The address of a tensor's memory.
pub(super) fn address(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    tensor.call_method0(intern!(tensor.py(), "data_ptr"))?.extract()
}

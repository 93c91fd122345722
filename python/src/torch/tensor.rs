//! What a product needs to know about a tensor.

use pyo3::{intern, prelude::*, types::PyTuple};

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
}

impl Operand {
    /// Reads a tensor attribute by attribute.
    pub(super) fn read(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = tensor.py();
        let shape = tensor.getattr(intern!(py, "shape"))?;
        let properties = Properties {
            place: Place::read(tensor)?,
            dtype: tensor.getattr(intern!(py, "dtype"))?.as_ptr() as usize,
            shape: shape.cast::<PyTuple>()?.iter().map(|side| side.extract()).collect::<PyResult<_>>()?,
            is_contiguous: tensor.call_method0(intern!(py, "is_contiguous"))?.is_truthy()?,
        };
        Ok(Self { address: address(tensor)?, properties })
    }
}

/// What the checks of a product look at.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Properties {
    pub place: Place,
    /// A number that stands for the dtype.
    pub dtype: usize,
    pub shape: Vec<usize>,
    pub is_contiguous: bool,
}

/// The address of a tensor's memory.
pub(super) fn address(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    tensor.call_method0(intern!(tensor.py(), "data_ptr"))?.extract()
}

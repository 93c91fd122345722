//! Exceptions: `ValueError` for what the caller passed, `RuntimeError` for what the machine refused.

use octile::Error;
use pyo3::{
    PyErr,
    exceptions::{PyRuntimeError, PyTypeError, PyValueError},
};

/// The exception for an error of the library.
pub(crate) fn from_library(error: Error) -> PyErr {
    let sentence = error.to_string();
    match error {
        Error::Device(_) | Error::Simulation { .. } => PyRuntimeError::new_err(sentence),
        _ => PyValueError::new_err(sentence),
    }
}

/// A value that cannot be used.
pub(crate) fn value(sentence: impl Into<String>) -> PyErr {
    PyValueError::new_err(sentence.into())
}

/// A value of the wrong type.
pub(crate) fn wrong_type(sentence: impl Into<String>) -> PyErr {
    PyTypeError::new_err(sentence.into())
}

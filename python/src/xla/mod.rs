//! The multiplication for JAX: handlers that XLA calls on CPUs and CUDA devices, and modules that it compiles
//! for TPUs.

#![allow(unsafe_code, reason = "XLA passes raw pointers; they become slices in `frame`")]

mod frame;
mod matmul;
mod sys;
mod tpu;

use std::ffi::c_void;

use pyo3::{
    ffi,
    prelude::*,
    types::{PyCapsule, PyDict},
};

pub(crate) use tpu::tpu_module;

use crate::error;

type Handler = unsafe extern "C" fn(*mut sys::CallFrame) -> *mut c_void;

/// The handlers by the name of their target, as capsules for `jax.ffi.register_ffi_target`.
#[pyfunction]
pub(crate) fn xla_handlers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let handlers = PyDict::new(py);
    let all: [(&str, Handler); 4] =
        [("cpu", matmul::cpu), ("cuda", matmul::cuda), ("pack", matmul::pack), ("unpack", matmul::unpack)];
    for (name, handler) in all {
        handlers.set_item(name, capsule(py, handler)?)?;
    }
    Ok(handlers)
}

fn capsule(py: Python<'_>, handler: Handler) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: a function lives as long as the process; the capsule owns nothing.
    unsafe {
        let raw = ffi::PyCapsule_New(handler as *mut c_void, c"xla._CUSTOM_CALL_TARGET".as_ptr(), None);
        let capsule = Bound::from_owned_ptr_or_err(py, raw)?;
        capsule.cast_into().map_err(|_| error::value("a capsule is not a capsule"))
    }
}

//! The native half of the Python package `octile`: arrays become slices here, and errors become exceptions.

#![deny(unsafe_code)]

mod array;
mod block;
mod command;
mod dtype;
mod error;
mod finite;
mod multiplication;
mod packed;
mod safetensors;
mod torch;
mod weight;
mod xla;

use pyo3::prelude::*;

/// Nothing here relies on the GIL: classes are frozen, and what they cache is behind locks.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<weight::Weight>()?;
    module.add_class::<multiplication::Multiplication>()?;
    module.add_function(wrap_pyfunction!(multiplication::packed_shape, module)?)?;
    module.add_function(wrap_pyfunction!(multiplication::pack_into, module)?)?;
    module.add_function(wrap_pyfunction!(torch::torch_forget, module)?)?;
    module.add_function(wrap_pyfunction!(torch::torch_layer, module)?)?;
    module.add_function(wrap_pyfunction!(torch::torch_remembered, module)?)?;
    module.add_function(wrap_pyfunction!(torch::torch_linear, module)?)?;
    module.add_function(wrap_pyfunction!(torch::torch_linear_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(weight::quantize, module)?)?;
    module.add_function(wrap_pyfunction!(weight::matmul, module)?)?;
    module.add_function(wrap_pyfunction!(weight::load_safetensors, module)?)?;
    module.add_function(wrap_pyfunction!(xla::xla_handlers, module)?)?;
    module.add_function(wrap_pyfunction!(xla::tpu_module, module)?)?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)
}

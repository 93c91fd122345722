//! What PyTorch's own functions say about a call.

use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyModule},
};

use super::{dlpack::Exchange, tensor::Operand};

/// Objects of PyTorch, looked up once.
pub(super) struct PyTorch {
    /// Missing before PyTorch 2.10.
    exchange: Option<Exchange>,
    /// Other types of tensors have operators of their own.
    plain_types: [Py<PyAny>; 2],
    /// Each returns something true while modes, transformations, a tracer or a profiler must see operators.
    watchers: [Py<PyAny>; 5],
    is_grad_enabled: Py<PyAny>,
    forward_ad: Py<PyModule>,
    bytes: Py<PyDict>,
    /// Those for CUDA are missing where PyTorch has none.
    current_stream: Option<Py<PyAny>>,
    is_capturing: Option<Py<PyAny>>,
}

impl PyTorch {
    pub(super) fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static FOUND: PyOnceLock<PyTorch> = PyOnceLock::new();
        FOUND.get_or_try_init(py, || Self::find(py))
    }

    fn find(py: Python<'_>) -> PyResult<Self> {
        let torch = py.import("torch")?;
        let native = torch.getattr("_C")?;
        let get = |module: &Bound<'_, PyAny>, name| module.getattr(name).map(Bound::unbind);
        let bytes = PyDict::new(py);
        bytes.set_item("dtype", torch.getattr("uint8")?)?;
        Ok(Self {
            exchange: Exchange::of(&torch.getattr("Tensor")?),
            plain_types: [get(&torch, "Tensor")?, get(&torch.getattr("nn")?, "Parameter")?],
            watchers: [
                get(&native, "_len_torch_dispatch_stack")?,
                get(&native, "_len_torch_function_stack")?,
                get(&native.getattr("_functorch")?, "peek_interpreter_stack")?,
                get(&native, "_get_tracing_state")?,
                get(&torch.getattr("autograd")?, "_profiler_enabled")?,
            ],
            is_grad_enabled: get(&torch, "is_grad_enabled")?,
            forward_ad: py.import("torch.autograd.forward_ad")?.unbind(),
            bytes: bytes.unbind(),
            current_stream: get(&native, "_cuda_getCurrentRawStream").ok(),
            is_capturing: get(&native, "_cuda_isCurrentStreamCapturing").ok(),
        })
    }

    /// Whether something is a tensor without operators of its own.
    pub(super) fn is_plain(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let kind = tensor.get_type_ptr().cast();
        self.plain_types.iter().any(|plain| plain.as_ptr() == kind)
    }

    /// Reads a tensor.
    pub(super) fn read(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Operand> {
        match &self.exchange {
            Some(exchange) if self.is_plain(tensor) => exchange.read(tensor),
            _ => Operand::read(tensor),
        }
    }

    /// Whether somebody must see each operator, or follows derivatives forward.
    pub(super) fn is_watched(&self, py: Python<'_>) -> PyResult<bool> {
        for watcher in &self.watchers {
            if watcher.bind(py).call0()?.is_truthy()? {
                return Ok(true);
            }
        }
        let level = self.forward_ad.bind(py).getattr(intern!(py, "_current_level"))?;
        Ok(level.extract::<i64>()? >= 0)
    }

    /// Whether the elements in memory of one of the tensors are the negated ones.
    pub(super) fn is_any_negated<const N: usize>(tensors: [&Bound<'_, PyAny>; N]) -> PyResult<bool> {
        for tensor in tensors {
            if tensor.call_method0(intern!(tensor.py(), "is_neg"))?.is_truthy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a gradient may be asked for.
    pub(super) fn needs_gradient(&self, x: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = x.py();
        Ok(x.getattr(intern!(py, "requires_grad"))?.is_truthy()?
            && self.is_grad_enabled.bind(py).call0()?.is_truthy()?)
    }

    /// New memory where `x` is; None for nothing.
    pub(super) fn bytes<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        len: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = x.py();
        let allocate = || x.call_method(intern!(py, "new_empty"), (len,), Some(self.bytes.bind(py)));
        (len > 0).then(allocate).transpose()
    }

    /// The current stream of a GPU.
    pub(super) fn current_stream(&self, py: Python<'_>, device: usize) -> PyResult<usize> {
        let current = self.current_stream.as_ref().expect("a tensor is on a GPU");
        current.bind(py).call1((device,))?.extract()
    }

    /// Whether the current stream is being captured into a graph.
    pub(super) fn is_capturing(&self, py: Python<'_>) -> PyResult<bool> {
        self.is_capturing
            .as_ref()
            .map_or(Ok(false), |is_capturing| is_capturing.bind(py).call0()?.is_truthy())
    }
}

//! What is remembered about the weights of layers between calls.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
};

use pyo3::{
    intern,
    prelude::*,
    types::{PyCFunction, PyDict, PyWeakrefReference},
};

use super::{
    multiply_directly,
    product::{Product, Request},
    pytorch::PyTorch,
    tensor::Operand,
};
use crate::packed::Packed;

/// Weights by the tensor of their codes, as long as that exists. A compiled program holds the tensors of a
/// layer, but nothing else that tells it from other layers: it would have to be compiled for each.
static WEIGHTS: LazyLock<Mutex<HashMap<usize, Arc<LayerWeight>>>> = LazyLock::new(Mutex::default);

/// Multiplies x by `weight` and `weight_scale_inv` of a module's parameters, as `torch_linear` does.
#[pyfunction]
pub(crate) fn torch_layer<'py>(
    x: &Bound<'py, PyAny>,
    parameters: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = x.py();
    let codes = parameters.get_item(intern!(py, "weight"))?;
    let scales = parameters.get_item(intern!(py, "weight_scale_inv"))?;
    let (Some(codes), Some(scales)) = (codes, scales) else { return Ok(None) };
    multiply_directly([x, &codes, &scales], true, None, None)
}

/// Has the next call of a layer with this weight start anew.
#[pyfunction]
pub(crate) fn torch_forget(weight: &Bound<'_, PyAny>) {
    forget(key(weight));
}

/// Number of weights that are remembered.
#[pyfunction]
pub(crate) fn torch_remembered() -> usize {
    locked(&WEIGHTS).len()
}

/// The weight of a layer's call, and whether the last call had the same tensors, with nothing written to them
/// since.
pub(super) fn remembered(
    tensors: [&Bound<'_, PyAny>; 2],
    operands: [Operand; 2],
) -> PyResult<(Arc<LayerWeight>, bool)> {
    let [codes, scales] = tensors;
    let mut weight = LayerWeight::new(operands);
    let last = locked(&WEIGHTS).get(&key(codes)).cloned();
    if let Some(last) = last
        && last.is_unchanged(tensors, &weight)
    {
        return Ok((last, true));
    }
    if PyTorch::is_any_negated(tensors)? {
        // Their bytes are not their values: the dispatcher makes a copy for the kernel.
        return Ok((Arc::new(weight), false));
    }
    let key = key(codes);
    let forget = PyCFunction::new_closure(codes.py(), None, None, move |_, _| forget(key))?;
    let identities = [
        Identity::new(codes, PyWeakrefReference::new_with(codes, forget)?)?,
        Identity::new(scales, PyWeakrefReference::new(scales)?)?,
    ];
    weight.identities = Some(identities);
    let weight = Arc::new(weight);
    // The one before is dropped after the lock is released: that runs code of Python.
    let _before = locked(&WEIGHTS).insert(key, Arc::clone(&weight));
    Ok((weight, false))
}

fn forget(key: usize) {
    let _dropped_unlocked = locked(&WEIGHTS).remove(&key);
}

fn key(codes: &Bound<'_, PyAny>) -> usize {
    codes.as_ptr() as usize
}

/// The weight of a layer as a call found it.
pub(super) struct LayerWeight {
    pub codes: Operand,
    pub scales: Operand,
    /// Which tensors these are, if they are remembered.
    identities: Option<[Identity; 2]>,
    /// The product of the last call: most calls of a layer ask for the same.
    product: Mutex<Option<(Request, Arc<Product>)>>,
    /// On a CPU, the copy that the kernels read.
    packed: OnceLock<Packed>,
}

impl LayerWeight {
    /// A weight that is not remembered.
    pub(super) fn new([codes, scales]: [Operand; 2]) -> Self {
        Self { codes, scales, identities: None, product: Mutex::default(), packed: OnceLock::new() }
    }

    /// Whether the next call of the layer will find it again.
    pub(super) fn is_remembered(&self) -> bool {
        self.identities.is_some()
    }

    /// The product for a request, remembered with the weight.
    pub(super) fn product(
        &self,
        request: Request,
        find: impl FnOnce() -> PyResult<Arc<Product>>,
    ) -> PyResult<Arc<Product>> {
        if let Some((last, product)) = &*locked(&self.product)
            && *last == request
        {
            return Ok(Arc::clone(product));
        }
        let product = find()?;
        if self.is_remembered() {
            *locked(&self.product) = Some((request, Arc::clone(&product)));
        }
        Ok(product)
    }

    fn is_unchanged(&self, tensors: [&Bound<'_, PyAny>; 2], now: &Self) -> bool {
        let Some(identities) = &self.identities else { return false };
        self.codes == now.codes
            && self.scales == now.scales
            && identities.iter().zip(tensors).all(|(identity, tensor)| identity.is(tensor))
    }

    /// The copy that the kernels read, made by the first call.
    pub(super) fn packed(&self, pack: impl FnOnce() -> PyResult<Packed>) -> PyResult<&Packed> {
        if self.packed.get().is_none() {
            // Another thread may have been faster.
            let _ = self.packed.set(pack()?);
        }
        Ok(self.packed.wait())
    }
}

/// Tells a tensor from others, and from itself before something was written to it.
struct Identity {
    /// The tensor, as long as it exists: none that is created later can be mistaken for it.
    reference: Py<PyWeakrefReference>,
    /// Counts in-place writes; tensors made in inference mode have no such count.
    version: Option<u64>,
}

impl Identity {
    fn new(tensor: &Bound<'_, PyAny>, reference: Bound<'_, PyWeakrefReference>) -> PyResult<Self> {
        let is_inference = tensor.call_method0(intern!(tensor.py(), "is_inference"))?.is_truthy()?;
        let version = if is_inference { None } else { Some(version(tensor)?) };
        Ok(Self { reference: reference.unbind(), version })
    }

    fn is(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let same = self.reference.bind(tensor.py()).upgrade();
        same.is_some_and(|same| same.is(tensor))
            && self.version.is_none_or(|old| version(tensor).is_ok_and(|now| now == old))
    }
}

fn version(tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
    tensor.getattr(intern!(tensor.py(), "_version"))?.extract()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

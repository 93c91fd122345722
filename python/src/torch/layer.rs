//! What a layer remembers about its weight between calls.

use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyWeakrefReference},
};

use super::{
    multiply_directly,
    product::{Product, Request},
    pytorch::PyTorch,
    tensor::Operand,
};
use crate::packed::Packed;

/// An operator takes tensors and numbers, so a layer names its state by a number.
static LAYERS: LazyLock<Mutex<HashMap<u64, Weak<State>>>> = LazyLock::new(Mutex::default);

/// The weight of the last call; replaced as a whole, so that threads see the copy of their own weight or
/// none.
pub(super) type State = Mutex<Option<Arc<LayerWeight>>>;

/// The state of one layer.
#[pyclass(frozen, module = "octile._native")]
pub(crate) struct LayerState {
    /// What operators call this state.
    #[pyo3(get)]
    number: u64,
    state: Arc<State>,
}

#[pymethods]
impl LayerState {
    #[new]
    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let state = Arc::new(State::default());
        locked(&LAYERS).insert(number, Arc::downgrade(&state));
        Self { number, state }
    }

    /// Multiplies x by `weight` and `weight_scale_inv` of a module's parameters, as `torch_linear` does.
    fn linear<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = x.py();
        let codes = parameters.get_item(intern!(py, "weight"))?;
        let scales = parameters.get_item(intern!(py, "weight_scale_inv"))?;
        let (Some(codes), Some(scales)) = (codes, scales) else { return Ok(None) };
        multiply_directly([x, &codes, &scales], Some(&self.state), None, None)
    }

    /// Forgets the weight.
    fn clear(&self) {
        locked(&self.state).take();
    }

    /// A copied layer has a state of its own.
    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        Self::new()
    }

    /// So does an unpickled one.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, ()) {
        (slf.get_type().into_any(), ())
    }
}

impl Drop for LayerState {
    fn drop(&mut self) {
        locked(&LAYERS).remove(&self.number);
    }
}

/// The state with this number; 0 is none, and a state may have ended.
pub(super) fn numbered(layer: u64) -> Option<Arc<State>> {
    if layer == 0 { None } else { locked(&LAYERS).get(&layer).and_then(Weak::upgrade) }
}

/// The weight of a call, and whether the last call of the layer had the same tensors, with nothing written to
/// them since. Without a layer nothing is remembered.
pub(super) fn weight_of(
    state: Option<&State>,
    tensors: [&Bound<'_, PyAny>; 2],
    operands: [Operand; 2],
) -> PyResult<(Arc<LayerWeight>, bool)> {
    let [codes, scales] = operands;
    let mut weight =
        LayerWeight { codes, scales, identities: None, product: Mutex::default(), packed: OnceLock::new() };
    let Some(state) = state else { return Ok((Arc::new(weight), false)) };
    let last = locked(state).clone();
    if let Some(last) = last
        && last.is_unchanged(tensors, &weight)
    {
        return Ok((last, true));
    }
    if PyTorch::is_negated(tensors[1])? {
        // Its bytes are not its values: the dispatcher makes a copy for the kernel.
        return Ok((Arc::new(weight), false));
    }
    weight.identities = Some([Identity::read(tensors[0])?, Identity::read(tensors[1])?]);
    let weight = Arc::new(weight);
    *locked(state) = Some(Arc::clone(&weight));
    Ok((weight, false))
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
    fn read(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        let is_inference = tensor.call_method0(intern!(tensor.py(), "is_inference"))?.is_truthy()?;
        Ok(Self {
            reference: PyWeakrefReference::new(tensor)?.unbind(),
            version: if is_inference { None } else { Some(version(tensor)?) },
        })
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

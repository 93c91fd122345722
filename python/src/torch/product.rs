//! What is checked, planned and compiled once, by the properties of operands.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyTuple},
};

use super::tensor::{Place, Properties};
use crate::{block::BlockSize, multiplication::Multiplication};

/// A program with more shapes than this has no fixed set: those of the CPU start over rather than grow. Those
/// of GPUs stay, since a captured graph may launch their kernels.
const MOST_PRODUCTS: usize = 4096;

static PRODUCTS: LazyLock<Mutex<HashMap<Key, Arc<Product>>>> = LazyLock::new(Mutex::default);

/// Everything that decides whether operands can be multiplied, and how; only operands that can are kept.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub request: Request,
    pub codes: Properties,
    pub scales: Properties,
}

/// What is asked of a weight. dtypes are addresses, as in `Properties`; that of the result is 0 where it
/// follows from x.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub x_place: Place,
    pub x_dtype: usize,
    pub x_columns: Option<usize>,
    /// Place and dtype.
    pub x_scales: Option<(Place, usize)>,
    pub out_dtype: usize,
    pub is_constant: bool,
}

/// A multiplication, and what its result is made of.
pub(super) struct Product {
    pub multiplication: Multiplication,
    /// Keyword arguments that give the result its dtype, unless that is the dtype of x.
    out_dtype: Option<Py<PyDict>>,
}

impl Product {
    /// The product for a key; operands with a new one are checked.
    pub(super) fn find(
        py: Python<'_>,
        key: Key,
        check: impl FnOnce() -> PyResult<Checked>,
    ) -> PyResult<Arc<Self>> {
        if let Some(product) = products().get(&key) {
            return Ok(Arc::clone(product));
        }
        let (block, x, out, out_dtype) = check()?;
        let device = match key.codes.place {
            Place::Gpu(index) => i64::try_from(index).expect("a small number"),
            _ => -1,
        };
        let [n, k] = *key.codes.shape.sides() else { unreachable!("the weight is a matrix") };
        let multiplication = Multiplication::new(py, device, n, k, block, &x, &out, key.request.is_constant)?;
        let out_dtype = out_dtype.map(|dtype| {
            let arguments = PyDict::new(py);
            arguments.set_item(intern!(py, "dtype"), dtype).map(|()| arguments.unbind())
        });
        let product = Arc::new(Self { multiplication, out_dtype: out_dtype.transpose()? });
        let mut products = products();
        if products.len() >= MOST_PRODUCTS && key.codes.place == Place::Cpu {
            products.retain(|key, _| key.codes.place != Place::Cpu);
        }
        products.insert(key, Arc::clone(&product));
        Ok(product)
    }

    /// A new tensor for the result, where x is.
    pub(super) fn allocate<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        leading: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        let shape = [leading, &self.multiplication.shape()[..1]].concat();
        let keywords = self.out_dtype.as_ref().map(|arguments| arguments.bind(py));
        x.call_method(intern!(py, "new_empty"), PyTuple::new(py, shape)?, keywords)
    }
}

/// What the checks of operands return: the block size, the names of the dtypes of x and of the result, and
/// the result's dtype unless it is that of x.
pub(super) type Checked = (BlockSize, String, String, Option<Py<PyAny>>);

fn products() -> MutexGuard<'static, HashMap<Key, Arc<Product>>> {
    PRODUCTS.lock().unwrap_or_else(PoisonError::into_inner)
}

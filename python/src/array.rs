//! numpy arrays as slices, and slices as numpy arrays.

use numpy::{
    PyArray2, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, ndarray::ArrayView2,
};
use octile::DType;
use pyo3::{PyTypeInfo, intern, prelude::*, sync::PyOnceLock, types::PyType};

use crate::{dtype, error};

/// A C-contiguous, aligned array of floats, fp8 codes included.
pub(crate) struct Floats<'py> {
    array: Bound<'py, PyUntypedArray>,
    pub dtype: DType,
}

impl<'py> Floats<'py> {
    /// Reads the argument `name`, of one of these types; strided or misaligned arrays are copied.
    pub(crate) fn read(name: &str, types: &[DType], given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let Ok(array) = given.cast::<PyUntypedArray>() else {
            return Err(error::wrong_type(format!("{name} is {}: pass a numpy array", type_name(given))));
        };
        if is_masked(array)? {
            return Err(error::wrong_type(format!("{name} is a masked array: pass its filled()")));
        }
        let Some(dtype) = dtype::read(&array.dtype()).filter(|dtype| types.contains(dtype)) else {
            return Err(error::wrong_type(format!(
                "{name} has dtype {}: pass {}",
                array.dtype(),
                dtype::names(types)
            )));
        };
        if array.ndim() == 0 {
            return Err(error::value(format!("{name} is a scalar: pass a matrix")));
        }
        if array.is_c_contiguous() && array.is_aligned() {
            return Ok(Self { array: array.clone(), dtype });
        }
        let py = given.py();
        let numpy = py.import(intern!(py, "numpy"))?;
        let copy = numpy.call_method1(intern!(py, "require"), (array, py.None(), intern!(py, "CA")))?;
        Ok(Self { array: copy.cast_into()?, dtype })
    }

    /// Reads an argument that must be a matrix.
    pub(crate) fn read_matrix(
        name: &str,
        types: &[DType],
        given: &Bound<'py, PyAny>,
    ) -> PyResult<(Self, [usize; 2])> {
        let floats = Self::read(name, types, given)?;
        match *floats.shape() {
            [n, k] => Ok((floats, [n, k])),
            ref shape => Err(error::value(format!("{name} has shape {shape:?}: pass a matrix [N, K]"))),
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// The memory, aligned for the elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: as for `values`.
        #[allow(unsafe_code, reason = "numpy hands out a pointer")]
        unsafe {
            slice(data(&self.array), self.array.len() * dtype::size(self.dtype))
        }
    }

    /// The elements, if `T` is their type.
    ///
    /// As in numpy itself, nothing stops another thread from writing to the array meanwhile; the values read
    /// are then arbitrary.
    pub(crate) fn values<T: Element>(&self) -> Option<&[T]> {
        (T::DTYPE == self.dtype).then(|| {
            // SAFETY: the array is contiguous and aligned, has `len` elements of `T`, for which every bit
            // pattern is valid, and is kept alive by `self`.
            #[allow(unsafe_code, reason = "numpy hands out a pointer")]
            unsafe {
                slice(data(&self.array).cast_const().cast(), self.array.len())
            }
        })
    }
}

/// Plain data that arrays hold.
pub(crate) trait Element: Copy {
    const DTYPE: DType;
}

impl Element for u8 {
    const DTYPE: DType = DType::F8E4M3;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
}

impl Element for half::f16 {
    const DTYPE: DType = DType::F16;
}

impl Element for half::bf16 {
    const DTYPE: DType = DType::BF16;
}

/// A new array for a result, uninitialized until the kernel has written it.
pub(crate) struct Result<'py> {
    array: Bound<'py, PyUntypedArray>,
}

impl<'py> Result<'py> {
    pub(crate) fn new(py: Python<'py>, shape: &[usize], dtype: DType) -> PyResult<Self> {
        static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let empty = EMPTY.import(py, "numpy", "empty")?;
        let array = empty.call1((shape, dtype::of_result(py, dtype)?))?;
        Ok(Self { array: array.cast_into()? })
    }

    /// The memory, which nobody else has seen yet.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let len = self.array.len() * self.array.dtype().itemsize();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the array is new and contiguous, and nobody else refers to it. numpy obtains memory that
        // the compiler cannot know to be uninitialized.
        #[allow(unsafe_code, reason = "numpy hands out a pointer")]
        unsafe {
            std::slice::from_raw_parts_mut(data(&self.array), len)
        }
    }

    pub(crate) fn into_any(self) -> Bound<'py, PyAny> {
        self.array.into_any()
    }
}

/// A read-only array over memory that `owner` keeps and never changes.
pub(crate) fn borrowed<'py, T: numpy::Element>(
    values: &[T],
    shape: [usize; 2],
    dtype: Option<Bound<'py, PyArrayDescr>>,
    owner: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let view = ArrayView2::from_shape(shape, values).map_err(|error| error::value(error.to_string()))?;
    // SAFETY: the owner is a frozen object whose memory does not move, and which the array keeps alive.
    #[allow(unsafe_code, reason = "numpy keeps a pointer")]
    let array = unsafe { PyArray2::borrow_from_array(&view, owner) };
    array.call_method1(intern!(py, "setflags"), (false,))?;
    match dtype {
        Some(dtype) => array.call_method1(intern!(py, "view"), (dtype,)),
        None => Ok(array.into_any()),
    }
}

fn data(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the pointer is that of a live array object.
    #[allow(unsafe_code, reason = "numpy hands out a pointer")]
    unsafe {
        (*array.as_array_ptr()).fields.data.cast()
    }
}

/// # Safety
/// As for `std::slice::from_raw_parts`, but the pointer of an empty slice may be anything.
#[allow(unsafe_code, reason = "a slice without a null check")]
unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, len) } }
}

/// Whether an array has elements that do not count.
fn is_masked(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = array.py();
    if array.get_type().is(PyUntypedArray::type_object(py)) {
        return Ok(false);
    }
    array.is_instance(MASKED.import(py, "numpy.ma", "MaskedArray")?)
}

/// The name of a value's type.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "value".to_owned(), |name| name.to_string())
}

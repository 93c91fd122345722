//! numpy dtypes that the library multiplies.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use octile::DType;
use pyo3::{prelude::*, sync::PyOnceLock};

use crate::error;

/// dtypes of the package `ml_dtypes`, which numpy itself lacks.
struct MlDtypes {
    bfloat16: Py<PyArrayDescr>,
    float8_e4m3fn: Py<PyArrayDescr>,
}

/// The dtypes of `ml_dtypes`, if it is installed.
fn ml_dtypes(py: Python<'_>) -> Option<&'static MlDtypes> {
    static FOUND: PyOnceLock<Option<MlDtypes>> = PyOnceLock::new();
    let find = || {
        let module = py.import("ml_dtypes").ok()?;
        let dtype = |name| Some(PyArrayDescr::new(py, module.getattr(name).ok()?).ok()?.unbind());
        Some(MlDtypes { bfloat16: dtype("bfloat16")?, float8_e4m3fn: dtype("float8_e4m3fn")? })
    };
    FOUND.get_or_init(py, find).as_ref()
}

/// The dtype of fp8 codes: `float8_e4m3fn`, or `uint8` where `ml_dtypes` is missing.
pub(crate) fn of_codes(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
    match ml_dtypes(py) {
        Some(found) => found.float8_e4m3fn.bind(py).clone(),
        None => numpy::dtype::<u8>(py),
    }
}

/// The element type that a dtype stands for; `uint8` holds fp8 codes.
pub(crate) fn read(dtype: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    if dtype.is_native_byteorder() == Some(false) {
        return None;
    }
    // numpy gives each dtype of another package a number when that package is imported.
    let is = |other: &Py<PyArrayDescr>| other.bind(dtype.py()).num() == dtype.num();
    Some(match dtype.char() {
        b'f' => DType::F32,
        b'e' => DType::F16,
        b'B' => DType::F8E4M3,
        _ => match ml_dtypes(dtype.py()) {
            Some(found) if is(&found.bfloat16) => DType::BF16,
            Some(found) if is(&found.float8_e4m3fn) => DType::F8E4M3,
            _ => return None,
        },
    })
}

/// The numpy dtype of a result.
pub(crate) fn of_result(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    match dtype {
        DType::F32 => Ok(numpy::dtype::<f32>(py)),
        DType::F16 => PyArrayDescr::new(py, "float16"),
        DType::BF16 => match ml_dtypes(py) {
            Some(found) => Ok(found.bfloat16.bind(py).clone()),
            None => Err(error::value("numpy has no bfloat16 without the package ml_dtypes: install it")),
        },
        DType::F8E4M3 => Err(error::value("a result cannot be fp8: use float32, bfloat16 or float16")),
    }
}

/// Reads the argument `out_dtype`: a dtype, or something that numpy takes for one, or the name `bfloat16`.
pub(crate) fn parse(given: &Bound<'_, PyAny>) -> PyResult<DType> {
    if given.extract::<&str>().is_ok_and(|name| name == "bfloat16") {
        return Ok(DType::BF16);
    }
    let refuse = || {
        let shown = given.repr().map_or_else(|_| "this value".to_owned(), |repr| repr.to_string());
        error::wrong_type(format!("out_dtype {shown} is not float32, bfloat16 or float16"))
    };
    let dtype = PyArrayDescr::new(given.py(), given).map_err(|_| refuse())?;
    read(&dtype).filter(|dtype| *dtype != DType::F8E4M3).ok_or_else(refuse)
}

/// The element type with this numpy name.
pub(crate) fn named(name: &str) -> PyResult<DType> {
    let known = [DType::F32, DType::BF16, DType::F16, DType::F8E4M3];
    let found = known.into_iter().find(|dtype| self::name(*dtype) == name);
    found.ok_or_else(|| error::value(format!("{name:?} is not a dtype of octile")))
}

/// The numpy names of element types, as a sentence lists them.
pub(crate) fn names(types: &[DType]) -> String {
    let names: Vec<&str> = types.iter().copied().map(name).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// Bytes of an element.
pub(crate) fn size(dtype: DType) -> usize {
    match dtype {
        DType::F32 => 4,
        DType::BF16 | DType::F16 => 2,
        DType::F8E4M3 => 1,
    }
}

fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::BF16 => "bfloat16",
        DType::F16 => "float16",
        DType::F8E4M3 => "float8_e4m3fn",
    }
}

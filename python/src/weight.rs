//! Weights, and their products with numpy arrays.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use half::{bf16, f16};
use octile::{Block, DType, Device, Float, Matmul, Scales};
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    array::{self, Floats},
    dtype, error, safetensors,
};

/// A matrix of N x K fp8 codes (e4m3fn) with one float32 scale per block. A value is its code times its scale.
///
/// Immutable, and safe to use from several threads at once.
#[pyclass(frozen, module = "octile")]
pub(crate) struct Weight {
    weight: octile::Weight,
    /// One for each combination of types in use.
    matmuls: Mutex<HashMap<(DType, Scales, DType), Arc<Matmul>>>,
}

impl From<octile::Weight> for Weight {
    fn from(weight: octile::Weight) -> Self {
        Self { weight, matmuls: Mutex::default() }
    }
}

#[pymethods]
impl Weight {
    /// Takes codes [N, K] (float8_e4m3fn or uint8) and float32 scales [ceil(N/block), ceil(K/block)], as
    /// checkpoints hold them. The block size follows from the shapes, unless given. Both are copied.
    #[staticmethod]
    #[pyo3(signature = (codes, scales, block=None))]
    fn from_codes(
        py: Python<'_>,
        codes: &Bound<'_, PyAny>,
        scales: &Bound<'_, PyAny>,
        block: Option<usize>,
    ) -> PyResult<Self> {
        let (codes, [n, k]) = Floats::read_matrix("codes", codes)?;
        let (scales, blocks) = Floats::read_matrix("scales", scales)?;
        let block = match block {
            Some(block) => read_block(block)?,
            None => infer_block([n, k], blocks)?,
        };
        let expected = [block.count(n), block.count(k)];
        if blocks != expected {
            return Err(error::value(format!(
                "scales have shape {blocks:?}, but codes {:?} in blocks of {} have {expected:?}",
                [n, k],
                block.size()
            )));
        }
        let codes = codes.values::<u8>().ok_or_else(|| wrong_dtype("codes", codes.dtype, "float8_e4m3fn"))?;
        let scales = scales.values::<f32>().ok_or_else(|| wrong_dtype("scales", scales.dtype, "float32"))?;
        let weight = py.detach(|| octile::Weight::from_parts(codes, scales, [n, k], block));
        Ok(weight.map_err(error::from_library)?.into())
    }

    /// The codes, [N, K], as a read-only view: float8_e4m3fn, or uint8 without the package ml_dtypes.
    #[getter]
    fn codes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let weight = &slf.get().weight;
        array::borrowed(
            weight.codes(),
            weight.shape(),
            Some(dtype::of_codes(slf.py())),
            slf.clone().into_any(),
        )
    }

    /// The scales, one per block, as a read-only float32 view.
    #[getter]
    fn scales<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let weight = &slf.get().weight;
        let blocks = weight.shape().map(|side| weight.block().count(side));
        array::borrowed(weight.scales(), blocks, None, slf.clone().into_any())
    }

    /// (N, K).
    #[getter]
    fn shape(&self) -> (usize, usize) {
        self.weight.shape().into()
    }

    /// Side of the square that shares a scale: 128, 256 or 512.
    #[getter]
    fn block(&self) -> usize {
        self.weight.block().size()
    }

    /// The values that codes and scales stand for, in float32.
    fn dequantize<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = py.detach(|| self.weight.dequantize());
        let mut result = array::Result::new(py, &self.weight.shape(), DType::F32)?;
        result.values().copy_from_slice(&values);
        Ok(result.into_any())
    }

    fn __repr__(&self) -> String {
        let [n, k] = self.weight.shape();
        format!("octile.Weight(shape=({n}, {k}), block={})", self.block())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.weight == other.weight
    }

    /// Pickles as codes and scales.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = (Self::codes(slf)?, Self::scales(slf)?, slf.get().block());
        Ok((slf.get_type().getattr("from_codes")?, arguments.into_pyobject(slf.py())?))
    }
}

impl Weight {
    fn matmul(&self, x: DType, scales: Scales, out: DType) -> PyResult<Arc<Matmul>> {
        let mut matmuls = self.matmuls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matmul) = matmuls.get(&(x, scales, out)) {
            return Ok(Arc::clone(matmul));
        }
        let builder = Matmul::builder(cpu()?, self.weight.clone()).activations(x, scales).output(out);
        let matmul = Arc::new(builder.build().map_err(error::from_library)?);
        matmuls.insert((x, scales, out), Arc::clone(&matmul));
        Ok(matmul)
    }
}

/// Quantizes a matrix [N, K] of float32, bfloat16 or float16: one scale per block x block square, the largest
/// magnitude / 448.
#[pyfunction]
#[pyo3(signature = (w, block=128))]
pub(crate) fn quantize(py: Python<'_>, w: &Bound<'_, PyAny>, block: usize) -> PyResult<Weight> {
    let (w, shape) = Floats::read_matrix("w", w)?;
    let block = read_block(block)?;
    let weight = if let Some(values) = w.values::<f32>() {
        py.detach(|| octile::Weight::quantize(values, shape, block))
    } else if let Some(values) = w.values::<bf16>() {
        py.detach(|| octile::Weight::quantize(values, shape, block))
    } else if let Some(values) = w.values::<f16>() {
        py.detach(|| octile::Weight::quantize(values, shape, block))
    } else {
        return Err(wrong_dtype("w", w.dtype, "float32, bfloat16 or float16"));
    };
    Ok(weight.map_err(error::from_library)?.into())
}

/// Reads the layer `name` (its tensors `name.weight` and `name.weight_scale_inv` or `name.weight_scale`) of a
/// safetensors file.
#[pyfunction]
pub(crate) fn load_safetensors(py: Python<'_>, path: PathBuf, name: &str) -> PyResult<Weight> {
    Ok(py.detach(|| safetensors::load(&path, name))?.into())
}

/// Multiplies x [..., K] by the transpose of a weight [N, K], on the CPU; the result is [..., N].
///
/// x is float32, bfloat16 or float16, and is quantized to fp8 with one scale per row and block of K
/// (x_scaling="token"), per square block ("block"), or not at all ("none"). Or x holds fp8 codes, and x_scales
/// their float32 scales. The result has the dtype out_dtype, by default that of x, or float32 for codes.
#[pyfunction]
#[pyo3(signature = (x, weight, *, x_scales=None, x_scaling="token", out_dtype=None))]
pub(crate) fn matmul<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    weight: &Weight,
    x_scales: Option<&Bound<'py, PyAny>>,
    x_scaling: &str,
    out_dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let x = Floats::read("x", x)?;
    let x_scales = x_scales.map(|scales| Floats::read("x_scales", scales)).transpose()?;
    let scaling = match x_scaling {
        "token" => Scales::PerToken,
        "block" => Scales::PerBlock,
        "none" => Scales::None,
        other => return Err(error::value(format!("x_scaling {other:?} is not token, block or none"))),
    };
    let [n, k] = weight.weight.shape();
    let (&last, rows) = x.shape().split_last().expect("x is no scalar");
    if last != k {
        return Err(error::value(format!("x has shape {:?}, but the weight has K = {k}", x.shape())));
    }
    let out = match out_dtype {
        Some(given) => dtype::parse(given)?,
        None if x.dtype == DType::F8E4M3 => DType::F32,
        None => x.dtype,
    };
    let matmul = weight.matmul(x.dtype, scaling, out)?;
    let shape = [rows, &[n]].concat();
    let mut result = array::Result::new(py, &shape, out)?;
    let run = Run { matmul: &matmul, x: &x, x_scales: x_scales.as_ref() };
    match out {
        DType::F32 => run.into_values::<f32>(py, result.values()),
        DType::BF16 => run.into_values::<bf16>(py, result.values()),
        DType::F16 => run.into_values::<f16>(py, result.values()),
        DType::F8E4M3 => unreachable!("no result is fp8"),
    }?;
    py.check_signals()?;
    Ok(result.into_any())
}

/// One call.
struct Run<'a, 'py> {
    matmul: &'a Matmul,
    x: &'a Floats<'py>,
    x_scales: Option<&'a Floats<'py>>,
}

impl Run<'_, '_> {
    fn into_values<O: Float + Send>(self, py: Python<'_>, out: &mut [O]) -> PyResult<()> {
        let Self { matmul, x, x_scales } = self;
        let done = if let Some(codes) = x.values::<u8>() {
            let Some(x_scales) = x_scales else {
                return Err(error::value("x holds fp8 codes: pass their scales as x_scales"));
            };
            let Some(scales) = x_scales.values::<f32>() else {
                return Err(wrong_dtype("x_scales", x_scales.dtype, "float32"));
            };
            py.detach(|| matmul.run_fp8(codes, scales, out))
        } else if x_scales.is_some() {
            return Err(error::value("x_scales is given, but x holds no fp8 codes: leave x_scales out"));
        } else if let Some(x) = x.values::<f32>() {
            py.detach(|| matmul.run(x, out))
        } else if let Some(x) = x.values::<bf16>() {
            py.detach(|| matmul.run(x, out))
        } else if let Some(x) = x.values::<f16>() {
            py.detach(|| matmul.run(x, out))
        } else {
            unreachable!("every dtype has its type");
        };
        done.map_err(error::from_library)
    }
}

/// The CPU: its threads start with the first product.
fn cpu() -> PyResult<&'static Device> {
    static CPU: OnceLock<Device> = OnceLock::new();
    if let Some(cpu) = CPU.get() {
        return Ok(cpu);
    }
    let cpu = Device::cpu().map_err(error::from_library)?;
    Ok(CPU.get_or_init(|| cpu))
}

fn read_block(size: usize) -> PyResult<Block> {
    let block = Block::ALL.into_iter().find(|block| block.size() == size);
    block.ok_or_else(|| error::value(format!("block {size} is not 128, 256 or 512")))
}

/// The block size that gives these numbers of blocks; the smallest where several do.
fn infer_block([n, k]: [usize; 2], blocks: [usize; 2]) -> PyResult<Block> {
    let block = Block::ALL.into_iter().find(|block| [block.count(n), block.count(k)] == blocks);
    block.ok_or_else(|| {
        error::value(format!(
            "scales have shape {blocks:?}, but codes {:?} need one per block of 128, 256 or 512",
            [n, k]
        ))
    })
}

fn wrong_dtype(name: &str, found: DType, expected: &str) -> PyErr {
    let found = match found {
        DType::F32 => "float32",
        DType::BF16 => "bfloat16",
        DType::F16 => "float16",
        DType::F8E4M3 => "float8_e4m3fn",
    };
    error::wrong_type(format!("{name} has dtype {found}: pass {expected}"))
}

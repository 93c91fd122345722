//! Weights, and their products with numpy arrays.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use half::{bf16, f16};
use octile::{DType, Device, Error, MatmulOp, Scales, WeightRef};
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    array::{self, Floats},
    block::{self, BlockSize},
    dtype, error,
    packed::Packed,
    safetensors,
};

/// Multiply-adds between two looks at signals: less than a second.
const WORK_BETWEEN_SIGNALS: usize = 1 << 32;

/// Rows that are multiplied at once are a multiple of every quantization block.
const ROWS: usize = 512;

/// What is quantized in a call.
const FLOATS: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// A matrix of N x K fp8 codes (e4m3fn) with one float32 scale per block: a value is its code times its
/// scale.
///
/// Immutable, and safe to use from several threads at once.
#[pyclass(frozen, module = "octile")]
pub(crate) struct Weight {
    weight: octile::Weight,
    /// What the kernels read, made by the first product.
    packed: OnceLock<Packed>,
    /// One for each combination of types in use.
    ops: Mutex<HashMap<(DType, Scales, DType), Arc<MatmulOp>>>,
}

impl From<octile::Weight> for Weight {
    fn from(weight: octile::Weight) -> Self {
        Self { weight, packed: OnceLock::new(), ops: Mutex::default() }
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
        block: Option<BlockSize>,
    ) -> PyResult<Self> {
        let (codes, [n, k]) = Floats::read_matrix("codes", &[DType::F8E4M3], codes)?;
        let (scales, blocks) = Floats::read_matrix("scales", &[DType::F32], scales)?;
        let block = match block {
            Some(BlockSize(block)) => block,
            None => block::infer([n, k], blocks)?,
        };
        let expected = [block.count(n), block.count(k)];
        if blocks != expected {
            return Err(error::value(format!(
                "scales have shape {blocks:?}, but codes {:?} in blocks of {} have {expected:?}",
                [n, k],
                block.size()
            )));
        }
        let codes = codes.values::<u8>().expect("the dtype was read");
        let scales = scales.values::<f32>().expect("the dtype was read");
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
        let mut result = array::Result::new(py, &self.weight.shape(), DType::F32)?;
        let out = result.bytes();
        py.detach(|| out.copy_from_slice(bytemuck::cast_slice(&self.weight.dequantize())));
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
    fn op(&self, x: DType, scales: Scales, out: DType) -> Result<Arc<MatmulOp>, Error> {
        let mut ops = self.ops.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(op) = ops.get(&(x, scales, out)) {
            return Ok(Arc::clone(op));
        }
        let builder = MatmulOp::builder(cpu()?, self.weight.shape(), self.weight.block());
        let op = Arc::new(builder.activations(x, scales).output(out).build()?);
        ops.insert((x, scales, out), Arc::clone(&op));
        Ok(op)
    }

    fn packed(&self) -> Result<WeightRef<'_>, Error> {
        if self.packed.get().is_none() {
            let weight = &self.weight;
            let packed = Packed::new(weight.codes(), weight.scales(), weight.shape(), weight.block())?;
            // Another thread may have been faster.
            let _ = self.packed.set(packed);
        }
        Ok(WeightRef::Packed(self.packed.wait().bytes()))
    }
}

/// Quantizes a matrix [N, K] of float32, bfloat16 or float16: one scale per block x block square, the largest
/// magnitude / 448.
#[pyfunction]
#[pyo3(signature = (w, block=BlockSize::DEFAULT), text_signature = "(w, block=128)")]
pub(crate) fn quantize(py: Python<'_>, w: &Bound<'_, PyAny>, block: BlockSize) -> PyResult<Weight> {
    let (w, shape) = Floats::read_matrix("w", &FLOATS, w)?;
    let BlockSize(block) = block;
    let weight = if let Some(values) = w.values::<f32>() {
        py.detach(|| octile::Weight::quantize(values, shape, block))
    } else if let Some(values) = w.values::<bf16>() {
        py.detach(|| octile::Weight::quantize(values, shape, block))
    } else {
        let values = w.values::<f16>().expect("the dtype was read");
        py.detach(|| octile::Weight::quantize(values, shape, block))
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
/// (x_scaling="token"), per square block ("block"), or not at all ("none"). Or x holds fp8 codes, and
/// x_scales their float32 scales. The result has the dtype out_dtype, by default that of x, or float32 for
/// codes.
#[pyfunction]
#[pyo3(
    signature = (x, weight, *, x_scales=None, x_scaling=Scaling(Scales::PerToken), out_dtype=None),
    text_signature = "(x, weight, *, x_scales=None, x_scaling='token', out_dtype=None)"
)]
pub(crate) fn matmul<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
    x_scales: Option<&Bound<'py, PyAny>>,
    x_scaling: Scaling,
    out_dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let x = Floats::read("x", &[DType::F32, DType::BF16, DType::F16, DType::F8E4M3], x)?;
    let Ok(weight) = weight.cast::<Weight>() else {
        let kind = array::type_name(weight);
        return Err(error::wrong_type(format!("weight is {kind}: pass what octile.quantize returns")));
    };
    let weight = weight.get();
    let [n, k] = weight.weight.shape();
    let (&last, leading) = x.shape().split_last().expect("x is no scalar");
    if last != k {
        return Err(error::value(format!("x has shape {:?}, but the weight has K = {k}", x.shape())));
    }
    let Scaling(scaling) = x_scaling;
    if x.dtype == DType::F8E4M3 && scaling == Scales::None {
        return Err(error::value("x holds fp8 codes, which have scales: x_scaling is 'token' or 'block'"));
    }
    let m = leading.iter().product();
    let x_scales = x_scales.map(|scales| Floats::read("x_scales", &[DType::F32], scales)).transpose()?;
    let columns = weight.weight.block().count(k);
    let expected = match scaling {
        Scales::PerBlock => vec![weight.weight.block().count(m), columns],
        Scales::PerToken | Scales::None => [leading, &[columns]].concat(),
    };
    let x_scales = check_x_scales(&x, x_scales.as_ref(), &expected)?;
    let out_dtype = match out_dtype {
        Some(given) => dtype::parse(given)?,
        None if x.dtype == DType::F8E4M3 => DType::F32,
        None => x.dtype,
    };
    let mut result = array::Result::new(py, &[leading, &[n]].concat(), out_dtype)?;
    let op = weight.op(x.dtype, scaling, out_dtype).map_err(error::from_library)?;

    // In parts, so that Ctrl-C need not wait for all of them; rows do not depend on each other.
    let rows = (WORK_BETWEEN_SIGNALS / (n * k)).max(1).next_multiple_of(ROWS);
    let x_parts = x.bytes().chunks(rows * k * dtype::size(x.dtype));
    let out_parts = result.bytes().chunks_mut(rows * n * dtype::size(out_dtype));
    let mut scale_parts = x_scales.chunks(scales_of(weight, scaling, rows).max(1));
    for (x, out) in x_parts.zip(out_parts) {
        let x_scales = scale_parts.next().unwrap_or_default();
        py.detach(|| op.run_bytes(weight.packed()?, x, x_scales, None, out)).map_err(error::from_library)?;
        py.check_signals()?;
    }
    Ok(result.into_any())
}

/// The argument `x_scaling`.
pub(crate) struct Scaling(Scales);

impl FromPyObject<'_, '_> for Scaling {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match given.extract::<&str>() {
            Ok("token") => Ok(Self(Scales::PerToken)),
            Ok("block") => Ok(Self(Scales::PerBlock)),
            Ok("none") => Ok(Self(Scales::None)),
            _ => {
                let shown = given.repr().map_or_else(|_| "given".to_owned(), |repr| repr.to_string());
                Err(error::value(format!("x_scaling {shown} is not 'token', 'block' or 'none'")))
            }
        }
    }
}

/// Number of scales of `rows` rows of x.
fn scales_of(weight: &Weight, scaling: Scales, rows: usize) -> usize {
    let block = weight.weight.block();
    let columns = block.count(weight.weight.shape()[1]);
    match scaling {
        Scales::PerToken => rows * columns,
        Scales::PerBlock => block.count(rows) * columns,
        Scales::None => 0,
    }
}

/// The scales of fp8 codes; none for other activations.
fn check_x_scales<'a>(
    x: &Floats<'_>,
    x_scales: Option<&'a Floats<'_>>,
    expected: &[usize],
) -> PyResult<&'a [f32]> {
    match (x.dtype, x_scales) {
        (DType::F8E4M3, None) => Err(error::value("x holds fp8 codes: pass their scales as x_scales")),
        (DType::F8E4M3, Some(scales)) => {
            let values = scales.values().expect("the dtype was read");
            if scales.shape() == expected {
                return Ok(values);
            }
            let shape = scales.shape();
            Err(error::value(format!("x_scales has shape {shape:?}, but x needs scales {expected:?}")))
        }
        (_, None) => Ok(&[]),
        (_, Some(_)) => Err(error::value("x_scales is given, but x holds no fp8 codes: leave x_scales out")),
    }
}

/// The CPU: its threads start with the first large product.
pub(crate) fn cpu() -> Result<&'static Device, Error> {
    static CPU: OnceLock<Device> = OnceLock::new();
    if let Some(cpu) = CPU.get() {
        return Ok(cpu);
    }
    let cpu = Device::cpu()?;
    Ok(CPU.get_or_init(|| cpu))
}

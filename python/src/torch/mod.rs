//! Products of PyTorch tensors, without PyTorch's dispatcher where nothing needs it.

mod dlpack;
mod layer;
mod product;
mod pytorch;
mod tensor;

use std::sync::Arc;

use octile::{DeviceOperands, ScaleLayout, WeightRef};
use pyo3::{intern, prelude::*, sync::PyOnceLock};

use self::{
    layer::LayerWeight,
    product::{Checked, Key, Product, Request},
    pytorch::PyTorch,
    tensor::{Operand, Place},
};

pub(crate) use self::layer::{torch_forget, torch_layer, torch_remembered};
use crate::multiplication::{ActivationAddresses, require_memory};

/// Multiplies as `torch_linear_kernel` does, or returns None where PyTorch must see the operator: for a
/// gradient, for modes, transformations, tracers and profilers, and for tensors that are not plain ones on a
/// CPU or GPU. With `remember` the weight is that of a layer: what the first call finds out about it, and on
/// CPUs a packed copy of it, is kept for the next ones.
#[pyfunction]
#[pyo3(signature = (x, weight, weight_scale_inv, remember=false, x_scales=None, out_dtype=None))]
pub(crate) fn torch_linear<'py>(
    x: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
    weight_scale_inv: &Bound<'py, PyAny>,
    remember: bool,
    x_scales: Option<&Bound<'py, PyAny>>,
    out_dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    multiply_directly([x, weight, weight_scale_inv], remember, x_scales, out_dtype)
}

/// Multiplies x by codes and scales, or returns None where PyTorch must see the operator.
fn multiply_directly<'py>(
    tensors: [&Bound<'py, PyAny>; 3],
    remember: bool,
    x_scales: Option<&Bound<'py, PyAny>>,
    out_dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let [x, codes, scales] = tensors;
    let pytorch = PyTorch::get(x.py())?;
    if !tensors.into_iter().chain(x_scales).all(|tensor| pytorch.is_plain(tensor))
        || pytorch.needs_gradient(x)?
        || pytorch.is_watched(x.py())?
        || PyTorch::is_any_negated([x])?
        || x_scales.map_or(Ok(false), |scales| PyTorch::is_any_negated([scales]))?
    {
        return Ok(None);
    }
    // A tensor without memory of its own, such as a sparse one, cannot be read.
    let Ok(call) = Call::read(pytorch, tensors, remember, x_scales, out_dtype) else { return Ok(None) };
    if call.is_elsewhere() || !call.is_unchanged && PyTorch::is_any_negated([codes, scales])? {
        return Ok(None);
    }
    call.run().map(Some)
}

/// Multiplies x [..., K] by the transpose of an fp8 weight [N, K]: the operator's kernel for CPUs and GPUs.
#[pyfunction]
#[pyo3(signature = (x, weight, weight_scale_inv, remember=false, x_scales=None, out_dtype=None))]
pub(crate) fn torch_linear_kernel<'py>(
    x: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
    weight_scale_inv: &Bound<'py, PyAny>,
    remember: bool,
    x_scales: Option<&Bound<'py, PyAny>>,
    out_dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let pytorch = PyTorch::get(x.py())?;
    Call::read(pytorch, [x, weight, weight_scale_inv], remember, x_scales, out_dtype)?.run()
}

/// One call with its operands.
struct Call<'a, 'py> {
    pytorch: &'static PyTorch,
    /// x, codes and scales.
    tensors: [&'a Bound<'py, PyAny>; 3],
    x: Operand,
    weight: Arc<LayerWeight>,
    /// Whether the weight is as the last call of the layer found it.
    is_unchanged: bool,
    x_scales: Option<(&'a Bound<'py, PyAny>, Operand)>,
    out_dtype: Option<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Call<'a, 'py> {
    fn read(
        pytorch: &'static PyTorch,
        tensors: [&'a Bound<'py, PyAny>; 3],
        remember: bool,
        x_scales: Option<&'a Bound<'py, PyAny>>,
        out_dtype: Option<&'a Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let [x, codes, scales] = tensors;
        let x = pytorch.read(x)?;
        let operands = [pytorch.read(codes)?, pytorch.read(scales)?];
        let x_scales = match x_scales {
            Some(x_scales) => Some((x_scales, pytorch.read(x_scales)?)),
            None => None,
        };
        let (weight, is_unchanged) = if remember {
            layer::remembered([codes, scales], operands)?
        } else {
            (Arc::new(LayerWeight::new(operands)), false)
        };
        Ok(Self { pytorch, tensors, x, weight, is_unchanged, x_scales, out_dtype })
    }

    /// A weight that is as the last call found it cannot be what the preceding kernel is writing.
    fn is_constant(&self) -> bool {
        self.is_unchanged && self.weight.codes.properties.place != Place::Cpu
    }

    fn is_elsewhere(&self) -> bool {
        let operands = [&self.x, &self.weight.codes, &self.weight.scales];
        let x_scales = self.x_scales.iter().map(|(_, operand)| operand);
        operands.into_iter().chain(x_scales).any(|operand| operand.properties.place == Place::Elsewhere)
    }

    /// Checks the operands; the exception says what is wrong with them.
    fn check(&self) -> PyResult<Checked> {
        static CHECK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let [x, codes, scales] = self.tensors;
        let check = CHECK.import(x.py(), "octile.torch._checks", "check_in_memory")?;
        let x_scales = self.x_scales.as_ref().map(|(tensor, _)| *tensor);
        check.call1((x, codes, scales, x_scales, self.out_dtype))?.extract()
    }

    fn product(&self, is_constant: bool) -> PyResult<Arc<Product>> {
        let x = &self.x.properties;
        let request = Request {
            x_place: x.place,
            x_dtype: x.dtype,
            x_columns: x.shape.sides().last().copied(),
            x_scales: self
                .x_scales
                .as_ref()
                .map(|(_, Operand { properties, .. })| (properties.place, properties.dtype)),
            out_dtype: self.out_dtype.map_or(0, |dtype| dtype.as_ptr() as usize),
            is_constant,
        };
        let (codes, scales) = (self.weight.codes.properties, self.weight.scales.properties);
        let key = Key { request, codes, scales };
        self.weight.product(request, || Product::find(self.tensors[0].py(), key, || self.check()))
    }

    fn run(self) -> PyResult<Bound<'py, PyAny>> {
        let product = self.product(self.is_constant())?;
        let leading = self.x.properties.shape.sides().split_last().map_or(&[][..], |(_, leading)| leading);
        let rows = leading.iter().product();
        let (x, x_address) = self.in_place(self.tensors[0], &self.x, self.x.properties.is_contiguous)?;
        let (_x_scales, x_scales, layout) = self.scales_in_place(&product, leading)?;
        let out = product.allocate(&x, leading)?;
        let out_address = self.pytorch.read(&out)?.address;

        let (py, multiplication, weight) = (x.py(), &product.multiplication, &self.weight);
        let (codes, scales) = (weight.codes.address, weight.scales.address);
        if let Place::Gpu(device) = weight.codes.properties.place {
            // The allocator reuses memory in the order of the stream, so the workspace may be freed once it
            // is queued.
            let workspace = self.pytorch.bytes(&x, multiplication.workspace_bytes(rows)?)?;
            let workspace = workspace.as_ref().map_or(Ok(0), tensor::address)?;
            let stream = self.pytorch.current_stream(py, device)?;
            let operands = DeviceOperands {
                x: x_address as u64,
                x_scales: x_scales as u64,
                x_scale_layout: layout,
                w: codes as u64,
                w_scales: scales as u64,
                out: out_address as u64,
                workspace: workspace as u64,
            };
            multiplication.enqueue(py, stream, &operands, rows)?;
            if weight.is_remembered() && !self.is_constant() && !self.pytorch.is_capturing(py)? {
                // The next call may be captured into a graph, and nothing can be compiled then.
                self.product(true)?.multiplication.prepare(py, rows)?;
            }
        } else {
            let weight = if weight.is_remembered() {
                WeightRef::Packed(weight.packed(|| multiplication.pack(py, codes, scales))?.bytes())
            } else {
                multiplication.weight_at(codes, scales)?
            };
            let activations = ActivationAddresses { x: x_address, x_scales, layout };
            multiplication.run_with(py, weight, activations, out_address, rows)?;
        }
        Ok(out)
    }

    /// The scales of x, if there are any, with their address and layout.
    fn scales_in_place(
        &self,
        product: &Product,
        leading: &[usize],
    ) -> PyResult<(Option<Bound<'py, PyAny>>, usize, Option<ScaleLayout>)> {
        let Some((scales, operand)) = &self.x_scales else { return Ok((None, 0, None)) };
        // A key has neither the rows of x nor those of the scales.
        let expected = leading.iter().copied().chain([product.multiplication.k_blocks()]);
        if !operand.properties.shape.sides().iter().copied().eq(expected) {
            self.check()?;
        }
        let layout = operand.scale_layout();
        let (scales, address) = self.in_place(scales, operand, layout.is_some())?;
        let is_copy = address != operand.address;
        Ok((Some(scales), address, layout.filter(|_| !is_copy)))
    }

    /// A tensor that the kernels can read, and its address: a copy without gaps where its strides or, on
    /// GPUs, its alignment prevent that.
    fn in_place(
        &self,
        tensor: &Bound<'py, PyAny>,
        operand: &Operand,
        has_readable_strides: bool,
    ) -> PyResult<(Bound<'py, PyAny>, usize)> {
        let py = tensor.py();
        let is_gpu = matches!(self.x.properties.place, Place::Gpu(_));
        let copy = if !has_readable_strides {
            if !operand.properties.shape.sides().contains(&0) {
                // PyTorch would crash.
                require_memory(operand.address)?;
            }
            intern!(py, "contiguous")
        } else if is_gpu && !operand.address.is_multiple_of(16) {
            if operand.properties.is_contiguous { intern!(py, "clone") } else { intern!(py, "contiguous") }
        } else {
            return Ok((tensor.clone(), operand.address));
        };
        let copy = tensor.call_method0(copy)?;
        let address = tensor::address(&copy)?;
        Ok((copy, address))
    }
}

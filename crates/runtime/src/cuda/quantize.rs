//! The quantization kernel.

use std::ffi::c_void;

use cudarc::driver::{CudaStream, sys};
use octile_core::{
    FloatKind, Problem, ScaleLayout,
    plan::hopper::{QUANTIZE_NUMBERS, QuantizePlan, QuantizeTuning, quantize_numbers},
};
use octile_kernels::hopper;

use super::{
    Buffer, CudaError, Gpu,
    buffer::VECTOR,
    graph::{Capturable, sealed::Work},
    launch::LoadedKernel,
    module::ModuleCache,
};

/// The compiled quantization kernel of one problem.
#[derive(Debug, Clone)]
pub struct QuantizeKernel {
    gpu: Gpu,
    problem: Problem,
    kind: FloatKind,
    kernel: LoadedKernel,
    row_alignment: usize,
}

/// Floats in, codes and scales out, in device memory.
#[derive(Debug, Clone, Copy)]
pub struct QuantizeOperands<'a> {
    /// The floats.
    pub x: &'a Buffer,
    /// Elements from one row of floats to the next.
    pub x_stride: usize,
    /// The codes.
    pub codes: &'a Buffer,
    /// Bytes from one row of codes to the next.
    pub codes_stride: usize,
    /// The scales.
    pub scales: &'a Buffer,
    /// Layout of the scales.
    pub layout: ScaleLayout,
}

impl QuantizeKernel {
    /// Compiles the kernel that quantizes the activations of a problem, which must be floats.
    pub fn new(gpu: &Gpu, problem: &Problem) -> Result<Self, CudaError> {
        Self::tuned(gpu, problem, QuantizeTuning::BEST)
    }

    /// The same with another tuning, for measurements.
    pub fn tuned(gpu: &Gpu, problem: &Problem, tuning: QuantizeTuning) -> Result<Self, CudaError> {
        Self::cached(gpu, problem, tuning, &ModuleCache::default())
    }

    /// The same, sharing modules with other plans.
    pub(super) fn cached(
        gpu: &Gpu,
        problem: &Problem,
        tuning: QuantizeTuning,
        modules: &ModuleCache,
    ) -> Result<Self, CudaError> {
        let Some(plan) = QuantizePlan::new(problem) else {
            let planned = "activations quantized on the GPU".to_owned();
            return Err(CudaError::PlanMismatch { planned, given: format!("x {}", problem.x) });
        };
        let Problem { m, n, k, quant_block, .. } = *problem;
        // The fields of a problem are public: check again.
        let is_valid = Problem::new(m, n, k, quant_block).is_ok();
        if !is_valid || [m, k].into_iter().any(|side| i32::try_from(side).is_err()) {
            return Err(CudaError::TooLarge);
        }
        let Some(plan) = plan.with_tuning(tuning) else {
            let planned = "a supported tuning of the quantization kernel".to_owned();
            return Err(CudaError::PlanMismatch { planned, given: format!("{tuning:?}") });
        };
        let config = plan.launch().launch_config(problem, gpu.properties().sms).ok_or(CudaError::TooLarge)?;
        let kernel = LoadedKernel::new(modules.load(gpu, &hopper::quantize(&plan))?, config)?;
        let row_alignment = plan.row_alignment();
        Ok(Self { gpu: gpu.clone(), problem: *problem, kind: plan.kind, kernel, row_alignment })
    }

    /// Returns the kernel for another stream of the same GPU.
    pub(super) fn on(&self, gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), ..self.clone() }
    }

    pub(super) fn loaded(&self) -> &LoadedKernel {
        &self.kernel
    }

    /// Name of the kernel.
    pub fn entry(&self) -> &str {
        self.kernel.entry()
    }

    /// Checks the operands and prepares launches.
    pub fn prepare<'a>(&self, operands: QuantizeOperands<'a>) -> Result<PreparedQuantize<'a>, CudaError> {
        let QuantizeOperands { x, x_stride, codes, codes_stride, scales, layout } = operands;
        let Problem { m, k, .. } = self.problem;
        if !codes_stride.is_multiple_of(16) || codes_stride < k {
            return Err(CudaError::OperandStride { what: "the codes", stride: codes_stride });
        }
        if !x_stride.is_multiple_of(self.row_alignment) || x_stride < k {
            return Err(CudaError::InputStride { stride: x_stride, alignment: self.row_alignment });
        }
        let numbers =
            quantize_numbers(&self.problem, x_stride, codes_stride, layout).ok_or(CudaError::TooLarge)?;
        let product = |a: usize, b: usize| a.checked_mul(b).ok_or(CudaError::TooLarge);
        let x_elements = product(m - 1, x_stride)?.checked_add(k).ok_or(CudaError::TooLarge)?;
        let shape = self.problem.x_scale_shape().expect("the activations have scales");
        let scale_bytes = product(layout.extent(shape), size_of::<f32>())?;
        let x_used = x.require(&self.gpu, "x", product(x_elements, self.kind.bytes())?, VECTOR)?;
        let codes_used = codes.require(&self.gpu, "the codes", product(m, codes_stride)?, VECTOR)?;
        let scales_used = scales.require(&self.gpu, "the scales", scale_bytes, VECTOR)?;
        codes_used.require_apart([&x_used, &scales_used])?;
        scales_used.require_apart([&x_used])?;
        Ok(PreparedQuantize {
            gpu: self.gpu.clone(),
            kernel: self.kernel.clone(),
            pointers: [x, codes, scales].map(Buffer::pointer),
            numbers,
            _operands: operands,
        })
    }
}

/// A quantization that is ready to launch.
#[derive(Debug, Clone)]
pub struct PreparedQuantize<'a> {
    gpu: Gpu,
    kernel: LoadedKernel,
    pointers: [sys::CUdeviceptr; 3],
    numbers: [u32; QUANTIZE_NUMBERS.len()],
    // Keeps the buffers alive.
    _operands: QuantizeOperands<'a>,
}

impl PreparedQuantize<'_> {
    /// Launches the quantization without waiting for it.
    pub fn launch(&self) -> Result<(), CudaError> {
        // SAFETY: `prepare` accepted operands of this stream only, and they are freed in its order.
        unsafe { self.put(&self.gpu.stream) }
    }
}

impl<'a> Capturable<'a> for PreparedQuantize<'a> {}

impl Work for PreparedQuantize<'_> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn kernels(&self) -> Vec<LoadedKernel> {
        vec![self.kernel.clone()]
    }

    unsafe fn put(&self, stream: &CudaStream) -> Result<(), CudaError> {
        let pointers =
            self.pointers.iter().map(|address| std::ptr::from_ref(address).cast::<c_void>().cast_mut());
        let numbers =
            self.numbers.iter().map(|number| std::ptr::from_ref(number).cast::<c_void>().cast_mut());
        let mut parameters: Vec<*mut c_void> = pointers.chain(numbers).collect();
        // SAFETY: `hopper::quantize` declares three pointers and these numbers; `prepare` checked every
        // buffer's size, and the caller promises the rest.
        unsafe { self.kernel.launch(stream, &mut parameters) }
    }
}

//! The multiplication kernel.

use std::ffi::c_void;

use cudarc::driver::{CudaStream, sys};
use octile_core::{
    Problem, ScaleLayout,
    plan::hopper::{Arguments, HopperPlan, NUMBERS, ResultPath},
};
use octile_kernels::hopper;

use super::{
    Buffer, CudaError, Gpu,
    buffer::{SCALE, VECTOR},
    graph::{Capturable, sealed::Work},
    launch::LoadedKernel,
    module::ModuleCache,
    tensor_map,
};

/// The compiled multiplication kernel of one plan.
#[derive(Debug, Clone)]
pub struct MultiplyKernel {
    gpu: Gpu,
    plan: HopperPlan,
    kernel: LoadedKernel,
}

/// Operands and result in device memory.
#[derive(Debug, Clone, Copy)]
pub struct MultiplyOperands<'a> {
    /// Codes of x.
    pub x: &'a Buffer,
    /// Scales of x.
    pub x_scales: &'a Buffer,
    /// Codes of the weight.
    pub w: &'a Buffer,
    /// Scales of the weight.
    pub w_scales: &'a Buffer,
    /// The result.
    pub out: &'a Buffer,
    /// Their layout.
    pub arguments: Arguments,
}

impl MultiplyKernel {
    /// Compiles the kernel of a plan, or takes it from the driver's cache. The plan must be made for this
    /// GPU, see [`Gpu::properties`].
    pub fn new(gpu: &Gpu, plan: &HopperPlan) -> Result<Self, CudaError> {
        Self::cached(gpu, plan, &ModuleCache::default())
    }

    /// The same, sharing modules with other plans.
    pub(super) fn cached(gpu: &Gpu, plan: &HopperPlan, modules: &ModuleCache) -> Result<Self, CudaError> {
        if !plan.is_made_for(gpu.properties()) {
            return Err(CudaError::InvalidPlan { gpu: gpu.name().to_owned() });
        }
        let config = plan.launch_config().ok_or(CudaError::TooLarge)?;
        let kernel = LoadedKernel::new(modules.load(gpu, &hopper::multiply(plan))?, config)?;
        Ok(Self { gpu: gpu.clone(), plan: plan.clone(), kernel })
    }

    /// Returns the kernel for another stream of the same GPU.
    pub(super) fn on(&self, gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), ..self.clone() }
    }

    /// Registers per thread, and bytes of local memory for spills.
    pub fn resources(&self) -> Result<(usize, usize), CudaError> {
        self.kernel.resources()
    }

    /// The plan.
    pub fn plan(&self) -> &HopperPlan {
        &self.plan
    }

    pub(super) fn loaded(&self) -> &LoadedKernel {
        &self.kernel
    }

    /// Name of the kernel.
    pub fn entry(&self) -> &str {
        self.kernel.entry()
    }

    /// Checks the operands and prepares launches.
    pub fn prepare<'a>(&self, operands: MultiplyOperands<'a>) -> Result<PreparedMultiply<'a>, CudaError> {
        let MultiplyOperands { x, x_scales, w, w_scales, out, arguments } = operands;
        let problem = &self.plan.problem;
        let numbers = arguments.numbers(&self.plan).ok_or(CudaError::TooLarge)?;
        for (what, stride) in [("x", arguments.x_stride), ("the weight", arguments.w_stride)] {
            if !stride.is_multiple_of(16) || stride < problem.k {
                return Err(CudaError::OperandStride { what, stride });
            }
        }
        let vector = if self.plan.result_path == ResultPath::Direct { 4 } else { 8 };
        let vector = if self.plan.stores_vectors() { vector } else { 1 };
        if !arguments.out_stride.is_multiple_of(vector) || arguments.out_stride < problem.n {
            return Err(CudaError::OutputStride { stride: arguments.out_stride, vector });
        }
        let product = |a: usize, b: usize| a.checked_mul(b).ok_or(CudaError::TooLarge);
        let bytes_of_scales = |layout: ScaleLayout, shape| product(layout.extent(shape), size_of::<f32>());
        let x_scale_shape = problem.x_scale_shape().expect("plans are made for 8-bit activations");
        let x_scale_bytes = bytes_of_scales(arguments.x_scales, x_scale_shape)?;
        let w_scale_bytes = bytes_of_scales(arguments.w_scales, problem.w_scale_shape())?;
        // Vector loads read the padding of the last row too.
        let (x_bytes, w_bytes) =
            (product(problem.m, arguments.x_stride)?, product(problem.n, arguments.w_stride)?);
        let out_elements = product(problem.m - 1, arguments.out_stride)?.checked_add(problem.n);
        let out_bytes = product(out_elements.ok_or(CudaError::TooLarge)?, problem.out.bytes())?;
        let read = [
            x.require(&self.gpu, "x", x_bytes, VECTOR)?,
            w.require(&self.gpu, "the weight", w_bytes, VECTOR)?,
            x_scales.require(&self.gpu, "the scales of x", x_scale_bytes, VECTOR)?,
            w_scales.require(&self.gpu, "the scales of the weight", w_scale_bytes, SCALE)?,
        ];
        out.require(&self.gpu, "the result", out_bytes, VECTOR)?.require_apart(&read)?;

        let (a_box, b_box) = self.plan.fetched_rows();
        let map = |of_x: bool, box_rows: usize| {
            let (buffer, rows, stride) =
                if of_x { (x, problem.m, arguments.x_stride) } else { (w, problem.n, arguments.w_stride) };
            tensor_map::encode(buffer, rows, problem.k, stride, box_rows)
        };
        let swapped = self.plan.shape.swapped;
        Ok(PreparedMultiply {
            gpu: self.gpu.clone(),
            kernel: self.kernel.clone(),
            maps: [map(!swapped, a_box)?, map(swapped, b_box)?, self.result_map(out, arguments)?],
            pointers: [x_scales, w_scales, out, x, w].map(Buffer::pointer),
            numbers,
            _operands: operands,
        })
    }
}

impl MultiplyKernel {
    /// The tensor map of the result; zeros, never read, unless the kernel uses TMA stores.
    fn result_map(&self, out: &Buffer, arguments: Arguments) -> Result<sys::CUtensorMap, CudaError> {
        if !self.plan.result_path.uses_tma_store() {
            return Ok(sys::CUtensorMap { opaque: [0; 16] });
        }
        let Problem { m, n, .. } = self.plan.problem;
        tensor_map::encode_result(out, m, n, arguments.out_stride, self.plan.stored_rows())
    }
}

/// A multiplication that is ready to launch.
#[derive(Debug, Clone)]
pub struct PreparedMultiply<'a> {
    gpu: Gpu,
    kernel: LoadedKernel,
    maps: [sys::CUtensorMap; 3],
    pointers: [sys::CUdeviceptr; 5],
    numbers: [u32; NUMBERS.len()],
    // Keeps the buffers alive.
    _operands: MultiplyOperands<'a>,
}

impl PreparedMultiply<'_> {
    /// Launches the multiplication without waiting for it.
    pub fn launch(&self) -> Result<(), CudaError> {
        // SAFETY: `prepare` accepted operands of this stream only, and they are freed in its order.
        unsafe { self.put(&self.gpu.stream) }
    }
}

impl<'a> Capturable<'a> for PreparedMultiply<'a> {}

impl Work for PreparedMultiply<'_> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn kernels(&self) -> Vec<LoadedKernel> {
        vec![self.kernel.clone()]
    }

    unsafe fn put(&self, stream: &CudaStream) -> Result<(), CudaError> {
        let pointer = |value: *const c_void| value.cast_mut();
        let maps = self.maps.iter().map(|map| pointer(std::ptr::from_ref(map).cast()));
        let pointers = self.pointers.iter().map(|address| pointer(std::ptr::from_ref(address).cast()));
        let numbers = self.numbers.iter().map(|number| pointer(std::ptr::from_ref(number).cast()));
        let mut parameters: Vec<*mut c_void> = maps.chain(pointers).chain(numbers).collect();
        // SAFETY: `hopper::multiply` declares three tensor maps, five pointers and these numbers; `prepare`
        // checked the plan and every buffer's size, and the caller promises the rest.
        unsafe { self.kernel.launch(stream, &mut parameters) }
    }
}

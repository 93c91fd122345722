//! The multiplication on device memory.

use std::ffi::c_void;

use cudarc::driver::sys;
use octile_core::{
    Problem,
    plan::hopper::{Arguments, HopperPlan, NUMBERS, ResultPath},
};

use super::{
    Buffer, CudaError, Gpu,
    buffer::{SCALE, VECTOR},
    launch::Kernel,
    module::{KernelText, Module},
    tensor_map,
};

/// A compiled kernel for one plan.
#[derive(Debug, Clone)]
pub struct Multiplication {
    gpu: Gpu,
    plan: HopperPlan,
    kernel: Kernel,
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
    /// How they lie in memory.
    pub arguments: Arguments,
}

impl Multiplication {
    /// Compiles `text`, which must be the kernel of `plan`, or takes it from the cache.
    pub fn new(gpu: &Gpu, plan: &HopperPlan, text: KernelText<'_>) -> Result<Self, CudaError> {
        let number = |value: usize| u32::try_from(value).map_err(|_| CudaError::TooLarge);
        let kernel = Kernel::new(
            Module::load(gpu, text)?,
            (number(plan.blocks)?, 1),
            number(plan.threads())?,
            number(plan.shared_bytes())?,
            number(plan.shape.together.blocks())?,
        )?;
        Ok(Self { gpu: gpu.clone(), plan: plan.clone(), kernel })
    }

    /// Registers per thread, and bytes of local memory that spilled registers take.
    pub fn resources(&self) -> Result<(usize, usize), CudaError> {
        self.kernel.resources()
    }

    /// The plan.
    pub fn plan(&self) -> &HopperPlan {
        &self.plan
    }

    /// Name of the kernel.
    pub fn entry(&self) -> &str {
        self.kernel.entry()
    }

    /// Checks the operands and makes everything ready to launch again and again.
    pub fn prepare<'a>(&self, operands: MultiplyOperands<'a>) -> Result<PreparedMultiply<'a>, CudaError> {
        let MultiplyOperands { x, x_scales, w, w_scales, out, arguments } = operands;
        let problem = &self.plan.problem;
        let numbers = arguments.numbers(&self.plan).ok_or(CudaError::TooLarge)?;
        for (what, stride) in [("x", arguments.x_stride), ("the weight", arguments.w_stride)] {
            if !stride.is_multiple_of(16) || stride < problem.k {
                return Err(CudaError::Stride { what, stride });
            }
        }
        let vector = if self.plan.result_path == ResultPath::Direct { 4 } else { 8 };
        if self.plan.stores_vectors() && !arguments.out_stride.is_multiple_of(vector) {
            return Err(CudaError::ResultStride { stride: arguments.out_stride, vector });
        }
        let extent = |rows: usize, cols: usize, stride: usize| (rows - 1) * stride + cols;
        // Whole vectors are read, so a last row ends with its stride.
        x.require("x", problem.m * arguments.x_stride, VECTOR)?;
        w.require("the weight", problem.n * arguments.w_stride, VECTOR)?;
        let out_bytes = extent(problem.m, problem.n, arguments.out_stride) * problem.out.bytes();
        out.require("the result", out_bytes, VECTOR)?;
        let x_scale_shape = problem.x_scale_shape().expect("plans are made for 8-bit activations");
        x_scales.require("the scales of x", 4 * arguments.x_scales.extent(x_scale_shape), VECTOR)?;
        w_scales.require(
            "the scales of the weight",
            4 * arguments.w_scales.extent(problem.w_scale_shape()),
            SCALE,
        )?;

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

impl Multiplication {
    /// What the copy engine must know of the result; nothing that is looked at where it has no part in storing it.
    fn result_map(&self, out: &Buffer, arguments: Arguments) -> Result<sys::CUtensorMap, CudaError> {
        if !self.plan.result_path.uses_copy_engine() {
            return Ok(sys::CUtensorMap { opaque: [0; 16] });
        }
        let Problem { m, n, .. } = self.plan.problem;
        tensor_map::encode_result(out, m, n, arguments.out_stride, self.plan.stored_rows())
    }
}

/// A multiplication that is ready to be put on the stream.
#[derive(Debug, Clone)]
pub struct PreparedMultiply<'a> {
    gpu: Gpu,
    kernel: Kernel,
    maps: [sys::CUtensorMap; 3],
    pointers: [sys::CUdeviceptr; 5],
    numbers: [u32; NUMBERS.len()],
    // Keeps the buffers alive.
    _operands: MultiplyOperands<'a>,
}

impl PreparedMultiply<'_> {
    /// Puts the multiplication on the stream.
    pub fn launch(&self) -> Result<(), CudaError> {
        let pointer = |value: *const c_void| value.cast_mut();
        let maps = self.maps.iter().map(|map| pointer(std::ptr::from_ref(map).cast()));
        let pointers = self.pointers.iter().map(|address| pointer(std::ptr::from_ref(address).cast()));
        let numbers = self.numbers.iter().map(|number| pointer(std::ptr::from_ref(number).cast()));
        let mut parameters: Vec<*mut c_void> = maps.chain(pointers).chain(numbers).collect();
        // SAFETY: the kernel declares three maps, five pointers and these numbers; `prepare` checked every buffer's size.
        unsafe { self.kernel.launch(&self.gpu, &mut parameters) }
    }
}

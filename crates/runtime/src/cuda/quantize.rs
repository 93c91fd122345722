//! Quantization on device memory.

use std::ffi::c_void;

use cudarc::driver::sys;
use octile_core::{
    FloatKind, Problem,
    plan::hopper::{QUANTIZE_NUMBERS, QUANTIZE_SHARED_BYTES, QuantizeLaunch, ScaleLayout, quantize_numbers},
};

use super::{
    Buffer, CudaError, Gpu,
    buffer::VECTOR,
    launch::Kernel,
    module::{KernelText, Module},
};

/// A compiled kernel that quantizes the activations of one problem.
#[derive(Debug, Clone)]
pub struct Quantization {
    gpu: Gpu,
    problem: Problem,
    kind: FloatKind,
    kernel: Kernel,
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
    /// How the scales lie in memory.
    pub layout: ScaleLayout,
}

/// A quantizing kernel, and how it wants to be launched.
#[derive(Debug, Clone, Copy)]
pub struct QuantizeText<'a> {
    /// The kernel.
    pub text: KernelText<'a>,
    /// How it divides its work.
    pub launch: QuantizeLaunch,
    /// Rows must start at multiples of so many elements, because the kernel loads them at once.
    pub row_alignment: usize,
}

impl Quantization {
    /// Compiles a kernel, which must quantize this kind of floats to the problem's scales.
    pub fn new(
        gpu: &Gpu,
        problem: &Problem,
        kind: FloatKind,
        kernel: QuantizeText<'_>,
    ) -> Result<Self, CudaError> {
        let QuantizeText { text, launch, row_alignment } = kernel;
        let grid = launch.grid(problem, gpu.facts().sms).ok_or(CudaError::TooLarge)?;
        let kernel = Kernel::new(Module::load(gpu, text)?, grid, launch.threads, QUANTIZE_SHARED_BYTES, 1)?;
        Ok(Self { gpu: gpu.clone(), problem: *problem, kind, kernel, row_alignment })
    }

    /// Checks the operands and makes everything ready to launch again and again.
    pub fn prepare<'a>(&self, operands: QuantizeOperands<'a>) -> Result<PreparedQuantize<'a>, CudaError> {
        let QuantizeOperands { x, x_stride, codes, codes_stride, scales, layout } = operands;
        let Problem { m, k, .. } = self.problem;
        if !codes_stride.is_multiple_of(16) || codes_stride < k {
            return Err(CudaError::Stride { what: "the codes", stride: codes_stride });
        }
        if !x_stride.is_multiple_of(self.row_alignment) || x_stride < k {
            return Err(CudaError::RowsApart { stride: x_stride, alignment: self.row_alignment });
        }
        x.require("x", ((m - 1) * x_stride + k) * self.kind.bytes(), VECTOR)?;
        codes.require("the codes", m * codes_stride, VECTOR)?;
        let shape = self.problem.x_scale_shape().expect("plans are made for 8-bit activations");
        scales.require("the scales", 4 * layout.extent(shape), VECTOR)?;
        let numbers =
            quantize_numbers(&self.problem, x_stride, codes_stride, layout).ok_or(CudaError::TooLarge)?;
        Ok(PreparedQuantize {
            gpu: self.gpu.clone(),
            kernel: self.kernel.clone(),
            pointers: [x, codes, scales].map(Buffer::pointer),
            numbers,
            _operands: operands,
        })
    }
}

/// A quantization that is ready to be put on the stream.
#[derive(Debug, Clone)]
pub struct PreparedQuantize<'a> {
    gpu: Gpu,
    kernel: Kernel,
    pointers: [sys::CUdeviceptr; 3],
    numbers: [u32; QUANTIZE_NUMBERS.len()],
    // Keeps the buffers alive.
    _operands: QuantizeOperands<'a>,
}

impl PreparedQuantize<'_> {
    /// Puts the quantization on the stream.
    pub fn launch(&self) -> Result<(), CudaError> {
        let pointers =
            self.pointers.iter().map(|address| std::ptr::from_ref(address).cast::<c_void>().cast_mut());
        let numbers =
            self.numbers.iter().map(|number| std::ptr::from_ref(number).cast::<c_void>().cast_mut());
        let mut parameters: Vec<*mut c_void> = pointers.chain(numbers).collect();
        // SAFETY: the kernel declares three pointers and these numbers; `prepare` checked every buffer's size.
        unsafe { self.kernel.launch(&self.gpu, &mut parameters) }
    }
}

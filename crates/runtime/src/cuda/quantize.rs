//! Quantization on device memory.

use std::ffi::c_void;

use cudarc::driver::sys;
use octile_core::{FloatKind, Problem, ScaleGranularity, plan::hopper::ScaleLayout};

use super::{
    Buffer, CudaError, Gpu,
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

impl Quantization {
    /// Compiles `text`, which must be the quantizing kernel of this kind of floats and the problem's scales.
    /// `groups_per_block` is the number of token groups that a block of `threads` threads takes.
    pub fn new(
        gpu: &Gpu,
        problem: &Problem,
        kind: FloatKind,
        text: KernelText<'_>,
        threads: u32,
        groups_per_block: u32,
    ) -> Result<Self, CudaError> {
        let granularity = problem.x.granularity().expect("plans are made for 8-bit activations");
        let (rows, k_blocks) = problem.x_scale_shape().expect("plans are made for 8-bit activations");
        let number = |value: usize| u32::try_from(value).map_err(|_| CudaError::TooLarge);
        let grid = match granularity {
            ScaleGranularity::Token => (number((rows * k_blocks).div_ceil(groups_per_block as usize))?, 1),
            ScaleGranularity::Block => (number(k_blocks)?, number(rows)?),
        };
        let kernel = Kernel::new(Module::load(gpu, text)?, grid, threads, 16, 1)?;
        Ok(Self { gpu: gpu.clone(), problem: *problem, kind, kernel })
    }

    /// Checks the operands and makes everything ready to launch again and again.
    pub fn prepare<'a>(&self, operands: QuantizeOperands<'a>) -> Result<PreparedQuantize<'a>, CudaError> {
        let QuantizeOperands { x, x_stride, codes, codes_stride, scales, layout } = operands;
        let Problem { m, k, quant_block, .. } = self.problem;
        if !codes_stride.is_multiple_of(16) || codes_stride < k {
            return Err(CudaError::Stride { what: "the codes", stride: codes_stride });
        }
        x.require("x", ((m - 1) * x_stride + k) * self.kind.bytes())?;
        codes.require("the codes", m * codes_stride)?;
        let (rows, cols) = self.problem.x_scale_shape().expect("plans are made for 8-bit activations");
        scales.require("the scales", 4 * ((rows - 1) * layout.row + (cols - 1) * layout.k + 1))?;
        let numbers =
            [m, k, quant_block.size().ilog2() as usize, x_stride, codes_stride, layout.row, layout.k];
        let mut narrow = [0; 7];
        for (narrow, number) in narrow.iter_mut().zip(numbers) {
            *narrow = u32::try_from(number).map_err(|_| CudaError::TooLarge)?;
        }
        Ok(PreparedQuantize {
            gpu: self.gpu.clone(),
            kernel: self.kernel.clone(),
            pointers: [x, codes, scales].map(Buffer::pointer),
            numbers: narrow,
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
    numbers: [u32; 7],
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

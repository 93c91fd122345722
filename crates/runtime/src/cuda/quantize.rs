//! Quantization on device memory.

use std::ffi::c_void;

use cudarc::driver::sys;
use octile_core::{FloatKind, Problem, ScaleGranularity, plan::hopper::ScaleLayout};

use super::{
    Buffer, CudaError, Gpu,
    buffer::VECTOR,
    launch::Kernel,
    module::{KernelText, Module},
};

/// Numbers that a kernel takes after its pointers.
const NUMBERS: usize = 10;

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
    /// Threads of a block.
    pub threads: u32,
    /// Token groups that a block takes at a time.
    pub groups_per_block: u32,
    /// Blocks per multiprocessor that take one piece of work after another; `None` for one block per piece.
    pub staying: Option<u32>,
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
        let QuantizeText { text, threads, groups_per_block, staying, row_alignment } = kernel;
        let granularity = problem.x.granularity().expect("plans are made for 8-bit activations");
        let (rows, k_blocks) = problem.x_scale_shape().expect("plans are made for 8-bit activations");
        let number = |value: usize| u32::try_from(value).map_err(|_| CudaError::TooLarge);
        let grid = match granularity {
            ScaleGranularity::Token => {
                let pieces = (rows * k_blocks).div_ceil(groups_per_block as usize);
                // The kernel divides the indices of groups, which must leave a bit free for that.
                if pieces * groups_per_block as usize > i32::MAX as usize {
                    return Err(CudaError::TooLarge);
                }
                let most = staying.map_or(pieces, |blocks| gpu.facts().sms * blocks as usize);
                (number(pieces.min(most))?, 1)
            }
            ScaleGranularity::Block => (number(k_blocks)?, number(rows)?),
        };
        let kernel = Kernel::new(Module::load(gpu, text)?, grid, threads, 16, 1)?;
        Ok(Self { gpu: gpu.clone(), problem: *problem, kind, kernel, row_alignment })
    }

    /// Checks the operands and makes everything ready to launch again and again.
    pub fn prepare<'a>(&self, operands: QuantizeOperands<'a>) -> Result<PreparedQuantize<'a>, CudaError> {
        let QuantizeOperands { x, x_stride, codes, codes_stride, scales, layout } = operands;
        let Problem { m, k, quant_block, .. } = self.problem;
        if !codes_stride.is_multiple_of(16) || codes_stride < k {
            return Err(CudaError::Stride { what: "the codes", stride: codes_stride });
        }
        if !x_stride.is_multiple_of(self.row_alignment) || x_stride < k {
            return Err(CudaError::RowsApart { stride: x_stride, alignment: self.row_alignment });
        }
        x.require("x", ((m - 1) * x_stride + k) * self.kind.bytes(), VECTOR)?;
        codes.require("the codes", m * codes_stride, VECTOR)?;
        let (rows, cols) = self.problem.x_scale_shape().expect("plans are made for 8-bit activations");
        scales.require("the scales", 4 * ((rows - 1) * layout.row + (cols - 1) * layout.k + 1), VECTOR)?;
        let shift = quant_block.size().ilog2() as usize;
        let (reciprocal, reciprocal_shift) = reciprocal(cols);
        let numbers =
            [m, k, shift, x_stride, codes_stride, layout.row, layout.k, cols, reciprocal, reciprocal_shift];
        let mut narrow = [0; NUMBERS];
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

/// What a kernel divides a number below 2^31 by `divisor` with, because it has no quick division of its own: a factor,
/// and how far to shift the high half of its product with twice the number.
fn reciprocal(divisor: usize) -> (usize, usize) {
    let shift = divisor.next_power_of_two().ilog2() as usize;
    ((1usize << (31 + shift)) / divisor + 1, shift)
}

/// A quantization that is ready to be put on the stream.
#[derive(Debug, Clone)]
pub struct PreparedQuantize<'a> {
    gpu: Gpu,
    kernel: Kernel,
    pointers: [sys::CUdeviceptr; 3],
    numbers: [u32; NUMBERS],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide() {
        for divisor in (1..2000).chain([4095, 4096, 4097, 65_535, 1 << 20, (1 << 20) + 1, i32::MAX as usize])
        {
            let (factor, shift) = reciprocal(divisor);
            let factor = u64::from(u32::try_from(factor).expect("a factor has 32 bits"));
            let last = i32::MAX as u64;
            let divisor = divisor as u64;
            let edges = (0..200).flat_map(|at| {
                let multiple = last / divisor / 200 * at * divisor;
                [multiple.saturating_sub(1), multiple, multiple + 1, last - at]
            });
            for number in edges.filter(|number| *number <= last) {
                assert_eq!((2 * number * factor) >> 32 >> shift, number / divisor, "{number} / {divisor}");
            }
        }
    }
}

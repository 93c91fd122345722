//! The kernel that measures what the tensor cores can do.

use cudarc::driver::sys;

use super::{
    Buffer, CudaError, Gpu,
    launch::Kernel,
    module::{KernelText, Module},
};

/// The measuring kernel, ready to launch.
#[derive(Debug)]
pub struct PeakKernel {
    gpu: Gpu,
    kernel: Kernel,
    // Never written; the kernel only seems to.
    out: Buffer,
}

impl PeakKernel {
    /// Compiles `text`, which must take one pointer to 4 bytes.
    pub fn new(
        gpu: &Gpu,
        text: KernelText<'_>,
        blocks: u32,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<Self, CudaError> {
        let kernel = Kernel::new(Module::load(gpu, text)?, (blocks, 1), threads, shared_bytes, 1)?;
        Ok(Self { gpu: gpu.clone(), kernel, out: Buffer::zeros(gpu, 4)? })
    }

    /// Puts the kernel on the stream.
    pub fn launch(&self) -> Result<(), CudaError> {
        let mut pointer: sys::CUdeviceptr = self.out.pointer();
        let mut parameters = [std::ptr::from_mut(&mut pointer).cast()];
        // SAFETY: the kernel declares one pointer, to memory as large as a float.
        unsafe { self.kernel.launch(&self.gpu, &mut parameters) }
    }
}

//! The kernel that measures what the tensor cores can do.

use cudarc::driver::sys;
use octile_kernels::hopper;

use super::{Buffer, CudaError, Gpu, launch::LoadedKernel, module::Module};

/// The measuring kernel, ready to launch.
#[derive(Debug)]
pub struct TensorCorePeak {
    gpu: Gpu,
    kernel: LoadedKernel,
    // Never written; the kernel only seems to.
    out: Buffer,
}

impl TensorCorePeak {
    /// Compiles it for one CTA per SM.
    pub fn new(gpu: &Gpu) -> Result<Self, CudaError> {
        type Peak = hopper::PeakKernel;
        let blocks = u32::try_from(gpu.properties().sms).map_err(|_| CudaError::TooLarge)?;
        let module = Module::load(gpu, &hopper::peak().kernel)?;
        let kernel = LoadedKernel::new(module, (blocks, 1), Peak::THREADS, Peak::SHARED_BYTES, 1)?;
        Ok(Self { gpu: gpu.clone(), kernel, out: Buffer::zeros(gpu, 4)? })
    }

    /// Floating-point operations of one launch.
    pub fn flops(&self) -> f64 {
        hopper::PeakKernel::flops(self.gpu.properties().sms)
    }

    /// Puts the kernel on the stream, and returns at once.
    pub fn launch(&self) -> Result<(), CudaError> {
        let mut pointer: sys::CUdeviceptr = self.out.pointer();
        let mut parameters = [std::ptr::from_mut(&mut pointer).cast()];
        // SAFETY: the kernel declares one pointer, to memory as large as a float, which is freed on this stream.
        unsafe { self.kernel.launch(&self.gpu.stream, &mut parameters) }
    }
}

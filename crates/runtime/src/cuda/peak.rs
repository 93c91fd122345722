//! Measuring the peak throughput of the tensor cores.

use cudarc::driver::sys;
use octile_core::plan::hopper::LaunchConfig;
use octile_kernels::hopper;

use super::{Buffer, CudaError, Gpu, launch::LoadedKernel, module::Module};

/// The kernel that measures the peak throughput of the tensor cores.
#[derive(Debug)]
pub struct TensorCorePeak {
    gpu: Gpu,
    kernel: LoadedKernel,
    // Never written: the store keeps the compiler from removing the arithmetic.
    out: Buffer,
}

impl TensorCorePeak {
    /// Compiles it for one CTA per SM.
    pub fn new(gpu: &Gpu) -> Result<Self, CudaError> {
        type Peak = hopper::PeakKernel;
        let ctas = u32::try_from(gpu.properties().sms).map_err(|_| CudaError::TooLarge)?;
        let module = Module::load(gpu, &hopper::peak().kernel)?;
        let config = LaunchConfig {
            grid: (ctas, 1),
            threads: Peak::THREADS,
            cluster: 1,
            shared_bytes: Peak::SHARED_BYTES,
        };
        let kernel = LoadedKernel::new(module, config)?;
        Ok(Self { gpu: gpu.clone(), kernel, out: Buffer::zeros(gpu, 4)? })
    }

    /// Floating-point operations of one launch.
    pub fn flops(&self) -> f64 {
        hopper::PeakKernel::flops(self.gpu.properties().sms)
    }

    /// Launches the kernel without waiting for it.
    pub fn launch(&self) -> Result<(), CudaError> {
        let mut pointer: sys::CUdeviceptr = self.out.pointer();
        let mut parameters = [std::ptr::from_mut(&mut pointer).cast()];
        // SAFETY: the kernel declares one pointer, to one float, which is freed on this stream.
        unsafe { self.kernel.launch(&self.gpu.stream, &mut parameters) }
    }
}

//! What there is: the driver, and the GPUs that it sees.

use cudarc::driver::{
    result,
    sys::{self, CUdevice_attribute as Attribute, CUresult},
};

use super::{CudaError, error::While};

/// The oldest CUDA version whose drivers compile the kernels: the first with PTX ISA 8.3.
const OLDEST_CUDA: i32 = 12_030;

/// The CUDA driver of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDriver {
    /// The CUDA version that it speaks: 13000 for 13.0.
    pub cuda: i32,
    /// The GPUs that it sees, by index.
    pub gpus: Vec<FoundGpu>,
}

/// One GPU, Hopper or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundGpu {
    /// What the driver calls it.
    pub name: String,
    /// Compute capability, before and behind the point.
    pub capability: (i32, i32),
    /// SMs.
    pub sms: usize,
    /// Bytes of device memory.
    pub memory: usize,
}

impl FoundDriver {
    /// Asks the driver, without opening a GPU.
    pub fn look() -> Result<Self, CudaError> {
        // SAFETY: looks for the library and closes it again.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        let mut cuda = 0;
        // SAFETY: writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut cuda) }.result().doing("tell its version")?;
        // Before anything else: an old driver may lack calls.
        if cuda < OLDEST_CUDA {
            return Err(CudaError::OldDriver { cuda: version(cuda), oldest: version(OLDEST_CUDA) });
        }
        result::init().or_else(|error| match error.0 {
            CUresult::CUDA_ERROR_NO_DEVICE => Err(CudaError::NoGpu),
            CUresult::CUDA_ERROR_STUB_LIBRARY => Err(CudaError::NoDriver),
            _ => Err(error).doing("start"),
        })?;
        let count = result::device::get_count().doing("count the GPUs")?;
        let gpus = (0..count).map(FoundGpu::look).collect::<Result<Vec<_>, _>>()?;
        if gpus.is_empty() { Err(CudaError::NoGpu) } else { Ok(Self { cuda, gpus }) }
    }
}

impl FoundGpu {
    fn look(index: i32) -> Result<Self, CudaError> {
        let device = result::device::get(index).doing("find a GPU")?;
        let read = |attribute| {
            // SAFETY: the device was found just now.
            unsafe { result::device::get_attribute(device, attribute) }.doing("read an attribute of the GPU")
        };
        Ok(Self {
            name: result::device::get_name(device).doing("name the GPU")?,
            capability: (
                read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            sms: usize::try_from(read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?).unwrap_or(0),
            // SAFETY: the device was found just now.
            memory: unsafe { result::device::total_mem(device) }.doing("tell the GPU's memory")?,
        })
    }

    /// Refuses a GPU that cannot run the kernels.
    pub fn require_hopper(&self) -> Result<(), CudaError> {
        let (major, minor) = self.capability;
        if (major, minor) == (9, 0) {
            return Ok(());
        }
        Err(CudaError::NotHopper { name: self.name.clone(), major, minor })
    }
}

/// A CUDA version in words.
pub fn version(cuda: i32) -> String {
    format!("{}.{}", cuda / 1000, cuda % 1000 / 10)
}

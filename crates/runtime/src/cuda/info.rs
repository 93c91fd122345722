//! The driver and the GPUs that it finds.

use cudarc::driver::{
    result,
    sys::{self, CUdevice_attribute as Attribute, CUresult},
};

use super::{CudaError, error::DoingExt};

/// The oldest CUDA version whose drivers compile the kernels: the first with PTX ISA 8.3.
const OLDEST_CUDA: i32 = 12_030;

/// The CUDA driver of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// The CUDA version that it supports: 13000 for 13.0.
    pub cuda: i32,
    /// Its GPUs, by index.
    pub gpus: Vec<GpuInfo>,
}

/// One GPU, Hopper or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Number of SMs.
    pub sms: usize,
    /// Bytes of device memory.
    pub memory: usize,
}

impl DriverInfo {
    /// Queries the driver without opening a GPU.
    pub fn query() -> Result<Self, CudaError> {
        if !is_driver_installed() {
            return Err(CudaError::NoDriver);
        }
        let mut cuda = 0;
        // SAFETY: writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut cuda) }.result().doing("report its version")?;
        // First, because an old driver may lack functions.
        if cuda < OLDEST_CUDA {
            return Err(CudaError::OldDriver {
                cuda: format_version(cuda),
                oldest: format_version(OLDEST_CUDA),
            });
        }
        result::init().or_else(|error| match error.0 {
            CUresult::CUDA_ERROR_NO_DEVICE => Err(CudaError::NoGpu),
            CUresult::CUDA_ERROR_STUB_LIBRARY => Err(CudaError::NoDriver),
            _ => Err(error).doing("start"),
        })?;
        let count = result::device::get_count().doing("count the GPUs")?;
        let gpus = (0..count).map(GpuInfo::query).collect::<Result<Vec<_>, _>>()?;
        if gpus.is_empty() { Err(CudaError::NoGpu) } else { Ok(Self { cuda, gpus }) }
    }
}

impl GpuInfo {
    fn query(index: i32) -> Result<Self, CudaError> {
        let device = result::device::get(index).doing("find a GPU")?;
        let read = |attribute| {
            // SAFETY: the driver returned the device.
            unsafe { result::device::get_attribute(device, attribute) }.doing("read an attribute of the GPU")
        };
        Ok(Self {
            name: result::device::get_name(device).doing("name the GPU")?,
            capability: (
                read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            sms: usize::try_from(read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?).unwrap_or(0),
            // SAFETY: the driver returned the device.
            memory: unsafe { result::device::total_mem(device) }.doing("report the GPU's memory")?,
        })
    }

    /// Returns an error unless the GPU can run the kernels.
    pub fn require_hopper(&self) -> Result<(), CudaError> {
        let (major, minor) = self.capability;
        if (major, minor) == (9, 0) {
            return Ok(());
        }
        Err(CudaError::NotHopper { name: self.name.clone(), major, minor })
    }
}

/// Whether the driver library can be opened. `cudarc` panics if it cannot, and offers no check when linked
/// dynamically.
fn is_driver_installed() -> bool {
    // Names that `cudarc` tries too.
    let names = ["libcuda.so", "libcuda.so.1", "nvcuda.dll"];
    // SAFETY: the driver may be opened and closed at any time.
    names.into_iter().any(|name| unsafe { libloading::Library::new(name) }.is_ok())
}

/// Formats a CUDA version: 13000 as 13.0.
pub fn format_version(cuda: i32) -> String {
    format!("{}.{}", cuda / 1000, cuda % 1000 / 10)
}

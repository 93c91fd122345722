//! Kernel launches.

use std::{ffi::c_void, sync::Arc};

use cudarc::driver::{
    CudaStream,
    sys::{self, CUfunction_attribute, CUlaunchAttributeID as Id},
};

use octile_core::plan::hopper::LaunchConfig;

use super::{CudaError, error::DoingExt, module::Module};

/// A kernel with its launch configuration.
#[derive(Debug, Clone)]
pub struct LoadedKernel {
    module: Arc<Module>,
    function: sys::CUfunction,
    config: LaunchConfig,
}

// SAFETY: a function handle belongs to its module, which the driver lets every thread use.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above; launching does not change the handle.
unsafe impl Sync for LoadedKernel {}

impl LoadedKernel {
    pub(super) fn new(module: Arc<Module>, config: LaunchConfig) -> Result<Self, CudaError> {
        let function = module.function();
        module.reserve_shared(config.shared_bytes)?;
        Ok(Self { module, function, config })
    }

    /// Registers per thread, and bytes of local memory for spills.
    pub(super) fn resources(&self) -> Result<(usize, usize), CudaError> {
        let read = |attribute| {
            let mut value = 0;
            // SAFETY: writes one integer about a loaded function.
            unsafe { sys::cuFuncGetAttribute(&mut value, attribute, self.function) }
                .result()
                .doing("read an attribute of a kernel")?;
            Ok::<usize, CudaError>(usize::try_from(value).unwrap_or(0))
        };
        Ok((
            read(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            read(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        ))
    }

    /// Whether both are the same function of the same module.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.module, &other.module)
    }

    /// Launches the kernel on a stream, with programmatic dependent launch (PDL): its prologue may overlap
    /// the preceding kernel. Our kernels wait for that kernel before they touch memory, except for a weight
    /// promised to be constant.
    ///
    /// # Safety
    /// `parameters` must point to values of the types that the kernel declares, in order, and device pointers
    /// among them to memory as large as the kernel reads or writes. That memory lives until the kernel has
    /// run, and so does the module.
    pub(super) unsafe fn launch(
        &self,
        stream: &CudaStream,
        parameters: &mut [*mut c_void],
    ) -> Result<(), CudaError> {
        stream.context().bind_to_thread().doing("use the GPU in this thread")?;
        let LaunchConfig { grid, threads, cluster, shared_bytes } = self.config;
        let attribute = |id, set: fn(&mut sys::CUlaunchAttributeValue, u32), value| {
            // SAFETY: a union of plain numbers, for which zeros are valid.
            let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
            attribute.id = id;
            set(&mut attribute.value, value);
            attribute
        };
        let overlap = attribute(
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            |value, on| value.programmaticStreamSerializationAllowed = on as i32,
            1,
        );
        let cluster_size = attribute(
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            |value, blocks| {
                value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: blocks, y: 1, z: 1 };
            },
            cluster,
        );
        let mut attributes = [overlap, cluster_size];
        let config = sys::CUlaunchConfig {
            gridDimX: grid.0,
            gridDimY: grid.1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: if cluster > 1 { 2 } else { 1 },
        };
        // SAFETY: the configuration lives until the call returns, the module as long as `self`; the
        // parameters are as the caller promises.
        unsafe {
            sys::cuLaunchKernelEx(&config, self.function, parameters.as_mut_ptr(), std::ptr::null_mut())
        }
        .result()
        .doing("launch a kernel")
    }

    /// Name of the kernel.
    pub(super) fn entry(&self) -> &str {
        self.module.entry()
    }
}

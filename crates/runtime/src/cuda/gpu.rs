//! One GPU with a stream.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaStream,
    sys::{self, CUdevice_attribute as Attribute},
};
use octile_core::device::hopper::{HOPPER_GPUS, HopperGpu};

use super::{CudaError, error::While};

/// A Hopper GPU. Copies of this handle share one stream.
#[derive(Debug, Clone)]
pub struct Gpu {
    pub(super) context: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    name: String,
    driver: i32,
    facts: HopperGpu,
}

impl Gpu {
    /// Opens the GPU with this index.
    pub fn open(index: usize) -> Result<Self, CudaError> {
        // SAFETY: looks for the library and closes it again.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        let count = CudaContext::device_count().map_err(|_| CudaError::NoGpu)?;
        if index >= usize::try_from(count).unwrap_or(0) {
            return Err(CudaError::NoGpu);
        }
        let context = CudaContext::new(index).doing("open the GPU")?;
        // SAFETY: buffers are used on one stream at a time: a Gpu has one, forks wait for one another explicitly, and whoever
        // brings a stream orders it.
        unsafe { context.disable_event_tracking() };
        let name = context.name().doing("name the GPU")?;
        let (major, minor) = context.compute_capability().doing("read the compute capability")?;
        if (major, minor) != (9, 0) {
            return Err(CudaError::NotHopper { name, major, minor });
        }
        let facts = facts(&context, &name)?;
        let stream = context.new_stream().doing("make a stream")?;
        let mut driver = 0;
        // SAFETY: writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut driver) }.result().doing("read the driver's version")?;
        Ok(Self { context, stream, name, driver, facts })
    }

    /// What the driver calls the GPU.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The CUDA version of the driver: 13000 for 13.0.
    pub fn driver(&self) -> i32 {
        self.driver
    }

    /// Sizes of the GPU.
    pub fn facts(&self) -> &HopperGpu {
        &self.facts
    }

    /// The same GPU with a stream of its own.
    pub fn fork(&self) -> Result<Self, CudaError> {
        let stream = self.stream.fork().doing("make a stream")?;
        Ok(Self { stream, ..self.clone() })
    }

    /// The same GPU with a stream that belongs to another library, such as the one an inference engine works on: what is put on
    /// it is ordered with that library's work, and recorded where that library records a graph.
    ///
    /// # Safety
    /// The stream belongs to the primary context of this GPU and lives as long as everything that is made with the result. What
    /// was made with other handles of this GPU is finished before it is used there (see [`Gpu::wait`]), and is kept until the work
    /// that uses it is done. While its owner records a graph, nothing is made, read or written: that waits.
    pub unsafe fn on_stream(&self, stream: *mut std::ffi::c_void) -> Self {
        // SAFETY: the caller's promise.
        let stream = unsafe { self.context.wrap_borrowed_stream(stream.cast()) };
        Self { stream, ..self.clone() }
    }

    /// Makes the GPU the one that this thread's calls of the driver are about.
    pub(super) fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().doing("use the GPU in this thread")
    }

    /// Waits until everything on the stream is done.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize().doing("finish the work on the stream")
    }

    /// Milliseconds that the GPU spends on what `work` puts on the stream. Waits for it.
    pub fn time(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<f32, CudaError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let start = self.stream.record_event(flags).doing("record an event")?;
        work()?;
        let end = self.stream.record_event(flags).doing("record an event")?;
        start.elapsed_ms(&end).doing("measure a time")
    }
}

/// Sizes as the driver reports them; the bandwidth of the model that is nearest by name.
fn facts(context: &CudaContext, name: &str) -> Result<HopperGpu, CudaError> {
    let lower = name.to_lowercase();
    let model = HOPPER_GPUS.into_iter().find(|gpu| lower.contains(gpu.name)).unwrap_or(HOPPER_GPUS[0]);
    let read = |attribute: Attribute| -> Result<usize, CudaError> {
        let value = context.attribute(attribute).doing("read an attribute of the GPU")?;
        Ok(usize::try_from(value).unwrap_or(0))
    };
    Ok(HopperGpu {
        sms: read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_memory_per_block: read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_memory_per_sm: read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        l2: read(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        ..model
    })
}

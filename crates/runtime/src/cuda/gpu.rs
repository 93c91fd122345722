//! A GPU with a stream.

use std::{mem::ManuallyDrop, ops::Deref, sync::Arc};

use cudarc::driver::{
    CudaContext, CudaStream, DriverError,
    sys::{self, CUdevice_attribute as Attribute},
};
use octile_core::device::hopper::{HOPPER_GPUS, HopperGpu};

use super::{CudaError, DriverInfo, error::DoingExt};

/// A Hopper GPU. Clones of this handle share one stream.
#[derive(Debug, Clone)]
pub struct Gpu {
    pub(super) context: Arc<CudaContext>,
    pub(super) stream: SharedStream,
    name: String,
    driver: i32,
    properties: HopperGpu,
}

impl Gpu {
    /// Opens the first GPU that can run the kernels.
    pub fn open_first() -> Result<Self, CudaError> {
        let gpus = DriverInfo::query()?.gpus;
        let usable = gpus.iter().position(|gpu| gpu.require_hopper().is_ok());
        // If there is none, opening the first one tells why.
        Self::open(usable.unwrap_or(0))
    }

    /// Opens the GPU with this index.
    pub fn open(index: usize) -> Result<Self, CudaError> {
        let found = DriverInfo::query()?;
        let count = found.gpus.len();
        let model = found.gpus.get(index).ok_or(CudaError::NoSuchGpu { index, count })?;
        model.require_hopper()?;
        let _current = CurrentContext::keep()?;
        let context = CudaContext::new(index).doing("open the GPU")?;
        // SAFETY: work on a buffer is queued on its own stream, which also frees it; `require` and
        // `copy_from` reject buffers of other streams, `Buffer::on` orders both streams, and callers order
        // the streams and memory that they bring.
        unsafe { context.disable_event_tracking() };
        let properties = properties(&context, &model.name)?;
        let stream = SharedStream::new(context.new_stream().doing("make a stream")?);
        Ok(Self { context, stream, name: model.name.clone(), driver: found.cuda, properties })
    }

    /// The driver's index of the GPU.
    pub fn index(&self) -> usize {
        self.context.ordinal()
    }

    /// The name that the driver reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The CUDA version of the driver: 13000 for 13.0.
    pub fn driver(&self) -> i32 {
        self.driver
    }

    /// The properties that plans depend on.
    pub fn properties(&self) -> &HopperGpu {
        &self.properties
    }

    /// Returns the same GPU with a new stream, ordered after the work queued on this one so far. Buffers
    /// belong to the stream that they were allocated on: [`Buffer::on`](super::Buffer::on) shares one.
    pub fn fork(&self) -> Result<Self, CudaError> {
        let stream = SharedStream::new(self.stream.fork().doing("make a stream")?);
        Ok(Self { stream, ..self.clone() })
    }

    /// Returns the same GPU with a stream owned by another library, such as an inference engine: launches are
    /// ordered with that library's work, and captured if it captures a graph.
    ///
    /// # Safety
    /// The stream belongs to the primary context of this GPU, is not the per-thread default stream (that
    /// handle means another stream in every thread), and outlives everything made with the result. Kernels
    /// and operands of captured launches outlive the graph. Do not allocate, read, write or drop a buffer
    /// during capture: those calls synchronize, or are captured too.
    pub unsafe fn on_stream(&self, stream: *mut std::ffi::c_void) -> Self {
        // SAFETY: the caller's promise.
        let stream = unsafe { self.context.wrap_borrowed_stream(stream.cast()) };
        Self { stream: SharedStream::new(stream), ..self.clone() }
    }

    /// Whether work on one handle is ordered with work on the other.
    pub(super) fn shares_stream(&self, other: &Self) -> bool {
        self.is_same_gpu(other) && self.stream.cu_stream() == other.stream.cu_stream()
    }

    pub(super) fn is_same_gpu(&self, other: &Self) -> bool {
        self.context.ordinal() == other.context.ordinal()
    }

    /// Makes this stream wait for all work queued on the other so far.
    pub(super) fn wait_for(&self, other: &Self) -> Result<(), CudaError> {
        self.stream.join(&other.stream).doing("order two streams")
    }

    /// Waits for all work on all streams of the GPU's primary context.
    pub(super) fn wait_for_all_streams(&self) -> Result<(), CudaError> {
        self.context.synchronize().doing("finish the work on all streams")
    }

    /// Whether the stream is being captured into a graph.
    pub(super) fn is_capturing(&self) -> Result<bool, CudaError> {
        let status = self.stream.capture_status().doing("tell whether the stream is captured")?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Makes the GPU's context current in this thread.
    pub(super) fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().doing("use the GPU in this thread")
    }

    /// Restores the context that is current in this thread when the result is dropped: other libraries tell
    /// by it which GPU they use.
    pub(super) fn keep_current_context(&self) -> Result<CurrentContext, CudaError> {
        CurrentContext::keep().map(|kept| CurrentContext { ours: Some(self.context.cu_ctx()), ..kept })
    }

    /// Waits for all work on the stream.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize().doing("finish the work on the stream")
    }

    /// Returns the milliseconds that the GPU spends on the work queued by `work`. Waits for it.
    pub fn time(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<f32, CudaError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let start = self.stream.record_event(flags).doing("record an event")?;
        work()?;
        let end = self.stream.record_event(flags).doing("record an event")?;
        end.synchronize().doing("wait for an event")?;
        // SAFETY: both events were recorded on this stream, and have happened.
        unsafe { elapsed(start.cu_event(), end.cu_event()) }.doing("measure a time")
    }
}

/// A stream that leaves the current context of the thread as it was when the last handle is dropped.
#[derive(Debug, Clone)]
pub(super) struct SharedStream(ManuallyDrop<Arc<CudaStream>>);

impl SharedStream {
    fn new(stream: Arc<CudaStream>) -> Self {
        Self(ManuallyDrop::new(stream))
    }
}

impl Deref for SharedStream {
    type Target = Arc<CudaStream>;

    fn deref(&self) -> &Arc<CudaStream> {
        &self.0
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        // Destroying a stream makes its context current.
        let _current = (Arc::strong_count(&self.0) == 1).then(CurrentContext::keep);
        // SAFETY: nothing uses it after this.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// The context that was current in this thread; dropping it makes it current again.
pub(super) struct CurrentContext {
    before: sys::CUcontext,
    /// What is current meanwhile, if that is known.
    ours: Option<sys::CUcontext>,
}

impl CurrentContext {
    fn keep() -> Result<Self, CudaError> {
        let mut before = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { sys::cuCtxGetCurrent(&mut before) }.result().doing("ask for the current context")?;
        Ok(Self { before, ours: None })
    }
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        // A context that was destroyed meanwhile cannot be made current; nothing is lost then.
        if self.ours != Some(self.before) {
            // SAFETY: a handle of this process, which the driver checks.
            let _ = unsafe { sys::cuCtxSetCurrent(self.before) };
        }
    }
}

/// Milliseconds between two events.
///
/// Bindings for CUDA 13 name a variant of the function that drivers before 12.8 lack. Every driver has the
/// original.
///
/// # Safety
/// Both events were recorded on one stream, and have happened.
unsafe fn elapsed(start: sys::CUevent, end: sys::CUevent) -> Result<f32, DriverError> {
    type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let (mut function, mut milliseconds) = (std::ptr::null_mut(), 0.0);
    let name = c"cuEventElapsedTime".as_ptr();
    // SAFETY: asks for a function of CUDA 12.0 by name, and calls it with the type that it had there.
    unsafe {
        sys::cuGetProcAddress_v2(name, &mut function, 12_000, 0, std::ptr::null_mut()).result()?;
        if function.is_null() {
            return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
        }
        let function: ElapsedTime = std::mem::transmute(function);
        function(&mut milliseconds, start, end).result()?;
    }
    Ok(milliseconds)
}

/// Reads the properties from the driver; the bandwidth is that of the model matched by name.
fn properties(context: &CudaContext, name: &str) -> Result<HopperGpu, CudaError> {
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

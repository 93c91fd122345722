//! A weight that stays on the GPU, multiplied with any number of rows, from any thread and on any stream.

use std::{
    ffi::c_void,
    mem::ManuallyDrop,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use cudarc::driver::sys::CUdeviceptr;
use octile_core::{
    Problem, QuantizedWeight, ScaleLayout, Strategy,
    plan::hopper::{Arguments, HopperPlan},
};

use super::{
    Buffer, CudaError, DeviceActivations, Gpu, HostActivations, MatmulOperands, PlannedMatmul,
    buffer::Float,
    host::require_results,
    kernel_cache::{KernelCache, MOST_KEPT, lock},
    planned::{PlannedKernels, Workspace},
};

/// A weight in device memory, with the plans, kernels and workspaces to multiply with it.
///
/// Calls may come from several threads at once.
#[derive(Debug)]
pub struct GpuMatmul {
    gpu: Gpu,
    w_scales: Vec<f32>,
    /// Whether work may be left on a stream that freeing device memory does not wait for.
    has_loose_work: AtomicBool,
    kept: ManuallyDrop<Kept>,
}

/// What must live until the last launch is done.
#[derive(Debug)]
struct Kept {
    w: Buffer,
    w_scales: Buffer,
    kernels: KernelCache,
    streams: Mutex<Vec<OnStream>>,
    idle: Mutex<Vec<HostStream>>,
}

/// Kernels and workspace for a number of rows on a stream of the caller's.
#[derive(Debug)]
struct OnStream {
    stream: usize,
    m: usize,
    /// Pinned: a graph may refer to the workspace.
    is_prepared: bool,
    matmul: PlannedMatmul,
    // The stream that frees them is our own, because the caller's may be gone by then.
    _workspace: Option<Workspace>,
    _kernels: Arc<PlannedKernels>,
}

/// A stream of our own for operands in host memory, with what the last call left there.
#[derive(Debug)]
struct HostStream {
    gpu: Gpu,
    last: Option<(usize, PlannedMatmul, Buffer)>,
}

/// Activations in device memory that belongs to the caller, rows without gaps.
#[derive(Debug, Clone, Copy)]
pub enum RawActivations {
    /// Floats of the kind that the problem names.
    Floats(CUdeviceptr),
    /// Codes, with one scale per token or block of rows and block of K.
    Fp8 {
        /// The codes.
        codes: CUdeviceptr,
        /// Their scales, valid for [`ScaleLayout::extent`].
        scales: CUdeviceptr,
        /// Layout of the scales; K-major without padding if there is none.
        layout: Option<ScaleLayout>,
    },
}

impl RawActivations {
    /// The layout of the scales of codes, and their bytes.
    pub(super) fn scales_of(
        layout: Option<ScaleLayout>,
        problem: &Problem,
    ) -> Result<(ScaleLayout, usize), CudaError> {
        let shape = problem.x_scale_shape().unwrap_or((1, 1));
        let layout = layout.unwrap_or(ScaleLayout::k_major(shape));
        let bytes = layout.extent(shape).checked_mul(size_of::<f32>()).ok_or(CudaError::TooLarge)?;
        Ok((layout, bytes))
    }
}

impl GpuMatmul {
    /// Copies a weight to the GPU. The kinds of activations and results are those of `problem`; its M is
    /// ignored.
    pub fn new(
        gpu: &Gpu,
        problem: &Problem,
        strategy: Strategy,
        weight: &QuantizedWeight,
    ) -> Result<Self, CudaError> {
        let (n, k, quant_block) = (weight.rows(), weight.cols(), weight.quant_block());
        let kernels = KernelCache::new(gpu, &Problem { n, k, quant_block, ..*problem }, strategy)?;
        let stride = Arguments::aligned_stride(k);
        Ok(Self {
            gpu: gpu.clone(),
            w_scales: weight.scales().to_vec(),
            has_loose_work: AtomicBool::new(false),
            kept: ManuallyDrop::new(Kept {
                w: Buffer::from_rows(gpu, weight.codes(), k, stride)?,
                w_scales: Buffer::from_slice(gpu, weight.scales())?,
                kernels,
                streams: Mutex::default(),
                idle: Mutex::default(),
            }),
        })
    }

    /// The plan for `m` rows.
    pub fn plan(&self, m: usize) -> Result<HopperPlan, CudaError> {
        self.kept.kernels.plan(m)
    }

    /// Compiles the kernels for `m` rows, so that the first call does not.
    pub fn prepare(&self, m: usize) -> Result<(), CudaError> {
        let _current = self.gpu.keep_current_context()?;
        self.kept.kernels.kernels(m).map(drop)
    }

    /// Multiplies host memory into host memory. Waits for the result.
    pub fn run<T: Float>(&self, m: usize, x: HostActivations<'_>, out: &mut [T]) -> Result<(), CudaError> {
        let _current = self.gpu.keep_current_context()?;
        let kernels = self.kept.kernels.kernels(m)?;
        let problem = &kernels.plan().problem;
        require_results(problem, out)?;
        let idle = lock(&self.kept.idle).pop();
        let mut host = match idle {
            Some(host) => host,
            None => HostStream { gpu: self.gpu.fork()?, last: None },
        };
        let (x, x_scales) = x.upload(&host.gpu, problem, &self.w_scales)?;
        host.fit(problem, &kernels)?;
        let HostStream { gpu, last: Some((_, matmul, result)) } = &host else { return Ok(()) };
        // SAFETY: both live as long as `self`, which waits for this stream: here, or when it is dropped.
        let [w, w_scales] = [&self.kept.w, &self.kept.w_scales]
            .map(|buffer| unsafe { Buffer::from_raw_parts(gpu, buffer.pointer(), buffer.len()) });
        let x = match &x_scales {
            Some(scales) => DeviceActivations::Codes { codes: &x, scales },
            None => DeviceActivations::Floats { values: &x, stride: problem.k },
        };
        let arguments = Arguments::fastest(problem).with_constant_weight();
        let operands = MatmulOperands { x, w: &w, w_scales: &w_scales, out: result, arguments };
        let done = matmul.prepare(operands).and_then(|ready| ready.launch()).and_then(|()| result.read(out));
        if done.is_ok() || host.gpu.wait().is_ok() {
            lock(&self.kept.idle).push(host);
        } else {
            // Work may still use the memory: leak it.
            self.has_loose_work.store(true, Ordering::Release);
            std::mem::forget(host);
        }
        done
    }

    /// Compiles the kernels for `m` rows and allocates their workspace for a stream of another library, for
    /// as long as this lives. [`GpuMatmul::enqueue`] can then be captured there.
    ///
    /// # Safety
    /// As for [`GpuMatmul::enqueue`]; the stream is not being captured.
    pub unsafe fn prepare_stream(&self, stream: *mut c_void, m: usize) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.with_stream(stream, m, true, |_, _| Ok(())) }
    }

    /// Launches a multiplication on a stream of another library without waiting for it. Rows of operands and
    /// result have no gaps.
    ///
    /// The first call for a stream and a number of rows compiles and allocates, and so synchronizes, unless
    /// [`GpuMatmul::prepare_stream`] came before. Scales of activations that come as codes are not looked at.
    ///
    /// # Safety
    /// - `stream` is a stream of the primary context of this GPU, not the per-thread default stream. It is
    ///   not destroyed while work from here is on it.
    /// - The pointers are valid for `m` rows until that work is done, and accesses by others are ordered with
    ///   the stream.
    /// - A graph that captured the call is not launched after `self` is dropped.
    pub unsafe fn enqueue(
        &self,
        stream: *mut c_void,
        x: RawActivations,
        out: CUdeviceptr,
        m: usize,
    ) -> Result<(), CudaError> {
        let launch = |gpu: &Gpu, matmul: &PlannedMatmul| {
            let problem = &matmul.plan().problem;
            // SAFETY: the caller's promise; the weight lives as long as `self`, which waits for all streams
            // when it is dropped.
            let raw =
                |pointer: CUdeviceptr, bytes: usize| unsafe { Buffer::from_raw_parts(gpu, pointer, bytes) };
            let [w, w_scales] =
                [&self.kept.w, &self.kept.w_scales].map(|buffer| raw(buffer.pointer(), buffer.len()));
            let out = raw(out, problem.m * problem.n * problem.out.bytes());
            let packed = Arguments::packed(problem).with_constant_weight();
            let mut arguments = Arguments { x_stride: problem.k, ..packed };
            let (pointer, scales) = match x {
                RawActivations::Floats(values) => (values, None),
                RawActivations::Fp8 { codes, scales, layout } => {
                    let (layout, bytes) = RawActivations::scales_of(layout, problem)?;
                    arguments.x_scales = layout;
                    (codes, Some(raw(scales, bytes)))
                }
            };
            let values = raw(pointer, problem.m * problem.k * problem.x.bytes());
            let x = match &scales {
                Some(scales) => DeviceActivations::Codes { codes: &values, scales },
                None => DeviceActivations::Floats { values: &values, stride: problem.k },
            };
            matmul.prepare(MatmulOperands { x, w: &w, w_scales: &w_scales, out: &out, arguments })?.launch()
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_stream(stream, m, false, launch) }
    }

    /// Runs `work` with the kernels and workspace for a stream and a number of rows, which are made if need
    /// be.
    ///
    /// # Safety
    /// As for [`GpuMatmul::enqueue`].
    unsafe fn with_stream(
        &self,
        stream: *mut c_void,
        m: usize,
        is_prepared: bool,
        work: impl FnOnce(&Gpu, &PlannedMatmul) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let _current = self.gpu.keep_current_context()?;
        // SAFETY: the caller's promise.
        let gpu = unsafe { self.gpu.on_stream(stream) };
        // Held while work is launched, so that nothing is evicted between the lookup and the launch.
        let mut streams = lock(&self.kept.streams);
        let found = streams.iter().position(|kept| (kept.stream, kept.m) == (stream.addr(), m));
        let at = match found {
            Some(at) if is_prepared || streams[at].is_prepared || !gpu.is_capturing()? => at,
            _ if gpu.is_capturing()? => return Err(CudaError::NotPrepared { m }),
            _ => {
                self.evict(&mut streams)?;
                let kernels = self.kept.kernels.kernels(m)?;
                let workspace = Workspace::allocate(&self.gpu, &kernels.plan().problem)?;
                self.gpu.wait()?;
                // SAFETY: it is kept beside the kernels, until all streams were waited for.
                let on_stream = workspace.as_ref().map(|workspace| unsafe { workspace.on(&gpu) });
                let matmul = kernels.with_workspace(&gpu, on_stream);
                let (stream, is_prepared) = (stream.addr(), false);
                streams.push(OnStream {
                    stream,
                    m,
                    is_prepared,
                    matmul,
                    _workspace: workspace,
                    _kernels: kernels,
                });
                streams.len() - 1
            }
        };
        streams[at].is_prepared |= is_prepared;
        self.has_loose_work.store(true, Ordering::Release);
        work(&gpu, &streams[at].matmul)
    }

    /// Makes room for one more workspace among those that were not prepared by name.
    fn evict(&self, streams: &mut Vec<OnStream>) -> Result<(), CudaError> {
        if streams.iter().filter(|kept| !kept.is_prepared).count() >= MOST_KEPT {
            self.gpu.wait_for_all_streams()?;
            streams.retain(|kept| kept.is_prepared);
        }
        Ok(())
    }
}

impl HostStream {
    /// Makes kernels, workspace and result fit the problem.
    fn fit(&mut self, problem: &Problem, kernels: &PlannedKernels) -> Result<(), CudaError> {
        if self.last.as_ref().is_some_and(|(m, ..)| *m == problem.m) {
            return Ok(());
        }
        self.last = None;
        let matmul = kernels.with_workspace(&self.gpu, Workspace::allocate(&self.gpu, problem)?);
        let out = Buffer::zeros(&self.gpu, problem.m * problem.n * problem.out.bytes())?;
        self.last = Some((problem.m, matmul, out));
        Ok(())
    }
}

impl Drop for GpuMatmul {
    fn drop(&mut self) {
        let is_done = !self.has_loose_work.load(Ordering::Acquire) || self.gpu.wait_for_all_streams().is_ok();
        // If work may still use the resources, leak them.
        if is_done {
            // SAFETY: nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.kept) };
        }
    }
}

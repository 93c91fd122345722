//! The multiplication whose operands, the weight included, stay with the caller.

use std::{
    ffi::c_void,
    mem::ManuallyDrop,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use cudarc::driver::sys::CUdeviceptr;
use octile_core::{
    Problem, Strategy,
    plan::{
        DeviceKind,
        hopper::{Arguments, HopperPlan},
    },
};

use super::{
    Buffer, CudaError, DeviceActivations, Gpu, MatmulOperands, RawActivations,
    kernel_cache::{KernelCache, lock},
    launch::LoadedKernel,
    planned::{PlannedKernels, Workspace},
};

/// Operands and result in device memory that belongs to the caller, rows without gaps.
#[derive(Debug, Clone, Copy)]
pub struct RawOperands {
    /// The activations.
    pub x: RawActivations,
    /// Codes of the weight.
    pub w: CUdeviceptr,
    /// Row-major scales of the weight.
    pub w_scales: CUdeviceptr,
    /// The result.
    pub out: CUdeviceptr,
    /// Memory of [`GpuMatmulOp::workspace_bytes`].
    pub workspace: CUdeviceptr,
}

/// The plans and compiled kernels of a multiplication, for operands of the caller's.
///
/// Calls may come from several threads at once.
#[derive(Debug)]
pub struct GpuMatmulOp {
    gpu: Gpu,
    has_constant_weight: bool,
    /// Whether work may be left on a stream.
    has_loose_work: AtomicBool,
    kept: ManuallyDrop<KeptKernels>,
}

/// What must live until the last launch is done.
#[derive(Debug)]
struct KeptKernels {
    cache: KernelCache,
    /// A kernel of every module that was ever loaded: graphs may refer to them. Most values of M share
    /// modules, so there are few.
    modules: Mutex<Vec<LoadedKernel>>,
}

impl GpuMatmulOp {
    /// Checks that the GPU can multiply this. The M of `problem` is ignored.
    ///
    /// `has_constant_weight` is the promise of [`Arguments::constant_weight`].
    pub fn new(gpu: &Gpu, problem: &Problem, has_constant_weight: bool) -> Result<Self, CudaError> {
        if !problem.k.is_multiple_of(16) {
            return Err(CudaError::OperandStride { what: "the weight", stride: problem.k });
        }
        let cache = KernelCache::new(gpu, problem, Strategy::best_for(problem, DeviceKind::Gpu))?;
        Ok(Self {
            gpu: gpu.clone(),
            has_constant_weight,
            has_loose_work: AtomicBool::new(false),
            kept: ManuallyDrop::new(KeptKernels { cache, modules: Mutex::default() }),
        })
    }

    /// The plan for `m` rows.
    pub fn plan(&self, m: usize) -> Result<HopperPlan, CudaError> {
        self.kept.cache.plan(m)
    }

    /// Bytes of workspace for `m` rows: 0 unless activations are quantized.
    pub fn workspace_bytes(&self, m: usize) -> Result<usize, CudaError> {
        Ok(Workspace::bytes(&self.kept.cache.problem(m)?))
    }

    /// Compiles the kernels for `m` rows, for as long as this lives. [`GpuMatmulOp::enqueue`] can then be
    /// captured.
    pub fn prepare(&self, m: usize) -> Result<(), CudaError> {
        let _current = self.gpu.keep_current_context()?;
        self.keep_modules(&*self.kept.cache.pinned(m)?);
        Ok(())
    }

    /// Launches a multiplication on a stream of another library without waiting for it. Values are not looked
    /// at.
    ///
    /// The first call for a number of rows compiles, and so may synchronize, unless [`GpuMatmulOp::prepare`]
    /// came before.
    ///
    /// # Safety
    /// - `stream` is a stream of the primary context of this GPU; the per-thread default stream is that of
    ///   the calling thread. It is not destroyed while work from here is on it.
    /// - The pointers are valid for `m` rows until that work is done, and accesses by others, to the
    ///   workspace too, are ordered with the stream.
    /// - A graph that captured the call is not launched after `self` is dropped.
    pub unsafe fn enqueue(
        &self,
        stream: *mut c_void,
        operands: &RawOperands,
        m: usize,
    ) -> Result<(), CudaError> {
        let _current = self.gpu.keep_current_context()?;
        // SAFETY: the caller's promise; the result does not leave this thread.
        let gpu = unsafe { self.gpu.on_stream(stream) };
        let kernels = match self.kept.cache.cached(m) {
            Some(kernels) => kernels,
            None if gpu.is_capturing()? => return Err(CudaError::NotCompiled { m }),
            None => {
                let kernels = self.kept.cache.kernels(m)?;
                self.keep_modules(&kernels);
                kernels
            }
        };
        let problem = &kernels.plan().problem;
        let RawOperands { x, w, w_scales, out, workspace } = *operands;
        let raw = |what, pointer: CUdeviceptr, bytes: usize| {
            if pointer == 0 {
                return Err(CudaError::NullPointer { what });
            }
            // SAFETY: the caller's promise.
            Ok(unsafe { Buffer::from_raw_parts(&gpu, pointer, bytes) })
        };
        let workspace = match Workspace::bytes(problem) {
            0 => None,
            bytes => Workspace::of(problem, raw("the workspace", workspace, bytes)?),
        };
        let packed = Arguments::packed(problem);
        let mut arguments = Arguments { constant_weight: self.has_constant_weight, ..packed };
        let (pointer, x_scales) = match x {
            RawActivations::Floats(values) => (values, None),
            RawActivations::Fp8 { codes, scales, layout } => {
                let (layout, bytes) = RawActivations::scales_of(layout, problem)?;
                arguments.x_scales = layout;
                (codes, Some(raw("the scales of x", scales, bytes)?))
            }
        };
        let values = raw("x", pointer, problem.m * problem.k * problem.x.bytes())?;
        let x = match &x_scales {
            Some(scales) => DeviceActivations::Codes { codes: &values, scales },
            None => DeviceActivations::Floats { values: &values, stride: problem.k },
        };
        let w = raw("the weight", w, problem.n * problem.k)?;
        let w_scale_bytes = packed.w_scales.extent(problem.w_scale_shape()) * size_of::<f32>();
        let w_scales = raw("the scales of the weight", w_scales, w_scale_bytes)?;
        let out = raw("the result", out, problem.m * problem.n * problem.out.bytes())?;
        let operands = MatmulOperands { x, w: &w, w_scales: &w_scales, out: &out, arguments };
        self.has_loose_work.store(true, Ordering::Release);
        kernels.with_workspace(&gpu, workspace).prepare(operands)?.launch()
    }

    /// Keeps the modules of these kernels loaded.
    fn keep_modules(&self, kernels: &PlannedKernels) {
        let mut modules = lock(&self.kept.modules);
        for kernel in kernels.loaded() {
            if !modules.iter().any(|kept| kept.is_same(kernel)) {
                modules.push(kernel.clone());
            }
        }
    }
}

impl Drop for GpuMatmulOp {
    fn drop(&mut self) {
        let _current = self.gpu.keep_current_context();
        let is_done = !self.has_loose_work.load(Ordering::Acquire) || self.gpu.wait_for_all_streams().is_ok();
        // If work may still use the kernels, leak them.
        if is_done {
            // SAFETY: nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.kept) };
        }
    }
}

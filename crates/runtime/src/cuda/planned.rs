//! The kernels of one plan: multiplication, and quantization of the activations before it.

use std::sync::Arc;

use octile_core::{
    ActivationKind, Problem,
    plan::hopper::{Arguments, HopperPlan},
};

use cudarc::driver::CudaStream;
use octile_core::plan::hopper::QuantizeTuning;

use super::{
    Buffer, CudaError, Gpu, MultiplyKernel, MultiplyOperands, PreparedMultiply, PreparedQuantize,
    QuantizeKernel, QuantizeOperands,
    graph::{Capturable, sealed::Work},
    launch::LoadedKernel,
    module::ModuleCache,
};

/// The compiled kernels of one plan, with a workspace for quantized activations.
///
/// Back-to-back launches on one stream are fine. For concurrent launches on several streams, make one for
/// each.
#[derive(Debug)]
pub struct PlannedMatmul {
    multiply: MultiplyKernel,
    quantize: Option<(QuantizeKernel, Workspace)>,
}

/// Codes and scales between the quantization kernel and the multiplication kernel.
#[derive(Debug)]
pub(super) struct Workspace {
    codes: Buffer,
    scales: Buffer,
    /// Layout of codes and scales.
    arguments: Arguments,
}

impl Workspace {
    /// Allocates a workspace if activations are quantized on the GPU.
    pub(super) fn allocate(gpu: &Gpu, problem: &Problem) -> Result<Option<Self>, CudaError> {
        Ok(match Self::bytes(problem) {
            0 => None,
            bytes => Self::of(problem, Buffer::zeros(gpu, bytes)?),
        })
    }

    /// Bytes for codes and scales; 0 unless activations are quantized on the GPU.
    pub(super) fn bytes(problem: &Problem) -> usize {
        let ActivationKind::Quantized(..) = problem.x else { return 0 };
        let [codes, scales] = Self::parts(problem, &Arguments::fastest(problem));
        codes.saturating_add(scales)
    }

    /// Uses memory of that size.
    pub(super) fn of(problem: &Problem, memory: Buffer) -> Option<Self> {
        let ActivationKind::Quantized(..) = problem.x else { return None };
        let arguments = Arguments::fastest(problem);
        let [codes, scales] = Self::parts(problem, &arguments);
        let memory = Arc::new(memory);
        Some(Self {
            codes: Buffer::part(&memory, 0, codes),
            scales: Buffer::part(&memory, codes, scales),
            arguments,
        })
    }

    /// Bytes of codes and of scales. Rows of codes keep what follows them aligned.
    fn parts(problem: &Problem, arguments: &Arguments) -> [usize; 2] {
        let scales = arguments.x_scales.extent(problem.x_scale_shape().unwrap_or((1, 1)));
        [problem.m.saturating_mul(arguments.x_stride), scales.saturating_mul(size_of::<f32>())]
    }

    /// Returns the same memory for use on another stream of the same GPU.
    ///
    /// # Safety
    /// As for [`Buffer::from_raw_parts`]: this workspace outlives the work on that stream.
    pub(super) unsafe fn on(&self, gpu: &Gpu) -> Self {
        // SAFETY: the caller's promise.
        let raw = |buffer: &Buffer| unsafe { Buffer::from_raw_parts(gpu, buffer.pointer(), buffer.len()) };
        Self { codes: raw(&self.codes), scales: raw(&self.scales), arguments: self.arguments }
    }
}

/// Activations in device memory.
#[derive(Debug, Clone, Copy)]
pub enum DeviceActivations<'a> {
    /// Codes with their scales, laid out as in the arguments.
    Codes {
        /// The codes.
        codes: &'a Buffer,
        /// Their scales.
        scales: &'a Buffer,
    },
    /// Floats of the problem's kind.
    Floats {
        /// The floats.
        values: &'a Buffer,
        /// Elements from one row to the next.
        stride: usize,
    },
}

/// Operands and result in device memory.
#[derive(Debug, Clone, Copy)]
pub struct MatmulOperands<'a> {
    /// The activations.
    pub x: DeviceActivations<'a>,
    /// Codes of the weight.
    pub w: &'a Buffer,
    /// Scales of the weight.
    pub w_scales: &'a Buffer,
    /// The result.
    pub out: &'a Buffer,
    /// Their layout; the part about x applies to codes.
    pub arguments: Arguments,
}

impl PlannedMatmul {
    /// Compiles the kernels of a plan and allocates their workspace. The plan must be made for this GPU, see
    /// [`Gpu::properties`].
    pub fn new(gpu: &Gpu, plan: &HopperPlan) -> Result<Self, CudaError> {
        Self::tuned(gpu, plan, QuantizeTuning::BEST)
    }

    /// The same with another tuning of the quantization kernel, for measurements.
    pub fn tuned(gpu: &Gpu, plan: &HopperPlan, tuning: QuantizeTuning) -> Result<Self, CudaError> {
        let workspace = Workspace::allocate(gpu, &plan.problem)?;
        let kernels = PlannedKernels::tuned(gpu, plan, tuning, &ModuleCache::default())?;
        Ok(kernels.with_workspace(gpu, workspace))
    }

    /// The plan.
    pub fn plan(&self) -> &HopperPlan {
        self.multiply.plan()
    }

    /// Checks the operands and prepares launches.
    pub fn prepare<'a>(&'a self, operands: MatmulOperands<'a>) -> Result<PreparedMatmul<'a>, CudaError> {
        let MatmulOperands { x, w, w_scales, out, arguments } = operands;
        let (codes, scales, arguments, quantize) = match (x, &self.quantize) {
            (DeviceActivations::Codes { codes, scales }, None) => (codes, scales, arguments, None),
            (DeviceActivations::Floats { values, stride }, Some((kernel, workspace))) => {
                let Workspace { codes, scales, arguments: own } = workspace;
                let (codes_stride, layout) = (own.x_stride, own.x_scales);
                let quantize = kernel.prepare(QuantizeOperands {
                    x: values,
                    x_stride: stride,
                    codes,
                    codes_stride,
                    scales,
                    layout,
                })?;
                let arguments = Arguments { x_stride: codes_stride, x_scales: layout, ..arguments };
                (codes, scales, arguments, Some(quantize))
            }
            (x, _) => {
                let given = match x {
                    DeviceActivations::Codes { .. } => "x in codes",
                    DeviceActivations::Floats { .. } => "x in floats",
                };
                let planned = format!("x {}", self.plan().problem.x);
                return Err(CudaError::PlanMismatch { planned, given: given.to_owned() });
            }
        };
        let multiply = self.multiply.prepare(MultiplyOperands {
            x: codes,
            x_scales: scales,
            w,
            w_scales,
            out,
            arguments,
        })?;
        Ok(PreparedMatmul { quantize, multiply })
    }
}

/// The compiled kernels of one plan, without a workspace.
#[derive(Debug)]
pub(super) struct PlannedKernels {
    multiply: MultiplyKernel,
    quantize: Option<QuantizeKernel>,
}

impl PlannedKernels {
    /// Compiles the kernels that are not loaded yet.
    pub(super) fn tuned(
        gpu: &Gpu,
        plan: &HopperPlan,
        tuning: QuantizeTuning,
        modules: &ModuleCache,
    ) -> Result<Self, CudaError> {
        let multiply = MultiplyKernel::cached(gpu, plan, modules)?;
        let quantize = match plan.problem.x {
            ActivationKind::Quantized(..) => {
                Some(QuantizeKernel::cached(gpu, &plan.problem, tuning, modules)?)
            }
            ActivationKind::Fp8(_) | ActivationKind::Plain(_) => None,
        };
        Ok(Self { multiply, quantize })
    }

    /// Returns the kernels for a stream of the same GPU, with a workspace for that stream.
    ///
    /// Unloading a module waits only for the stream that it was loaded on: the caller keeps `self` until work
    /// on any other stream is done.
    pub(super) fn with_workspace(&self, gpu: &Gpu, workspace: Option<Workspace>) -> PlannedMatmul {
        let quantize = self.quantize.as_ref().map(|kernel| kernel.on(gpu)).zip(workspace);
        PlannedMatmul { multiply: self.multiply.on(gpu), quantize }
    }

    /// The kernels.
    pub(super) fn loaded(&self) -> impl Iterator<Item = &LoadedKernel> {
        [self.multiply.loaded()].into_iter().chain(self.quantize.as_ref().map(QuantizeKernel::loaded))
    }

    /// The plan.
    pub(super) fn plan(&self) -> &HopperPlan {
        self.multiply.plan()
    }
}

/// A multiplication, and the quantization before it if there is one, ready to launch.
#[derive(Debug, Clone)]
pub struct PreparedMatmul<'a> {
    quantize: Option<PreparedQuantize<'a>>,
    multiply: PreparedMultiply<'a>,
}

impl PreparedMatmul<'_> {
    /// Launches the kernels without waiting for them.
    pub fn launch(&self) -> Result<(), CudaError> {
        if let Some(quantize) = &self.quantize {
            quantize.launch()?;
        }
        self.multiply.launch()
    }
}

impl<'a> Capturable<'a> for PreparedMatmul<'a> {}

impl Work for PreparedMatmul<'_> {
    fn gpu(&self) -> &Gpu {
        self.multiply.gpu()
    }

    fn kernels(&self) -> Vec<LoadedKernel> {
        let quantize = self.quantize.iter().flat_map(Work::kernels);
        quantize.chain(self.multiply.kernels()).collect()
    }

    unsafe fn put(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: the caller's promise is for both.
        unsafe {
            if let Some(quantize) = &self.quantize {
                quantize.put(stream)?;
            }
            self.multiply.put(stream)
        }
    }
}

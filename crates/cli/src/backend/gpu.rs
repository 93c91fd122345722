//! An NVIDIA Hopper GPU.

use std::{fmt, time::Duration};

use anyhow::{Result, anyhow};
use octile_core::{
    Problem, Strategy,
    bound::Accumulator,
    device::hopper::HopperGpu,
    plan::{
        PlanError,
        hopper::{HopperPlan, STAGE_K},
    },
    sample::Operands,
};
use octile_runtime::cuda::{
    self, Buffer, CudaError, DeviceOperands, DriverInfo, Gpu, HostActivations, PlannedMatmul, TensorCorePeak,
};
use serde::Serialize;

use super::{Backend, Contender, Output, Peak, Setup};

/// What was asked of the kernels, real GPU or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KernelOptions {
    /// Products that the tensor cores add up before they are added to the f32 sums.
    pub promote_every: usize,
    /// Whether racecheck can follow them.
    pub for_racecheck: bool,
}

impl KernelOptions {
    /// Those that the user gave.
    pub fn new(promote_every: Option<usize>, for_racecheck: bool) -> Self {
        Self { promote_every: promote_every.unwrap_or(STAGE_K), for_racecheck }
    }

    /// The plan of kernels like that.
    pub fn plan(
        self,
        problem: &Problem,
        gpu: &HopperGpu,
        strategy: Strategy,
    ) -> Result<HopperPlan, PlanError> {
        let plan = HopperPlan::with_promotion(problem, gpu, strategy, self.promote_every)?;
        Ok(if self.for_racecheck { plan.for_racecheck() } else { plan })
    }
}

/// What is not as usual, at the end of a line.
impl fmt::Display for KernelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.promote_every != STAGE_K {
            write!(f, ", added up in f32 every {} products", self.promote_every)?;
        }
        if self.for_racecheck {
            write!(f, ", for racecheck")?;
        }
        Ok(())
    }
}

/// Whether this machine has a GPU that can run the kernels.
pub fn is_usable() -> bool {
    DriverInfo::query().is_ok_and(|driver| driver.gpus.iter().any(|gpu| gpu.require_hopper().is_ok()))
}

/// The GPU backend.
pub struct GpuBackend {
    gpu: Gpu,
    /// More than the cache holds: filling it leaves nothing of the operands there.
    flush: Buffer,
    kernels: KernelOptions,
}

impl GpuBackend {
    /// Opens the first GPU that can run the kernels, for kernels like that.
    pub fn open(kernels: KernelOptions) -> Result<Self> {
        let gpu = Gpu::open_first().map_err(|error| match error {
            CudaError::NoDriver | CudaError::NoGpu => {
                anyhow!("{error}; `octile test --backend gpu-sim` runs the kernels without")
            }
            error => error.into(),
        })?;
        let flush = Buffer::zeros(&gpu, 4 * gpu.properties().l2)?;
        Ok(Self { gpu, flush, kernels })
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl Backend for GpuBackend {
    fn setup(&self) -> Setup {
        Setup::Gpu {
            gpu_model: self.gpu.name().to_owned(),
            isa: HopperGpu::TARGET,
            multiprocessors: self.gpu.properties().sms,
            cuda_driver: cuda::format_version(self.gpu.driver()),
            kernels: self.kernels,
        }
    }

    fn accumulator(&self) -> Accumulator {
        Accumulator::HopperTensorCore { promote_every: self.kernels.promote_every }
    }

    fn best(&self, _: &Problem) -> Strategy {
        Strategy::Strip
    }

    fn peak(&self) -> Result<Peak> {
        Ok(Peak { tflops: peak_tflops(&self.gpu)?, read_gbytes: copy_gbytes(&self.gpu)? })
    }

    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        let plan = self.kernels.plan(&operands.problem, self.gpu.properties(), strategy)?;
        Ok(Box::new(GpuContender::new(self, &plan, operands)?))
    }
}

/// A plan on operands that lie in device memory.
pub struct GpuContender<'a> {
    backend: &'a GpuBackend,
    product: PlannedMatmul,
    memory: DeviceOperands,
    output: Output,
    /// Whether the caller may have changed `output` since it was last copied to the GPU.
    handed_out: bool,
    /// Whether the GPU has a newer result than `output`.
    newer_on_gpu: bool,
}

impl<'a> GpuContender<'a> {
    /// Compiles the plan's kernels and copies the operands to the GPU.
    pub fn new(backend: &'a GpuBackend, plan: &HopperPlan, operands: &Operands) -> Result<Self> {
        let (gpu, problem) = (&backend.gpu, operands.problem);
        Ok(Self {
            backend,
            product: PlannedMatmul::new(gpu, plan)?,
            memory: DeviceOperands::new(gpu, &problem, HostActivations::from(&operands.x), &operands.weight)?,
            output: Output::poisoned(problem.out, problem.m * problem.n),
            handed_out: true,
            newer_on_gpu: false,
        })
    }

    /// Copies what the caller wrote into the result to the GPU, so that poison is found where nothing is written.
    fn upload(&mut self) -> Result<()> {
        if self.handed_out {
            match &self.output {
                Output::F32(values) => self.memory.out.write(values)?,
                Output::Bf16(values) => self.memory.out.write(values)?,
                Output::F16(values) => self.memory.out.write(values)?,
            }
            self.handed_out = false;
        }
        Ok(())
    }
}

impl Contender for GpuContender<'_> {
    fn run(&mut self) -> Result<Duration> {
        self.upload()?;
        self.newer_on_gpu = true;
        let prepared = self.product.prepare(self.memory.operands())?;
        self.backend.flush.fill(0)?;
        let milliseconds = self.backend.gpu.time(|| prepared.launch())?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }

    fn output(&mut self) -> &mut Output {
        if self.newer_on_gpu {
            let copied = match &mut self.output {
                Output::F32(values) => self.memory.out.read(values),
                Output::Bf16(values) => self.memory.out.read(values),
                Output::F16(values) => self.memory.out.read(values),
            };
            // A result that cannot be read is no result: leave it poisoned.
            if copied.is_err() {
                self.output.poison();
            }
            self.newer_on_gpu = false;
        }
        self.handed_out = true;
        &mut self.output
    }
}

/// Bytes read plus bytes written per nanosecond by a large copy.
fn copy_gbytes(gpu: &Gpu) -> Result<f64> {
    const BYTES: usize = 2 << 30;
    let (from, to) = (Buffer::zeros(gpu, BYTES)?, Buffer::zeros(gpu, BYTES)?);
    let copy = || gpu.time(|| to.copy_from(&from));
    copy()?;
    let times = (0..5).map(|_| copy()).collect::<Result<Vec<f32>, _>>()?;
    let best = times.into_iter().fold(f32::INFINITY, f32::min);
    Ok(2.0 * BYTES as f64 / f64::from(best) / 1e6)
}

/// Matrix products of operands that stay in shared memory, without scales.
fn peak_tflops(gpu: &Gpu) -> Result<f64> {
    let peak = TensorCorePeak::new(gpu)?;
    let run = || gpu.time(|| peak.launch());
    run()?;
    let times = (0..5).map(|_| run()).collect::<Result<Vec<f32>, _>>()?;
    let best = times.into_iter().fold(f32::INFINITY, f32::min);
    Ok(peak.flops() / f64::from(best) / 1e9)
}

//! An NVIDIA Hopper GPU.

use std::{fmt, time::Duration};

use octile_core::{
    Problem, Strategy,
    bound::Accumulator,
    device::hopper::HopperGpu,
    plan::{
        DeviceKind, PlanError,
        hopper::{HopperPlan, STAGE_K},
    },
    sample::Operands,
};
use octile_runtime::cuda::{
    self, Buffer, DeviceOperands, DriverInfo, Gpu, HostActivations, PlannedMatmul, TensorCorePeak,
};
use serde::{Deserialize, Serialize};

use super::{Backend, Contender, OutputBuffer, Peak, PlanLabel, Setup, TunedLabel};
use crate::Result;

/// Options of Hopper kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelOptions {
    /// K elements between promotions of the accumulators.
    pub promote_every: usize,
    /// Whether `compute-sanitizer --tool racecheck` can follow the kernels.
    pub for_racecheck: bool,
    /// Whether plans of tuned tables are used.
    #[serde(skip)]
    pub tuned: bool,
}

impl KernelOptions {
    /// Options with the default promotion unless one is given.
    pub fn new(promote_every: Option<usize>, for_racecheck: bool) -> Self {
        Self { promote_every: promote_every.unwrap_or(STAGE_K), for_racecheck, tuned: false }
    }

    /// Uses plans of tuned tables, or only default ones.
    pub fn with_tuned(self, tuned: bool) -> Self {
        Self { tuned, ..self }
    }

    /// Plans a kernel with these options.
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

/// Options that differ from the default, at the end of a line.
impl fmt::Display for KernelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.promote_every != STAGE_K {
            write!(f, ", promotion every {}", self.promote_every)?;
        }
        if self.for_racecheck {
            write!(f, ", for racecheck")?;
        }
        Ok(())
    }
}

/// Whether this machine has a GPU that can run the kernels.
pub fn has_usable_gpu() -> bool {
    DriverInfo::query().is_ok_and(|driver| driver.gpus.iter().any(|gpu| gpu.require_hopper().is_ok()))
}

/// The GPU backend.
pub struct GpuBackend {
    gpu: Gpu,
    /// Larger than L2: filling it evicts the operands.
    flush: Buffer,
    kernels: KernelOptions,
}

impl GpuBackend {
    /// Opens the first GPU that can run the kernels.
    pub fn open(kernels: KernelOptions) -> Result<Self> {
        let gpu = Gpu::open_first()?;
        let flush = Buffer::zeros(&gpu, 4 * gpu.properties().l2)?;
        Ok(Self { gpu, flush, kernels })
    }

    fn uses_tables(&self) -> bool {
        self.kernels.tuned && !self.kernels.for_racecheck
    }

    /// The plan of a tuned table.
    fn tuned(&self, default: &HopperPlan) -> Option<HopperPlan> {
        if self.uses_tables() { cuda::tuned::plan(&self.gpu, default) } else { None }
    }
}

impl Backend for GpuBackend {
    fn setup(&self) -> Setup {
        Setup::Gpu {
            gpu_model: self.gpu.name().to_owned(),
            isa: HopperGpu::TARGET.to_owned(),
            sms: self.gpu.properties().sms,
            cuda_driver: cuda::format_version(self.gpu.driver()),
            kernels: self.kernels,
        }
    }

    fn accumulator(&self) -> Accumulator {
        Accumulator::HopperTensorCore { promote_every: self.kernels.promote_every }
    }

    fn best(&self, problem: &Problem) -> Strategy {
        Strategy::best_for(problem, DeviceKind::Gpu)
    }

    fn plan_label(&self, problem: &Problem, strategy: Strategy) -> PlanLabel {
        let default = self.kernels.plan(problem, self.gpu.properties(), strategy).ok();
        let tuned = default.filter(|_| self.uses_tables());
        let tuned = tuned.and_then(|default| cuda::tuned::choice(&self.gpu, &default));
        PlanLabel { isa: None, tuned: tuned.map(TunedLabel::new) }
    }

    fn table_notes(&self, problems: &[Problem]) -> Vec<String> {
        if self.uses_tables() { cuda::tuned::notes(&self.gpu, problems) } else { Vec::new() }
    }

    fn peak(&self, _: &Problem) -> Result<Peak> {
        Ok(Peak { tflops: peak_tflops(&self.gpu)?, read_gbytes: copy_gbytes(&self.gpu)? })
    }

    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        let default = self.kernels.plan(&operands.problem, self.gpu.properties(), strategy)?;
        let plan = self.tuned(&default).unwrap_or(default);
        Ok(Box::new(GpuContender::new(self, &plan, operands)?))
    }

    fn prepare_untuned<'a>(
        &'a self,
        strategy: Strategy,
        operands: &'a Operands,
    ) -> Result<Option<Box<dyn Contender + 'a>>> {
        let default = self.kernels.plan(&operands.problem, self.gpu.properties(), strategy)?;
        if self.tuned(&default).is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(GpuContender::new(self, &default, operands)?)))
    }
}

/// A kernel on operands in device memory.
struct GpuContender<'a> {
    backend: &'a GpuBackend,
    product: PlannedMatmul,
    memory: DeviceOperands,
    output: OutputBuffer,
    /// Whether the caller may have changed `output` since it was last uploaded.
    handed_out: bool,
    /// Whether the GPU has a newer result than `output`.
    newer_on_gpu: bool,
}

impl<'a> GpuContender<'a> {
    /// Compiles the kernels and uploads the operands.
    fn new(backend: &'a GpuBackend, plan: &HopperPlan, operands: &Operands) -> Result<Self> {
        let (gpu, problem) = (&backend.gpu, operands.problem);
        Ok(Self {
            backend,
            product: PlannedMatmul::new(gpu, plan)?,
            memory: DeviceOperands::new(gpu, &problem, HostActivations::from(&operands.x), &operands.weight)?,
            output: OutputBuffer::poisoned(problem.out, problem.m * problem.n),
            handed_out: true,
            newer_on_gpu: false,
        })
    }

    /// Uploads the poisoned output, so that elements the kernel does not write are detected.
    fn upload(&mut self) -> Result<()> {
        if self.handed_out {
            match &self.output {
                OutputBuffer::F32(values) => self.memory.out.write(values)?,
                OutputBuffer::Bf16(values) => self.memory.out.write(values)?,
                OutputBuffer::F16(values) => self.memory.out.write(values)?,
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

    fn output(&mut self) -> &mut OutputBuffer {
        if self.newer_on_gpu {
            let copied = match &mut self.output {
                OutputBuffer::F32(values) => self.memory.out.read(values),
                OutputBuffer::Bf16(values) => self.memory.out.read(values),
                OutputBuffer::F16(values) => self.memory.out.read(values),
            };
            // A result that cannot be read must not pass: leave it poisoned.
            if copied.is_err() {
                self.output.poison();
            }
            self.newer_on_gpu = false;
        }
        self.handed_out = true;
        &mut self.output
    }
}

/// Bytes read and written per nanosecond by a large device-to-device copy.
fn copy_gbytes(gpu: &Gpu) -> Result<f64> {
    const BYTES: usize = 2 << 30;
    let (from, to) = (Buffer::zeros(gpu, BYTES)?, Buffer::zeros(gpu, BYTES)?);
    let copy = || gpu.time(|| to.copy_from(&from));
    copy()?;
    let times = (0..5).map(|_| copy()).collect::<Result<Vec<f32>, _>>()?;
    let best = times.into_iter().fold(f32::INFINITY, f32::min);
    Ok(2.0 * BYTES as f64 / f64::from(best) / 1e6)
}

/// Throughput of wgmma on operands that stay in shared memory, without scaling.
fn peak_tflops(gpu: &Gpu) -> Result<f64> {
    let peak = TensorCorePeak::new(gpu)?;
    let run = || gpu.time(|| peak.launch());
    run()?;
    let times = (0..5).map(|_| run()).collect::<Result<Vec<f32>, _>>()?;
    let best = times.into_iter().fold(f32::INFINITY, f32::min);
    Ok(peak.flops() / f64::from(best) / 1e9)
}

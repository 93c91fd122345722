//! Plans of a Hopper GPU, by time: with a cold L2, and in replays of a graph.

use std::time::Duration;

use octile_core::{
    Problem,
    bound::Accumulator,
    plan::hopper::{HopperPlan, STAGE_K},
    sample::Operands,
    tuned::{TunedChoice, TunedDevice, TunedWith},
};
use octile_runtime::cuda::{self, Buffer, DeviceOperands, Gpu, Graph, HostActivations, PlannedMatmul};

use super::{CHECKED_ROWS, Model, SEED, Trial, Tuner};
use crate::{
    HarnessError, Result,
    backend::{Contender, OutputBuffer},
    check::{Check, Expectation},
};

/// Work of a graph, so that its launch does not count.
const GRAPH_FLOPS: f64 = 1e12;
/// Work from which a GPU reaches its power limit within milliseconds: it idles before each sample, so that
/// every candidate starts alike.
const HOT_FLOPS: f64 = 1.7e10;
const REST: Duration = Duration::from_millis(100);

/// The first GPU that can run the kernels.
pub struct GpuTuner {
    gpu: Gpu,
    /// Larger than L2: filling it evicts the operands.
    flush: Buffer,
    /// Most calls in a graph.
    most_replays: usize,
}

impl GpuTuner {
    /// Opens the GPU.
    pub fn open() -> Result<Self> {
        Self::with_replays(100)
    }

    /// The same with at most so many calls in a graph, for simulated drivers.
    pub fn with_replays(most_replays: usize) -> Result<Self> {
        let gpu = Gpu::open_first()?;
        let flush = Buffer::zeros(&gpu, 4 * gpu.properties().l2)?;
        Ok(Self { gpu, flush, most_replays })
    }
}

impl Tuner for GpuTuner {
    fn device(&self) -> TunedDevice {
        cuda::tuned::device(&self.gpu)
    }

    fn with(&self, problem: &Problem, choice: Option<TunedChoice>) -> Option<TunedWith> {
        let config = match choice {
            None => None,
            Some(TunedChoice::Gpu(config)) => Some(config),
            Some(_) => return None,
        };
        cuda::tuned::with(&self.gpu, problem, config)
    }

    fn calls(&self) -> &'static [&'static str] {
        &["cold", "replay"]
    }

    fn unit(&self) -> &'static str {
        "ms"
    }

    fn trial<'a>(&'a self, problem: &Problem) -> Result<Box<dyn Trial + 'a>> {
        let plans = promising(HopperPlan::candidates(problem, self.gpu.properties())?);
        let operands = Operands::random(*problem, SEED);
        let x = HostActivations::from(&operands.x);
        Ok(Box::new(GpuTrial {
            tuner: self,
            memory: DeviceOperands::new(&self.gpu, problem, x, &operands.weight)?,
            compiled: compile(&self.gpu, &plans)?,
            plans,
            chosen: 0,
            output: OutputBuffer::poisoned(problem.out, problem.m * problem.n),
            operands,
        }))
    }
}

struct GpuTrial<'a> {
    tuner: &'a GpuTuner,
    operands: Operands,
    memory: DeviceOperands,
    plans: Vec<HopperPlan>,
    /// Their kernels.
    compiled: Vec<PlannedMatmul>,
    chosen: usize,
    output: OutputBuffer,
}

/// Candidates that the model expects to take more than this factor of the shortest time are not measured. Its
/// times are off by a tenth.
const HOPELESS: f64 = 1.5;

fn promising(mut plans: Vec<HopperPlan>) -> Vec<HopperPlan> {
    let expected = |plan: &HopperPlan| plan.expected_time().total_ns;
    let least = plans.first().map_or(0.0, expected);
    plans.retain(|plan| expected(plan) <= HOPELESS * least);
    plans
}

/// Compiles all plans, on all cores: a kernel takes a driver some tenths of a second.
fn compile(gpu: &Gpu, plans: &[HopperPlan]) -> Result<Vec<PlannedMatmul>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut compiled = Vec::new();
    for plans in plans.chunks(threads) {
        std::thread::scope(|scope| {
            let compiling: Vec<_> =
                plans.iter().map(|plan| scope.spawn(|| PlannedMatmul::new(gpu, plan))).collect();
            for result in compiling {
                compiled.push(result.join().expect("compilation does not panic")?);
            }
            Ok::<_, HarnessError>(())
        })?;
    }
    Ok(compiled)
}

impl GpuTrial<'_> {
    fn rest(&self) {
        if self.operands.problem.flops() > HOT_FLOPS {
            std::thread::sleep(REST);
        }
    }
}

/// For the comparison with the reference: the caller may have poisoned the output.
impl Contender for GpuTrial<'_> {
    fn run(&mut self) -> Result<Duration> {
        match &self.output {
            OutputBuffer::F32(values) => self.memory.out.write(values)?,
            OutputBuffer::Bf16(values) => self.memory.out.write(values)?,
            OutputBuffer::F16(values) => self.memory.out.write(values)?,
        }
        let product = &self.compiled[self.chosen];
        let milliseconds = {
            let prepared = product.prepare(self.memory.operands())?;
            self.tuner.gpu.time(|| prepared.launch())?
        };
        match &mut self.output {
            OutputBuffer::F32(values) => self.memory.out.read(values)?,
            OutputBuffer::Bf16(values) => self.memory.out.read(values)?,
            OutputBuffer::F16(values) => self.memory.out.read(values)?,
        }
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }

    fn output(&mut self) -> &mut OutputBuffer {
        &mut self.output
    }
}

impl Trial for GpuTrial<'_> {
    fn candidates(&self) -> Vec<TunedChoice> {
        self.plans.iter().map(|plan| TunedChoice::Gpu(plan.shape)).collect()
    }

    fn describe(&self, candidate: usize) -> String {
        let plan = &self.plans[candidate];
        format!("{}, {} stages", plan.shape, plan.stages)
    }

    fn sample(&mut self, candidate: usize) -> Result<Vec<f64>> {
        let product = &self.compiled[candidate];
        let (gpu, problem) = (&self.tuner.gpu, &self.operands.problem);
        let prepared = product.prepare(self.memory.operands())?;
        self.rest();
        self.tuner.flush.fill(0)?;
        let cold = gpu.time(|| prepared.launch())?;
        let replays = (GRAPH_FLOPS / problem.flops()).clamp(1.0, self.tuner.most_replays as f64) as usize;
        let graph = Graph::capture(gpu, std::iter::repeat_n(&prepared, replays))?;
        gpu.wait()?;
        self.rest();
        graph.launch()?;
        let replay = gpu.time(|| graph.launch())? / replays as f32;
        // A clock that shows nothing must not look infinitely fast.
        Ok([cold, replay].map(|ms| f64::from(ms).max(1e-6)).to_vec())
    }

    fn check(&mut self, candidate: usize) -> Result<Option<Check>> {
        self.chosen = candidate;
        let accumulator = Accumulator::HopperTensorCore { promote_every: STAGE_K };
        let expectation = Expectation::sampled(&self.operands, CHECKED_ROWS, accumulator);
        expectation.check(self).map(Some)
    }

    fn model(&self, candidate: usize) -> Result<Model> {
        let expected = self.plans[candidate].expected_time();
        Ok(Model { cost: Some(expected.total_ns / 1e6), limit: expected.limit.to_string() })
    }
}

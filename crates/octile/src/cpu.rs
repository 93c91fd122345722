//! Multiplications on the CPU.

use std::sync::{Arc, Mutex, PoisonError};

use octile_core::{
    ActivationKind, ActivationView, Mat, MatMut, Problem, QuantizedActivation, Strategy, plan::cpu::CpuPlan,
};
use octile_runtime::cpu::{self, Activation, Cpu, Floats, PackedWeight, WeightRef, Workspace};

use crate::{
    Error, Weight,
    dtype::{Input, Output},
};

/// Workspaces that a device keeps. More are made for more callers at the same time, and dropped.
const MOST_WORKSPACES: usize = 8;

/// A CPU, with scratch memory for all multiplications on it.
#[derive(Debug)]
pub(crate) struct CpuDevice {
    cpu: Cpu,
    /// Each with the plan of its last call; most recently used last.
    idle: Mutex<Vec<Workspace>>,
}

impl CpuDevice {
    pub(crate) fn new(cpu: Cpu) -> Self {
        Self { cpu, idle: Mutex::default() }
    }

    pub(crate) fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Plans, allocates and starts threads, so that the first call does not.
    pub(crate) fn prepare(&self, problem: &Problem, strategy: Strategy) -> Result<(), Error> {
        let mut workspace = self.take(problem, |planned| planned == strategy);
        if !is_for(&workspace, problem, |planned| planned == strategy) {
            workspace = self.cpu.workspace(problem, strategy);
        }
        let workers = workspace.plan().map_or(1, CpuPlan::workers);
        self.put_back(workspace);
        if workers > 1 { Ok(self.cpu.start_threads()?) } else { Ok(()) }
    }

    /// Multiplies with the fastest strategy for the form of the weight.
    pub(crate) fn run(
        &self,
        problem: &Problem,
        weight: WeightRef<'_>,
        x: Input<'_>,
        out: Output<'_>,
    ) -> Result<(), Error> {
        let is_packed = matches!(weight, WeightRef::Packed(_));
        let reads_form = |strategy| (strategy == Strategy::Strip) == is_packed;
        let workspace = self.take(problem, reads_form);
        let planned = workspace.plan().filter(|_| is_for(&workspace, problem, reads_form));
        let strategy = planned.map(|plan| plan.strategy);
        let strategy = strategy.unwrap_or_else(|| self.cpu.best(problem, is_packed));
        self.multiply(problem, strategy, weight, x, out, workspace)
    }

    /// The same with another strategy that reads this form.
    pub(crate) fn run_as(
        &self,
        problem: &Problem,
        strategy: Strategy,
        weight: WeightRef<'_>,
        x: Input<'_>,
        out: Output<'_>,
    ) -> Result<(), Error> {
        let workspace = self.take(problem, |planned| planned == strategy);
        self.multiply(problem, strategy, weight, x, out, workspace)
    }

    fn multiply(
        &self,
        problem: &Problem,
        strategy: Strategy,
        weight: WeightRef<'_>,
        x: Input<'_>,
        out: Output<'_>,
        mut workspace: Workspace,
    ) -> Result<(), Error> {
        let x = activation(problem, x)?;
        let done = match out {
            Output::F32(out) => self.multiply_into(problem, strategy, weight, x, out, &mut workspace),
            Output::Bf16(out) => self.multiply_into(problem, strategy, weight, x, out, &mut workspace),
            Output::F16(out) => self.multiply_into(problem, strategy, weight, x, out, &mut workspace),
        };
        self.put_back(workspace);
        done
    }

    fn multiply_into<T: cpu::Output>(
        &self,
        problem: &Problem,
        strategy: Strategy,
        weight: WeightRef<'_>,
        x: Activation<'_>,
        out: &mut [T],
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let out = MatMut::new(out, problem.m, problem.n)?;
        Ok(self.cpu.multiply(strategy, x, weight, out, workspace)?)
    }

    /// A workspace with a plan for the problem, or else a new one, or the one that was not used for longest.
    fn take(&self, problem: &Problem, strategy: impl Fn(Strategy) -> bool) -> Workspace {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match idle.iter().rposition(|workspace| is_for(workspace, problem, &strategy)) {
            Some(at) => idle.remove(at),
            None if idle.len() < MOST_WORKSPACES => Workspace::new(),
            None => idle.remove(0),
        }
    }

    fn put_back(&self, workspace: Workspace) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_WORKSPACES {
            idle.push(workspace);
        }
    }
}

/// Whether the workspace has a plan for the problem with such a strategy.
fn is_for(workspace: &Workspace, problem: &Problem, strategy: impl Fn(Strategy) -> bool) -> bool {
    workspace.plan().is_some_and(|plan| plan.problem == *problem && strategy(plan.strategy))
}

/// A weight that is ready for the CPU kernels.
#[derive(Debug)]
pub(crate) struct CpuMatmul {
    device: Arc<CpuDevice>,
    strategy: Strategy,
    weight: Form,
}

/// The weight in the form that the strategy reads.
#[derive(Debug)]
enum Form {
    Rows(Weight),
    Packed(PackedWeight),
}

impl CpuMatmul {
    pub(crate) fn new(device: &Arc<CpuDevice>, strategy: Strategy, weight: Weight) -> Self {
        let weight = match strategy {
            Strategy::Strip => Form::Packed(device.cpu.pack(weight.quantized())),
            Strategy::Auto | Strategy::Dma | Strategy::Smem => Form::Rows(weight),
        };
        Self { device: Arc::clone(device), strategy, weight }
    }

    pub(crate) fn plan(&self, problem: &Problem) -> CpuPlan {
        self.device.cpu.plan(problem, self.strategy)
    }

    /// Plans, allocates and starts threads, so that the first call does not.
    pub(crate) fn prepare(&self, problem: &Problem) -> Result<(), Error> {
        self.device.prepare(problem, self.strategy)
    }

    pub(crate) fn run(&self, problem: &Problem, x: Input<'_>, out: Output<'_>) -> Result<(), Error> {
        let weight = match &self.weight {
            Form::Rows(weight) => weight.quantized().into(),
            Form::Packed(weight) => weight.into(),
        };
        self.device.run_as(problem, self.strategy, weight, x, out)
    }
}

/// The activations as the kernels take them.
fn activation<'a>(problem: &Problem, x: Input<'a>) -> Result<Activation<'a>, Error> {
    let Problem { m, k, quant_block, .. } = *problem;
    let floats = match x {
        Input::F32(x) => Floats::F32(Mat::new(x, m, k)?),
        Input::Bf16(x) => Floats::Bf16(Mat::new(x, m, k)?),
        Input::F16(x) => Floats::F16(Mat::new(x, m, k)?),
        Input::Fp8 { codes, scales, layout } => {
            let granularity = problem.x.granularity().ok_or(NOT_CODES)?;
            let x = ActivationView::new(codes, scales, layout, [m, k], quant_block, granularity)?;
            return Ok(Activation::Fp8(x));
        }
    };
    Ok(match problem.x.granularity() {
        Some(granularity) => Activation::Quantize(floats, granularity),
        None => Activation::Plain(floats),
    })
}

const NOT_CODES: Error =
    Error::UnsupportedType("the activations are not f8e4m3: call run instead of run_fp8");

/// A checked copy of codes and K-major scales that the caller brings.
pub(crate) fn quantized_activation(problem: &Problem, x: Input<'_>) -> Result<QuantizedActivation, Error> {
    let (Input::Fp8 { codes, scales, .. }, ActivationKind::Fp8(granularity)) = (x, problem.x) else {
        return Err(NOT_CODES);
    };
    let codes = Mat::new(codes, problem.m, problem.k)?;
    Ok(QuantizedActivation::from_parts(codes, scales, problem.quant_block, granularity)?)
}

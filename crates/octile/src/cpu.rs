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

/// Workspaces that are kept: one for each caller at the same time, up to this many.
const MOST_WORKSPACES: usize = 16;

/// A multiplication with any weight.
#[derive(Debug)]
pub(crate) struct CpuOp {
    cpu: Arc<Cpu>,
    idle: Mutex<Vec<Workspace>>,
}

impl CpuOp {
    pub(crate) fn new(cpu: &Arc<Cpu>) -> Self {
        Self { cpu: Arc::clone(cpu), idle: Mutex::default() }
    }

    pub(crate) fn plan(&self, problem: &Problem) -> CpuPlan {
        self.cpu.plan(problem, Strategy::Strip)
    }

    /// Allocates a workspace, so that the first call does not.
    pub(crate) fn prepare(&self, problem: &Problem) {
        self.put_back(self.cpu.workspace(problem, Strategy::Strip));
    }

    /// Multiplies, with the fastest strategy for the form of the weight if none is given.
    pub(crate) fn run(
        &self,
        problem: &Problem,
        strategy: Option<Strategy>,
        weight: WeightRef<'_>,
        x: Input<'_>,
        out: Output<'_>,
    ) -> Result<(), Error> {
        let packed = matches!(weight, WeightRef::Packed(_));
        let strategy = strategy.unwrap_or_else(|| self.cpu.best(problem, packed));
        let x = activation(problem, x)?;
        match out {
            Output::F32(out) => self.multiply(problem, strategy, weight, x, out),
            Output::Bf16(out) => self.multiply(problem, strategy, weight, x, out),
            Output::F16(out) => self.multiply(problem, strategy, weight, x, out),
        }
    }

    fn multiply<T: cpu::Output>(
        &self,
        problem: &Problem,
        strategy: Strategy,
        weight: WeightRef<'_>,
        x: Activation<'_>,
        out: &mut [T],
    ) -> Result<(), Error> {
        let out = MatMut::new(out, problem.m, problem.n)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut workspace = idle.unwrap_or_default();
        let done = self.cpu.multiply(strategy, x, weight, out, &mut workspace);
        self.put_back(workspace);
        Ok(done?)
    }

    fn put_back(&self, workspace: Workspace) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_WORKSPACES {
            idle.push(workspace);
        }
    }
}

/// A weight that is ready for the CPU kernels.
#[derive(Debug)]
pub(crate) struct CpuMatmul {
    op: CpuOp,
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
    pub(crate) fn new(cpu: &Arc<Cpu>, strategy: Strategy, weight: Weight) -> Self {
        let weight = match strategy {
            Strategy::Strip => Form::Packed(PackedWeight::new(weight.quantized())),
            Strategy::Auto | Strategy::Dma | Strategy::Smem => Form::Rows(weight),
        };
        Self { op: CpuOp::new(cpu), strategy, weight }
    }

    pub(crate) fn plan(&self, problem: &Problem) -> CpuPlan {
        self.op.cpu.plan(problem, self.strategy)
    }

    /// Allocates a workspace, so that the first call does not.
    pub(crate) fn prepare(&self, problem: &Problem) {
        self.op.put_back(self.op.cpu.workspace(problem, self.strategy));
    }

    pub(crate) fn run(&self, problem: &Problem, x: Input<'_>, out: Output<'_>) -> Result<(), Error> {
        let weight = match &self.weight {
            Form::Rows(weight) => weight.quantized().into(),
            Form::Packed(weight) => weight.into(),
        };
        self.op.run(problem, Some(self.strategy), weight, x, out)
    }
}

/// The activations as the kernels take them.
fn activation<'a>(problem: &Problem, x: Input<'a>) -> Result<Activation<'a>, Error> {
    let Problem { m, k, quant_block, .. } = *problem;
    let floats = match x {
        Input::F32(x) => Floats::F32(Mat::new(x, m, k)?),
        Input::Bf16(x) => Floats::Bf16(Mat::new(x, m, k)?),
        Input::F16(x) => Floats::F16(Mat::new(x, m, k)?),
        Input::Fp8 { codes, scales } => {
            let granularity = problem.x.granularity().ok_or(NOT_CODES)?;
            let x = ActivationView::new(codes, scales, [m, k], quant_block, granularity)?;
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

/// A checked copy of codes and scales that the caller brings.
pub(crate) fn quantized_activation(problem: &Problem, x: Input<'_>) -> Result<QuantizedActivation, Error> {
    let (Input::Fp8 { codes, scales }, ActivationKind::Fp8(granularity)) = (x, problem.x) else {
        return Err(NOT_CODES);
    };
    let codes = Mat::new(codes, problem.m, problem.k)?;
    Ok(QuantizedActivation::from_parts(codes, scales, problem.quant_block, granularity)?)
}

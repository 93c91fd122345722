//! A weight that is ready for the CPU kernels.

use std::sync::{Arc, Mutex, PoisonError};

use octile_core::{ActivationKind, Mat, MatMut, Problem, QuantizedActivation, Strategy, plan::cpu::CpuPlan};
use octile_runtime::cpu::{self, Activation, Cpu, Floats, PackedWeight, Workspace};

use crate::{
    Error, Weight,
    dtype::{Input, Output},
};

/// Workspaces that are kept: one for each caller at the same time, up to this many.
const MOST_WORKSPACES: usize = 16;

#[derive(Debug)]
pub(crate) struct CpuMatmul {
    cpu: Arc<Cpu>,
    strategy: Strategy,
    weight: Form,
    idle: Mutex<Vec<Workspace>>,
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
        Self { cpu: Arc::clone(cpu), strategy, weight, idle: Mutex::default() }
    }

    pub(crate) fn plan(&self, problem: &Problem) -> CpuPlan {
        self.cpu.plan(problem, self.strategy)
    }

    /// Allocates a workspace, so that the first call does not.
    pub(crate) fn prepare(&self, problem: &Problem) {
        self.put_back(self.cpu.workspace(problem, self.strategy));
    }

    pub(crate) fn run(&self, problem: &Problem, x: Input<'_>, out: Output<'_>) -> Result<(), Error> {
        match out {
            Output::F32(out) => self.multiply(problem, x, out),
            Output::Bf16(out) => self.multiply(problem, x, out),
            Output::F16(out) => self.multiply(problem, x, out),
        }
    }

    fn multiply<T: cpu::Output>(&self, problem: &Problem, x: Input<'_>, out: &mut [T]) -> Result<(), Error> {
        let Problem { m, n, k, .. } = *problem;
        let quantized;
        let floats = match x {
            Input::F32(x) => Floats::F32(Mat::new(x, m, k)?),
            Input::Bf16(x) => Floats::Bf16(Mat::new(x, m, k)?),
            Input::F16(x) => Floats::F16(Mat::new(x, m, k)?),
            Input::Fp8 { .. } => {
                quantized = quantized_activation(problem, x)?;
                return self.multiply_activation(Activation::Fp8(&quantized), MatMut::new(out, m, n)?);
            }
        };
        let activation = match problem.x.granularity() {
            Some(granularity) => Activation::Quantize(floats, granularity),
            None => Activation::Plain(floats),
        };
        self.multiply_activation(activation, MatMut::new(out, m, n)?)
    }

    fn multiply_activation<T: cpu::Output>(
        &self,
        x: Activation<'_>,
        out: MatMut<'_, T>,
    ) -> Result<(), Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut workspace = idle.unwrap_or_default();
        let weight = match &self.weight {
            Form::Rows(weight) => cpu::WeightRef::Rows(weight.quantized()),
            Form::Packed(weight) => cpu::WeightRef::Packed(weight),
        };
        let done = self.cpu.multiply(self.strategy, x, weight, out, &mut workspace);
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

/// Checks codes and scales that the caller brings.
pub(crate) fn quantized_activation(problem: &Problem, x: Input<'_>) -> Result<QuantizedActivation, Error> {
    let (Input::Fp8 { codes, scales }, ActivationKind::Fp8(granularity)) = (x, problem.x) else {
        return Err(Error::UnsupportedType("the activations are not f8e4m3: call run instead of run_fp8"));
    };
    let codes = Mat::new(codes, problem.m, problem.k)?;
    Ok(QuantizedActivation::from_parts(codes, scales, problem.quant_block, granularity)?)
}

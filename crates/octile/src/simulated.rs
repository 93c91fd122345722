//! Kernels that the CPU interprets.

use half::{bf16, f16};
use octile_core::{
    Problem, Strategy,
    device::{hopper::HopperGpu, tpu::TpuChip},
    plan::{
        hopper::{Arguments, HopperPlan},
        tpu::{BlockMode, TpuPlan},
    },
    sample::{Activations, Operands},
};
use octile_kernels::{hopper, tpu};
use octile_mosaic::{
    Float,
    interpret::{Element, Options, Tensor, simulate},
};
use octile_ptx::simulate::{SimulatedMatmul, Simulator};

use crate::{
    Error, Weight,
    cpu::quantized_activation,
    dtype::{Input, Output},
};

/// CTAs that are interpreted concurrently. CTAs of different clusters do not communicate, so more would
/// change nothing.
const RESIDENT_CTAS: usize = 8;

#[derive(Debug)]
pub(crate) struct GpuSimulator {
    pub gpu: &'static HopperGpu,
    pub strategy: Strategy,
    pub weight: Weight,
}

impl GpuSimulator {
    pub(crate) fn plan(&self, problem: &Problem) -> Result<HopperPlan, Error> {
        Ok(HopperPlan::best(problem, self.gpu, self.strategy)?)
    }

    pub(crate) fn run(&self, problem: &Problem, x: Input<'_>, out: &mut Output<'_>) -> Result<(), Error> {
        let strategy = self.strategy;
        let fault = |fault: String| Error::Simulation { strategy, fault };
        let plan = self.plan(problem)?;
        let quantize = hopper::quantize_for(problem);
        let quantize = quantize.as_ref().map(|(kernel, launch)| (&kernel.ptx[..], *launch));
        let kernels = SimulatedMatmul::new(&plan, &hopper::multiply(&plan).ptx, quantize)
            .map_err(|error| fault(error.to_string()))?;
        let x = activations(problem, x)?;
        let operands = Operands { problem: *problem, weight: self.weight.quantized().clone(), x };
        let simulator = Simulator { gpu: self.gpu, resident_ctas: RESIDENT_CTAS, seed: 1 };
        let arguments = Arguments::fastest(problem).with_constant_weight();
        let (bytes, _) =
            kernels.run(&operands, arguments, simulator).map_err(|error| fault(error.to_string()))?;
        out.copy_from_bytes(&bytes);
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct TpuSimulator {
    pub chip: &'static TpuChip,
    pub strategy: Strategy,
    pub weight: Weight,
}

impl TpuSimulator {
    pub(crate) fn plan(&self, problem: &Problem) -> Result<TpuPlan, Error> {
        Ok(TpuPlan::new(problem, self.chip, self.strategy, BlockMode::Auto)?)
    }

    pub(crate) fn run(&self, problem: &Problem, x: Input<'_>, out: &mut Output<'_>) -> Result<(), Error> {
        let strategy = self.strategy;
        let fault = |fault: String| Error::Simulation { strategy, fault };
        let module = tpu::emit(&self.plan(problem)?).stablehlo;
        // The module is our own: it terminates.
        let options = Options {
            max_operations: u64::MAX,
            max_bytes: Some(usize::MAX),
            ..Options::new(self.chip.rates)
        };
        let outcome = simulate(&module, &self.tensors(problem, x)?, &options)
            .map_err(|error| fault(error.to_string()))?;
        if let Some(finding) = outcome.findings.first() {
            return Err(fault(format!("{finding:?}")));
        }
        let result = outcome.outputs.first().ok_or_else(|| fault("it has no result".to_owned()))?;
        out.copy_from_bytes(&result.bytes);
        Ok(())
    }

    /// `x, w_q, w_scale[, x_scale]`, as the emitted modules take them.
    fn tensors(&self, problem: &Problem, x: Input<'_>) -> Result<Vec<Tensor>, Error> {
        let tensor = |float, (rows, cols), bytes: Vec<u8>| Tensor {
            element: Element::Float(float),
            shape: vec![rows, cols],
            bytes: bytes.into(),
        };
        let (m, k) = (problem.m, problem.k);
        let mut x_scales = None;
        let x = match activations(problem, x)? {
            Activations::F32(x) => tensor(Float::F32, (m, k), le_bytes(&x, f32::to_le_bytes)),
            Activations::Bf16(x) => tensor(Float::Bf16, (m, k), le_bytes(&x, bf16::to_le_bytes)),
            Activations::F16(x) => tensor(Float::F16, (m, k), le_bytes(&x, f16::to_le_bytes)),
            Activations::Fp8(x) => {
                let shape = problem.x_scale_shape().unwrap_or((1, 1));
                x_scales = Some(tensor(Float::F32, shape, le_bytes(x.scales(), f32::to_le_bytes)));
                tensor(Float::F8E4M3FN, (m, k), x.codes().to_vec())
            }
        };
        let w = tensor(Float::F8E4M3FN, (problem.n, k), self.weight.codes().to_vec());
        let w_scales = le_bytes(self.weight.scales(), f32::to_le_bytes);
        let w_scales = tensor(Float::F32, problem.w_scale_shape(), w_scales);
        Ok([x, w, w_scales].into_iter().chain(x_scales).collect())
    }
}

/// A copy of the activations, checked.
fn activations(problem: &Problem, x: Input<'_>) -> Result<Activations, Error> {
    Ok(match x {
        Input::F32(x) => Activations::F32(x.to_vec()),
        Input::Bf16(x) => Activations::Bf16(x.to_vec()),
        Input::F16(x) => Activations::F16(x.to_vec()),
        Input::Fp8 { .. } => Activations::Fp8(quantized_activation(problem, x)?),
    })
}

fn le_bytes<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

//! Multiplications on GPUs.

use octile::{DType, Device, Matmul, Scales, Strategy, bf16};
use octile_core::{plan::hopper::HopperPlan, sample::Operands};
use octile_runtime::cuda::{Gpu, HostActivations, multiply_host};

use super::{operands, weight};

pub(crate) fn matmul(
    device: &Device,
    strategy: Strategy,
    operands: &Operands,
    kind: (DType, Scales),
) -> Matmul {
    Matmul::builder(device, weight(operands))
        .activations(kind.0, kind.1)
        .with_strategy(strategy)
        .build()
        .unwrap()
}

/// The result of the layer below.
pub(crate) fn expected(strategy: Strategy, operands: &Operands) -> Vec<bf16> {
    let gpu = Gpu::open(0).unwrap();
    let plan = HopperPlan::best(&operands.problem, gpu.properties(), strategy).unwrap();
    let mut out = vec![bf16::NAN; operands.problem.m * operands.problem.n];
    multiply_host(&gpu, &plan, HostActivations::from(&operands.x), &operands.weight, &mut out).unwrap();
    out
}

pub(crate) fn floats(m: usize) -> Operands {
    operands([m, 40, 208], DType::BF16, Scales::PerToken, DType::BF16)
}

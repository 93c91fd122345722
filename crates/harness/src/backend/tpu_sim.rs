//! A simulated TPU: prints, parses and simulates the emitted module with every check enabled.

use std::time::{Duration, Instant};

use octile_core::{
    Problem, Strategy,
    bound::Accumulator,
    device::tpu::TpuChip,
    plan::{
        DeviceKind,
        tpu::{Arithmetic, BlockMode, TpuPlan},
    },
    sample::{Activations, Operands},
};
use octile_kernels::tpu::emit;
use octile_mosaic::{
    Float, Module,
    interpret::{Element, Finding, Options, Tensor, simulate},
    parse,
};

use super::{Backend, Contender, OutputBuffer, Peak, Setup};
use crate::{HarnessError, Result};

/// The simulated chip.
const CHIP: &str = "tpu7x";

/// The simulated TPU backend, for kernels of one block mode.
pub struct TpuSimBackend {
    chip: &'static TpuChip,
    mode: BlockMode,
}

impl TpuSimBackend {
    /// Simulates kernels of this block mode.
    pub fn open(mode: BlockMode) -> Result<Self> {
        Ok(Self { chip: TpuChip::named(CHIP)?, mode })
    }

    fn plan(&self, problem: &Problem, strategy: Strategy) -> Result<TpuPlan> {
        Ok(TpuPlan::new(problem, self.chip, strategy, self.mode)?)
    }
}

impl Backend for TpuSimBackend {
    fn setup(&self) -> Setup {
        Setup::TpuSim {
            chip: self.chip.name.to_owned(),
            mode: self.mode.to_string(),
            cpu_model: super::cpu_model(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    fn accumulator(&self) -> Accumulator {
        Accumulator::F32
    }

    fn accumulator_of(&self, strategy: Strategy, problem: &Problem) -> Accumulator {
        match self.plan(problem, strategy).map(|plan| plan.arithmetic) {
            Ok(Arithmetic::Dequantized) => Accumulator::Bf16Operands,
            _ => Accumulator::F32,
        }
    }

    fn best(&self, problem: &Problem) -> Strategy {
        Strategy::best_for(problem, DeviceKind::Tpu)
    }

    fn peak(&self, _: &Problem) -> Result<Peak> {
        Err(HarnessError::NotTimed { device: self.chip.name })
    }

    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        let problem = operands.problem;
        let text = emit(&self.plan(&problem, strategy)?).stablehlo.to_string();
        let unreadable = |error| HarnessError::Unreadable { kernel: strategy.to_string(), error };
        let module = parse(&text).map_err(|error| unreadable(error.to_string()))?;
        Ok(Box::new(Simulated {
            // Our own kernels terminate.
            options: Options {
                max_operations: u64::MAX,
                max_bytes: Some(usize::MAX),
                ..Options::new(self.chip.rates)
            },
            module,
            operands: tensor_arguments(operands),
            output: OutputBuffer::poisoned(problem.out, problem.m * problem.n),
            findings: Vec::new(),
        }))
    }
}

struct Simulated {
    options: Options<'static>,
    module: Module,
    operands: Vec<Tensor>,
    output: OutputBuffer,
    findings: Vec<Finding>,
}

impl Contender for Simulated {
    fn run(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let outcome = simulate(&self.module, &self.operands, &self.options)?;
        self.findings = outcome.findings;
        let bytes = outcome.outputs.first().map_or(&[][..], |output| &output.bytes);
        self.output.copy_from_bytes(bytes);
        Ok(start.elapsed())
    }

    fn output(&mut self) -> &mut OutputBuffer {
        &mut self.output
    }

    fn findings(&self) -> usize {
        self.findings.len()
    }
}

/// Arguments of the emitted modules: `x, w_q, w_scale[, x_scale]`.
pub fn tensor_arguments(operands: &Operands) -> Vec<Tensor> {
    let Problem { m, n, k, .. } = operands.problem;
    let matrix = |float, rows, cols, bytes: Vec<u8>| Tensor {
        element: Element::Float(float),
        shape: vec![rows, cols],
        bytes: bytes.into(),
    };
    let scales =
        |(rows, cols), scales: &[f32]| matrix(Float::F32, rows, cols, le_bytes(scales, |v| v.to_le_bytes()));
    let (float, x) = match &operands.x {
        Activations::Fp8(x) => (Float::F8E4M3FN, x.codes().to_vec()),
        Activations::F32(x) => (Float::F32, le_bytes(x, |v| v.to_le_bytes())),
        Activations::Bf16(x) => (Float::Bf16, le_bytes(x, |v| v.to_le_bytes())),
        Activations::F16(x) => (Float::F16, le_bytes(x, |v| v.to_le_bytes())),
    };
    let weight = &operands.weight;
    let mut tensors = vec![
        matrix(float, m, k, x),
        matrix(Float::F8E4M3FN, n, k, weight.codes().to_vec()),
        scales(operands.problem.w_scale_shape(), weight.scales()),
    ];
    if let (Activations::Fp8(x), Some(shape)) = (&operands.x, operands.problem.x_scale_shape()) {
        tensors.push(scales(shape, x.scales()));
    }
    tensors
}

fn le_bytes<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

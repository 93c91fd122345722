//! A simulated GPU: runs the PTX of the kernels thread by thread, and detects data races, deadlocks and
//! out-of-bounds accesses.

use std::time::{Duration, Instant};

use octile_core::{
    Problem, Strategy,
    bound::Accumulator,
    device::hopper::{HOPPER_GPUS, HopperGpu},
    plan::{DeviceKind, hopper::Arguments},
    sample::Operands,
};
use octile_kernels::hopper;
use octile_ptx::simulate::{SimulatedMatmul, Simulator};

use super::{Backend, Contender, KernelOptions, OutputBuffer, Peak, Setup};
use crate::{HarnessError, Result};

/// The simulated GPU backend.
pub struct GpuSimBackend {
    gpu: &'static HopperGpu,
    kernels: KernelOptions,
}

impl GpuSimBackend {
    /// Simulates an H200.
    pub fn open(kernels: KernelOptions) -> Self {
        let [.., gpu] = &HOPPER_GPUS;
        Self { gpu, kernels }
    }
}

impl Backend for GpuSimBackend {
    fn setup(&self) -> Setup {
        let (isa, cpu_model) = (HopperGpu::TARGET.to_owned(), super::cpu_model());
        Setup::GpuSim { gpu: self.gpu.name.to_owned(), isa, cpu_model, kernels: self.kernels }
    }

    fn accumulator(&self) -> Accumulator {
        SimulatedMatmul::ACCUMULATOR
    }

    fn best(&self, problem: &Problem) -> Strategy {
        Strategy::best_for(problem, DeviceKind::Gpu)
    }

    fn peak(&self, _: &Problem) -> Result<Peak> {
        Err(HarnessError::NotTimed { device: self.gpu.name })
    }

    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        let problem = operands.problem;
        let plan = self.kernels.plan(&problem, self.gpu, strategy)?;
        let multiply = hopper::multiply(&plan);
        let quantize = hopper::quantize_for(&problem);
        let quantize = quantize.as_ref().map(|(kernel, launch)| (&kernel.ptx[..], *launch));
        let product = SimulatedMatmul::new(&plan, &multiply.ptx, quantize).map_err(|error| {
            HarnessError::Unreadable { kernel: multiply.entry.clone(), error: error.to_string() }
        })?;
        Ok(Box::new(Simulated {
            gpu: self.gpu,
            product,
            operands,
            output: OutputBuffer::poisoned(problem.out, problem.m * problem.n),
            runs: 0,
            stopped: None,
        }))
    }
}

struct Simulated<'a> {
    gpu: &'static HopperGpu,
    product: SimulatedMatmul,
    operands: &'a Operands,
    output: OutputBuffer,
    runs: u64,
    /// The first fault.
    stopped: Option<String>,
}

/// CTAs simulated at once. More would change nothing, because CTAs of different clusters do not synchronize.
pub const RESIDENT_CTAS: usize = 8;

impl Contender for Simulated<'_> {
    fn run(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.runs += 1;
        // Each run has another interleaving.
        let machine = Simulator { gpu: self.gpu, resident_ctas: RESIDENT_CTAS, seed: self.runs };
        let arguments = Arguments::fastest(&self.operands.problem).with_constant_weight();
        match self.product.run(self.operands, arguments, machine) {
            Ok((bytes, _)) => self.output.copy_from_bytes(&bytes),
            Err(fault) => self.stopped = self.stopped.take().or_else(|| Some(fault.to_string())),
        }
        Ok(start.elapsed())
    }

    fn stopped(&self) -> Option<String> {
        self.stopped.clone()
    }

    fn output(&mut self) -> &mut OutputBuffer {
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use octile_core::QuantBlock;

    use super::*;
    use crate::check::Expectation;

    #[test]
    fn a_kernel_that_is_stopped_fails_its_check() {
        let backend = GpuSimBackend::open(KernelOptions::new(None, false));
        let problem = Problem::new(64, 64, 300, QuantBlock::B128).unwrap();
        let operands = Operands::random(problem, 1);
        let plan = backend.kernels.plan(&problem, backend.gpu, Strategy::Smem).unwrap();
        let check = |text: &str| {
            let mut contender = Simulated {
                gpu: backend.gpu,
                product: SimulatedMatmul::new(&plan, text, None).unwrap(),
                operands: &operands,
                output: OutputBuffer::poisoned(problem.out, problem.m * problem.n),
                runs: 0,
                stopped: None,
            };
            Expectation::whole(&operands, backend.accumulator()).check(&mut contender).unwrap()
        };
        let sound = hopper::multiply(&plan).ptx;
        assert_eq!(check(&sound).complaint(), None);
        let broken = check(&sound.replace("mbarrier.arrive.expect_tx", "// mbarrier.arrive.expect_tx"));
        assert!(!broken.passed());
        let complaint = broken.complaint().unwrap();
        assert!(complaint.starts_with("the simulator stopped the kernel: line "), "{complaint}");
    }
}

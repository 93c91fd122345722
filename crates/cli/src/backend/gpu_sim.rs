//! A GPU, simulated: the PTX of the kernels is read and run thread by thread, with races, deadlocks and stray accesses looked for.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use octile_core::{
    Problem, Strategy,
    bound::Accumulator,
    device::hopper::{HOPPER_GPUS, HopperGpu},
    plan::hopper::Arguments,
    sample::Operands,
};
use octile_kernels::hopper;
use octile_ptx::simulate::{SimulatedMatmul, Simulator};

use super::{Backend, Contender, Output, Peak, Setup, gpu::KernelOptions};

/// The simulator.
pub struct GpuSimBackend {
    gpu: &'static HopperGpu,
    kernels: KernelOptions,
}

impl GpuSimBackend {
    /// An H200, for kernels like that.
    pub fn open(kernels: KernelOptions) -> Self {
        let [.., gpu] = &HOPPER_GPUS;
        Self { gpu, kernels }
    }
}

impl Backend for GpuSimBackend {
    fn setup(&self) -> Setup {
        let (isa, cpu_model) = (HopperGpu::TARGET, super::cpu::cpu_model());
        Setup::GpuSim { gpu: self.gpu.name, isa, cpu_model, kernels: self.kernels }
    }

    fn accumulator(&self) -> Accumulator {
        SimulatedMatmul::ACCUMULATOR
    }

    fn best(&self, _: &Problem) -> Strategy {
        Strategy::Strip
    }

    fn peak(&self) -> Result<Peak> {
        bail!("a simulated GPU has no speed to measure: time its kernels on a real one, with `--backend gpu`")
    }

    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        let problem = operands.problem;
        let plan = self.kernels.plan(&problem, self.gpu, strategy)?;
        let multiply = hopper::multiply(&plan);
        let quantize = hopper::quantize_for(&problem);
        let quantize = quantize.as_ref().map(|(kernel, launch)| (&kernel.ptx[..], *launch));
        let product = SimulatedMatmul::new(&plan, &multiply.ptx, quantize)
            .with_context(|| format!("the emitted kernel {} cannot be read back", multiply.entry))?;
        Ok(Box::new(Simulated {
            gpu: self.gpu,
            product,
            operands,
            output: Output::poisoned(problem.out, problem.m * problem.n),
            runs: 0,
            stopped: None,
        }))
    }
}

struct Simulated<'a> {
    gpu: &'static HopperGpu,
    product: SimulatedMatmul,
    operands: &'a Operands,
    output: Output,
    runs: u64,
    /// What stopped the first run that was stopped.
    stopped: Option<String>,
}

/// Blocks that run side by side: more would change nothing, because blocks of different clusters do not meet.
pub const RESIDENT_BLOCKS: usize = 8;

impl Contender for Simulated<'_> {
    fn run(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.runs += 1;
        // Another order of events every time.
        let machine = Simulator { gpu: self.gpu, resident_ctas: RESIDENT_BLOCKS, seed: self.runs };
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

    fn output(&mut self) -> &mut Output {
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
                output: Output::poisoned(problem.out, problem.m * problem.n),
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

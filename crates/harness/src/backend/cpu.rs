//! This machine's CPU.

use std::time::{Duration, Instant};

use octile_core::{
    ActivationKind, Mat, MatMut, Problem, Strategy,
    bound::Accumulator,
    device::cpu::Isa,
    plan::cpu::CpuChoice,
    sample::{Activations, Operands},
};
use octile_runtime::cpu::{Activation, Cpu, Floats, PackedWeight, WeightRef, Workspace, peak};

use super::{Backend, Contender, OutputBuffer, Peak, PlanLabel, Setup, TunedLabel};
use crate::Result;

/// The CPU backend with its thread pool.
pub struct CpuBackend {
    cpu: Cpu,
    pinned: bool,
}

impl CpuBackend {
    /// The CPU with the fastest instruction set for each problem and one thread per core, unless named.
    pub fn open(isa: Option<Isa>, threads: Option<usize>, pinned: bool, tuned: bool) -> Result<Self> {
        let mut builder = Cpu::builder().pin_threads(pinned).tuned(tuned);
        if let Some(isa) = isa {
            builder = builder.isa(isa);
        }
        if let Some(threads) = threads {
            builder = builder.threads(threads);
        }
        Ok(Self { cpu: builder.build()?, pinned })
    }
}

/// CPU model as the operating system reports it.
pub fn cpu_model() -> String {
    let system = sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_cpu(sysinfo::CpuRefreshKind::nothing()),
    );
    let brand = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
    brand.filter(|brand| !brand.is_empty()).unwrap_or_else(|| "unknown CPU".to_owned())
}

impl Backend for CpuBackend {
    fn setup(&self) -> Setup {
        let (isa, threads) = (self.cpu.dispatch().to_string(), self.cpu.threads());
        Setup::Cpu { cpu_model: cpu_model(), isa, threads, pinned: self.pinned }
    }

    fn accumulator(&self) -> Accumulator {
        Accumulator::F32
    }

    fn best(&self, problem: &Problem) -> Strategy {
        self.cpu.best(problem, true)
    }

    fn plan_label(&self, problem: &Problem, strategy: Strategy) -> PlanLabel {
        PlanLabel {
            isa: Some(self.cpu.choice_for(problem, strategy).isa),
            tuned: self.cpu.tuned_choice(problem, strategy).map(TunedLabel::new),
        }
    }

    fn table_notes(&self, problems: &[Problem]) -> Vec<String> {
        self.cpu.table_notes(problems)
    }

    fn peak(&self, problem: &Problem) -> Result<Peak> {
        let tflops = peak::gflops(&self.cpu, problem) / 1e3;
        Ok(Peak { tflops, read_gbytes: peak::read_gbytes(&self.cpu) })
    }

    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        Ok(Box::new(CpuContender::new(&self.cpu, strategy, operands)))
    }

    fn prepare_untuned<'a>(
        &'a self,
        strategy: Strategy,
        operands: &'a Operands,
    ) -> Result<Option<Box<dyn Contender + 'a>>> {
        let problem = &operands.problem;
        let default = self.cpu.default_choice(problem);
        if self.cpu.choice_for(problem, strategy) == default {
            return Ok(None);
        }
        let contender = CpuContender::new(&self.cpu, strategy, operands);
        Ok(Some(Box::new(UntunedContender { contender, default })))
    }
}

struct CpuContender<'a> {
    cpu: &'a Cpu,
    strategy: Strategy,
    operands: &'a Operands,
    packed: Option<PackedWeight>,
    workspace: Workspace,
    output: OutputBuffer,
}

impl<'a> CpuContender<'a> {
    fn new(cpu: &'a Cpu, strategy: Strategy, operands: &'a Operands) -> Self {
        let problem = operands.problem;
        Self {
            cpu,
            strategy,
            operands,
            packed: (strategy == Strategy::Strip).then(|| cpu.pack(&operands.weight)),
            workspace: cpu.workspace(&problem, strategy),
            output: OutputBuffer::poisoned(problem.out, problem.m * problem.n),
        }
    }
}

impl Contender for CpuContender<'_> {
    fn run(&mut self) -> Result<Duration> {
        let Problem { m, n, .. } = self.operands.problem;
        let x = activation(self.operands)?;
        let weight: WeightRef<'_> = match &self.packed {
            Some(packed) => packed.into(),
            None => (&self.operands.weight).into(),
        };
        let start = Instant::now();
        match &mut self.output {
            OutputBuffer::F32(out) => {
                self.cpu.multiply(self.strategy, x, weight, MatMut::new(out, m, n)?, &mut self.workspace)?;
            }
            OutputBuffer::Bf16(out) => {
                self.cpu.multiply(self.strategy, x, weight, MatMut::new(out, m, n)?, &mut self.workspace)?;
            }
            OutputBuffer::F16(out) => {
                self.cpu.multiply(self.strategy, x, weight, MatMut::new(out, m, n)?, &mut self.workspace)?;
            }
        }
        Ok(start.elapsed())
    }

    fn output(&mut self) -> &mut OutputBuffer {
        &mut self.output
    }
}

/// The default plan where a table has another one, which only packed weights have.
struct UntunedContender<'a> {
    contender: CpuContender<'a>,
    default: CpuChoice,
}

impl Contender for UntunedContender<'_> {
    fn run(&mut self) -> Result<Duration> {
        let CpuContender { cpu, operands, packed, workspace, output, .. } = &mut self.contender;
        let packed = packed.as_ref().expect("only packed weights have tuned plans");
        multiply_as(cpu, self.default, operands, packed, output, workspace)
    }

    fn output(&mut self) -> &mut OutputBuffer {
        self.contender.output()
    }
}

/// Multiplies a packed weight with a choice of ISA, threads and blocks, and returns the time.
pub(crate) fn multiply_as(
    cpu: &Cpu,
    choice: CpuChoice,
    operands: &Operands,
    packed: &PackedWeight,
    output: &mut OutputBuffer,
    workspace: &mut Workspace,
) -> Result<Duration> {
    let Problem { m, n, .. } = operands.problem;
    let x = activation(operands)?;
    let start = Instant::now();
    match output {
        OutputBuffer::F32(out) => {
            cpu.multiply_as(Strategy::Strip, choice, x, packed, MatMut::new(out, m, n)?, workspace)?;
        }
        OutputBuffer::Bf16(out) => {
            cpu.multiply_as(Strategy::Strip, choice, x, packed, MatMut::new(out, m, n)?, workspace)?;
        }
        OutputBuffer::F16(out) => {
            cpu.multiply_as(Strategy::Strip, choice, x, packed, MatMut::new(out, m, n)?, workspace)?;
        }
    }
    Ok(start.elapsed())
}

/// The activations as a kernel argument.
fn activation(operands: &Operands) -> Result<Activation<'_>> {
    let Problem { m, k, .. } = operands.problem;
    let floats = match &operands.x {
        Activations::Fp8(x) => return Ok(x.into()),
        Activations::F32(x) => Floats::F32(Mat::new(x, m, k)?),
        Activations::Bf16(x) => Floats::Bf16(Mat::new(x, m, k)?),
        Activations::F16(x) => Floats::F16(Mat::new(x, m, k)?),
    };
    Ok(match operands.problem.x {
        ActivationKind::Quantized(_, granularity) => Activation::Quantize(floats, granularity),
        ActivationKind::Plain(_) | ActivationKind::Fp8(_) => Activation::Plain(floats),
    })
}

//! Plans of this machine's CPU, by time.

use std::{
    cell::RefCell,
    collections::HashMap,
    time::{Duration, Instant},
};

use octile_core::{
    Problem, Strategy,
    bound::Accumulator,
    device::cpu::Isa,
    plan::cpu::CpuChoice,
    sample::Operands,
    tuned::{TunedChoice, TunedDevice, TunedWith},
};
use octile_runtime::cpu::{self, Cpu, PackedWeight, Workspace, peak};

use super::{CHECKED_ROWS, Model, SEED, Trial, Tuner};
use crate::{
    HarnessError, Result,
    backend::{Contender, OutputBuffer, multiply_as},
    check::{Check, Expectation},
};

/// Runs before a sample last so long together: other candidates have used the caches, and threads may sleep,
/// which on virtual machines take longer to wake than a small problem takes. Calls in a row find them awake.
const WARM_UP: Duration = Duration::from_micros(100);
/// Runs of a sample last so long together, where one is shorter: a clock of some nanoseconds and a thread
/// that is woken late would decide otherwise.
const SAMPLE: Duration = Duration::from_micros(500);
const MOST_RUNS: u32 = 100;

/// The CPU with its thread pool.
pub struct CpuTuner {
    cpu: Cpu,
    /// Peak in GFLOP/s by ISA and threads, and bandwidth in GB/s by threads, measured when first asked for.
    peaks: RefCell<HashMap<(Isa, usize), f64>>,
    bandwidths: RefCell<HashMap<usize, f64>>,
}

impl CpuTuner {
    /// The CPU with so many threads; one per core by default. An error where a variable changes the default
    /// plans: what beats them would say nothing about the plans of other processes.
    pub fn open(threads: Option<usize>) -> Result<Self> {
        if let Some(variable) = cpu::variable_in_force()? {
            return Err(HarnessError::DefaultPlans { variable });
        }
        let builder = threads.map_or(Cpu::builder(), |threads| Cpu::builder().threads(threads));
        Ok(Self { cpu: builder.build()?, peaks: RefCell::default(), bandwidths: RefCell::default() })
    }

    fn peak(&self, problem: &Problem, choice: CpuChoice) -> Result<f64> {
        let key = (choice.isa, choice.threads);
        if let Some(known) = self.peaks.borrow().get(&key) {
            return Ok(*known);
        }
        let cpu = Cpu::builder().isa(choice.isa).threads(choice.threads).build()?;
        let gflops = peak::gflops(&cpu, problem);
        self.peaks.borrow_mut().insert(key, gflops);
        Ok(gflops)
    }

    fn bandwidth(&self, threads: usize) -> Result<f64> {
        if let Some(known) = self.bandwidths.borrow().get(&threads) {
            return Ok(*known);
        }
        let gbytes = peak::read_gbytes(&Cpu::builder().threads(threads).build()?);
        self.bandwidths.borrow_mut().insert(threads, gbytes);
        Ok(gbytes)
    }
}

impl Tuner for CpuTuner {
    fn device(&self) -> TunedDevice {
        cpu::tuned::device(self.cpu.threads())
    }

    fn with(&self, problem: &Problem, choice: Option<TunedChoice>) -> Option<TunedWith> {
        cpu::tuned::with(self.cpu.threads(), problem, choice)
    }

    fn calls(&self) -> &'static [&'static str] {
        &["warm"]
    }

    fn unit(&self) -> &'static str {
        "ms"
    }

    fn trial<'a>(&'a self, problem: &Problem) -> Result<Box<dyn Trial + 'a>> {
        let default = self.cpu.choice_for(problem, Strategy::Strip);
        let choices = CpuChoice::candidates(problem, default, &cpu::available(), self.cpu.threads());
        let operands = Operands::random(*problem, SEED);
        Ok(Box::new(CpuTrial {
            tuner: self,
            packed: self.cpu.pack(&operands.weight),
            workspaces: choices.iter().map(|_| Workspace::new()).collect(),
            runs: vec![None; choices.len()],
            choices,
            chosen: 0,
            output: OutputBuffer::poisoned(problem.out, problem.m * problem.n),
            operands,
        }))
    }
}

struct CpuTrial<'a> {
    tuner: &'a CpuTuner,
    operands: Operands,
    packed: PackedWeight,
    choices: Vec<CpuChoice>,
    workspaces: Vec<Workspace>,
    /// Runs per sample, once a first run told how long one takes.
    runs: Vec<Option<u32>>,
    /// The candidate that runs.
    chosen: usize,
    output: OutputBuffer,
}

impl Contender for CpuTrial<'_> {
    fn run(&mut self) -> Result<Duration> {
        let (choice, workspace) = (self.choices[self.chosen], &mut self.workspaces[self.chosen]);
        multiply_as(&self.tuner.cpu, choice, &self.operands, &self.packed, &mut self.output, workspace)
    }

    fn output(&mut self) -> &mut OutputBuffer {
        &mut self.output
    }
}

impl Trial for CpuTrial<'_> {
    fn candidates(&self) -> Vec<TunedChoice> {
        self.choices.iter().copied().map(TunedChoice::Cpu).collect()
    }

    fn describe(&self, candidate: usize) -> String {
        self.choices[candidate].to_string()
    }

    fn sample(&mut self, candidate: usize) -> Result<Vec<f64>> {
        self.chosen = candidate;
        let runs = match self.runs[candidate] {
            Some(runs) => runs,
            None => {
                let first = self.run()?.max(Duration::from_nanos(1));
                let runs = SAMPLE.div_duration_f64(first).ceil().clamp(1.0, f64::from(MOST_RUNS)) as u32;
                *self.runs[candidate].insert(runs)
            }
        };
        let start = Instant::now();
        while start.elapsed() < WARM_UP {
            self.run()?;
        }
        let mut total = Duration::ZERO;
        for _ in 0..runs {
            total += self.run()?;
        }
        Ok(vec![total.as_secs_f64() * 1e3 / f64::from(runs)])
    }

    /// Which lines share a set of a cache depends on the pages that hold them.
    fn renew(&mut self) {
        let problem = self.operands.problem;
        self.packed = self.tuner.cpu.pack(&self.operands.weight);
        self.workspaces = self.choices.iter().map(|_| Workspace::new()).collect();
        self.output = OutputBuffer::poisoned(problem.out, problem.m * problem.n);
    }

    fn check(&mut self, candidate: usize) -> Result<Option<Check>> {
        self.chosen = candidate;
        let expectation = Expectation::sampled(&self.operands, CHECKED_ROWS, Accumulator::F32);
        expectation.check(self).map(Some)
    }

    /// The roofline of the candidate's instructions and threads.
    fn model(&self, candidate: usize) -> Result<Model> {
        let (problem, choice) = (&self.operands.problem, self.choices[candidate]);
        let compute_ms = problem.flops() / self.tuner.peak(problem, choice)? / 1e6;
        let memory_ms = problem.min_bytes() as f64 / self.tuner.bandwidth(choice.threads)? / 1e6;
        let limit = if compute_ms >= memory_ms { "FLOPs" } else { "bandwidth" };
        Ok(Model { cost: Some(compute_ms.max(memory_ms)), limit: limit.to_owned() })
    }
}

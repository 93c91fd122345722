//! The machines that a multiplication can run on, behind one interface.

pub mod cpu;
pub mod gpu;
pub mod tpu_sim;

use std::{fmt, time::Duration};

use anyhow::Result;
use half::{bf16, f16};
use octile_core::{
    FloatKind, Problem, Strategy, bound::Accumulator, oracle::Comparison, oracle::Reference,
    plan::tpu::BlockMode, sample::Operands,
};
use serde::Serialize;

use crate::args::{BackendName, WorkArgs};

/// A machine that multiplies.
pub trait Backend {
    /// What it is and how it is set up.
    fn setup(&self) -> Setup;

    /// How its products are added up, which decides the error that is allowed.
    fn accumulator(&self) -> Accumulator;

    /// The same for one strategy on one problem, where a backend's kernels differ in it.
    fn accumulator_of(&self, _: Strategy, _: &Problem) -> Accumulator {
        self.accumulator()
    }

    /// The strategy that it picks for `problem` when asked for the best.
    fn best(&self, problem: &Problem) -> Strategy;

    /// The most that it can do, measured now.
    fn peak(&self) -> Result<Peak>;

    /// Makes everything ready to multiply these operands again and again.
    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>>;
}

/// One strategy on one set of operands, ready to run.
pub trait Contender {
    /// Multiplies once and says how long that took.
    fn run(&mut self) -> Result<Duration>;

    /// The result buffer.
    fn output(&mut self) -> &mut Output;

    /// How many things beside the result were found to be wrong in the last run.
    fn findings(&self) -> usize {
        0
    }
}

/// What a record must say about the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setup {
    /// `cpu` or `gpu`.
    pub backend: &'static str,
    /// Model of the processor or GPU.
    pub cpu_model: String,
    /// Instruction set in use.
    pub isa: String,
    /// Threads in use, or multiprocessors of a GPU.
    pub threads: usize,
}

/// One line for headings.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.backend == "gpu" { "multiprocessor" } else { "thread" };
        let plural = if self.threads == 1 { "" } else { "s" };
        write!(f, "{}: {}, {} {unit}{plural}, {}", self.backend, self.cpu_model, self.threads, self.isa)
    }
}

/// Measured limits of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peak {
    /// Arithmetic that never leaves the registers, in TFLOP/s.
    pub tflops: f64,
    /// Reading memory, in GB/s.
    pub read_gbytes: f64,
}

impl Peak {
    /// The higher of each figure.
    pub fn max(self, other: Self) -> Self {
        Self { tflops: self.tflops.max(other.tflops), read_gbytes: self.read_gbytes.max(other.read_gbytes) }
    }
}

/// A result of any element type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Output {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
    F16(Vec<f16>),
}

impl Output {
    /// A result in which nothing was written yet: all NaN.
    pub fn poisoned(kind: FloatKind, len: usize) -> Self {
        match kind {
            FloatKind::F32 => Self::F32(vec![f32::NAN; len]),
            FloatKind::Bf16 => Self::Bf16(vec![bf16::NAN; len]),
            FloatKind::F16 => Self::F16(vec![f16::NAN; len]),
        }
    }

    /// Makes every element NaN, so that one that is not written is found.
    pub fn poison(&mut self) {
        match self {
            Self::F32(values) => values.fill(f32::NAN),
            Self::Bf16(values) => values.fill(bf16::NAN),
            Self::F16(values) => values.fill(f16::NAN),
        }
    }

    /// Some of the rows.
    pub fn select_rows(&self, rows: &[usize], cols: usize) -> Self {
        fn select<T: Copy>(values: &[T], rows: &[usize], cols: usize) -> Vec<T> {
            rows.iter().flat_map(|row| &values[row * cols..][..cols]).copied().collect()
        }
        match self {
            Self::F32(values) => Self::F32(select(values, rows, cols)),
            Self::Bf16(values) => Self::Bf16(select(values, rows, cols)),
            Self::F16(values) => Self::F16(select(values, rows, cols)),
        }
    }

    /// How it compares with the reference.
    pub fn compare(&self, reference: &Reference) -> Comparison {
        match self {
            Self::F32(values) => reference.compare(values),
            Self::Bf16(values) => reference.compare(values),
            Self::F16(values) => reference.compare(values),
        }
    }

    /// The bytes, for telling whether two results are the same to the bit.
    pub fn bits(&self) -> Vec<u8> {
        match self {
            Self::F32(values) => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            Self::Bf16(values) => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            Self::F16(values) => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
        }
    }
}

/// The backend that the user asked for; a simulated TPU once per block mode.
pub fn open(work: &WorkArgs) -> Result<Vec<Box<dyn Backend>>> {
    Ok(match work.backend {
        BackendName::Cpu => vec![Box::new(cpu::CpuBackend::open(work.isa, work.threads.map(usize::from))?)],
        BackendName::Gpu => vec![Box::new(gpu::GpuBackend::open()?)],
        BackendName::TpuSim => {
            let modes = work.mode.map_or(BlockMode::ALL.to_vec(), |mode| vec![mode]);
            let open = |mode| Ok(Box::new(tpu_sim::TpuSimBackend::open(mode)?) as Box<dyn Backend>);
            modes.into_iter().map(open).collect::<Result<_>>()?
        }
    })
}

//! The machines that a multiplication can run on, behind one interface.

pub mod cpu;
pub mod gpu;
pub mod gpu_sim;
pub mod tpu_sim;

use std::{fmt, time::Duration};

use anyhow::Result;
use half::{bf16, f16};
use octile_core::{
    ActivationKind, FloatKind, Problem, Strategy,
    bound::Accumulator,
    exact::{ExactComparison, ExactOperands},
    oracle::{Comparison, Reference},
    plan::tpu::BlockMode,
    sample::Operands,
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

    /// Why a simulated kernel did not come to its end in the last run.
    fn stopped(&self) -> Option<String> {
        None
    }
}

/// What a record must say about the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "backend", rename_all = "kebab-case")]
pub enum Setup {
    /// This machine's processor.
    Cpu {
        /// Its model.
        cpu_model: String,
        /// Instruction set in use.
        isa: String,
        /// Threads in use.
        threads: usize,
    },
    /// A GPU.
    Gpu {
        /// Its model.
        gpu_model: String,
        /// What kernels are assembled for.
        isa: &'static str,
        /// Multiprocessors that it has.
        multiprocessors: usize,
        /// Version of CUDA that its driver speaks.
        cuda_driver: String,
        /// What was asked of its kernels.
        #[serde(flatten)]
        kernels: gpu::KernelOptions,
    },
    /// A GPU that this machine's processor simulates.
    GpuSim {
        /// The GPU that kernels are planned for.
        gpu: &'static str,
        /// What kernels are written for.
        isa: &'static str,
        /// The processor's model.
        cpu_model: String,
        /// What was asked of the kernels.
        #[serde(flatten)]
        kernels: gpu::KernelOptions,
    },
    /// A TPU that this machine's processor simulates.
    TpuSim {
        /// The chip that is simulated.
        chip: &'static str,
        /// Blocks of its kernels.
        mode: BlockMode,
        /// The processor's model.
        cpu_model: String,
        /// Threads that the processor has.
        threads: usize,
    },
}

/// One line for headings.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: &usize| if *count == 1 { "" } else { "s" };
        match self {
            Self::Cpu { cpu_model, isa, threads } => {
                write!(f, "cpu: {cpu_model}, {threads} thread{}, {isa}", plural(threads))
            }
            Self::Gpu { gpu_model, isa, multiprocessors, cuda_driver, kernels } => {
                let s = plural(multiprocessors);
                write!(
                    f,
                    "gpu: {gpu_model}, {multiprocessors} multiprocessor{s}, {isa}, driver CUDA {cuda_driver}{kernels}"
                )
            }
            Self::GpuSim { gpu, isa, cpu_model, kernels } => {
                write!(f, "gpu-sim: {gpu}, {isa}, interpreted on {cpu_model}{kernels}")
            }
            Self::TpuSim { chip, mode, cpu_model, threads } => {
                let s = plural(threads);
                write!(f, "tpu-sim: {chip}, {mode} blocks, interpreted on {cpu_model}, {threads} thread{s}")
            }
        }
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

    /// Takes over a result in little-endian bytes.
    pub fn copy_from_bytes(&mut self, bytes: &[u8]) {
        fn copy<T, const N: usize>(bytes: &[u8], out: &mut [T], element: fn([u8; N]) -> T) {
            for (to, &from) in out.iter_mut().zip(bytes.as_chunks().0) {
                *to = element(from);
            }
        }
        match self {
            Self::F32(values) => copy(bytes, values, f32::from_le_bytes),
            Self::Bf16(values) => copy(bytes, values, bf16::from_le_bytes),
            Self::F16(values) => copy(bytes, values, f16::from_le_bytes),
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

    /// How it compares with the one correct result.
    pub fn compare_exactly(&self, exact: &ExactOperands) -> ExactComparison {
        match self {
            Self::F32(values) => exact.compare(values),
            Self::Bf16(values) => exact.compare(values),
            Self::F16(values) => exact.compare(values),
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

/// Where to run: what the user asked for, or the best there is for it. Options of the processor ask for that one, and so do
/// unquantized activations, which GPU kernels do not take.
pub fn choose(work: &WorkArgs) -> BackendName {
    match work.backend {
        BackendName::Best => {
            let is_plain = matches!(work.activation(), ActivationKind::Plain(_));
            let for_cpu = work.isa.is_some() || work.threads.is_some() || is_plain;
            if !for_cpu && gpu::is_usable() { BackendName::Gpu } else { BackendName::Cpu }
        }
        named => named,
    }
}

/// The backend that was chosen; a simulated TPU once per block mode.
pub fn open(work: &WorkArgs) -> Result<Vec<Box<dyn Backend>>> {
    let kernels = gpu::KernelOptions::new(work.promote, work.for_racecheck);
    Ok(match choose(work) {
        BackendName::Cpu | BackendName::Best => {
            vec![Box::new(cpu::CpuBackend::open(work.isa, work.threads.map(usize::from))?)]
        }
        BackendName::Gpu => vec![Box::new(gpu::GpuBackend::open(kernels)?)],
        BackendName::GpuSim => vec![Box::new(gpu_sim::GpuSimBackend::open(kernels))],
        BackendName::TpuSim => {
            let modes = work.mode.map_or(BlockMode::ALL.to_vec(), |mode| vec![mode]);
            let open = |mode| Ok(Box::new(tpu_sim::TpuSimBackend::open(mode)?) as Box<dyn Backend>);
            modes.into_iter().map(open).collect::<Result<_>>()?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_names_what_its_figures_are() {
        let setups = [
            Setup::Cpu { cpu_model: "p".into(), isa: "avx2".into(), threads: 1 },
            Setup::Gpu {
                gpu_model: "g".into(),
                isa: "sm_90a",
                multiprocessors: 132,
                cuda_driver: "13.0".into(),
                kernels: gpu::KernelOptions::new(None, false),
            },
            Setup::GpuSim {
                gpu: "h200",
                isa: "sm_90a",
                cpu_model: "p".into(),
                kernels: gpu::KernelOptions::new(Some(64), true),
            },
            Setup::TpuSim { chip: "tpu7x", mode: BlockMode::Large, cpu_model: "p".into(), threads: 2 },
        ];
        assert_eq!(
            setups.each_ref().map(Setup::to_string),
            [
                "cpu: p, 1 thread, avx2",
                "gpu: g, 132 multiprocessors, sm_90a, driver CUDA 13.0",
                "gpu-sim: h200, sm_90a, interpreted on p, added up in f32 every 64 products, for racecheck",
                "tpu-sim: tpu7x, large blocks, interpreted on p, 2 threads",
            ]
        );
        let json = setups.each_ref().map(|setup| serde_json::to_value(setup).unwrap());
        assert_eq!(json.each_ref().map(|record| &record["backend"]), ["cpu", "gpu", "gpu-sim", "tpu-sim"]);
        assert_eq!((&json[0]["cpu_model"], &json[0]["threads"]), (&"p".into(), &1.into()));
        assert_eq!((&json[1]["gpu_model"], &json[1]["multiprocessors"]), (&"g".into(), &132.into()));
        assert_eq!((&json[1]["promote_every"], &json[2]["promote_every"]), (&128.into(), &64.into()));
        assert!(json[1]["threads"].is_null() && json[1]["cpu_model"].is_null());
    }
}

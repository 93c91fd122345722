//! The machines that a matmul can run on, behind one interface.

mod cpu;
mod gpu;
mod gpu_sim;
mod output;
mod tpu_sim;

use std::{fmt, time::Duration};

use octile_core::{
    Problem, Strategy, bound::Accumulator, device::cpu::Isa, plan::tpu::BlockMode, sample::Operands,
    tuned::TableOrigin,
};
use serde::{Deserialize, Serialize};

pub(crate) use cpu::multiply_as;
pub use cpu::{CpuBackend, cpu_model};
pub use gpu::{GpuBackend, KernelOptions, has_usable_gpu};
pub use gpu_sim::{GpuSimBackend, RESIDENT_CTAS};
pub use output::OutputBuffer;
pub use tpu_sim::{TpuSimBackend, tensor_arguments};

use crate::Result;

/// A machine that multiplies.
pub trait Backend {
    /// The machine and its configuration.
    fn setup(&self) -> Setup;

    /// Model of the accumulator, which determines the error bound.
    fn accumulator(&self) -> Accumulator;

    /// Model of the accumulator of one strategy on one problem, where the backend's kernels differ.
    fn accumulator_of(&self, _: Strategy, _: &Problem) -> Accumulator {
        self.accumulator()
    }

    /// The strategy that the backend picks for `problem`.
    fn best(&self, problem: &Problem) -> Strategy;

    /// What tells the plan of a strategy from that of others.
    fn plan_label(&self, _: &Problem, _: Strategy) -> PlanLabel {
        PlanLabel::default()
    }

    /// What a user should know about tuned tables before these problems run: sentences about files and
    /// entries that are ignored.
    fn table_notes(&self, _: &[Problem]) -> Vec<String> {
        Vec::new()
    }

    /// Measures peak arithmetic with the instructions that multiply `problem`, and bandwidth.
    fn peak(&self, problem: &Problem) -> Result<Peak>;

    /// Prepares a strategy to multiply these operands repeatedly.
    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>>;

    /// Prepares the default plan of a strategy where [`Self::prepare`] takes one from a tuned table.
    fn prepare_untuned<'a>(
        &'a self,
        _strategy: Strategy,
        _operands: &'a Operands,
    ) -> Result<Option<Box<dyn Contender + 'a>>> {
        Ok(None)
    }
}

/// What tells the plan of a strategy from that of others.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PlanLabel {
    /// The CPU instruction set, where the backend chooses among several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isa: Option<Isa>,
    /// The choices of a tuned table, where the plan follows from them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuned: Option<TunedLabel>,
}

/// Choices of a tuned table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TunedLabel {
    /// The choices in words.
    pub plan: String,
    /// Whose table.
    pub table: TableOrigin,
}

impl TunedLabel {
    fn new((choice, table): (impl fmt::Display, TableOrigin)) -> Self {
        Self { plan: choice.to_string(), table }
    }
}

/// One strategy on one set of operands, ready to run.
pub trait Contender {
    /// Multiplies once and returns the time.
    fn run(&mut self) -> Result<Duration>;

    /// The result of the last run.
    fn output(&mut self) -> &mut OutputBuffer;

    /// Number of a simulator's findings in the last run.
    fn findings(&self) -> usize {
        0
    }

    /// Fault that stopped a simulated kernel.
    fn stopped(&self) -> Option<String> {
        None
    }
}

/// A backend with its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendChoice {
    /// This machine's CPU.
    Cpu {
        /// Instruction set; the fastest for each problem by default.
        isa: Option<Isa>,
        /// Threads; one per core by default.
        threads: Option<usize>,
        /// Whether each thread stays on one core.
        pin_threads: bool,
        /// Whether plans of tuned tables are used.
        tuned: bool,
    },
    /// The first usable GPU.
    Gpu(KernelOptions),
    /// A simulated GPU.
    GpuSim(KernelOptions),
    /// A simulated TPU.
    TpuSim(BlockMode),
}

impl BackendChoice {
    /// Opens the backend.
    pub fn open(self) -> Result<Box<dyn Backend>> {
        Ok(match self {
            Self::Cpu { isa, threads, pin_threads, tuned } => {
                Box::new(CpuBackend::open(isa, threads, pin_threads, tuned)?)
            }
            Self::Gpu(kernels) => Box::new(GpuBackend::open(kernels)?),
            Self::GpuSim(kernels) => Box::new(GpuSimBackend::open(kernels)),
            Self::TpuSim(mode) => Box::new(TpuSimBackend::open(mode)?),
        })
    }
}

/// Description of a machine in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "backend", rename_all = "kebab-case")]
pub enum Setup {
    /// This machine's CPU.
    Cpu {
        /// CPU model.
        cpu_model: String,
        /// Instruction sets in use; each result names its own.
        isa: String,
        /// Threads in use.
        threads: usize,
        /// Whether each thread stays on one core.
        #[serde(default)]
        pinned: bool,
    },
    /// A GPU.
    Gpu {
        /// GPU model.
        gpu_model: String,
        /// Target of its kernels.
        isa: String,
        /// Number of SMs.
        sms: usize,
        /// CUDA version of the driver.
        cuda_driver: String,
        /// Options of its kernels.
        #[serde(flatten)]
        kernels: KernelOptions,
    },
    /// A GPU simulated on this machine's CPU.
    GpuSim {
        /// GPU that kernels are planned for.
        gpu: String,
        /// Target of its kernels.
        isa: String,
        /// CPU model.
        cpu_model: String,
        /// Options of its kernels.
        #[serde(flatten)]
        kernels: KernelOptions,
    },
    /// A TPU simulated on this machine's CPU.
    TpuSim {
        /// The simulated chip.
        chip: String,
        /// Block mode of its kernels.
        mode: String,
        /// CPU model.
        cpu_model: String,
        /// Threads of the CPU.
        threads: usize,
    },
}

/// One line for headings.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: &usize| if *count == 1 { "" } else { "s" };
        match self {
            Self::Cpu { cpu_model, isa, threads, pinned } => {
                let (s, kind) = (plural(threads), if *pinned { "pinned " } else { "" });
                write!(f, "cpu: {cpu_model}, {threads} {kind}thread{s}, {isa}")
            }
            Self::Gpu { gpu_model, isa, sms, cuda_driver, kernels } => {
                let s = plural(sms);
                write!(f, "gpu: {gpu_model}, {sms} SM{s}, {isa}, driver CUDA {cuda_driver}{kernels}")
            }
            Self::GpuSim { gpu, isa, cpu_model, kernels } => {
                write!(f, "gpu-sim: {gpu}, {isa}, simulated on {cpu_model}{kernels}")
            }
            Self::TpuSim { chip, mode, cpu_model, threads } => {
                let s = plural(threads);
                write!(f, "tpu-sim: {chip}, {mode} blocks, simulated on {cpu_model}, {threads} thread{s}")
            }
        }
    }
}

/// Measured limits of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Peak arithmetic, in TFLOP/s.
    pub tflops: f64,
    /// Memory bandwidth, in GB/s.
    pub read_gbytes: f64,
}

impl Peak {
    /// The larger of each figure.
    pub fn max(self, other: Self) -> Self {
        Self { tflops: self.tflops.max(other.tflops), read_gbytes: self.read_gbytes.max(other.read_gbytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_describes_the_machine() {
        let setups = [
            Setup::Cpu { cpu_model: "p".into(), isa: "avx2".into(), threads: 1, pinned: false },
            Setup::Gpu {
                gpu_model: "g".into(),
                isa: "sm_90a".into(),
                sms: 132,
                cuda_driver: "13.0".into(),
                kernels: KernelOptions::new(None, false),
            },
            Setup::GpuSim {
                gpu: "h200".into(),
                isa: "sm_90a".into(),
                cpu_model: "p".into(),
                kernels: KernelOptions::new(Some(64), true),
            },
            Setup::TpuSim { chip: "tpu7x".into(), mode: "large".into(), cpu_model: "p".into(), threads: 2 },
        ];
        assert_eq!(
            setups.each_ref().map(Setup::to_string),
            [
                "cpu: p, 1 thread, avx2",
                "gpu: g, 132 SMs, sm_90a, driver CUDA 13.0",
                "gpu-sim: h200, sm_90a, simulated on p, promotion every 64, for racecheck",
                "tpu-sim: tpu7x, large blocks, simulated on p, 2 threads",
            ]
        );
        let json = setups.each_ref().map(|setup| serde_json::to_value(setup).unwrap());
        assert_eq!(json.each_ref().map(|record| &record["backend"]), ["cpu", "gpu", "gpu-sim", "tpu-sim"]);
        assert_eq!((&json[0]["cpu_model"], &json[0]["threads"]), (&"p".into(), &1.into()));
        assert_eq!((&json[1]["gpu_model"], &json[1]["sms"]), (&"g".into(), &132.into()));
        assert_eq!((&json[1]["promote_every"], &json[2]["promote_every"]), (&128.into(), &64.into()));
        let read: Vec<Setup> =
            json.iter().map(|record| serde_json::from_value(record.clone()).unwrap()).collect();
        assert_eq!(read, setups);
        assert!(json[1]["threads"].is_null() && json[1]["cpu_model"].is_null());
    }
}

//! Where multiplications run.

use std::{fmt, sync::Arc};

use octile_core::{
    Problem,
    device::{
        hopper::{HOPPER_GPUS, HopperGpu},
        tpu::{TPU_CHIPS, TpuChip},
    },
    plan::DeviceKind,
};
use octile_runtime::{
    cpu::{Cpu, Executor},
    cuda::{CudaError, Gpu},
};

use crate::{Error, cpu::CpuDevice};

/// A device to run on. Clones share its threads and scratch memory, or its context.
///
/// ```
/// use octile::Device;
///
/// let device = Device::cpu_with_threads(2)?;
/// println!("{device}"); // for example: CPU (avx512bf16 + avx512, 2 threads)
/// assert_eq!(Device::simulated_gpu().to_string(), "simulated h200");
/// # Ok::<(), octile::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Device(pub(crate) Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Cpu(Arc<CpuDevice>),
    Gpu(Gpu),
    SimulatedGpu(&'static HopperGpu),
    SimulatedTpu(&'static TpuChip),
}

impl Device {
    /// The first GPU that can run the kernels, or else the CPU.
    ///
    /// GPUs that cannot run the kernels (not Hopper, or an old driver) are passed over: [`Device::gpu`] tells
    /// why. A GPU that can but fails to open is an error.
    pub fn best() -> Result<Self, Error> {
        match Gpu::open_first() {
            Ok(gpu) => Ok(Self(Kind::Gpu(gpu))),
            Err(
                CudaError::NoDriver
                | CudaError::NoGpu
                | CudaError::NotHopper { .. }
                | CudaError::OldDriver { .. },
            ) => Self::cpu(),
            Err(error) => Err(error.into()),
        }
    }

    /// This machine's CPU: the fastest instructions for each multiplication, one thread per core.
    ///
    /// Threads start with the first multiplication that is large enough for them. Plans that `octile tune`
    /// found, or that come with the library, are used where there are any, on GPUs too; `OCTILE_TUNED=off`
    /// uses default plans only.
    pub fn cpu() -> Result<Self, Error> {
        Ok(Self(Kind::Cpu(Arc::new(CpuDevice::new(Cpu::builder().tuned(true).build()?)))))
    }

    /// This machine's CPU with a number of threads.
    ///
    /// ```
    /// assert!(octile::Device::cpu_with_threads(0).is_err());
    /// ```
    pub fn cpu_with_threads(threads: usize) -> Result<Self, Error> {
        Ok(Self(Kind::Cpu(Arc::new(CpuDevice::new(Cpu::builder().threads(threads).tuned(true).build()?)))))
    }

    /// The CPU with the threads of the application, such as those of an inference engine, instead of a pool.
    /// Between calls they should spin for a while: also small problems are spread over them.
    pub fn cpu_with_executor(executor: &'static dyn Executor) -> Result<Self, Error> {
        Ok(Self(Kind::Cpu(Arc::new(CpuDevice::new(Cpu::builder().executor(executor).build()?)))))
    }

    /// The Hopper GPU with this index, opened through its primary context.
    pub fn gpu(index: usize) -> Result<Self, Error> {
        Ok(Self(Kind::Gpu(Gpu::open(index)?)))
    }

    /// An H200 that the CPU simulates: the PTX of the kernels is interpreted, and races, deadlocks and stray
    /// accesses are errors. For tests on small shapes.
    pub fn simulated_gpu() -> Self {
        let [.., gpu] = &HOPPER_GPUS;
        Self(Kind::SimulatedGpu(gpu))
    }

    /// A TPU v7x that the CPU simulates: the Mosaic module is interpreted, and races and deadlocks are
    /// errors. For tests on small shapes.
    pub fn simulated_tpu() -> Self {
        let [tpu7x, ..] = &TPU_CHIPS;
        Self(Kind::SimulatedTpu(tpu7x))
    }
}

impl Kind {
    /// What the choice of a strategy for a problem depends on; weights are packed.
    pub(crate) fn planned(&self, problem: &Problem) -> DeviceKind {
        match self {
            Self::Cpu(device) => {
                let cpu = device.cpu();
                DeviceKind::Cpu { isa: cpu.isa_for(problem), threads: cpu.threads(), packed: true }
            }
            Self::Gpu(_) | Self::SimulatedGpu(_) => DeviceKind::Gpu,
            Self::SimulatedTpu(_) => DeviceKind::Tpu,
        }
    }
}

/// What the device is, for logs.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cpu(device) => {
                let (threads, dispatch) = (device.cpu().threads(), device.cpu().dispatch());
                write!(f, "CPU ({dispatch}, {threads} thread{})", if threads == 1 { "" } else { "s" })
            }
            Kind::Gpu(gpu) => write!(f, "GPU {} ({})", gpu.index(), gpu.name()),
            Kind::SimulatedGpu(gpu) => write!(f, "simulated {}", gpu.name),
            Kind::SimulatedTpu(chip) => write!(f, "simulated {}", chip.name),
        }
    }
}

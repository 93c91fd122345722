//! Errors of checking and timing.

use octile_core::{ShapeError, device::tpu::UnknownTpuChip, plan::PlanError};
use octile_mosaic::interpret::SimulateError;
use octile_runtime::{
    cpu::{CpuError, MultiplyError},
    cuda::CudaError,
};
use thiserror::Error;

/// A result, or why a contender could not be prepared or run.
pub type Result<T, E = HarnessError> = std::result::Result<T, E>;

/// Why a contender could not be prepared or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The CPU backend could not be opened.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A CPU kernel rejected its operands.
    #[error(transparent)]
    Multiply(#[from] MultiplyError),
    /// An operand does not have the problem's shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The CUDA driver reported an error.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// No kernel can be planned for the problem.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The chip is not in the device table.
    #[error(transparent)]
    Chip(#[from] UnknownTpuChip),
    /// The simulator rejected a Mosaic module.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// A generated kernel could not be parsed.
    #[error("generated kernel {kernel} does not parse: {error}")]
    Unreadable {
        /// The kernel.
        kernel: String,
        /// The parser's message.
        error: String,
    },
    /// A simulator has no throughput.
    #[error("{device} is simulated and cannot be timed")]
    NotTimed {
        /// The simulated device.
        device: &'static str,
    },
    /// A variable changes the default plans, which a search compares with.
    #[error("{variable} changes the default plans that tuned ones are compared with: unset it to tune")]
    DefaultPlans {
        /// Its name.
        variable: &'static str,
    },
    /// A contender of the caller failed.
    #[error(transparent)]
    Contender(Box<dyn std::error::Error + Send + Sync>),
    /// A benchmark record could not be read.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// Two benchmark records could not be compared.
    #[error(transparent)]
    Compare(#[from] crate::compare::CompareError),
}

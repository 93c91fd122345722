//! Errors of the CUDA layer.

use cudarc::driver::result::DriverError;
use octile_core::{QuantizeError, plan::PlanError};

/// An error of the CUDA layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver is installed.
    #[error("no NVIDIA driver (libcuda) found: install one, or use the CPU")]
    NoDriver,
    /// The driver is older than the kernels.
    #[error("the NVIDIA driver supports CUDA {cuda}, but the kernels need {oldest}: install a newer driver")]
    OldDriver {
        /// The newest version that it supports.
        cuda: String,
        /// The oldest supported version.
        oldest: String,
    },
    /// There is no GPU with this index.
    #[error("no GPU {index}: the driver finds {count}, counted from 0")]
    NoSuchGpu {
        /// The index asked for.
        index: usize,
        /// Number of GPUs.
        count: usize,
    },
    /// The driver finds no GPU.
    #[error("the NVIDIA driver finds no GPU: a Hopper GPU (H100, H200) is required")]
    NoGpu,
    /// The GPU cannot run the kernels.
    #[error(
        "{name} has compute capability {major}.{minor}, but the kernels need 9.0 (H100, H200): use a \
         Hopper GPU or the CPU"
    )]
    NotHopper {
        /// Its name.
        name: String,
        /// Major compute capability.
        major: i32,
        /// Minor compute capability.
        minor: i32,
    },
    /// A driver call failed.
    #[error("the CUDA driver could not {doing}: {reason}")]
    Driver {
        /// The operation.
        doing: &'static str,
        /// The driver's error text.
        reason: String,
    },
    /// The driver could not compile a kernel.
    #[error("the CUDA driver could not compile kernel {entry}: {log}")]
    Compile {
        /// The kernel.
        entry: String,
        /// The driver's log.
        log: String,
    },
    /// A slice is not whole rows, or the row stride is too short.
    #[error(
        "{values} elements with row stride {stride} are not whole rows of {cols}: pass complete rows and a \
         stride of at least {cols}"
    )]
    Rows {
        /// Length of the slice.
        values: usize,
        /// Elements per row.
        cols: usize,
        /// Row stride in elements.
        stride: usize,
    },
    /// A buffer belongs to another stream, whose work is not ordered with this one's.
    #[error(
        "{what} belongs to another stream or GPU: share it with Buffer::on, or allocate it on this stream"
    )]
    OtherStream {
        /// Which operand.
        what: &'static str,
    },
    /// A buffer belongs to another GPU.
    #[error("the buffer belongs to another GPU: copy it through the host")]
    OtherGpu,
    /// An output overlaps another operand.
    #[error("{what} overlaps {other}: use separate buffers")]
    Overlap {
        /// The output.
        what: &'static str,
        /// The operand that it overlaps.
        other: &'static str,
    },
    /// A plan that the planner did not make for this GPU.
    #[error(
        "the plan is not valid for {gpu}: make it with HopperPlan::best for Gpu::properties, and do not \
         modify it"
    )]
    InvalidPlan {
        /// The GPU.
        gpu: String,
    },
    /// A buffer is too small for what it should hold.
    #[error("{what} needs {needed} bytes of device memory, but the buffer has {held}")]
    BufferTooSmall {
        /// Which operand.
        what: &'static str,
        /// Bytes required.
        needed: usize,
        /// Bytes available.
        held: usize,
    },
    /// An operand is not aligned for vector loads and stores.
    #[error("{what} at {start:#x} is not aligned to {alignment} bytes: copy it to aligned memory")]
    Misaligned {
        /// Which operand.
        what: &'static str,
        /// Its address.
        start: u64,
        /// Required alignment in bytes.
        alignment: u64,
    },
    /// TMA needs row strides that are multiples of 16 bytes.
    #[error(
        "the row stride of {what} is {stride} bytes, but must be a multiple of 16 and at least K: \
         pad the rows"
    )]
    OperandStride {
        /// Which operand.
        what: &'static str,
        /// Row stride in bytes.
        stride: usize,
    },
    /// Results are stored as vectors, and rows must not overlap.
    #[error(
        "the row stride of the output is {stride} elements, but must be a multiple of {vector} and at \
         least N: pad the rows"
    )]
    OutputStride {
        /// Row stride in elements.
        stride: usize,
        /// Elements per vector.
        vector: usize,
    },
    /// The quantization kernel loads vectors.
    #[error(
        "the row stride of x is {stride} elements, but must be a multiple of {alignment} and at \
         least K: pad the rows"
    )]
    InputStride {
        /// Row stride in elements.
        stride: usize,
        /// Required alignment in elements.
        alignment: usize,
    },
    /// An operand does not match the plan.
    #[error("the plan is for {planned}, but got {given}: make a plan for that")]
    PlanMismatch {
        /// What the plan expects.
        planned: String,
        /// What was given.
        given: String,
    },
    /// A dimension or byte stride does not fit in 32 bits.
    #[error(
        "a dimension or byte stride exceeds 4294967295, the most that a kernel can address: split the problem"
    )]
    TooLarge,
    /// A stream is being captured, and what the launch needs would have to be allocated.
    #[error("nothing is prepared for M = {m} on this stream: call prepare_stream before the capture begins")]
    NotPrepared {
        /// Rows of the activations.
        m: usize,
    },
    /// A stream is being captured, and the kernel would have to be compiled.
    #[error("no kernel is compiled for M = {m}: multiply once, or call prepare, before the capture begins")]
    NotCompiled {
        /// Rows of the activations.
        m: usize,
    },
    /// Memory that is needed is missing.
    #[error("{what} is a null pointer: pass device memory")]
    NullPointer {
        /// Which operand.
        what: &'static str,
    },
    /// No kernel can be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Scales whose products overflow.
    #[error(transparent)]
    Scales(QuantizeError),
}

/// Adds the operation to a driver error.
pub(super) trait DoingExt<T> {
    fn doing(self, what: &'static str) -> Result<T, CudaError>;
}

impl<T> DoingExt<T> for Result<T, DriverError> {
    fn doing(self, doing: &'static str) -> Result<T, CudaError> {
        self.map_err(|error| {
            let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
            CudaError::Driver { doing, reason: text.unwrap_or_else(|_| format!("error {}", error.0 as u32)) }
        })
    }
}

//! What can go wrong on a GPU, in plain words.

use cudarc::driver::result::DriverError;
use octile_core::{QuantizeError, plan::PlanError};

/// A request that a GPU could not carry out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// There is no driver.
    #[error(
        "no NVIDIA driver was found on this machine: the gpu backend needs libcuda and a Hopper GPU (H100, H200)"
    )]
    NoDriver,
    /// The driver is older than the kernels.
    #[error("the NVIDIA driver supports CUDA {cuda}, but the kernels need {oldest}: install a newer driver")]
    OldDriver {
        /// The newest version that it supports.
        cuda: String,
        /// The oldest version that will do.
        oldest: String,
    },
    /// There is no GPU with this index.
    #[error("there is no GPU {index}: the driver sees {count}, counted from 0")]
    NoSuchGpu {
        /// The index asked for.
        index: usize,
        /// GPUs there are.
        count: usize,
    },
    /// There is a driver and no GPU.
    #[error("the NVIDIA driver sees no GPU: the gpu backend needs a Hopper GPU (H100, H200)")]
    NoGpu,
    /// The GPU cannot run the kernels.
    #[error(
        "{name} has compute capability {major}.{minor}, but the kernels need 9.0 (H100, H200): use --backend cpu"
    )]
    NotHopper {
        /// What it calls itself.
        name: String,
        /// Compute capability before the point.
        major: i32,
        /// Compute capability behind the point.
        minor: i32,
    },
    /// The driver refused.
    #[error("the CUDA driver could not {doing}: {reason}")]
    Driver {
        /// What was asked for.
        doing: &'static str,
        /// What the driver says.
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
    /// A list of values does not consist of rows.
    #[error(
        "{values} values are not whole rows of {cols}, or the row stride {stride} is shorter than a row: pass complete rows and a \
         stride of at least {cols}"
    )]
    Rows {
        /// Values that were given.
        values: usize,
        /// Values of a row.
        cols: usize,
        /// Values from row to row.
        stride: usize,
    },
    /// Work on two streams has no order.
    #[error(
        "{what} belongs to another stream or GPU: share it with Buffer::on, or allocate it on this stream"
    )]
    OtherStream {
        /// Which operand.
        what: &'static str,
    },
    /// Memory of one GPU cannot be handed to another.
    #[error("the buffer is memory of another GPU: copy it through the host")]
    OtherGpu,
    /// The result would be written over what is read.
    #[error("{what} overlaps {other}: use separate buffers")]
    Overlap {
        /// What is written.
        what: &'static str,
        /// What is written or read beside it.
        other: &'static str,
    },
    /// A plan that the planner does not make.
    #[error(
        "not a valid plan for {gpu}: build it with HopperPlan::best or HopperPlan::new for Gpu::properties, and do not modify it"
    )]
    InvalidPlan {
        /// The GPU.
        gpu: String,
    },
    /// A buffer is too small for what it should hold.
    #[error("{what} needs {needed} bytes of device memory, but the buffer has {held}")]
    BufferTooSmall {
        /// What it should hold.
        what: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        held: usize,
    },
    /// Numbers and vectors of them are loaded and stored at multiples of their size only.
    #[error(
        "{what} starts at {start:#x}, but must start at a multiple of {alignment} bytes: copy it to such a place"
    )]
    Misaligned {
        /// What it holds.
        what: &'static str,
        /// Where it starts.
        start: u64,
        /// Multiples of what it may start at.
        alignment: u64,
    },
    /// The copy engine takes rows at multiples of 16 bytes only.
    #[error(
        "rows of {what} are {stride} bytes apart, but must be a multiple of 16 and at least K: copy them to such rows"
    )]
    OperandStride {
        /// Which operand.
        what: &'static str,
        /// Bytes from row to row.
        stride: usize,
    },
    /// Several results are stored at once, and rows do not overlap.
    #[error(
        "the row stride of the output is {stride} elements: it must be a multiple of {vector} and at least N"
    )]
    OutputStride {
        /// Elements from row to row.
        stride: usize,
        /// Elements that are stored at once.
        vector: usize,
    },
    /// The quantizing kernel loads several elements at once.
    #[error(
        "rows of x are {stride} elements apart, but must be a multiple of {alignment} and at least K: copy them to such rows"
    )]
    InputStride {
        /// Elements from row to row.
        stride: usize,
        /// What it must be a multiple of.
        alignment: usize,
    },
    /// What is given is not what the plan was made for.
    #[error("the plan is for {planned}, but {given} was given: make a plan for that")]
    PlanMismatch {
        /// What the plan is for.
        planned: String,
        /// What was given.
        given: String,
    },
    /// A dimension, or a stride in bytes, does not fit in 32 bits.
    #[error(
        "the shape has a dimension, or a stride in bytes, beyond 4294967295, more than a kernel can address: divide the problem"
    )]
    TooLarge,
    /// A stream is being captured, and what the launch needs would have to be allocated.
    #[error("nothing is prepared for M = {m} on this stream: call prepare_stream before the capture begins")]
    NotPrepared {
        /// Rows of the activations.
        m: usize,
    },
    /// No kernel can be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Scales that no product can use.
    #[error(transparent)]
    Scales(QuantizeError),
}

/// Says what was being done when the driver refused.
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

//! What can go wrong, each in one sentence.

use crate::{DType, Strategy};

/// An error of a lower layer.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// A request that could not be carried out.
///
/// ```
/// use octile::{Block, Error, Weight};
///
/// let error = Weight::quantize(&[1.0f32, f32::NAN], [1, 2], Block::B128).unwrap_err();
/// assert!(matches!(error, Error::Values(_)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The activations are not whole rows.
    #[error("x has {len} elements, which is not a multiple of K = {k}: pass whole rows")]
    InputLength {
        /// Elements given.
        len: usize,
        /// Columns of the weight.
        k: usize,
    },
    /// The output has the wrong length.
    #[error("the output has {len} elements, but the result is {m} x {n}: pass {}", m.saturating_mul(*n))]
    OutputLength {
        /// Elements given.
        len: usize,
        /// Rows of x.
        m: usize,
        /// Rows of the weight.
        n: usize,
    },
    /// The activations or the output have another type than the `Matmul` was built for.
    #[error("{what} is {given}, but the multiplication was built for {expected}")]
    ElementType {
        /// `x` or `the output`.
        what: &'static str,
        /// Type given.
        given: DType,
        /// Type of the multiplication.
        expected: DType,
    },
    /// Unsupported combination of types.
    #[error("{0}")]
    UnsupportedType(&'static str),
    /// A tensor cannot be used as a weight.
    #[error("tensor {name}: {problem}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The bytes are not a safetensors file.
    #[error("not a safetensors file: {0}")]
    Safetensors(#[source] Source),
    /// Values or scales, such as NaN, that cannot be quantized or multiplied.
    #[error(transparent)]
    Values(Source),
    /// A shape or strategy that no kernel is planned for.
    #[error(transparent)]
    Plan(Source),
    /// A device that is missing, or that failed.
    #[error(transparent)]
    Device(Source),
    /// The device has no streams or memory of its own.
    #[error("{device} has no streams: enqueue works on GPUs, call run instead")]
    NoStreams {
        /// The device.
        device: String,
    },
    /// The device does not read host memory in place.
    #[error("{device} does not multiply host memory in place: call enqueue, or use a Matmul")]
    HostMemory {
        /// The device.
        device: String,
    },
    /// Simulated devices copy their weight.
    #[error("{device} cannot multiply memory of the caller's in place: use a Matmul")]
    Simulated {
        /// The device.
        device: String,
    },
    /// Bytes that are not whole elements, or not aligned to one.
    #[error("{what} has {len} bytes at {address:#x}, which are not whole, aligned elements of {dtype}")]
    Bytes {
        /// `x` or `the output`.
        what: &'static str,
        /// Bytes given.
        len: usize,
        /// Address of the first byte.
        address: usize,
        /// Type of the elements.
        dtype: DType,
    },
    /// A simulated kernel did something wrong.
    #[error("the simulator found a fault in the {strategy} kernel: {fault}")]
    Simulation {
        /// Its strategy.
        strategy: Strategy,
        /// What it found.
        fault: String,
    },
}

impl Error {
    /// Bytes that cannot be seen as elements of a type.
    pub(crate) fn bytes(what: &'static str, bytes: &[u8], dtype: DType) -> Self {
        Self::Bytes { what, len: bytes.len(), address: bytes.as_ptr().addr(), dtype }
    }
}

macro_rules! from {
    ($($variant:ident: $($error:ty),+;)*) => {$($(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        }
    )+)*};
}
from! {
    Values: octile_core::QuantizeError, octile_core::ShapeError;
    Plan: octile_core::plan::PlanError, octile_core::problem::ProblemError;
    Device: octile_runtime::cpu::CpuError;
}

impl From<octile_runtime::cuda::CudaError> for Error {
    fn from(error: octile_runtime::cuda::CudaError) -> Self {
        use octile_runtime::cuda::CudaError;
        match error {
            CudaError::Plan(error) => error.into(),
            CudaError::Scales(error) => error.into(),
            error => Self::Device(Box::new(error)),
        }
    }
}

impl From<octile_runtime::cpu::PackedError> for Error {
    fn from(error: octile_runtime::cpu::PackedError) -> Self {
        use octile_runtime::cpu::PackedError;
        match error {
            PackedError::Problem(error) => error.into(),
            PackedError::Quantize(error) => error.into(),
            error => Self::Values(Box::new(error)),
        }
    }
}

impl From<octile_runtime::cpu::MultiplyError> for Error {
    fn from(error: octile_runtime::cpu::MultiplyError) -> Self {
        use octile_runtime::cpu::MultiplyError;
        match error {
            MultiplyError::Problem(error) => error.into(),
            error @ MultiplyError::Threads(_) => Self::Device(Box::new(error)),
            error => Self::Values(Box::new(error)),
        }
    }
}

//! NVIDIA GPUs through the CUDA driver, which is opened at run time: no toolkit, no link-time dependency.
//!
//! Calls are put on a stream and return at once; nothing here waits unless its name says so. So a call can be captured
//! into a graph.

mod buffer;
mod error;
mod gpu;
mod graph;
mod host;
mod launch;
mod module;
mod multiply;
mod peak;
mod product;
mod quantize;
mod tensor_map;

pub use buffer::{Buffer, Element, Float};
pub use error::CudaError;
pub use gpu::Gpu;
pub use graph::Graph;
pub use host::{HostActivations, Uploaded, multiply_host};
pub use module::KernelText;
pub use multiply::{Multiplication, MultiplyOperands, PreparedMultiply};
pub use peak::PeakKernel;
pub use product::{DeviceActivations, PreparedProduct, Product, ProductKernels, ProductOperands};
pub use quantize::{PreparedQuantize, Quantization, QuantizeOperands, QuantizeText};

//! NVIDIA GPUs through the CUDA driver, which is opened at run time: no toolkit, no link-time dependency.
//!
//! Calls are put on a stream and return at once; nothing here waits unless its name says so. So a call can be captured
//! into a graph.
//!
//! Every safe function here is sound, whatever it is called with:
//!
//! - kernels are written by `octile-kernels` for a plan that is checked again; no text of a kernel crosses the border;
//! - sizes, strides and alignments of operands are checked with arithmetic that does not wrap, and results share no memory with
//!   operands;
//! - each buffer is owned by one stream and freed in stream order; other streams' buffers are refused, [`Buffer::on`] shares one;
//! - a [`Graph`] borrows its operands and keeps its kernels, and a kernel's module stays loaded until its work is done.
//!
//! What cannot be checked is `unsafe`: memory and streams of other libraries ([`Buffer::foreign`], [`Gpu::on_stream`]). A promise that only
//! numbers depend on, such as a constant weight, is safe to break: the result is wrong, memory is not.

mod buffer;
mod error;
mod found;
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
pub use found::{FoundDriver, FoundGpu, version};
pub use gpu::Gpu;
pub use graph::{Graph, Recordable};
pub use host::{HostActivations, Uploaded, multiply_host};
pub use multiply::{Multiplication, MultiplyOperands, PreparedMultiply};
pub use octile_core::plan::hopper::QuantizeTuning;
pub use peak::PeakKernel;
pub use product::{DeviceActivations, PreparedProduct, Product, ProductOperands};
pub use quantize::{PreparedQuantize, Quantization, QuantizeOperands};

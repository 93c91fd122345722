//! The PJRT C API, through which a plugin (a shared library) offers the compilers and devices of TPUs, GPUs
//! and others.
//!
//! Three thin layers:
//!
//! - [`sys`]: the C structs and the function table of the header.
//! - [`result`]: one function per C call; errors are values, nothing leaks.
//! - [`safe`]: owned plugins, topologies, executables, clients, devices and buffers.
//!
//! Two uses: ahead-of-time compilation for a named topology, without such a device ([`Topology`]), and
//! execution on an attached device ([`Client`]). Any plugin works. The client has not been tested on a TPU.

pub mod compile;
pub mod options;
mod protobuf;
pub mod result;
pub mod safe;
pub mod sys;
pub mod tuned;

pub use options::{CompileOptions, DeviceCounts, OptionValue};
pub use result::{Error, ErrorCode, NamedValue, Value};
pub use safe::{
    Buffer, Client, Device, ElementType, Executable, HostTensor, LoadedExecutable, MemoryStats, Plugin,
    Topology,
};

//! The PJRT C API: how programs reach the compilers and devices of TPUs, GPUs and others through one plugin file.
//!
//! Three layers, as thin as they can be:
//!
//! - [`sys`]: the C structs and the table of functions, as the header lays them out.
//! - [`result`]: one function per C call; errors become values, nothing leaks.
//! - [`safe`]: plugins, topologies, executables, clients, devices and buffers with owners and lifetimes.
//!
//! Two uses: compiling ahead of time for a named topology, with no such device attached ([`Topology`]), and running
//! on a device that is ([`Client`]). Any plugin will do. On a TPU the client has not been run: none was at hand.

pub mod compile;
pub mod options;
mod protobuf;
pub mod result;
pub mod safe;
pub mod sys;

pub use options::{CompileOptions, OptionValue};
pub use result::{Error, ErrorCode, NamedValue, Value};
pub use safe::{
    Buffer, Client, Device, ElementType, Executable, HostTensor, LoadedExecutable, MemoryStats, Plugin,
    Topology,
};

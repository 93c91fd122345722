//! What touches the machine: kernels for this processor, and bindings to the runtimes of devices. All unsafe code of
//! the workspace is here.

pub mod cleanup;
pub mod cpu;
pub mod cuda;
pub mod pjrt;

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

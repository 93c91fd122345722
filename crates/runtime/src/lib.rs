//! CPU kernels, and bindings to the CUDA driver and to PJRT. The workspace's unsafe code is here.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod cleanup;
pub mod cpu;
pub mod cuda;
pub mod pjrt;
pub mod switches;
pub mod tuned;

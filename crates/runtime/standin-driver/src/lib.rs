//! A stand-in for the CUDA driver, for tests on machines without a GPU.
//!
//! It exports the entry points of `libcuda` that Octile uses. Device memory is host memory with a table of allocations; every
//! access is checked against it. Streams are lazy: work runs when someone waits for it and not before, so that work which only
//! happened to be ordered is not. Kernels are interpreted by `octile-ptx`, with programmatic dependent launch: what the kernel before on
//! the stream has changed may not be touched before the wait. Whatever a driver need not forgive is a fault: it is kept, printed to
//! standard error, and makes the call fail.

mod entry;
mod entry_work;
mod kernel;
mod loader;
mod memory;
mod state;
mod stream;

pub use loader::StandIn;

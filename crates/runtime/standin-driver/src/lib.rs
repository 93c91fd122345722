//! A stand-in for the CUDA driver, for tests on machines without a GPU.
//!
//! It exports the entry points of `libcuda` that Octile uses. Device memory is host memory with a table of
//! allocations, against which every access is checked. Streams are lazy: work runs only when something waits
//! for it, so that missing synchronization shows. Kernels are interpreted by `octile-ptx`, with programmatic
//! dependent launch (PDL): memory written by the preceding kernel may not be touched before the wait.
//! Undefined behaviour is a fault: it is recorded, printed to stderr, and fails the call.

mod entry;
mod entry_work;
mod kernel;
mod loader;
mod memory;
mod state;
mod stream;

pub use loader::StandIn;

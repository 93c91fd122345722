//! Device and shared memory with race detection.

mod access;
mod barrier;
mod clock;
mod device;
mod fences;
mod shared;

pub(crate) use access::{Lane, SharedAccess};
pub(crate) use barrier::Barrier;
pub(crate) use clock::{Agent, Clock};
pub use device::{DeviceMemory, TensorMap};
pub(crate) use fences::Thread;
pub(crate) use shared::{SHARED_START, Shared};

/// Bytes that the 128-byte swizzle keeps together.
pub(crate) const UNIT: usize = 16;

/// The 128-byte swizzle of an address: 16-byte units are permuted by the low three bits of their row.
pub(crate) fn swizzled(address: usize) -> usize {
    address ^ (((address >> 7) & 7) << 4)
}

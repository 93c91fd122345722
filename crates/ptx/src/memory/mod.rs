//! Device memory, shared memory, and who touched it when.

mod access;
mod barrier;
mod clock;
mod fences;
mod global;
mod shared;

pub(crate) use access::{Access, Lane};
pub(crate) use barrier::Barrier;
pub(crate) use clock::{Agent, Clock};
pub(crate) use fences::Thread;
pub use global::{Global, TensorMap};
pub(crate) use shared::{SHARED_START, Shared};

/// Bytes that the 128-byte swizzle keeps together.
pub(crate) const UNIT: usize = 16;

/// Where the 128-byte swizzle puts the byte at `address`: units of 16 bytes are exchanged by the last three bits of their row.
pub(crate) fn swizzled(address: usize) -> usize {
    address ^ (((address >> 7) & 7) << 4)
}

//! PTX, run without a GPU.
//!
//! A [`Program`] is read from text and run by a [`Launch`] on a [`Global`] memory: every thread of every block, with the barriers,
//! asynchronous copies, clusters and warpgroup matrix products of Hopper. The order in which warps run and copies land is drawn from a seed.
//! What cannot happen in a right program stops the run with a [`Fault`] that names the line: shared memory that is read while it is
//! written, a wait that never ends, an access beyond an allocation, a warp that does not take part in what its warpgroup does, a register that its thread has not written. Registers
//! that warpgroups hand to each other are counted, beginning with what the assembler allots: who asks for more than there are waits
//! for ever. Memory that nobody has written is NaN, and so are the registers of products that were not waited for.
//!
//! Known to be simpler than a GPU: in device memory, of all races those are found in which a cluster touches what another one has written;
//! matrix products are added up in f32 without the truncation of the tensor cores; the warps of a warpgroup multiply their rows each at
//! a time of its own; kernels do not overlap, though one that touches memory before it has waited for the kernel before it is found out; what
//! only steers caches does nothing; whether the assembler gets by with the registers that a warpgroup has is not looked at; a thread that
//! for ever does what others may wait for is stopped by the number of instructions alone.

#![forbid(unsafe_code)]

mod fault;
mod machine;
mod memory;
mod parse;
mod product;
mod program;

pub use fault::{Fault, FaultKind};
pub use machine::{Launch, Outcome, Parameter};
pub use memory::{Global, TensorMap};
pub use parse::ParseError;
pub use product::{Machine, Product};
pub use program::Program;

//! PTX: the IR, a builder, a printer, a parser, a verifier and a simulator.
//!
//! [`build`] makes [`ir`] values, which print as PTX text; [`ir::Module::parse`] reads PTX of any compiler
//! back into the IR, and [`ir::Module::verify`] checks that it refers only to what it declares. [`simulate`]
//! runs the kernels of this project without a GPU and finds data races, deadlocks and stray accesses.

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod build;
pub mod ir;
pub mod limits;
mod parse;
mod print;
pub mod simulate;
mod verify;

pub use parse::{ParseError, split_guard};
pub use verify::VerifyError;

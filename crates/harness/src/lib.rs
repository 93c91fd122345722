//! Checks matmul kernels against an f64 reference, times them, and compares benchmark records.
//!
//! A [`backend::Backend`] prepares contenders, one per strategy and set of operands. [`correctness`] compares
//! their results with the reference, [`mod@bench`] times those that are correct, and [`compare`] compares two
//! benchmark [`record`]s. [`static_cycles`] compiles TPU plans and counts their cycles without a TPU. Nothing
//! here prints, and only the compiler's dumps are read from files.

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod backend;
pub mod bench;
pub mod case;
pub mod check;
pub mod compare;
pub mod correctness;
mod error;
pub mod measure;
pub mod record;
pub mod requirement;
pub mod roofline;
pub mod shapes;
pub mod static_cycles;
pub mod stats;
pub mod tune;

pub use error::{HarnessError, Result};

/// Receives progress of a long run. `()` ignores it.
pub trait Observer {
    /// Called when an activity starts.
    fn doing(&self, what: String);

    /// Called when one step is done.
    fn step(&self);
}

impl Observer for () {
    fn doing(&self, _: String) {}

    fn step(&self) {}
}

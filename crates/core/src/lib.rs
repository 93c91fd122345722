//! Numbers, shapes and plans: the pure part of Octile. No unsafe code, no files, no printing, no clocks.
//!
//! The operation, for a weight stored in 8-bit floats with one scale per `qb x qb` block:
//!
//! ```text
//! out[m, n] = sum over k-blocks kb of
//!     x_scale[mb|m, kb] * w_scale[nb, kb] * sum over k in kb of x_q[m, k] * w_q[n, k]
//! ```

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod bound;
pub mod device;
pub mod exact;
pub mod fp8;
pub mod matrix;
pub mod oracle;
pub mod plan;
pub mod problem;
pub mod quantize;
pub mod sample;
mod scale_layout;
pub mod strategy;
pub mod tuned;
pub mod view;

pub use fp8::{E4m3, E5m2};
pub use matrix::{Mat, MatMut, ShapeError};
pub use problem::{ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity};
pub use quantize::{QuantizeError, QuantizedActivation, QuantizedWeight};
pub use scale_layout::ScaleLayout;
pub use strategy::Strategy;
pub use view::{ActivationView, WeightView};

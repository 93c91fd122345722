//! Matrix multiplication with a weight in 8-bit floats and one scale per 2-D block, on CPUs and Hopper GPUs.
//!
//! ```
//! use octile::{Block, DType, Device, Matmul, Scales, Weight, bf16};
//!
//! let (m, n, k) = (3, 256, 512);
//! let values: Vec<f32> = (0..n * k).map(|i| (i % 7) as f32 - 3.0).collect();
//! let weight = Weight::quantize(&values, [n, k], Block::B128)?;
//!
//! let device = Device::best()?;
//! let matmul = Matmul::builder(&device, weight)
//!     .activations(DType::BF16, Scales::PerToken)
//!     .output(DType::BF16)
//!     .build()?;
//!
//! let x = vec![bf16::ONE; m * k];
//! let mut out = vec![bf16::ZERO; m * n];
//! matmul.run(&x, &mut out)?; // M from the length of x
//! println!("{:#}", matmul.plan(m)?);
//! # Ok::<(), octile::Error>(())
//! ```
//!
//! What is computed, with `x_q` and `w_q` in f8e4m3fn and f32 accumulation:
//!
//! ```text
//! out[m, n] = sum over k-blocks kb of  x_scale[m, kb] * w_scale[nb, kb]
//!                                      * sum over k in kb of  x_q[m, k] * w_q[n, k]
//! ```
//!
//! A [`Matmul`] holds one weight on one [`Device`]. It may be used from several threads at once; plans,
//! compiled kernels and workspaces are cached inside. To multiply GPU memory that another library owns, use
//! [`Matmul::enqueue`]. If the weight belongs to another library too, use a [`MatmulOp`].

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![deny(unsafe_code)]

mod cpu;
mod device;
mod dtype;
mod error;
mod matmul;
mod op;
pub mod packed;
mod plan;
mod problem;
mod simulated;
mod weight;

pub use device::Device;
pub use dtype::{DType, Float, Scales};
pub use error::Error;
pub use half::{bf16, f16};
pub use matmul::{Matmul, MatmulBuilder};
pub use octile_core::{QuantBlock as Block, ScaleLayout, Strategy};
pub use octile_runtime::cpu::Executor;
pub use op::{DeviceOperands, MatmulOp, MatmulOpBuilder, WeightRef};
pub use plan::Plan;
pub use weight::Weight;

/// Tests the Rust snippets of the documents.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/library.md")]
struct Documents;

//! Linear layers with block-scaled fp8 weights for [candle](candle_core), computed by Octile.
//!
//! [`Fp8Linear`] takes the place of `candle_nn::Linear` for the layers of an fp8 checkpoint: `weight` in
//! F8_E4M3 with one f32 multiplier per 128 x 128 block in `weight_scale_inv` (DeepSeek, Qwen, `octile
//! quantize`) or `weight_scale` (compressed-tensors).
//!
//! ```
//! use candle_core::{DType, Device, Module, Tensor};
//! use octile_candle::Fp8Linear;
//!
//! let weight = Tensor::randn(0f32, 0.02, (256, 512), &Device::Cpu)?;
//! let layer = Fp8Linear::quantize(&weight)?;
//! let x = Tensor::randn(0f32, 1.0, (2, 7, 512), &Device::Cpu)?.to_dtype(DType::BF16)?;
//! let out = layer.forward(&x)?;
//! assert_eq!((out.dims(), out.dtype()), ([2, 7, 256].as_slice(), DType::BF16));
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! On the CPU the weight is packed once, when the layer is made, and activations are multiplied as they are.
//! With the feature `cuda`, on a Hopper GPU, the weight stays in candle's memory, activations are quantized
//! per token and group of 128, and everything runs on candle's stream without synchronization.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]
#![deny(unsafe_code)]

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod linear;
mod ops;

pub use linear::Fp8Linear;
pub use octile::Scales;

/// Tests the Rust snippets of the document.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/candle.md")]
struct Document;

//! CPU kernels.
//!
//! ```
//! use octile_runtime::cpu::{
//!     Activation, Cpu, Mat, MatMut, PackedWeight, QuantBlock, QuantizedWeight, Strategy, Workspace,
//! };
//!
//! let (m, n, k) = (3, 256, 200);
//! let weight: Vec<f32> = (0..n * k).map(|i| (i % 7) as f32 - 3.0).collect();
//! let weight = QuantizedWeight::quantize(Mat::new(&weight, n, k)?, QuantBlock::B128)?;
//! let packed = PackedWeight::new(&weight);
//!
//! let x = vec![1.0f32; m * k];
//! let mut out = vec![0.0f32; m * n];
//! let cpu = Cpu::new()?;
//! let mut workspace = Workspace::new();
//! cpu.multiply(
//!     Strategy::Strip,
//!     Activation::Plain(Mat::new(&x, m, k)?.into()),
//!     &packed,
//!     MatMut::new(&mut out, m, n)?,
//!     &mut workspace,
//! )?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod affinity;
mod auto;
mod claims;
mod convert;
#[cfg(target_arch = "x86_64")]
mod cpuid;
pub mod dispatch;
mod dma;
mod executor;
mod isa;
mod kernel;
pub(crate) mod machine;
mod memory;
mod multiply;
mod nest;
mod operands;
mod pack;
mod packed;
pub mod peak;
mod pool;
mod quantize;
mod smem;
mod strip;
mod threads;
pub mod tuned;
mod workspace;

pub use convert::{RowConverter, StoredFloat};
pub use executor::Executor;
pub use machine::{Cpu, CpuBuilder, CpuError, available, variable_in_force};
pub use multiply::MultiplyError;
pub use octile_core::{
    ActivationKind, ActivationView, E4m3, FloatKind, Mat, MatMut, Problem, QuantBlock, QuantizeError,
    QuantizedActivation, QuantizedWeight, ScaleGranularity, ScaleLayout, Strategy, WeightView,
    device::cpu::{Isa, IsaDispatch},
    plan::cpu::{Blocking, CpuChoice, CpuPlan},
};
pub use operands::{Activation, Floats, Output, WeightRef};
pub use packed::{PackedError, PackedLayout, PackedView, PackedWeight, pack_into};
pub use workspace::Workspace;

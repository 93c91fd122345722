//! Multiplications by shape, which layers of the same shape share.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use candle_core::{Error, Result};
use octile::{Block, DType, Device, MatmulOp, Scales};

use crate::cpu::CandleThreads;

/// Where a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Cpu,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "constructed with CUDA only"))]
    Gpu(usize),
}

/// What a multiplication is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpKey {
    pub(crate) place: Place,
    pub(crate) shape: [usize; 2],
    pub(crate) block: Block,
    pub(crate) scales: Scales,
    /// Whether activations are rounded to bf16. On the CPU only.
    pub(crate) is_rounded: bool,
}

#[derive(Default)]
struct Ops {
    devices: HashMap<Place, Device>,
    /// By the type of the results.
    ops: HashMap<(OpKey, DType), Arc<MatmulOp>>,
}

static OPS: LazyLock<Mutex<Ops>> = LazyLock::new(Mutex::default);

impl OpKey {
    /// The multiplication for activations of a type, which results have too. Plans, kernels and scratch
    /// memory are kept for the rest of the process.
    pub(crate) fn op(&self, dtype: DType) -> Result<Arc<MatmulOp>> {
        let mut cached = OPS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(op) = cached.ops.get(&(*self, dtype)) {
            return Ok(Arc::clone(op));
        }
        let device = match cached.devices.get(&self.place) {
            Some(device) => device.clone(),
            None => match self.place {
                Place::Cpu => Device::cpu_with_executor(&CandleThreads),
                Place::Gpu(index) => Device::gpu(index),
            }
            .map_err(Error::wrap)?,
        };
        cached.devices.insert(self.place, device.clone());
        let builder = MatmulOp::builder(&device, self.shape, self.block);
        let x = if self.is_rounded { DType::BF16 } else { dtype };
        let builder = builder.activations(x, self.scales).output(dtype).with_constant_weight();
        let op = Arc::new(builder.build().map_err(Error::wrap)?);
        cached.ops.insert((*self, dtype), Arc::clone(&op));
        Ok(op)
    }
}

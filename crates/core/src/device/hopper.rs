//! NVIDIA Hopper GPUs.

use serde::Serialize;

/// One Hopper GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HopperGpu {
    /// The name that command lines take.
    pub name: &'static str,
    /// Streaming multiprocessors.
    pub sms: usize,
    /// Shared memory that one thread block may use, in bytes (CUDA programming guide, compute capability 9.0).
    pub shared_memory_per_block: usize,
    /// Level-2 cache in bytes.
    pub l2: usize,
}

/// The GPUs that plans are made for. Sizes as the CUDA driver reports them on the device.
pub const HOPPER_GPUS: [HopperGpu; 2] = [
    HopperGpu {
        name: "h100",
        sms: 132,
        shared_memory_per_block: 227 << 10,
        l2: 50 << 20,
    },
    HopperGpu {
        name: "h200",
        sms: 132,
        shared_memory_per_block: 227 << 10,
        l2: 60 << 20,
    },
];

//! NVIDIA Hopper GPUs.

use serde::Serialize;

/// One Hopper GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HopperGpu {
    /// Name on command lines.
    pub name: &'static str,
    /// SMs.
    pub sms: usize,
    /// Most shared memory of a CTA, in bytes (CUDA programming guide, compute capability 9.0).
    pub shared_memory_per_block: usize,
    /// Shared memory of an SM, in bytes. Every resident CTA takes [`HopperGpu::SHARED_RESERVE`] more than it
    /// requests.
    pub shared_memory_per_sm: usize,
    /// L2 cache, in bytes.
    pub l2: usize,
    /// Read bandwidth of HBM, in bytes per nanosecond.
    pub read_bandwidth: f64,
}

impl HopperGpu {
    /// Target name of the assembler.
    pub const TARGET: &str = "sm_90a";
    /// Most threads of a CTA (CUDA programming guide, compute capability 9.0).
    pub const THREADS_PER_BLOCK: usize = 1024;
    /// Shared memory that the system reserves in every CTA, in bytes.
    pub const SHARED_RESERVE: usize = 1 << 10;
    /// Registers of an SM (CUDA programming guide, compute capability 9.0).
    pub const REGISTERS_PER_SM: usize = 64 << 10;
    /// Granularity of register allocation per thread (CUDA occupancy calculator).
    pub const REGISTER_UNIT: usize = 8;
}

/// GPUs that plans can be made for. Sizes as reported by the CUDA driver; bandwidths from the vendor's data
/// sheets, less DRAM refresh.
pub const HOPPER_GPUS: [HopperGpu; 2] = [
    HopperGpu {
        name: "h100",
        sms: 132,
        shared_memory_per_block: 227 << 10,
        shared_memory_per_sm: 228 << 10,
        l2: 50 << 20,
        read_bandwidth: 3000.0,
    },
    HopperGpu {
        name: "h200",
        sms: 132,
        shared_memory_per_block: 227 << 10,
        shared_memory_per_sm: 228 << 10,
        l2: 60 << 20,
        read_bandwidth: 4200.0,
    },
];

impl HopperGpu {
    /// The GPU of this name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownHopperGpu> {
        HOPPER_GPUS
            .iter()
            .find(|gpu| gpu.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownHopperGpu(name.to_owned()))
    }
}

/// An unknown GPU.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown GPU '{0}': expected h100 or h200")]
pub struct UnknownHopperGpu(String);

/// Serializes a GPU as its name.
pub(crate) mod by_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::HopperGpu;

    pub(crate) fn serialize<S: Serializer>(gpu: &HopperGpu, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(gpu.name)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HopperGpu, D::Error> {
        let name = String::deserialize(deserializer)?;
        HopperGpu::named(&name).copied().map_err(D::Error::custom)
    }
}

//! NVIDIA Hopper GPUs.

use serde::Serialize;

/// One Hopper GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HopperGpu {
    /// The name that command lines take.
    pub name: &'static str,
    /// SMs.
    pub sms: usize,
    /// Shared memory that one thread block may use, in bytes (CUDA programming guide, compute capability
    /// 9.0).
    pub shared_memory_per_block: usize,
    /// Shared memory of a multiprocessor, of which every resident block takes [`HopperGpu::SHARED_RESERVE`]
    /// more than it asks for.
    pub shared_memory_per_sm: usize,
    /// Level-2 cache in bytes.
    pub l2: usize,
    /// Bytes per nanosecond that device memory gives when it is only read.
    pub read_bandwidth: f64,
}

impl HopperGpu {
    /// Their instruction set, as the assembler calls it.
    pub const TARGET: &str = "sm_90a";
    /// Most threads of a block (CUDA programming guide, compute capability 9.0).
    pub const THREADS_PER_BLOCK: usize = 1024;
    /// Shared memory that the system keeps for itself in every block.
    pub const SHARED_RESERVE: usize = 1 << 10;
    /// Registers of a multiprocessor (CUDA programming guide, compute capability 9.0).
    pub const REGISTERS_PER_SM: usize = 64 << 10;
    /// A warp takes registers in multiples of so many for each of its threads (CUDA occupancy calculator).
    pub const REGISTER_UNIT: usize = 8;
}

/// The GPUs that plans are made for. Sizes as the CUDA driver reports them on the device; bandwidths from the
/// vendor's data sheets, less what refreshes take.
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

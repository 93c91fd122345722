//! TPU generations.

use serde::Serialize;

/// How a chip multiplies f8e4m3fn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fp8Support {
    /// The matrix unit takes the codes as they are.
    Native,
    /// The compiler widens the codes first.
    Emulated,
    /// The compiler refuses the operation.
    Unsupported,
}

/// How fast one core is, for models of time. Nothing here was measured on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TpuRates {
    /// Cycles per second: such that the matrix units reach the bf16 peak that JAX 0.10 lists for the chip.
    pub hertz: f64,
    /// Products of bf16 that all matrix units of the core make per cycle.
    pub bf16_products: f64,
    /// Products of f8e4m3fn per cycle. Twice as many on tpu7x, where one instruction of 32 x 256 x 256 takes 8 cycles
    /// of one unit; where the codes are widened first, as many as of bf16.
    pub fp8_products: f64,
    /// 32-bit elements that the vector unit handles per cycle: 8 x 128 lanes in each of 4 slots, as the compiler's
    /// utilization tables count them on tpu7x.
    pub vector_elements: f64,
    /// Bytes per second between device memory and one core: the chip's bandwidth as JAX 0.10 lists it, by its cores.
    pub hbm_bytes_per_second: f64,
    /// Cycles from the start of a copy until its first byte arrives. Assumed, the same for all chips.
    pub copy_latency: f64,
    /// Bytes of a granule, the unit in which copies and their semaphores count.
    pub copy_granule: usize,
}

impl TpuRates {
    const fn new(hertz: f64, bf16_products: f64, fp8_products: f64, hbm_bytes_per_second: f64) -> Self {
        let (vector_elements, copy_latency, copy_granule) = (4096.0, 1000.0, 32);
        Self {
            hertz,
            bf16_products,
            fp8_products,
            vector_elements,
            hbm_bytes_per_second,
            copy_latency,
            copy_granule,
        }
    }

    /// Bytes per cycle between device memory and one core.
    pub fn hbm_bytes_per_cycle(&self) -> f64 {
        self.hbm_bytes_per_second / self.hertz
    }
}

/// One TPU generation, per core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TpuChip {
    /// The name that command lines take.
    pub name: &'static str,
    /// The smallest topology that the compiler accepts for it.
    pub topology: &'static str,
    /// Vector memory that a kernel gets unless it asks for more, in bytes.
    pub vmem_default: usize,
    /// Vector memory that there is, in bytes.
    pub vmem_physical: usize,
    /// Scalar memory in bytes.
    pub smem: usize,
    /// Side of one matrix unit.
    pub mxu_side: usize,
    /// Matrix units of a core.
    pub mxus: usize,
    /// f8e4m3fn products.
    pub fp8: Fp8Support,
    /// How fast it is.
    pub rates: TpuRates,
}

const MIB: usize = 1 << 20;

/// Every generation that the compiler was asked about. Vector memory and fp8 support are what libtpu 0.0.42
/// reports when it refuses a kernel; scalar memory is 1 MiB on all of them.
pub const TPU_CHIPS: [TpuChip; 5] = [
    TpuChip {
        name: "tpu7x",
        topology: "tpu7x:2x2x1",
        vmem_default: 32 * MIB,
        vmem_physical: 64 * MIB,
        smem: MIB,
        mxu_side: 256,
        mxus: 2,
        fp8: Fp8Support::Native,
        rates: TpuRates::new(2.2e9, 262_144.0, 524_288.0, 3.7e12),
    },
    TpuChip {
        name: "v6e",
        topology: "v6e:2x2",
        vmem_default: 32 * MIB,
        vmem_physical: 128 * MIB,
        smem: MIB,
        mxu_side: 256,
        mxus: 2,
        fp8: Fp8Support::Emulated,
        rates: TpuRates::new(1.75e9, 262_144.0, 262_144.0, 1.64e12),
    },
    TpuChip {
        name: "v5e",
        topology: "v5e:2x2",
        vmem_default: 16 * MIB,
        vmem_physical: 128 * MIB,
        smem: MIB,
        mxu_side: 128,
        mxus: 4,
        fp8: Fp8Support::Emulated,
        rates: TpuRates::new(1.5e9, 65_536.0, 65_536.0, 8.2e11),
    },
    TpuChip {
        name: "v5p",
        topology: "v5p:2x2x1",
        vmem_default: 16 * MIB,
        vmem_physical: 64 * MIB,
        smem: MIB,
        mxu_side: 128,
        mxus: 4,
        fp8: Fp8Support::Emulated,
        rates: TpuRates::new(1.75e9, 65_536.0, 65_536.0, 1.23e12),
    },
    TpuChip {
        name: "v4",
        topology: "v4:2x2x1",
        vmem_default: 16 * MIB,
        vmem_physical: 16 * MIB,
        smem: MIB,
        mxu_side: 128,
        mxus: 4,
        fp8: Fp8Support::Unsupported,
        rates: TpuRates { copy_granule: 512, ..TpuRates::new(1.05e9, 65_536.0, 65_536.0, 6.15e11) },
    },
];

/// A name that is no chip.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown TPU chip '{0}': expected tpu7x, v6e, v5e, v5p or v4")]
pub struct UnknownChip(String);

impl TpuChip {
    /// The chip of this name, in capitals or not.
    pub fn named(name: &str) -> Result<&'static Self, UnknownChip> {
        TPU_CHIPS
            .iter()
            .find(|chip| chip.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownChip(name.to_owned()))
    }
}

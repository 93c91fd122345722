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
    },
];

/// A name that is no chip.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown TPU chip '{0}': expected tpu7x, v6e, v5e, v5p or v4")]
pub struct UnknownChip(String);

impl TpuChip {
    /// The chip of this name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownChip> {
        TPU_CHIPS
            .iter()
            .find(|chip| chip.name == name)
            .ok_or_else(|| UnknownChip(name.to_owned()))
    }
}

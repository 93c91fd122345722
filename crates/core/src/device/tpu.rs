//! TPU generations, and how their memories lay out arrays.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// How a chip multiplies f8e4m3fn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fp8Support {
    /// The MXU multiplies the codes.
    Native,
    /// The compiler widens the codes to bf16 first.
    Emulated,
    /// The compiler rejects the operation.
    Unsupported,
}

/// Speed of one core, for models of time. Nothing here was measured on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TpuRates {
    /// Clock frequency, derived from the bf16 peak that JAX 0.10 lists for the chip.
    pub hertz: f64,
    /// bf16 multiply-adds per cycle of all MXUs of the core.
    pub bf16_products: f64,
    /// f8e4m3fn multiply-adds per cycle. Twice the bf16 rate on tpu7x, where an MXU instruction of 32 x 256 x
    /// 256 takes 8 cycles; the bf16 rate where the compiler widens the codes first.
    pub fp8_products: f64,
    /// 32-bit elements per cycle of the VPU: 8 x 128 lanes in each of 4 slots, as the compiler's utilization
    /// tables count them on tpu7x.
    pub vector_elements: f64,
    /// HBM bandwidth of one core: the chip's bandwidth in JAX 0.10 divided by its cores.
    pub hbm_bytes_per_second: f64,
    /// Cycles from the start of a DMA until its first byte arrives. Assumed, the same for all chips.
    pub copy_latency: f64,
    /// Bytes of a granule, the unit in which DMAs and their semaphores count.
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

    /// HBM bandwidth of one core in bytes per cycle.
    pub fn hbm_bytes_per_cycle(&self) -> f64 {
        self.hbm_bytes_per_second / self.hertz
    }
}

/// Control that a kernel can take of the MXUs: it stages weights and names the accumulators to add to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MxuControl {
    /// Staging registers of an MXU.
    pub staging_registers: usize,
    /// Addresses of the accumulators of an MXU.
    pub accumulators: usize,
    /// Rows of f32 sums per address, as wide as the MXU. A tile of 8 rows begins at an even address.
    pub accumulator_rows: usize,
}

impl MxuControl {
    /// What tpu7x has: libtpu 0.0.42 rejects kernels beyond it.
    pub const TPU7X: Self = Self { staging_registers: 2, accumulators: 256, accumulator_rows: 4 };
}

/// One TPU generation; sizes are per core. Serialized as its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TpuChip {
    /// Name on command lines and in manifests.
    pub name: &'static str,
    /// Smallest topology that the compiler accepts for the chip.
    pub topology: &'static str,
    /// Devices per chip, as the compiler counts them: its cores, or one if they work as one.
    pub devices_per_chip: usize,
    /// Chips of the largest topology that the compiler accepts.
    pub max_chips: usize,
    /// Bytes of VMEM that a kernel gets by default.
    pub vmem_default: usize,
    /// Bytes of VMEM.
    pub vmem_physical: usize,
    /// Bytes of SMEM.
    pub smem: usize,
    /// Side of one MXU.
    pub mxu_side: usize,
    /// Number of MXUs.
    pub mxus: usize,
    /// Control that kernels can take of the MXUs, if any.
    pub mxu_control: Option<MxuControl>,
    /// f8e4m3fn support of the MXUs.
    pub fp8: Fp8Support,
    /// Speed.
    pub rates: TpuRates,
}

const MIB: usize = 1 << 20;

/// The supported generations. VMEM sizes and fp8 support are what libtpu 0.0.42 reports when it rejects a
/// kernel; SMEM is 1 MiB on all of them.
pub const TPU_CHIPS: [TpuChip; 5] = [
    TpuChip {
        name: "tpu7x",
        topology: "tpu7x:2x2x1",
        devices_per_chip: 2,
        max_chips: 512,
        vmem_default: 32 * MIB,
        vmem_physical: 64 * MIB,
        smem: MIB,
        mxu_side: 256,
        mxus: 2,
        mxu_control: Some(MxuControl::TPU7X),
        fp8: Fp8Support::Native,
        rates: TpuRates::new(2.2e9, 262_144.0, 524_288.0, 3.7e12),
    },
    TpuChip {
        name: "v6e",
        topology: "v6e:2x2",
        devices_per_chip: 1,
        max_chips: 256,
        vmem_default: 32 * MIB,
        vmem_physical: 128 * MIB,
        smem: MIB,
        mxu_side: 256,
        mxus: 2,
        mxu_control: None,
        fp8: Fp8Support::Emulated,
        rates: TpuRates::new(1.75e9, 262_144.0, 262_144.0, 1.64e12),
    },
    TpuChip {
        name: "v5e",
        topology: "v5e:2x2",
        devices_per_chip: 1,
        max_chips: 256,
        vmem_default: 16 * MIB,
        vmem_physical: 128 * MIB,
        smem: MIB,
        mxu_side: 128,
        mxus: 4,
        mxu_control: None,
        fp8: Fp8Support::Emulated,
        rates: TpuRates::new(1.5e9, 65_536.0, 65_536.0, 8.2e11),
    },
    TpuChip {
        name: "v5p",
        topology: "v5p:2x2x1",
        devices_per_chip: 1,
        max_chips: 512,
        vmem_default: 16 * MIB,
        vmem_physical: 64 * MIB,
        smem: MIB,
        mxu_side: 128,
        mxus: 4,
        mxu_control: None,
        fp8: Fp8Support::Emulated,
        rates: TpuRates::new(1.75e9, 65_536.0, 65_536.0, 1.23e12),
    },
    TpuChip {
        name: "v4",
        topology: "v4:2x2x1",
        devices_per_chip: 2,
        max_chips: 512,
        vmem_default: 16 * MIB,
        vmem_physical: 16 * MIB,
        smem: MIB,
        mxu_side: 128,
        mxus: 4,
        mxu_control: None,
        fp8: Fp8Support::Unsupported,
        rates: TpuRates { copy_granule: 512, ..TpuRates::new(1.05e9, 65_536.0, 65_536.0, 6.15e11) },
    },
];

/// An unknown chip name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown TPU chip '{0}': expected tpu7x, v6e, v5e, v5p or v4")]
pub struct UnknownTpuChip(String);

impl TpuChip {
    /// SMEM that the compiler takes for itself, in bytes: 144 to 1.1 Ki, by what libtpu 0.0.42 reports of
    /// kernels whose scales fill SMEM.
    pub const SMEM_RESERVE: usize = 2 << 10;

    /// Bytes of SMEM that a plan may fill.
    pub const fn usable_smem(&self) -> usize {
        self.smem - Self::SMEM_RESERVE
    }

    /// Looks up a chip by name, ignoring case.
    pub fn named(name: &str) -> Result<&'static Self, UnknownTpuChip> {
        TPU_CHIPS
            .iter()
            .find(|chip| chip.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownTpuChip(name.to_owned()))
    }

    /// Largest number of devices that a program can be compiled for.
    pub fn max_devices(&self) -> usize {
        self.devices_per_chip * self.max_chips
    }

    /// Name of the smallest topology with this many devices, such as `tpu7x:2x2x2`; `None` above
    /// [`Self::max_devices`].
    pub fn topology_with(&self, devices: usize) -> Option<String> {
        let (kind, extents) = self.topology.split_once(':')?;
        let mut extents: Vec<usize> = extents.split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
        let chips = |extents: &[usize]| extents.iter().product::<usize>();
        while chips(&extents) * self.devices_per_chip < devices {
            // Of equal extents the last one grows first: 2x2x2, 2x2x4, 2x4x4, 4x4x4.
            *extents.iter_mut().rev().min_by_key(|extent| **extent)? *= 2;
        }
        let extents: Vec<String> = Some(extents)
            .filter(|extents| chips(extents) <= self.max_chips)?
            .iter()
            .map(usize::to_string)
            .collect();
        Some(format!("{kind}:{}", extents.join("x")))
    }
}

impl Serialize for TpuChip {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static TpuChip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TpuChip::named(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Columns of a memory tile: the lanes of a vector register.
pub const LANES: usize = 128;
/// Rows of a memory tile of 32-bit elements: the sublanes of a vector register.
pub const SUBLANES: usize = 8;
const WORD_BITS: usize = 32;

/// Bytes of an array in VMEM, padded as the compiler lays it out. Saturates.
///
/// The last two dimensions are stored in tiles of 8 x 128. Fewer than 8 rows take a smaller tile, of the next
/// power of two, which has at least the rows that share a 32-bit word. This is what the `infer-memref-layout`
/// pass of libtpu 0.0.42 chooses, and what its out-of-memory message adds up.
pub fn vmem_bytes(shape: &[usize], element_bits: usize) -> usize {
    let rows_per_word = WORD_BITS / element_bits.clamp(1, WORD_BITS);
    let padded = |(dimension, &extent): (usize, &usize)| match shape.len() - dimension {
        1 => round_up(extent, LANES),
        2 => {
            let power = extent.checked_next_power_of_two().unwrap_or(SUBLANES);
            round_up(extent, power.min(SUBLANES).max(rows_per_word))
        }
        _ => extent,
    };
    if shape.contains(&0) {
        return 0;
    }
    let elements = shape.iter().enumerate().map(padded).fold(1, usize::saturating_mul);
    elements.checked_mul(element_bits).map_or(usize::MAX, |bits| bits.div_ceil(8))
}

/// Bytes of an array in SMEM, padded as the compiler lays it out: as in VMEM, with one 32-bit word per
/// element.
pub fn smem_bytes(shape: &[usize]) -> usize {
    vmem_bytes(shape, WORD_BITS)
}

fn round_up(extent: usize, unit: usize) -> usize {
    extent.checked_next_multiple_of(unit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tile rows from the layout dumps of libtpu 0.0.42, the same on tpu7x and v5e: `(8,128)(4,1)` for
    /// `memref<24x128xf8E4M3FN>` and so on.
    #[test]
    fn arrays_are_padded_to_the_tiles_that_the_compiler_chooses() {
        let tiles = [
            (1, 8, 4),
            (3, 8, 4),
            (16, 8, 8),
            (24, 8, 8),
            (33, 8, 8),
            (64, 8, 32),
            (1, 16, 2),
            (3, 16, 4),
            (33, 16, 8),
            (40, 16, 8),
            (1, 32, 1),
            (3, 32, 4),
            (7, 32, 8),
            (12, 32, 8),
        ];
        for (rows, bits, tile_rows) in tiles {
            let bytes = usize::next_multiple_of(rows, tile_rows) * 128 * bits / 8;
            assert_eq!(vmem_bytes(&[rows, 100], bits), bytes, "{rows} rows of {bits} bits");
        }
        assert_eq!(vmem_bytes(&[130], 32), 256 * 4);
        // The compiler prefetches 19 rows of scales with one DMA of 24 rows of 128 words.
        assert_eq!(smem_bytes(&[19, 2]), 24 * 512);
    }

    #[test]
    fn topologies_grow_with_the_devices() {
        let named = |chip, devices| TpuChip::named(chip).unwrap().topology_with(devices);
        assert_eq!(named("tpu7x", 1).as_deref(), Some("tpu7x:2x2x1"));
        assert_eq!(named("tpu7x", 8).as_deref(), Some("tpu7x:2x2x1"));
        assert_eq!(named("tpu7x", 9).as_deref(), Some("tpu7x:2x2x2"));
        assert_eq!(named("v5p", 64).as_deref(), Some("v5p:4x4x4"));
        assert_eq!(named("v6e", 8).as_deref(), Some("v6e:2x4"));
        assert_eq!((named("v6e", 256).as_deref(), named("v6e", 257)), (Some("v6e:16x16"), None));
        assert_eq!(named("tpu7x", 1024).as_deref(), Some("tpu7x:8x8x8"));
    }

    #[test]
    fn sizes_saturate() {
        assert_eq!(vmem_bytes(&[2, usize::MAX], 32), usize::MAX);
        assert_eq!(vmem_bytes(&[usize::MAX, usize::MAX, 8, 128], 16), usize::MAX);
        assert_eq!(vmem_bytes(&[0, usize::MAX], 32), 0);
    }
}

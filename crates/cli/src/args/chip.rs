//! The target chip.

use std::str::FromStr;

use octile_core::device::{
    hopper::{HOPPER_GPUS, HopperGpu},
    tpu::{TPU_CHIPS, TpuChip},
};

/// The target that stands for any Hopper GPU.
pub const HOPPER_TARGET: &str = HopperGpu::TARGET;

/// A TPU or a GPU.
#[derive(Debug, Clone, Copy)]
pub enum ChipChoice {
    /// A TPU.
    Tpu(&'static TpuChip),
    /// An NVIDIA Hopper GPU.
    Gpu(HopperGpu),
}

/// The name of neither a TPU nor a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown chip: use one of {}", names().join(", "))]
pub struct UnknownChip;

impl FromStr for ChipChoice {
    type Err = UnknownChip;

    fn from_str(name: &str) -> Result<Self, UnknownChip> {
        // The target alone stands for the newest Hopper GPU.
        let gpu = if name.eq_ignore_ascii_case(HOPPER_TARGET) { "h200" } else { name };
        let gpu = HOPPER_GPUS.into_iter().find(|known| known.name.eq_ignore_ascii_case(gpu)).map(Self::Gpu);
        gpu.or_else(|| TpuChip::named(name).ok().map(Self::Tpu)).ok_or(UnknownChip)
    }
}

fn names() -> Vec<&'static str> {
    let tpus = TPU_CHIPS.iter().map(|chip| chip.name);
    tpus.chain([HOPPER_TARGET]).chain(HOPPER_GPUS.map(|gpu| gpu.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_insensitive() {
        for name in ["sm_90a", "SM_90A", "h100", "H200"] {
            assert!(matches!(name.parse(), Ok(ChipChoice::Gpu(_))), "{name}");
        }
        for name in ["tpu7x", "TPU7x", "V6E"] {
            assert!(matches!(name.parse(), Ok(ChipChoice::Tpu(_))), "{name}");
        }
        assert_eq!("H300".parse::<ChipChoice>().unwrap_err(), UnknownChip);
    }
}

//! The chip that kernels are for.

use std::str::FromStr;

use octile_core::device::{
    hopper::{HOPPER_GPUS, HopperGpu},
    tpu::{TPU_CHIPS, TpuChip},
};

/// What stands for any Hopper GPU on the command line.
pub const HOPPER_TARGET: &str = HopperGpu::TARGET;

/// A TPU or a GPU.
#[derive(Debug, Clone, Copy)]
pub enum ChipChoice {
    /// A TPU.
    Tpu(&'static TpuChip),
    /// An NVIDIA Hopper GPU.
    Gpu(HopperGpu),
}

/// A name that is neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no TPU or GPU of this name is known here: give one of {}", names().join(", "))]
pub struct UnknownChip;

impl FromStr for ChipChoice {
    type Err = UnknownChip;

    fn from_str(name: &str) -> Result<Self, UnknownChip> {
        // The instruction set alone stands for the newest GPU that has it.
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
    fn names_may_be_in_capitals() {
        for name in ["sm_90a", "SM_90A", "h100", "H200"] {
            assert!(matches!(name.parse(), Ok(ChipChoice::Gpu(_))), "{name}");
        }
        for name in ["tpu7x", "TPU7x", "V6E"] {
            assert!(matches!(name.parse(), Ok(ChipChoice::Tpu(_))), "{name}");
        }
        assert_eq!("H300".parse::<ChipChoice>().unwrap_err(), UnknownChip);
    }
}

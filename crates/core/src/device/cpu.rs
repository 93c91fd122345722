//! CPU instruction sets, as far as the kernels distinguish them.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// An instruction set that the CPU kernels are compiled for. Which of them this machine has, only the
/// runtime knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isa {
    /// Plain Rust, any processor.
    Portable,
    /// x86-64 with AVX2, FMA and F16C (Haswell, Zen and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4 and later).
    Avx512,
    /// As [`Isa::Avx512`], with VBMI and BF16 dot products (Zen 4, Sapphire Rapids and later).
    Avx512Bf16,
}

/// A name that is no instruction set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown instruction set '{0}': expected portable, avx2, avx512 or avx512bf16")]
pub struct UnknownIsa(String);

impl Isa {
    /// Every instruction set, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Bf16];

    /// The short name used on command lines and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(text: &str) -> Result<Self, UnknownIsa> {
        Self::ALL
            .into_iter()
            .find(|isa| text == isa.name())
            .ok_or_else(|| UnknownIsa(text.to_owned()))
    }
}

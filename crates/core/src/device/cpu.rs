//! CPU instruction sets that the kernels distinguish, and which of them multiplies what.

mod dispatch;
mod microarchitecture;
mod rates;

pub use dispatch::{IsaDispatch, RowRange};
pub use microarchitecture::{CpuId, Microarchitecture};
pub use rates::{CpuRates, IsaRates, SAMPLED_ROWS};

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ActivationKind, FloatKind, Problem};

/// An instruction set that the CPU kernels are compiled for. The runtime detects which of them this machine
/// has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// As [`Isa::Avx512Bf16`], with AMX bf16 tiles (Sapphire Rapids and later).
    Amx,
    /// AArch64, f32 arithmetic.
    Neon,
    /// As [`Isa::Neon`], with BF16 dot products (Armv8.6, Neoverse V1 and N2, and later).
    NeonBf16,
}

/// An unknown instruction set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown instruction set '{0}': expected one of {names}", names = Isa::native_names())]
pub struct UnknownIsa(String);

impl Isa {
    /// Every instruction set; each needs those before it that are of its architecture.
    pub const ALL: [Self; 7] =
        [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Bf16, Self::Amx, Self::Neon, Self::NeonBf16];

    /// Whether this program's architecture has the instruction set, on some processors at least.
    pub const fn is_native(self) -> bool {
        let (is_x86_64, is_aarch64) = (cfg!(target_arch = "x86_64"), cfg!(target_arch = "aarch64"));
        match self {
            Self::Portable => true,
            Self::Neon | Self::NeonBf16 => is_aarch64,
            _ => is_x86_64,
        }
    }

    /// The names of this architecture's instruction sets, separated by commas.
    pub fn native_names() -> String {
        let native = Self::ALL.into_iter().filter(|isa| isa.is_native());
        native.map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// The short name used on command lines and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
            Self::Neon => "neon",
            Self::NeonBf16 => "neonbf16",
        }
    }

    /// What a machine must have, in words.
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::Portable => "nothing",
            Self::Avx2 => "an x86-64 processor with AVX2, FMA and F16C (Haswell, Zen or later)",
            Self::Avx512 => "an x86-64 processor with AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4 or later)",
            Self::Avx512Bf16 => {
                "an x86-64 processor with AVX-512 VBMI and BF16 (Zen 4, Sapphire Rapids or later)"
            }
            Self::Amx => {
                "an x86-64 processor with AMX BF16 (Sapphire Rapids or later), and an operating system that \
                 permits its use"
            }
            Self::Neon => "a little-endian AArch64 processor",
            Self::NeonBf16 => {
                "an AArch64 processor with BF16 dot products (Armv8.6, Neoverse V1, N2 or later)"
            }
        }
    }

    /// Whether this instruction set has kernels of its own for x whose values are exact in `operand`; if not,
    /// it uses those of another.
    pub const fn is_candidate(self, operand: FloatKind) -> bool {
        let is_for_bf16 = matches!(self, Self::Avx512Bf16 | Self::Amx | Self::NeonBf16);
        matches!(operand, FloatKind::Bf16) || !is_for_bf16
    }

    /// Type of both operands in the multiply-add. Every f8e4m3fn value is exact in it.
    pub const fn operand(self, x: ActivationKind) -> FloatKind {
        match (self, x) {
            (_, ActivationKind::Plain(FloatKind::F32 | FloatKind::F16)) => FloatKind::F32,
            (Self::Avx512Bf16 | Self::Amx | Self::NeonBf16, _) => FloatKind::Bf16,
            _ => FloatKind::F32,
        }
    }

    /// The register tile for operands of this type.
    pub const fn tile(self, operand: FloatKind) -> RegisterTile {
        let (rows, cols, decoding_rows, weight) = match (self, operand) {
            (Self::Portable, _) => (2, 8, 1, FloatKind::F32),
            (Self::Avx2, _) => (6, 8, 1, FloatKind::F16),
            (Self::Avx512Bf16, FloatKind::Bf16) => (8, 32, 8, FloatKind::Bf16),
            (Self::Amx, FloatKind::Bf16) => return RegisterTile::AMX,
            (Self::Avx512 | Self::Avx512Bf16 | Self::Amx, _) => (6, 32, 4, FloatKind::F32),
            (Self::NeonBf16, FloatKind::Bf16) => (6, 16, 2, FloatKind::Bf16),
            (Self::Neon | Self::NeonBf16, _) => (5, 16, 2, FloatKind::Bf16),
        };
        RegisterTile { rows, row_unit: 1, cols, slab: SLAB, decoding_rows, decodes_ahead: false, weight }
    }
}

/// Length along K that vector microkernels go through at once: the largest quantization block, a multiple of
/// the others.
pub const SLAB: usize = 512;

/// The part of the result that a microkernel accumulates in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterTile {
    /// Most rows.
    pub rows: usize,
    /// Rows are computed in multiples of this; those past the last one are ignored.
    pub row_unit: usize,
    /// Columns.
    pub cols: usize,
    /// Length along K that is decoded and multiplied together.
    pub slab: usize,
    /// Most rows of the microkernel that decodes weights in registers, beside the accumulators.
    pub decoding_rows: usize,
    /// Whether the microkernel decodes weights into a buffer while it multiplies: its own, or the next ones.
    pub decodes_ahead: bool,
    /// Type of a decoded weight in a buffer.
    pub weight: FloatKind,
}

impl RegisterTile {
    /// Four AMX accumulators of 16 x 16.
    const AMX: Self = Self {
        rows: 32,
        row_unit: 16,
        cols: 32,
        slab: 256,
        decoding_rows: 0,
        decodes_ahead: true,
        weight: FloatKind::Bf16,
    };
    /// Most rows for which the time to decode weights exceeds that to multiply.
    pub(crate) const FEW_ROWS: usize = 64;

    /// The tile with the slab for a problem.
    ///
    /// Accumulators that decode ahead are scaled once per quantization block, so a slab has at least one, and
    /// the order of additions does not depend on the number of rows. For few rows it has no more: then two
    /// panels of decoded weights, the one in use and the next, and what passes through stay in the L1 cache.
    pub(crate) fn for_problem(self, problem: &Problem) -> Self {
        let block = problem.quant_block.size();
        let slab = match self.decodes_ahead {
            false => self.slab,
            true if problem.m <= Self::FEW_ROWS => block,
            true => block.max(self.slab),
        };
        Self { slab, ..self }
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
        Self::ALL.into_iter().find(|isa| text == isa.name()).ok_or_else(|| UnknownIsa(text.to_owned()))
    }
}

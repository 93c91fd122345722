//! The four ways to move the data of one multiplication.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// How a kernel moves its operands. The four kernels of a target are meant to be read side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// The compiler or the hardware double-buffers; scales beside the data.
    Auto,
    /// Explicit async copies into two buffers; scales beside the data.
    Dma,
    /// As [`Strategy::Dma`], with the scales in scalar memory or the closest equivalent.
    Smem,
    /// Whole-K strips, prefetched scales, no pass that zeroes the accumulator.
    Strip,
}

/// An unknown strategy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy '{0}': expected auto, dma, smem or strip (or v1, v2, v3, v4)")]
pub struct UnknownStrategy(String);

impl Strategy {
    /// Every strategy, in version order.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Dma, Self::Smem, Self::Strip];

    /// The short name used on command lines and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dma => "dma",
            Self::Smem => "smem",
            Self::Strip => "strip",
        }
    }

    /// The version alias: `v1` to `v4`.
    pub const fn version(self) -> &'static str {
        match self {
            Self::Auto => "v1",
            Self::Dma => "v2",
            Self::Smem => "v3",
            Self::Strip => "v4",
        }
    }

    /// A title for tables and headings.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Auto => "Auto Double Buffer",
            Self::Dma => "Manual Async DMA",
            Self::Smem => "SMEM Scales",
            Self::Strip => "Whole-K Strip",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL
            .into_iter()
            .find(|s| text.eq_ignore_ascii_case(s.name()) || text.eq_ignore_ascii_case(s.version()))
            .ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_parse_back() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            assert_eq!(strategy.version().to_uppercase().parse(), Ok(strategy));
        }
        assert_eq!("v5".parse::<Strategy>(), Err(UnknownStrategy("v5".into())));
    }
}

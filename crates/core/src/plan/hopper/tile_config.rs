//! The choices that a plan is made of: tile, operand order, cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The tile of the result that one CTA computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GpuTile {
    /// Rows of operand A.
    pub a: usize,
    /// Rows of operand B.
    pub b: usize,
}

/// What the CTAs of a cluster do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterMode {
    /// Nothing: every CTA works alone.
    Single,
    /// Two CTAs share their rows of A: each loads half of them and multicasts it to both.
    MulticastA,
    /// Two CTAs share their rows of B: each loads half of them and multicasts it to both.
    MulticastB,
    /// So many CTAs compute the same tile, each over a part of K, and reduce over distributed shared memory.
    SplitK(usize),
    /// Two CTAs compute a tile each, round after round, and then share one that is left, each over half of K:
    /// the last, partial wave takes half as long.
    SplitTail,
}

impl ClusterMode {
    /// Whether the CTAs of a cluster load for one another.
    pub const fn is_multicast(self) -> bool {
        matches!(self, Self::MulticastA | Self::MulticastB)
    }

    /// CTAs of a cluster.
    pub const fn ctas(self) -> usize {
        match self {
            Self::Single => 1,
            Self::MulticastA | Self::MulticastB | Self::SplitTail => 2,
            Self::SplitK(blocks) => blocks,
        }
    }

    /// CTAs that divide K of every tile.
    pub(super) const fn parts(self) -> usize {
        if let Self::SplitK(parts) = self { parts } else { 1 }
    }

    /// CTAs for every cluster tile: 1 also where those of a cluster have tiles of their own.
    pub(super) const fn ctas_per_unit(self) -> usize {
        if matches!(self, Self::SplitTail) { 1 } else { self.ctas() }
    }
}

/// The choices that a plan is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TileConfig {
    /// Tile of a CTA.
    pub tile: GpuTile,
    /// Whether the weight is operand A.
    pub swapped: bool,
    /// Cluster.
    pub cluster: ClusterMode,
}

impl TileConfig {
    /// The shape of every strategy but `strip`: the lesson of the others lies elsewhere.
    pub const PLAIN: Self =
        Self { tile: GpuTile { a: 128, b: 128 }, swapped: false, cluster: ClusterMode::Single };
}

impl fmt::Display for TileConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.tile.a, self.tile.b)?;
        if self.swapped {
            f.write_str(" swapped")?;
        }
        match self.cluster {
            ClusterMode::Single => Ok(()),
            ClusterMode::MulticastA => f.write_str(", multicast A"),
            ClusterMode::MulticastB => f.write_str(", multicast B"),
            ClusterMode::SplitK(parts) => write!(f, ", split-K {parts}"),
            ClusterMode::SplitTail => f.write_str(", split tail"),
        }
    }
}

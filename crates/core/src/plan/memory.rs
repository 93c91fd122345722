//! Where every buffer of a kernel lives and how large it is: computed once, read by everyone.

use std::fmt;

use serde::Serialize;

use super::PlanError;
use crate::Strategy;

/// A memory that a kernel places buffers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemorySpace {
    /// Device memory outside the chip.
    Hbm,
    /// TPU vector memory.
    Vmem,
    /// TPU scalar memory.
    Smem,
    /// GPU shared memory.
    Shared,
    /// Per-thread scratch of a CPU thread, meant to stay in its caches.
    Cache,
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hbm => "HBM",
            Self::Vmem => "VMEM",
            Self::Smem => "SMEM",
            Self::Shared => "shared memory",
            Self::Cache => "cache",
        })
    }
}

/// One buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// What it holds, for example `w_q`.
    pub name: &'static str,
    /// Where it lives.
    pub space: MemorySpace,
    /// How many copies of it take turns: 2 for double buffering.
    pub buffers: usize,
    /// Bytes of one copy, padding included.
    pub bytes: usize,
}

impl Region {
    /// Bytes of all copies.
    pub fn total(&self) -> usize {
        self.buffers * self.bytes
    }
}

/// All buffers of a kernel, in the order in which they are laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryMap {
    regions: Vec<Region>,
}

impl MemoryMap {
    /// Adds a buffer after those already there.
    pub fn push(&mut self, name: &'static str, space: MemorySpace, buffers: usize, bytes: usize) {
        self.regions.push(Region { name, space, buffers, bytes });
    }

    /// The buffers.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Bytes used in one memory.
    pub fn total(&self, space: MemorySpace) -> usize {
        self.regions.iter().filter(|r| r.space == space).map(Region::total).sum()
    }

    /// Refuses a map that takes more than `available` bytes of `space`.
    pub fn require(
        &self,
        space: MemorySpace,
        available: usize,
        strategy: Strategy,
        device: &str,
    ) -> Result<(), PlanError> {
        let needed = self.total(space);
        if needed <= available {
            return Ok(());
        }
        let largest = self.regions.iter().filter(|r| r.space == space).max_by_key(|r| r.total());
        let largest = largest.map_or_else(String::new, |r| format!("{} ({} bytes)", r.name, r.total()));
        Err(PlanError::DoesNotFit { strategy, device: device.to_owned(), space, needed, available, largest })
    }
}

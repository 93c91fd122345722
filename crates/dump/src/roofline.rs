//! Roofline: lower bounds on cycles, and the distance of an execution from them.

use serde::Serialize;

use crate::llo::Cycles;

/// A resource that limits a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The matrix units.
    Compute,
    /// HBM bandwidth.
    Memory,
}

/// Compute and memory bounds, and the distance to the binding one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// Cycles of the executed matmuls with all matrix units busy.
    pub mxu_cycles: f64,
    /// Cycles of the executed DMAs at full bandwidth.
    pub hbm_cycles: f64,
    /// HBM traffic in bytes.
    pub hbm_bytes: u64,
    /// The binding limit.
    pub bound: Bound,
    /// Cycles taken over the bound; 1 is optimal.
    pub distance: f64,
}

impl Roofline {
    /// The roofline of an execution; `None` without matmuls and DMAs, or if the bandwidth is not positive.
    pub fn of(cycles: &Cycles, hbm_bytes_per_cycle: f64) -> Option<Self> {
        let hbm_bytes = cycles.hbm_bytes();
        let mxu_cycles = cycles.units.mxu as f64 / f64::from(cycles.mxus.max(1));
        let hbm_cycles = hbm_bytes as f64 / hbm_bytes_per_cycle;
        let limit = mxu_cycles.max(hbm_cycles);
        let bound = if mxu_cycles >= hbm_cycles { Bound::Compute } else { Bound::Memory };
        let known = hbm_bytes_per_cycle > 0.0 && limit > 0.0;
        known.then(|| Self { mxu_cycles, hbm_cycles, hbm_bytes, bound, distance: cycles.total() / limit })
    }
}

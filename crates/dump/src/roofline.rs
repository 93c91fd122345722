//! The least that the counted work could take, and how far an execution is from it.

use serde::Serialize;

use crate::llo::Cycles;

/// What a kernel cannot be faster than.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The matrix units.
    Compute,
    /// The channel to device memory.
    Memory,
}

/// Two limits, and the distance to the nearer one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// Cycles that the executed multiplications take with all matrix units busy.
    pub mxu_cycles: f64,
    /// Cycles that the executed copies take at full bandwidth.
    pub hbm_cycles: f64,
    /// Bytes to and from device memory.
    pub hbm_bytes: u64,
    /// Which limit binds.
    pub bound: Bound,
    /// Cycles taken over cycles needed: 1 is the limit itself.
    pub distance: f64,
}

impl Roofline {
    /// The limits of an execution. `None` where it did neither multiply nor copy, or the bandwidth is not positive.
    pub fn of(cycles: &Cycles, hbm_bytes_per_cycle: f64) -> Option<Self> {
        let touches_hbm = |space: &str| space == "hbm";
        let routes = cycles.routes.iter().filter(|r| touches_hbm(&r.from) || touches_hbm(&r.to));
        let hbm_bytes = routes.fold(0u64, |sum, route| sum.saturating_add(route.bytes));
        let mxu_cycles = cycles.units.mxu as f64 / f64::from(cycles.mxus.max(1));
        let hbm_cycles = hbm_bytes as f64 / hbm_bytes_per_cycle;
        let limit = mxu_cycles.max(hbm_cycles);
        let bound = if mxu_cycles >= hbm_cycles { Bound::Compute } else { Bound::Memory };
        let known = hbm_bytes_per_cycle > 0.0 && limit > 0.0;
        known.then(|| Self { mxu_cycles, hbm_cycles, hbm_bytes, bound, distance: cycles.total() / limit })
    }
}

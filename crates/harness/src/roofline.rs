//! The roofline: the throughput that a problem can reach on a machine at most.

use octile_core::Problem;
use serde::{Deserialize, Serialize};

use crate::backend::Peak;

/// The resource that bounds the throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limiter {
    /// Peak arithmetic.
    Compute,
    /// Memory bandwidth.
    Memory,
}

impl std::fmt::Display for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        })
    }
}

/// The smaller of the compute bound and the bandwidth bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roof {
    /// Bound on the throughput, in TFLOP/s.
    pub tflops: f64,
    /// The smaller bound.
    pub limiter: Limiter,
}

impl Roof {
    /// The roof over `problem`, when every operand is read and the result written exactly once.
    pub fn new(problem: &Problem, peak: &Peak) -> Self {
        let flops_per_byte = problem.flops() / problem.min_bytes() as f64;
        let by_memory = flops_per_byte * peak.read_gbytes / 1e3;
        match by_memory < peak.tflops {
            true => Self { tflops: by_memory, limiter: Limiter::Memory },
            false => Self { tflops: peak.tflops, limiter: Limiter::Compute },
        }
    }

    /// `tflops` in percent of the roof.
    pub fn percent(&self, tflops: f64) -> f64 {
        100.0 * tflops / self.tflops
    }
}

#[cfg(test)]
mod tests {
    use octile_core::QuantBlock;

    use super::*;

    #[test]
    fn one_row_is_bound_by_memory_and_many_by_compute() {
        let peak = Peak { tflops: 1000.0, read_gbytes: 4000.0 };
        let roof = |m| Roof::new(&Problem::new(m, 4096, 4096, QuantBlock::B128).unwrap(), &peak);
        let row = roof(1);
        assert_eq!(row.limiter, Limiter::Memory);
        // Two operations per byte of the weight, less what else is moved.
        assert!((7.9..8.0).contains(&row.tflops), "{row:?}");
        assert!((row.percent(row.tflops / 2.0) - 50.0).abs() < 1e-9);
        assert_eq!(roof(4096), Roof { tflops: 1000.0, limiter: Limiter::Compute });
    }
}

//! Launch configurations, the same for the CUDA driver and the simulator.

use super::{HopperPlan, QUANTIZE_SHARED_BYTES, QuantizeLaunch};
use crate::Problem;

/// Shape of a kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// CTAs of the grid, in x and y.
    pub grid: (u32, u32),
    /// Threads of a CTA.
    pub threads: u32,
    /// CTAs of a cluster, adjacent in x.
    pub cluster: u32,
    /// Bytes of dynamic shared memory of a CTA.
    pub shared_bytes: u32,
}

impl HopperPlan {
    /// Launch configuration of the matmul kernel; `None` where a figure does not fit in 32 bits.
    pub fn launch_config(&self) -> Option<LaunchConfig> {
        let number = |value: usize| u32::try_from(value).ok();
        Some(LaunchConfig {
            grid: (number(self.blocks)?, 1),
            threads: number(self.threads())?,
            cluster: number(self.shape.cluster.ctas())?,
            shared_bytes: number(self.shared_bytes())?,
        })
    }
}

impl QuantizeLaunch {
    /// Launch configuration of the quantization kernel; `None` where a kernel cannot count its CTAs.
    pub fn launch_config(&self, problem: &Problem, sms: usize) -> Option<LaunchConfig> {
        let (grid, threads) = (self.grid(problem, sms)?, self.threads);
        Some(LaunchConfig { grid, threads, cluster: 1, shared_bytes: QUANTIZE_SHARED_BYTES })
    }
}

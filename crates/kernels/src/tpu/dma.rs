//! `dma`, version 2: explicit copies, the scales beside the data in vector memory.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::MemorySpace;

use super::{Kernel, manual};

pub(super) fn kernel(plan: &TpuPlan) -> Kernel {
    manual::kernel(plan, MemorySpace::Vmem)
}

//! `smem`, version 3: as `dma`, with the scales in scalar memory. There the scalar unit reads them, and the
//! vector unit gets them as one operand of a multiplication.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::MemorySpace;

use super::{Kernel, manual};

pub(super) fn kernel(plan: &TpuPlan) -> Kernel {
    manual::kernel(plan, MemorySpace::Smem)
}

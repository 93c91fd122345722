//! `strip`.

use octile_core::plan::tpu::TpuPlan;

use super::Kernel;

pub(super) fn kernel(plan: &TpuPlan) -> Kernel {
    super::auto::kernel(plan)
}

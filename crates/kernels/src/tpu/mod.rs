//! Mosaic kernels, one file per strategy, and the module around them.

mod auto;
mod dma;
mod frame;
mod manual;
mod module;
mod scale;
mod smem;
mod strip;
mod tile;

use octile_core::{Strategy, plan::tpu::TpuPlan};
use octile_mosaic::Module;

use frame::Operand;

/// The code of one plan.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The kernel.
    pub mosaic: Module,
    /// `@main(x, w_q, w_scale[, x_scale]) -> out`, which holds the kernel.
    pub stablehlo: Module,
    /// What the compiler calls the kernel; its listings carry the name.
    pub kernel_name: String,
}

/// A kernel and what it wants to be called with, in order.
struct Kernel {
    module: Module,
    operands: Vec<Operand>,
}

/// Writes the kernel of a plan and the module around it.
pub fn emit(plan: &TpuPlan) -> Emitted {
    let kernel = match plan.strategy {
        Strategy::Auto => auto::kernel(plan),
        Strategy::Dma => dma::kernel(plan),
        Strategy::Smem => smem::kernel(plan),
        Strategy::Strip => strip::kernel(plan),
    };
    let kernel_name = kernel_name(plan);
    let stablehlo = module::around(plan, &kernel, &kernel_name);
    Emitted { mosaic: kernel.module, stablehlo, kernel_name }
}

fn kernel_name(plan: &TpuPlan) -> String {
    format!("octile_{}_{}", plan.strategy, plan.mode)
}

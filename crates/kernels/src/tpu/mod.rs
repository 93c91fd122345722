//! Mosaic kernels, one file per strategy, and the StableHLO module around them.

mod auto;
mod dma;
mod parts;
mod smem;
mod strip;

use octile_core::{Strategy, plan::tpu::TpuPlan};
use octile_mosaic::Module;

use parts::{frame::Operand, module};

/// The code of one plan.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The kernel.
    pub mosaic: Module,
    /// `@main(x, w_q, w_scale[, x_scale]) -> out`, which calls the kernel.
    pub stablehlo: Module,
    /// The kernel's name, which the compiler uses in its dumps.
    pub kernel_name: String,
}

/// A kernel and the operands that it takes, in order.
struct KernelModule {
    module: Module,
    operands: Vec<Operand>,
}

/// Emits the kernel of a plan and the module around it.
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

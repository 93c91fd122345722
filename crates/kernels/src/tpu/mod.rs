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
    let (kernel, kernel_name) = (kernel(plan), kernel_name(plan));
    let stablehlo = module::around(plan, &kernel, &kernel_name, KernelForm::Current);
    Emitted { mosaic: kernel.module, stablehlo, kernel_name }
}

/// Emits the module around a kernel with the kernel in the serialized dialect, for programs that are stored
/// and compiled by another version of the compiler.
pub fn emit_portable(plan: &TpuPlan) -> Module {
    module::around(plan, &kernel(plan), &kernel_name(plan), KernelForm::Serialized)
}

/// The dialect of a kernel inside a custom call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelForm {
    /// The compiler's own operations.
    Current,
    /// The serialized dialect, which the compiler upgrades.
    Serialized,
}

fn kernel(plan: &TpuPlan) -> KernelModule {
    match plan.strategy {
        Strategy::Auto => auto::kernel(plan),
        Strategy::Dma => dma::kernel(plan),
        Strategy::Smem => smem::kernel(plan),
        Strategy::Strip => strip::kernel(plan),
    }
}

fn kernel_name(plan: &TpuPlan) -> String {
    format!("octile_{}_{}", plan.strategy, plan.mode)
}

//! Tuned plans for a GPU.

use octile_core::{
    Problem, Strategy,
    device::hopper::HopperGpu,
    plan::hopper::{HopperPlan, STAGE_K, TileConfig, is_candidate},
    tuned::{TunedChoice, TunedDevice, TunedTable, TunedTarget, TunedWith, kernel_hash},
};
use octile_kernels::hopper;

use super::{Gpu, format_version};

/// The GPU as a table names it.
pub fn device(gpu: &Gpu) -> TunedDevice {
    let (name, units) = (gpu.name().to_owned(), gpu.properties().sms);
    TunedDevice { target: TunedTarget::Gpu, name, units }
}

/// What a choice for a problem is measured with: the driver, and the kernels of the default and the chosen
/// plan. `None` where this version makes no such plan.
pub fn with(gpu: &Gpu, problem: &Problem, choice: Option<TileConfig>) -> Option<TunedWith> {
    let default = HopperPlan::best(problem, gpu.properties(), Strategy::Strip).ok()?;
    let mut text = hopper::multiply(&default).ptx;
    if let Some(choice) = choice {
        text += &hopper::multiply(&chosen(problem, gpu.properties(), choice)?).ptx;
    }
    Some(TunedWith::new(kernel_hash(text.as_bytes()), format_version(gpu.driver())))
}

/// The plan of a choice, if it is one that a search would try.
fn chosen(problem: &Problem, gpu: &HopperGpu, choice: TileConfig) -> Option<HopperPlan> {
    is_candidate(problem, choice)
        .then(|| HopperPlan::new(problem, gpu, Strategy::Strip, choice, None).ok())
        .flatten()
}

/// The plan of the process's tables that is faster than the default one.
pub fn plan(gpu: &Gpu, default: &HopperPlan) -> Option<HopperPlan> {
    plan_of(crate::tuned::for_use()?, gpu, default)
}

/// The same of a table. Only `strip` with the default promotion is tuned.
pub fn plan_of(table: &TunedTable, gpu: &Gpu, default: &HopperPlan) -> Option<HopperPlan> {
    if default.strategy != Strategy::Strip || default.promote_every != STAGE_K {
        return None;
    }
    let problem = &default.problem;
    let config = |choice: &Option<TunedChoice>| match choice {
        Some(TunedChoice::Gpu(config)) => Some(*config),
        _ => None,
    };
    let entry = table.lookup(&device(gpu), problem, |entry| with(gpu, problem, config(&entry.choice)))?;
    chosen(problem, gpu.properties(), config(&entry.choice)?)
}

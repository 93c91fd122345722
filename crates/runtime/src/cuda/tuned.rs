//! Tuned plans for a GPU.

use octile_core::{
    Problem, Strategy,
    device::hopper::HopperGpu,
    plan::hopper::{HopperPlan, STAGE_K, TileConfig, is_candidate},
    tuned::{TunedChoice, TunedDevice, TunedEntry, TunedTables, TunedTarget, TunedWith, kernel_hash},
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
    Some(TunedWith::new(kernels(gpu.properties(), problem, choice)?, format_version(gpu.driver())))
}

/// A hash of the kernels of the default and the chosen plan, on any machine.
pub fn kernels(gpu: &HopperGpu, problem: &Problem, choice: Option<TileConfig>) -> Option<String> {
    let default = HopperPlan::best(problem, gpu, Strategy::Strip).ok()?;
    let mut text = hopper::multiply(&default).ptx;
    if let Some(choice) = choice {
        text += &hopper::multiply(&chosen(problem, gpu, choice)?).ptx;
    }
    Some(kernel_hash(text.as_bytes()))
}

/// The plan of a choice, if it is one that a search would try.
fn chosen(problem: &Problem, gpu: &HopperGpu, choice: TileConfig) -> Option<HopperPlan> {
    is_candidate(problem, choice)
        .then(|| HopperPlan::new(problem, gpu, Strategy::Strip, choice, None).ok())
        .flatten()
}

/// What an entry would be measured with now.
fn with_entry(gpu: &Gpu, entry: &TunedEntry) -> Option<TunedWith> {
    with(gpu, &entry.problem, entry.choice.and_then(TunedChoice::gpu))
}

/// What a user should know about the process's tables before these problems are multiplied.
pub fn notes(gpu: &Gpu, problems: &[Problem]) -> Vec<String> {
    crate::tuned::notes(&device(gpu), problems, |entry| with_entry(gpu, entry))
}

/// The plan of the process's tables that is faster than the default one.
pub fn plan(gpu: &Gpu, default: &HopperPlan) -> Option<HopperPlan> {
    plan_of(crate::tuned::for_use(TunedTarget::Gpu)?, gpu, default)
}

/// The same of other tables. Only `strip` with the default promotion is tuned.
pub fn plan_of(tables: &TunedTables, gpu: &Gpu, default: &HopperPlan) -> Option<HopperPlan> {
    if default.strategy != Strategy::Strip || default.promote_every != STAGE_K {
        return None;
    }
    let problem = &default.problem;
    let entry = tables.lookup(&device(gpu), problem, |entry| with_entry(gpu, entry))?;
    chosen(problem, gpu.properties(), entry.choice?.gpu()?)
}

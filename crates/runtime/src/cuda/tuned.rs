//! Tuned plans for a GPU.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

use octile_core::{
    Problem, Strategy,
    device::hopper::HopperGpu,
    plan::hopper::{HopperPlan, STAGE_K, TileConfig, is_candidate},
    tuned::{
        TableOrigin, TunedChoice, TunedDevice, TunedEntry, TunedTables, TunedTarget, TunedWith, kernel_hash,
    },
};
use octile_kernels::hopper;

use super::{Gpu, format_version, kernel_cache::lock};

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
    chosen(&default.problem, gpu.properties(), choice(gpu, default)?.0)
}

/// The tile of that plan, and the table that names it.
pub fn choice(gpu: &Gpu, default: &HopperPlan) -> Option<(TileConfig, TableOrigin)> {
    type Found = HashMap<(TunedDevice, i32, Problem), Option<(TileConfig, TableOrigin)>>;
    // Every layer of a model asks, and whether an entry counts takes milliseconds: its kernels are generated.
    static FOUND: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);
    let tables = crate::tuned::for_use(TunedTarget::Gpu)?;
    let problem = &default.problem;
    if !is_tuned(default) || !tables.contains(problem) {
        return None;
    }
    let key = (device(gpu), gpu.driver(), *problem);
    let found = lock(&FOUND).get(&key).copied();
    found.unwrap_or_else(|| {
        let config = config_of(tables, gpu, problem);
        lock(&FOUND).insert(key, config);
        config
    })
}

/// The same of other tables.
pub fn plan_of(tables: &TunedTables, gpu: &Gpu, default: &HopperPlan) -> Option<HopperPlan> {
    let problem = &default.problem;
    let (config, _) = is_tuned(default).then(|| config_of(tables, gpu, problem))??;
    chosen(problem, gpu.properties(), config)
}

/// Whether plans of this kind are tuned: `strip` with the default promotion.
fn is_tuned(default: &HopperPlan) -> bool {
    default.strategy == Strategy::Strip && default.promote_every == STAGE_K
}

/// The tile of the first entry that counts.
fn config_of(tables: &TunedTables, gpu: &Gpu, problem: &Problem) -> Option<(TileConfig, TableOrigin)> {
    let (origin, entry) = tables.find(&device(gpu), problem, |entry| with_entry(gpu, entry))?;
    Some((entry.choice?.gpu()?, origin))
}

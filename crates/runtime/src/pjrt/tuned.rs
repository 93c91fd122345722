//! Tuned plans for a TPU chip.

use octile_core::{
    Problem, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, Dims, TpuPlan},
    tuned::{TunedChoice, TunedDevice, TunedEntry, TunedTables, TunedTarget, TunedWith, kernel_hash},
};
use octile_kernels::tpu::emit;

/// The chip as a table names it.
pub fn device(chip: &TpuChip) -> TunedDevice {
    TunedDevice { target: TunedTarget::Tpu, name: chip.name.to_owned(), units: 1 }
}

/// What a choice for a problem is measured with: the version of libtpu, and the kernels of the default and
/// the chosen plan. `None` where this version makes no such plan.
pub fn with(
    chip: &'static TpuChip,
    libtpu: &str,
    problem: &Problem,
    choice: Option<Dims>,
) -> Option<TunedWith> {
    Some(TunedWith::new(kernels(chip, problem, choice)?, format!("libtpu {libtpu}")))
}

/// A hash of the kernels of the default and the chosen plan.
pub fn kernels(chip: &'static TpuChip, problem: &Problem, choice: Option<Dims>) -> Option<String> {
    let default = TpuPlan::new(problem, chip, Strategy::Strip, BlockMode::Auto).ok()?;
    let mut text = emit(&default).stablehlo.to_string();
    if let Some(tile) = choice {
        text += &emit(&chosen(problem, chip, tile)?).stablehlo.to_string();
    }
    Some(kernel_hash(text.as_bytes()))
}

/// The plan of a tile, if it is one that a search would try.
fn chosen(problem: &Problem, chip: &'static TpuChip, tile: Dims) -> Option<TpuPlan> {
    TpuPlan::candidates(problem, chip, Strategy::Strip).into_iter().find(|plan| plan.tile == tile)
}

/// What an entry would be measured with now.
fn with_entry(chip: &'static TpuChip, libtpu: &str, entry: &TunedEntry) -> Option<TunedWith> {
    with(chip, libtpu, &entry.problem, entry.choice.and_then(TunedChoice::tpu))
}

/// What a user should know about the process's tables before kernels for these problems are compiled.
pub fn notes(chip: &'static TpuChip, libtpu: &str, problems: &[Problem]) -> Vec<String> {
    crate::tuned::notes(&device(chip), problems, |entry| with_entry(chip, libtpu, entry))
}

/// The plan of the process's tables that is faster than the default one, with this version of libtpu.
pub fn plan(default: &TpuPlan, libtpu: &str) -> Option<TpuPlan> {
    plan_of(crate::tuned::for_use(TunedTarget::Tpu)?, default, libtpu)
}

/// The same of other tables. Only `strip` is tuned; the caller asks only where it did not choose the tile
/// itself.
fn plan_of(tables: &TunedTables, default: &TpuPlan, libtpu: &str) -> Option<TpuPlan> {
    let TpuPlan { problem, chip, strategy: Strategy::Strip, .. } = default else { return None };
    let entry = tables.lookup(&device(chip), problem, |entry| with_entry(chip, libtpu, entry))?;
    chosen(problem, chip, entry.choice?.tpu()?)
}

#[cfg(test)]
mod tests {
    use octile_core::tuned::{TunedSamples, TunedTable};

    use super::*;

    const LIBTPU: &str = "0.0.42.1";

    fn table(default: &TpuPlan, tile: Dims) -> TunedTable {
        let mut table = TunedTable::default();
        table.merge(vec![TunedEntry {
            device: device(default.chip),
            with: with(default.chip, LIBTPU, &default.problem, Some(tile))
                .unwrap_or_else(|| TunedWith::new("0", format!("libtpu {LIBTPU}"))),
            problem: default.problem,
            choice: Some(TunedChoice::Tpu(tile)),
            speedup: 2.0,
            candidates: 2,
            date: String::new(),
            samples: vec![TunedSamples {
                call: "static".to_owned(),
                unit: "cycles".to_owned(),
                default: vec![2.0],
                tuned: vec![1.0],
            }],
        }]);
        table
    }

    #[test]
    fn a_tile_counts_for_its_problem_chip_strategy_and_compiler() {
        let problem = "512x1024x1024:128".parse().unwrap();
        let plan = |chip, strategy| {
            TpuPlan::new(&problem, TpuChip::named(chip).unwrap(), strategy, BlockMode::Auto).unwrap()
        };
        let default = plan("tpu7x", Strategy::Strip);
        let tile = TpuPlan::candidates(&problem, default.chip, Strategy::Strip)[1].tile;
        let shipped = TunedTables::default().over(table(&default, tile));
        let table = TunedTables::of_user(table(&default, tile));
        assert_eq!(plan_of(&table, &default, LIBTPU).map(|plan| plan.tile), Some(tile));
        // A user measures again; a shipped tile is as good a guess as the default one.
        assert_eq!(plan_of(&table, &default, "0.0.43"), None);
        assert_eq!(plan_of(&shipped, &default, "0.0.43").map(|plan| plan.tile), Some(tile));
        assert_eq!(plan_of(&table, &plan("v6e", Strategy::Strip), LIBTPU), None);
        assert_eq!(plan_of(&table, &plan("tpu7x", Strategy::Smem), LIBTPU), None);
    }

    #[test]
    fn a_tile_that_no_search_tries_is_not_used() {
        let problem = "512x1024x1024:128".parse().unwrap();
        let chip = TpuChip::named("tpu7x").unwrap();
        let default = TpuPlan::new(&problem, chip, Strategy::Strip, BlockMode::Auto).unwrap();
        for tile in [Dims { m: 0, n: 0, k: 0 }, Dims { m: 512, n: 1 << 40, k: 1024 }] {
            assert_eq!(
                plan_of(&TunedTables::of_user(table(&default, tile)), &default, LIBTPU),
                None,
                "{tile}"
            );
        }
    }
}

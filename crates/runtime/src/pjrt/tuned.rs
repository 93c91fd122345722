//! Tuned plans for a TPU chip.

use octile_core::{
    Problem, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, Dims, TpuPlan},
    tuned::{TunedChoice, TunedDevice, TunedTable, TunedTarget, TunedWith, kernel_hash},
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
    let default = TpuPlan::new(problem, chip, Strategy::Strip, BlockMode::Auto).ok()?;
    let mut text = emit(&default).stablehlo.to_string();
    if let Some(tile) = choice {
        text += &emit(&chosen(problem, chip, tile)?).stablehlo.to_string();
    }
    Some(TunedWith::new(kernel_hash(text.as_bytes()), format!("libtpu {libtpu}")))
}

/// The plan of a tile, if it is one that a search would try.
fn chosen(problem: &Problem, chip: &'static TpuChip, tile: Dims) -> Option<TpuPlan> {
    TpuPlan::candidates(problem, chip, Strategy::Strip).into_iter().find(|plan| plan.tile == tile)
}

/// The plan of the process's tables that is faster than the default one, with this version of libtpu.
pub fn plan(default: &TpuPlan, libtpu: &str) -> Option<TpuPlan> {
    plan_of(crate::tuned::for_use()?, default, libtpu)
}

/// The same of a table. Only `strip` is tuned; the caller asks only where it did not choose the tile itself.
fn plan_of(table: &TunedTable, default: &TpuPlan, libtpu: &str) -> Option<TpuPlan> {
    let TpuPlan { problem, chip, strategy: Strategy::Strip, .. } = default else { return None };
    let tile = |choice: &Option<TunedChoice>| match choice {
        Some(TunedChoice::Tpu(tile)) => Some(*tile),
        _ => None,
    };
    let with = |choice| with(chip, libtpu, problem, choice);
    let entry = table.lookup(&device(chip), problem, |entry| with(tile(&entry.choice)))?;
    chosen(problem, chip, tile(&entry.choice)?)
}

#[cfg(test)]
mod tests {
    use octile_core::tuned::{TunedEntry, TunedSamples};

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
        let table = table(&default, tile);
        assert_eq!(plan_of(&table, &default, LIBTPU).map(|plan| plan.tile), Some(tile));
        assert_eq!(plan_of(&table, &default, "0.0.43"), None);
        assert_eq!(plan_of(&table, &plan("v6e", Strategy::Strip), LIBTPU), None);
        assert_eq!(plan_of(&table, &plan("tpu7x", Strategy::Smem), LIBTPU), None);
    }

    #[test]
    fn a_tile_that_no_search_tries_is_not_used() {
        let problem = "512x1024x1024:128".parse().unwrap();
        let chip = TpuChip::named("tpu7x").unwrap();
        let default = TpuPlan::new(&problem, chip, Strategy::Strip, BlockMode::Auto).unwrap();
        for tile in [Dims { m: 0, n: 0, k: 0 }, Dims { m: 512, n: 1 << 40, k: 1024 }] {
            assert_eq!(plan_of(&table(&default, tile), &default, LIBTPU), None, "{tile}");
        }
    }
}

//! Tuned plans for this machine's CPU.

use std::collections::HashMap;

use octile_core::{
    Problem,
    plan::cpu::CpuChoice,
    tuned::{TunedDevice, TunedTables, TunedTarget, TunedWith},
};

use super::{available, dispatch::cpu_id};

/// The CPU as a table names it, with so many threads.
pub fn device(threads: usize) -> TunedDevice {
    let name = cpu_id().map_or_else(|| std::env::consts::ARCH.to_owned(), |id| id.to_string());
    TunedDevice { target: TunedTarget::Cpu, name, units: threads }
}

/// What CPU kernels are measured with: a hash of their source.
pub fn with() -> TunedWith {
    TunedWith::new(env!("OCTILE_CPU_KERNELS"), "")
}

/// The choices of the process's tables for a number of threads.
pub(super) fn choices(threads: usize) -> HashMap<Problem, CpuChoice> {
    let tables = crate::tuned::for_use(TunedTarget::Cpu);
    tables.map(|tables| choices_of(tables, threads)).unwrap_or_default()
}

/// The same of tables. All of them fit this machine.
fn choices_of(tables: &TunedTables, threads: usize) -> HashMap<Problem, CpuChoice> {
    let (device, isas) = (device(threads), available());
    let choice = |problem: &Problem| {
        let choice = tables.lookup(&device, problem, |_| Some(with()))?.choice?.cpu()?;
        choice.fits(problem, &isas, threads).then_some((*problem, choice))
    };
    tables.problems(&device).filter_map(choice).collect()
}

/// What a user should know about the process's tables before these problems are multiplied.
pub(super) fn notes(threads: usize, problems: &[Problem]) -> Vec<String> {
    crate::tuned::notes(&device(threads), problems, |_| Some(with()))
}

#[cfg(test)]
mod tests {
    use octile_core::{
        device::cpu::Isa,
        plan::cpu::Blocking,
        tuned::{TunedChoice, TunedEntry, TunedSamples, TunedTable},
    };

    use super::*;

    fn entry(shape: &str, choice: CpuChoice) -> TunedEntry {
        TunedEntry {
            device: device(2),
            with: with(),
            problem: shape.parse().unwrap(),
            choice: Some(TunedChoice::Cpu(choice)),
            speedup: 2.0,
            candidates: 2,
            date: String::new(),
            samples: vec![TunedSamples {
                call: "warm".to_owned(),
                unit: "ms".to_owned(),
                default: vec![2.0],
                tuned: vec![1.0],
            }],
        }
    }

    #[test]
    fn only_what_this_machine_can_do_is_used() {
        let choice = CpuChoice { isa: Isa::Portable, threads: 1, blocking: Blocking::default() };
        let stale = TunedEntry { with: TunedWith::new("0", ""), ..entry("4x64x64:128", choice) };
        let mut table = TunedTable::default();
        table.merge(vec![
            entry("1x64x64:128", choice),
            entry("2x64x64:128", CpuChoice { threads: 3, ..choice }),
            entry(
                "3x64x64:128",
                CpuChoice { isa: if cfg!(target_arch = "x86_64") { Isa::Neon } else { Isa::Avx2 }, ..choice },
            ),
            stale,
        ]);
        let tables = TunedTables::of_user(table);
        let choices = choices_of(&tables, 2);
        assert_eq!(choices.keys().map(|problem| problem.m).collect::<Vec<_>>(), [1]);
        assert!(choices_of(&tables, 4).is_empty());
    }

    /// A user's entry that counts goes before the shipped one, also where it says that the default is
    /// fastest; one that does not count leaves the shipped one in use.
    #[test]
    fn a_stale_entry_of_the_user_hides_no_shipped_one() {
        let table = |entries| {
            let mut table = TunedTable::default();
            table.merge(entries);
            table
        };
        let choice = CpuChoice { isa: Isa::Portable, threads: 1, blocking: Blocking::default() };
        let other = CpuChoice { threads: 2, ..choice };
        let shapes = ["1x64x64:128", "2x64x64:128", "3x64x64:128"];
        let shipped = shapes.map(|shape| TunedEntry {
            with: TunedWith { library: "0.0.0".to_owned(), ..with() },
            ..entry(shape, choice)
        });
        let stale = TunedEntry { with: TunedWith::new("0", ""), ..entry(shapes[0], other) };
        let fastest = TunedEntry { choice: None, ..entry(shapes[2], other) };
        let user = table(vec![stale, entry(shapes[1], other), fastest]);
        let choices = choices_of(&TunedTables::of_user(user).over(table(shipped.to_vec())), 2);
        let chosen = shapes.map(|shape| choices.get(&shape.parse().unwrap()).map(|choice| choice.threads));
        assert_eq!(chosen, [Some(1), Some(2), None]);
    }
}

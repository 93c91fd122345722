//! Tuned plans for this machine's CPU.

use std::collections::HashMap;

use octile_core::{
    Problem,
    plan::cpu::CpuChoice,
    tuned::{TableOrigin, TunedChoice, TunedDevice, TunedEntry, TunedTables, TunedTarget, TunedWith},
};

use super::{available, dispatch::cpu_id};

/// The CPU as a table names it, with so many threads.
pub fn device(threads: usize) -> TunedDevice {
    let name = cpu_id().map_or_else(|| std::env::consts::ARCH.to_owned(), |id| id.to_string());
    TunedDevice { target: TunedTarget::Cpu, name, units: threads }
}

/// What CPU kernels are measured with: a hash of their source.
pub fn kernels() -> TunedWith {
    TunedWith::new(env!("OCTILE_CPU_KERNELS"), "")
}

/// The same for a choice with so many threads of this machine. `None` where no search here tries it.
pub fn with(threads: usize, problem: &Problem, choice: Option<TunedChoice>) -> Option<TunedWith> {
    let is_tried = match choice {
        Some(TunedChoice::Cpu(choice)) => choice.is_candidate(problem, &available(), threads),
        Some(TunedChoice::Gpu(_) | TunedChoice::Tpu(_)) => false,
        None => true,
    };
    is_tried.then(kernels)
}

/// The choices of the process's tables for a number of threads.
pub(super) fn choices(threads: usize) -> HashMap<Problem, (CpuChoice, TableOrigin)> {
    let tables = crate::tuned::for_use(TunedTarget::Cpu);
    tables.map(|tables| choices_of(tables, threads)).unwrap_or_default()
}

/// The same of tables.
fn choices_of(tables: &TunedTables, threads: usize) -> HashMap<Problem, (CpuChoice, TableOrigin)> {
    let device = device(threads);
    let choice = |problem: &Problem| {
        let (origin, entry) = tables.find(&device, problem, |entry| with(threads, problem, entry.choice))?;
        Some((*problem, (entry.choice?.cpu()?, origin)))
    };
    tables.problems(&device).filter_map(choice).collect()
}

/// What a user should know about the process's tables before these problems are multiplied.
pub(super) fn notes(threads: usize, problems: &[Problem]) -> Vec<String> {
    let with = |entry: &TunedEntry| with(threads, &entry.problem, entry.choice);
    crate::tuned::notes(&device(threads), problems, with)
}

#[cfg(test)]
mod tests {
    use octile_core::{
        device::cpu::Isa,
        plan::cpu::Blocking,
        tuned::{TunedSamples, TunedTable},
    };

    use super::*;

    fn entry(shape: &str, choice: CpuChoice) -> TunedEntry {
        TunedEntry {
            device: device(2),
            with: kernels(),
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

    /// A choice that a search tries on any machine.
    fn choice() -> CpuChoice {
        let isa = available().into_iter().find(|&isa| isa != Isa::Portable).unwrap_or(Isa::Portable);
        CpuChoice { isa, threads: 1, blocking: Blocking::default() }
    }

    #[test]
    fn only_what_this_machine_can_do_is_used() {
        let choice = choice();
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
    /// fastest; one that does not count, or that no search makes, leaves the shipped one in use.
    #[test]
    fn a_stale_entry_of_the_user_hides_no_shipped_one() {
        let table = |entries| {
            let mut table = TunedTable::default();
            table.merge(entries);
            table
        };
        let choice = choice();
        let other = CpuChoice { threads: 2, ..choice };
        let shapes = ["1x64x64:128", "2x64x64:128", "3x64x64:128", "5x64x64:128"];
        let shipped = shapes.map(|shape| TunedEntry {
            with: TunedWith { library: "0.0.0".to_owned(), ..kernels() },
            ..entry(shape, choice)
        });
        let stale = TunedEntry { with: TunedWith::new("0", ""), ..entry(shapes[0], other) };
        let fastest = TunedEntry { choice: None, ..entry(shapes[2], other) };
        let untried = entry(shapes[3], CpuChoice { threads: 0, ..choice });
        let user = table(vec![stale, entry(shapes[1], other), fastest, untried]);
        let choices = choices_of(&TunedTables::of_user(user).over(table(shipped.to_vec())), 2);
        let chosen = shapes.map(|shape| choices.get(&shape.parse().unwrap()));
        let (user, shipped) = (TableOrigin::User, TableOrigin::Shipped);
        let expected = [Some(&(choice, shipped)), Some(&(other, user)), None, Some(&(choice, shipped))];
        assert_eq!(chosen, expected);
    }
}

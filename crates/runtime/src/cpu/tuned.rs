//! Tuned plans for this machine's CPU.

use std::collections::HashMap;

use octile_core::{
    Problem,
    plan::cpu::CpuChoice,
    tuned::{TunedChoice, TunedDevice, TunedTable, TunedTarget, TunedWith},
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
    crate::tuned::for_use().map(|table| choices_of(table, threads)).unwrap_or_default()
}

/// The same of a table. All of them fit this machine.
fn choices_of(table: &TunedTable, threads: usize) -> HashMap<Problem, CpuChoice> {
    let (device, with, isas) = (device(threads), with(), available());
    let choice = |entry: &octile_core::tuned::TunedEntry| match entry.choice {
        Some(TunedChoice::Cpu(choice)) if entry.with == with => {
            choice.fits(&entry.problem, &isas, threads).then_some((entry.problem, choice))
        }
        _ => None,
    };
    table.of_device(&device).filter_map(choice).collect()
}

#[cfg(test)]
mod tests {
    use octile_core::{
        device::cpu::Isa,
        plan::cpu::Blocking,
        tuned::{TunedEntry, TunedSamples},
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
        let choices = choices_of(&table, 2);
        assert_eq!(choices.keys().map(|problem| problem.m).collect::<Vec<_>>(), [1]);
        assert!(choices_of(&table, 4).is_empty());
    }
}

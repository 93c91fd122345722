//! The tables of tuned plans that come with the library: every entry is used on its device.
//!
//! A change of the kernels makes shipped entries stale. `docs/tuning.md` tells how to measure them again.

#![forbid(unsafe_code)]

use octile_core::{
    Problem, Strategy,
    device::{cpu::Isa, hopper::HOPPER_GPUS, tpu::TpuChip},
    plan::{cpu::CpuChoice, hopper::HopperPlan, tpu::TpuPlan},
    tuned::{
        TunedChoice, TunedDevice, TunedEntry, TunedSamples, TunedTables, TunedTarget, TunedWith, shipped,
    },
};
use octile_runtime::{cpu, cuda, pjrt};

/// The hash of the kernels that an entry chooses today, if a search would try its choice.
fn kernels(entry: &TunedEntry) -> Option<String> {
    let TunedEntry { problem, device: TunedDevice { target, name, units }, choice, .. } = entry;
    match (target, choice) {
        (TunedTarget::Cpu, None) => Some(cpu::tuned::kernels().kernels),
        (TunedTarget::Cpu, Some(TunedChoice::Cpu(choice))) => {
            choice.is_candidate(problem, &Isa::ALL, *units).then(|| cpu::tuned::kernels().kernels)
        }
        (TunedTarget::Gpu, None | Some(TunedChoice::Gpu(_))) => {
            let lower = name.to_lowercase();
            let mut gpu = *HOPPER_GPUS.iter().find(|gpu| lower.contains(gpu.name))?;
            gpu.sms = *units;
            let config = choice.and_then(|choice| choice.gpu());
            cuda::tuned::kernels(&gpu, problem, config)
        }
        (TunedTarget::Tpu, None | Some(TunedChoice::Tpu(_))) => {
            let tile = choice.and_then(|choice| choice.tpu());
            pjrt::tuned::kernels(TpuChip::named(name).ok()?, problem, tile)
        }
        _ => None,
    }
}

/// What is wrong with an entry.
fn complaint(entry: &TunedEntry) -> Option<&'static str> {
    match kernels(entry) {
        None => Some("is for an unknown device, or has a choice that no search tries"),
        Some(now) => (now != entry.with.kernels).then_some("was measured with other kernels"),
    }
}

#[test]
fn every_shipped_entry_is_live() {
    for target in TunedTarget::ALL {
        let table = shipped(target).unwrap();
        let tables = TunedTables::default().over_shipped(target);
        let mut complaints = Vec::new();
        for entry in &table.entries {
            let with = |entry: &TunedEntry| Some(TunedWith::new(kernels(entry)?, "another driver"));
            match complaint(entry) {
                Some(complaint) => complaints.push(format!("{} {complaint}", entry.problem)),
                None => assert_eq!(tables.lookup(&entry.device, &entry.problem, with), Some(entry)),
            }
        }
        assert!(
            complaints.is_empty(),
            "{} of {} entries of crates/core/src/tuned/{} are stale; measure them again as docs/tuning.md \
             describes, or remove them:\n{}",
            complaints.len(),
            table.entries.len(),
            target.file_name(),
            complaints.join("\n")
        );
    }
}

fn entry(target: TunedTarget, name: &str, units: usize, choice: TunedChoice) -> TunedEntry {
    let samples =
        TunedSamples { call: "cold".to_owned(), unit: "ms".to_owned(), default: vec![2.0], tuned: vec![1.0] };
    let mut entry = TunedEntry {
        device: TunedDevice { target, name: name.to_owned(), units },
        with: TunedWith::new("", ""),
        problem: "16x4096x4096:128".parse().unwrap(),
        choice: Some(choice),
        speedup: 2.0,
        candidates: 2,
        date: String::new(),
        samples: vec![samples],
    };
    entry.with.kernels = kernels(&entry).unwrap_or_default();
    entry
}

/// The test above finds what it looks for.
#[test]
fn stale_entries_and_foreign_choices_are_found() {
    let problem: Problem = "16x4096x4096:128".parse().unwrap();
    let chip = TpuChip::named("tpu7x").unwrap();
    let tile = TpuPlan::candidates(&problem, chip, Strategy::Strip).last().unwrap().tile;
    let config = HopperPlan::candidates(&problem, &HOPPER_GPUS[1]).unwrap().last().unwrap().shape;
    let isa = Isa::Avx2;
    let choice = CpuChoice { isa, threads: 4, blocking: octile_core::plan::cpu::Blocking::default() };
    let live = [
        entry(TunedTarget::Cpu, "Zen 5", 4, TunedChoice::Cpu(choice)),
        entry(TunedTarget::Gpu, "NVIDIA H200", 132, TunedChoice::Gpu(config)),
        entry(TunedTarget::Tpu, "tpu7x", 1, TunedChoice::Tpu(tile)),
    ];
    for entry in live {
        assert_eq!(complaint(&entry), None, "{}", entry.device);
        let mut stale = entry.clone();
        stale.with.kernels = "0123456789abcdef".to_owned();
        assert_eq!(complaint(&stale), Some("was measured with other kernels"), "{}", entry.device);
        let mut foreign = entry.clone();
        match foreign.choice.as_mut().unwrap() {
            TunedChoice::Cpu(choice) => choice.threads = 5,
            TunedChoice::Gpu(config) => config.tile.a += 1,
            TunedChoice::Tpu(tile) => tile.n += 1,
        }
        assert!(complaint(&foreign).is_some_and(|text| text.contains("no search tries")), "{}", entry.device);
    }
    let unknown = entry(TunedTarget::Gpu, "NVIDIA B200", 148, TunedChoice::Gpu(config));
    assert!(complaint(&unknown).is_some());
}

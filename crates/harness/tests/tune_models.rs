//! Models of candidates are made only for who reads them: some measure the peaks of the machine first.

#![forbid(unsafe_code)]

use std::cell::Cell;

use octile_core::{
    Problem,
    device::cpu::Isa,
    plan::cpu::{Blocking, CpuChoice},
    tuned::{TunedChoice, TunedDevice, TunedTarget, TunedWith},
};
use octile_harness::{
    Result,
    case::Case,
    check::Check,
    tune::{self, Model, SearchEffort, Trial, Tuner},
};

/// Counts the models that are made.
#[derive(Default)]
struct Counting(Cell<usize>);

impl Tuner for Counting {
    fn device(&self) -> TunedDevice {
        TunedDevice { target: TunedTarget::Cpu, name: "test".to_owned(), units: 2 }
    }

    fn with(&self, _: &Problem, _: Option<TunedChoice>) -> Option<TunedWith> {
        Some(TunedWith::new("0", ""))
    }

    fn calls(&self) -> &'static [&'static str] {
        &["warm"]
    }

    fn unit(&self) -> &'static str {
        "ms"
    }

    fn trial<'a>(&'a self, _: &Problem) -> Result<Box<dyn Trial + 'a>> {
        Ok(Box::new(CountingTrial(&self.0)))
    }
}

struct CountingTrial<'a>(&'a Cell<usize>);

impl Trial for CountingTrial<'_> {
    fn candidates(&self) -> Vec<TunedChoice> {
        let choice = |threads| CpuChoice { isa: Isa::Portable, threads, blocking: Blocking::default() };
        [1, 2].map(choice).map(TunedChoice::Cpu).to_vec()
    }

    fn describe(&self, candidate: usize) -> String {
        candidate.to_string()
    }

    fn sample(&mut self, candidate: usize) -> Result<Vec<f64>> {
        Ok(vec![[2.0, 1.0][candidate]])
    }

    fn check(&mut self, _: usize) -> Result<Option<Check>> {
        Ok(None)
    }

    fn model(&self, _: usize) -> Result<Model> {
        self.0.set(self.0.get() + 1);
        Ok(Model::default())
    }
}

#[test]
fn models_are_made_where_they_are_explained() {
    let case = Case { label: "small".to_owned(), problem: "1x64x64:128".parse().unwrap() };
    for (explains, models) in [(false, 0), (true, 2)] {
        let tuner = Counting::default();
        let effort = SearchEffort { explains, ..SearchEffort::default() };
        let found = tune::tune(&tuner, &case, &effort, &()).unwrap();
        assert_eq!((found.entry.speedup, tuner.0.get()), (2.0, models));
        assert!(found.candidates.iter().all(|candidate| candidate.model.is_some() == explains));
    }
}

//! When models of candidates are made, and when a candidate that was faster gets an entry.

#![forbid(unsafe_code)]

use std::{cell::Cell, time::Duration};

use octile_core::{
    Problem,
    device::cpu::Isa,
    plan::cpu::{Blocking, CpuChoice},
    tuned::{TunedChoice, TunedDevice, TunedTable, TunedTarget, TunedWith},
};
use octile_harness::{
    Result,
    case::Case,
    check::Check,
    tune::{self, Model, SearchEffort, Trial, TunedShape, Tuner},
};

/// Counts the models that are made, with a second candidate that takes so long, at first and with fresh
/// memory.
#[derive(Default)]
struct Counting {
    models: Cell<usize>,
    costs: [f64; 2],
    lost: Vec<String>,
}

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
        Ok(Box::new(CountingTrial { tuner: self, cost: self.costs[0] }))
    }
}

struct CountingTrial<'a> {
    tuner: &'a Counting,
    cost: f64,
}

impl Trial for CountingTrial<'_> {
    fn candidates(&self) -> Vec<TunedChoice> {
        let choice = |threads| CpuChoice { isa: Isa::Portable, threads, blocking: Blocking::default() };
        [1, 2].map(choice).map(TunedChoice::Cpu).to_vec()
    }

    fn describe(&self, candidate: usize) -> String {
        candidate.to_string()
    }

    fn sample(&mut self, candidate: usize) -> Result<Vec<f64>> {
        Ok(vec![[2.0, self.cost][candidate]])
    }

    fn lost(&self) -> Vec<String> {
        self.tuner.lost.clone()
    }

    fn renew(&mut self) {
        self.cost = self.tuner.costs[1];
    }

    fn check(&mut self, _: usize) -> Result<Option<Check>> {
        Ok(None)
    }

    fn model(&self, _: usize) -> Result<Model> {
        self.tuner.models.set(self.tuner.models.get() + 1);
        Ok(Model::default())
    }
}

fn tuned(tuner: &Counting, explains: bool) -> TunedShape {
    let case = Case { label: "small".to_owned(), problem: "1x64x64:128".parse().unwrap() };
    let budget = Duration::from_millis(10);
    let effort = SearchEffort { explains, budget, ..SearchEffort::default() };
    tune::tune(tuner, &case, &effort, &()).unwrap()
}

/// A machine that is busy may make the default slow in every round of a search.
#[test]
fn a_candidate_must_win_twice() {
    let found = |costs| tuned(&Counting { costs, ..Counting::default() }, false);
    let (once, twice) = (found([1.0, 2.0]), found([1.0, 1.25]));
    assert_eq!((once.entry.choice, once.entry.speedup), (None, 1.0));
    assert_eq!((once.refusal.as_deref(), once.unconfirmed.as_deref()), (None, Some("1")));
    assert!(once.entry.samples[0].tuned.is_empty());
    assert!(twice.entry.choice.is_some() && twice.unconfirmed.is_none());
    // The smaller gain is recorded, with its samples.
    assert_eq!((twice.entry.speedup, twice.entry.samples[0].tuned[0]), (1.6, 1.25));
    for found in [once, twice] {
        let mut table = TunedTable::default();
        table.merge(vec![found.entry]);
        assert!(TunedTable::parse(&table.to_text()).is_ok());
    }
}

/// A search that could not compare all candidates does not claim that it did, so it is done again.
#[test]
fn lost_candidates_are_not_counted() {
    let lost = vec!["1: killed".to_owned()];
    let found = tuned(&Counting { costs: [3.0; 2], lost: lost.clone(), ..Counting::default() }, false);
    assert_eq!((found.lost, found.entry.candidates), (lost, 1));
    let found = tuned(&Counting { costs: [3.0; 2], ..Counting::default() }, false);
    assert_eq!((found.lost, found.entry.candidates), (Vec::new(), 2));
}

/// Some measure the peaks of the machine first.
#[test]
fn models_are_made_where_they_are_explained() {
    for (explains, models) in [(false, 0), (true, 2)] {
        let tuner = Counting { costs: [1.0; 2], ..Counting::default() };
        let found = tuned(&tuner, explains);
        assert_eq!((found.entry.speedup, tuner.models.get()), (2.0, models));
        assert!(found.candidates.iter().all(|candidate| candidate.model.is_some() == explains));
    }
}

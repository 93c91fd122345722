//! The search for GPU plans on the stand-in driver, whose clock counts instructions.

#![forbid(unsafe_code)]

use std::time::Duration;

use octile_core::{
    ActivationKind, Problem, ScaleGranularity, Strategy,
    plan::hopper::HopperPlan,
    tuned::{TunedChoice, TunedTable, TunedTables},
};
use octile_harness::{
    case::Case,
    tune::{self, GpuTuner, SearchEffort, TunedShape, Tuner},
};
use octile_runtime::cuda::{Gpu, tuned};
use octile_standin_driver::StandIn;

/// Calls in a graph.
const REPLAYS: usize = 2;

fn problem(text: &str) -> Problem {
    text.parse::<Problem>().unwrap().with_x(ActivationKind::Fp8(ScaleGranularity::Token))
}

fn search(tuner: &GpuTuner, problem: Problem) -> TunedShape {
    let effort =
        SearchEffort { rounds: 3, deciding: 9, budget: Duration::ZERO, stops_early: true, explains: true };
    let case = Case { label: "small".to_owned(), problem };
    tune::tune(tuner, &case, &effort, &()).unwrap()
}

/// Every candidate is called with a cold cache and in a graph; the fastest gets an entry, which the library
/// then uses, and a second search finds.
#[test]
fn a_faster_plan_is_found_recorded_and_used() {
    let standin = StandIn::load();
    let tuner = GpuTuner::with_replays(REPLAYS).unwrap();
    let problem = problem("3x200x300:128");
    let found = search(&tuner, problem);
    assert_eq!(found.refusal, None);
    assert!(found.candidates.len() >= 4, "{found:?}");
    assert!(
        found
            .candidates
            .iter()
            .all(|candidate| candidate.rounds >= 3 && candidate.model.as_ref().unwrap().cost.is_some())
    );
    let calls: Vec<&str> = found.entry.samples.iter().map(|samples| &samples.call[..]).collect();
    assert_eq!(calls, ["cold", "replay"]);

    // The clock is exact, so the winner is the candidate with the least median.
    let fastest = found.candidates.iter().min_by(|a, b| a.median.total_cmp(&b.median)).unwrap();
    let choice = found.entry.choice.expect("the default executes more instructions than another plan");
    assert_eq!(choice, fastest.choice);
    assert!(found.entry.speedup > 1.01);
    assert!(found.entry.samples.iter().all(|samples| samples.default.len() == 9 && samples.tuned.len() == 9));

    let mut table = TunedTable::default();
    table.merge(vec![found.entry.clone()]);
    let table = TunedTable::parse(&table.to_text()).unwrap();
    let shipped = TunedTables::default().over(table.clone());
    let table = TunedTables::of_user(table);
    assert_eq!(tune::known(&tuner, &table, &problem), Some(found.entry));
    let gpu = Gpu::open_first().unwrap();
    let default = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip).unwrap();
    let plan = tuned::plan_of(&table, &gpu, &default).expect("the table holds a faster plan");
    assert_eq!(TunedChoice::Gpu(plan.shape), choice);
    assert_ne!(plan.shape, default.shape);
    // Another driver makes other code of the same PTX: a reason to measure again, which the readers of a
    // shipped table cannot have done.
    standin.pretend("NVIDIA H200,9.0,132", 12_080);
    let gpu = Gpu::open_first().unwrap();
    assert_eq!(tuned::plan_of(&table, &gpu, &default), None);
    assert_eq!(tuned::plan_of(&shipped, &gpu, &default), Some(plan));
    assert_eq!(standin.faults(), [""; 0]);
}

#[test]
fn swapped_plans_are_tried_and_right() {
    let standin = StandIn::load();
    let tuner = GpuTuner::with_replays(1).unwrap();
    let problem = problem("40x64x128:128");
    let mut trial = tuner.trial(&problem).unwrap();
    let swapped: Vec<usize> =
        (0..trial.candidates().len()).filter(|&index| trial.describe(index).contains("swapped")).collect();
    assert!(swapped.len() > 4, "{swapped:?}");
    for index in swapped.into_iter().step_by(2) {
        assert!(trial.check(index).unwrap().unwrap().passed(), "{}", trial.describe(index));
        assert!(trial.sample(index).unwrap().iter().all(|cost| *cost > 1e-6));
    }
    drop(trial);
    assert_eq!(standin.faults(), [""; 0]);
}

//! Searches the plans of a problem for one that is faster than the default.
//!
//! On CPUs and GPUs candidates are timed in turns; those that are clearly slower drop out early. The best one
//! then meets the default again in fresh rounds, and only these decide: the best of many noisy times looks
//! better than it is. A winner meets it once more a moment later, and must win again. On TPUs the cycles of
//! the compiled kernels are counted, without a TPU.

mod cpu;
mod gpu;
mod search;
mod tpu;

pub use cpu::CpuTuner;
pub use gpu::GpuTuner;
pub use search::{SearchEffort, SearchOutcome, search};
pub use tpu::TpuTuner;

use std::{
    thread,
    time::{Duration, Instant},
};

use octile_core::{
    Problem,
    tuned::{TunedChoice, TunedDevice, TunedEntry, TunedSamples, TunedTables, TunedWith},
};
use serde::Serialize;

use crate::{Observer, Result, case::Case, check::Check, record::Provenance};

/// Rows that are checked before a plan is recorded.
const CHECKED_ROWS: usize = 64;
/// Seed of the operands.
const SEED: u64 = 1;
/// Time between the decision and its confirmation, as a part of the budget, and its limits: what other
/// processes do to caches, cores and threads lasts for some time, too.
const PAUSE: f64 = 0.2;
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A device whose plans can be searched.
pub trait Tuner {
    /// The device as tables name it.
    fn device(&self) -> TunedDevice;

    /// What a choice for a problem is measured with now; `None` where this version makes no such plan.
    fn with(&self, problem: &Problem, choice: Option<TunedChoice>) -> Option<TunedWith>;

    /// Ways in which a kernel is called, each with a cost of its own: `warm`, `cold`, `replay`, `static`.
    fn calls(&self) -> &'static [&'static str];

    /// Unit of the costs: `ms` or `cycles`.
    fn unit(&self) -> &'static str;

    /// Candidates that a search compares now, where that can be told without one.
    fn candidates(&self, _problem: &Problem) -> Option<usize> {
        None
    }

    /// Prepares the candidates of a problem.
    fn trial<'a>(&'a self, problem: &Problem) -> Result<Box<dyn Trial + 'a>>;
}

/// The candidates of one problem, ready to be measured.
pub trait Trial {
    /// The candidates, the default one first.
    fn candidates(&self) -> Vec<TunedChoice>;

    /// A candidate in words.
    fn describe(&self, candidate: usize) -> String;

    /// Costs of one round of a candidate, one per way of calling.
    fn sample(&mut self, candidate: usize) -> Result<Vec<f64>>;

    /// The candidates that could not be measured for a reason that may pass, and the reason, each in a
    /// sentence.
    fn lost(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes fresh memory, where that may decide which candidate is faster.
    fn renew(&mut self) {}

    /// Compares a candidate's result with the reference; `None` where it cannot be run here.
    fn check(&mut self, candidate: usize) -> Result<Option<Check>>;

    /// Expected cost of a candidate, and what limits it, as far as a model tells before it is measured.
    fn model(&self, candidate: usize) -> Result<Model>;

    /// Whether costs are counted: the same in every round.
    fn is_counted(&self) -> bool {
        false
    }

    /// What limited a candidate that was measured, where that is known better then.
    fn limit(&self, _candidate: usize) -> Option<String> {
        None
    }
}

/// What a model expects of a candidate.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Model {
    /// Cost in the unit of the tuner, if there is a model.
    pub cost: Option<f64>,
    /// What limits it.
    pub limit: String,
}

/// A candidate of one problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateReport {
    /// Its choices.
    pub choice: TunedChoice,
    /// The same in words.
    pub name: String,
    /// Expected cost, and what limits it, where the effort explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Median cost over the ways of calling (geometric mean).
    pub median: f64,
    /// Rounds that it took part in.
    pub rounds: usize,
}

/// What became of one problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TunedShape {
    /// Name in tables.
    pub label: String,
    /// The problem.
    pub problem: Problem,
    /// What was found.
    pub entry: TunedEntry,
    /// Whether the entry is from an earlier run.
    pub is_known: bool,
    /// The candidates, the default one first; none for an earlier run.
    pub candidates: Vec<CandidateReport>,
    /// Why the fastest candidate was refused: its result was wrong.
    pub refusal: Option<String>,
    /// The candidate that was faster at first, but not when it was timed again.
    pub unconfirmed: Option<String>,
    /// The candidates that could not be measured this time, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Seconds that the search took.
    pub seconds: f64,
}

/// Searches the plans of one problem.
pub fn tune(
    tuner: &dyn Tuner,
    case: &Case,
    effort: &SearchEffort,
    observer: &dyn Observer,
) -> Result<TunedShape> {
    let start = Instant::now();
    let problem = case.problem;
    observer.doing(format!("preparing {problem} ({})", case.label));
    let mut trial = tuner.trial(&problem)?;
    let choices = trial.candidates();
    let doing = |left: usize| observer.doing(format!("{problem}: {left} of {} candidates", choices.len()));
    let is_counted = trial.is_counted();
    let sample = |trial: &mut dyn Trial, index| Ok(trial.sample(index)?.into_iter().map(rounded).collect());
    let mut outcome = search(choices.len(), is_counted, effort, |index| sample(&mut *trial, index), doing)?;
    let (mut refusal, mut unconfirmed) = (None, None);
    if let Some(index) = outcome.winner {
        refusal = refuse(trial.as_mut(), index)?;
        if refusal.is_none() && !is_counted {
            observer.doing(format!("{problem}: confirming {}", trial.describe(index)));
            thread::sleep(effort.budget.mul_f64(PAUSE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
            trial.renew();
            outcome.confirm(effort, |index| sample(&mut *trial, index))?;
            unconfirmed = outcome.winner.is_none().then(|| trial.describe(index));
        }
    }
    let winner = outcome.winner.filter(|_| refusal.is_none());
    let choice = winner.map(|index| choices[index]);
    let lost = trial.lost();
    let entry = TunedEntry {
        device: tuner.device(),
        with: tuner.with(&problem, choice).expect("a plan that was measured can be made"),
        problem,
        choice,
        speedup: if winner.is_some() { outcome.speedup } else { 1.0 },
        // Where some are lost, the next search is not spared.
        candidates: choices.len() - lost.len(),
        date: Provenance::now().date,
        samples: samples(tuner, &outcome, winner),
    };
    let report = |(index, choice): (usize, &TunedChoice)| {
        // A model may measure the peaks of the machine first.
        let mut model = effort.explains.then(|| trial.model(index)).transpose()?;
        if let (Some(model), Some(limit)) = (&mut model, trial.limit(index)) {
            model.limit = limit;
        }
        Ok(CandidateReport {
            choice: *choice,
            name: trial.describe(index),
            model,
            median: outcome.medians[index],
            rounds: outcome.rounds[index],
        })
    };
    let candidates = choices.iter().enumerate().map(report).collect::<Result<Vec<_>>>()?;
    Ok(TunedShape {
        label: case.label.clone(),
        problem,
        entry,
        is_known: false,
        candidates,
        refusal,
        unconfirmed,
        lost,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Why the result of a candidate is wrong, if it is.
fn refuse(trial: &mut dyn Trial, candidate: usize) -> Result<Option<String>> {
    let Some(check) = trial.check(candidate)?.filter(|check| !check.passed()) else { return Ok(None) };
    let complaint = check.complaint().unwrap_or_default();
    Ok(Some(format!("{} is wrong: {complaint}", trial.describe(candidate))))
}

fn samples(tuner: &dyn Tuner, outcome: &SearchOutcome, winner: Option<usize>) -> Vec<TunedSamples> {
    let of_call = |(at, call): (usize, &&str)| {
        let column = |rounds: &[Vec<f64>]| rounds.iter().map(|costs| costs[at]).collect();
        TunedSamples {
            call: (*call).to_owned(),
            unit: tuner.unit().to_owned(),
            default: column(&outcome.default_rounds),
            tuned: if winner.is_some() { column(&outcome.winner_rounds) } else { Vec::new() },
        }
    };
    tuner.calls().iter().enumerate().map(of_call).collect()
}

/// Six digits: more would be noise, and make tables long. Costs are rounded before they decide, so that what
/// a table claims follows from its samples to the last digit.
fn rounded(cost: f64) -> f64 {
    format!("{cost:.5e}").parse().unwrap_or(cost)
}

/// The entry of an earlier run that still counts, unless that compared fewer candidates.
pub fn known(tuner: &dyn Tuner, tables: &TunedTables, problem: &Problem) -> Option<TunedEntry> {
    let entry = tables.lookup(&tuner.device(), problem, |entry| tuner.with(problem, entry.choice))?;
    let is_complete = tuner.candidates(problem).is_none_or(|candidates| entry.candidates >= candidates);
    is_complete.then(|| entry.clone())
}

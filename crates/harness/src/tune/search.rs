//! The search among candidates by their costs, whatever these are.

use std::time::{Duration, Instant};

use octile_core::tuned::median;

use crate::{Result, stats::uncertainty};

/// Rounds before a candidate can drop out.
const FEWEST_ROUNDS: usize = 3;
/// A candidate drops out when its median exceeds the best one by so much: first the clearly slower ones,
/// because the median of three noisy times is not worth much, then the others.
const HOPELESS: [f64; 2] = [1.2, 1.05];
/// Rounds from which the second applies.
const SETTLED: usize = 6;
/// Gain that is worth a table entry, beside exceeding the noise.
const WORTH: f64 = 1.01;
/// The same of counted costs: they have no noise, but the rates of DMAs and the price of spills are a model.
const COUNTED_WORTH: f64 = 1.03;
/// Fewest rounds of the decision.
const FEWEST_DECIDING: usize = 9;
/// Part of the budget that confirming a winner may take.
const CONFIRMING: f64 = 0.4;

/// Limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchEffort {
    /// Rounds of all candidates that have not dropped out.
    pub rounds: usize,
    /// Rounds of the best candidate and the default, which decide.
    pub deciding: usize,
    /// Time of both parts together, reached after the fewest rounds at the earliest. Confirming a winner may
    /// take half as long again.
    pub budget: Duration,
    /// Whether hopeless candidates drop out.
    pub stops_early: bool,
    /// Whether each candidate is explained by a model, beside the budget.
    pub explains: bool,
}

impl Default for SearchEffort {
    fn default() -> Self {
        Self { rounds: 9, deciding: 31, budget: Duration::from_secs(5), stops_early: true, explains: false }
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The candidate that beat the default by more than the noise.
    pub winner: Option<usize>,
    /// Speedup of the best candidate in the deciding rounds.
    pub speedup: f64,
    /// Median cost of each candidate.
    pub medians: Vec<f64>,
    /// Rounds of each candidate.
    pub rounds: Vec<usize>,
    /// Costs of the default in the deciding rounds; those of the search where there were none.
    pub default_rounds: Vec<Vec<f64>>,
    /// Costs of the best candidate in the same rounds.
    pub winner_rounds: Vec<Vec<f64>>,
}

/// Searches `count` candidates, of which the first is the default. `sample` gives the costs of one round of a
/// candidate, one per way of calling; with `is_counted` they are the same every time.
pub fn search(
    count: usize,
    is_counted: bool,
    effort: &SearchEffort,
    mut sample: impl FnMut(usize) -> Result<Vec<f64>>,
    doing: impl Fn(usize),
) -> Result<SearchOutcome> {
    let start = Instant::now();
    let mut taken: Vec<Vec<Vec<f64>>> = vec![Vec::new(); count];
    let mut alive: Vec<usize> = (0..count).collect();
    let rounds = if is_counted { 1 } else { effort.rounds.max(FEWEST_ROUNDS) };
    for round in 0..rounds {
        let is_late = start.elapsed() > effort.budget.mul_f64(0.6);
        if alive.len() == 1 || (round >= FEWEST_ROUNDS && is_late) {
            break;
        }
        doing(alive.len());
        for turn in 0..alive.len() {
            // Rotated, because each one finds the caches as the one before it left them.
            let index = alive[(round + turn) % alive.len()];
            taken[index].push(sample(index)?);
        }
        if effort.stops_early && round + 1 >= FEWEST_ROUNDS {
            let margin = HOPELESS[usize::from(round + 1 >= SETTLED)];
            let best = alive.iter().map(|&index| median_score(&taken[index])).fold(f64::INFINITY, f64::min);
            alive.retain(|&index| index == 0 || median_score(&taken[index]) <= best * margin);
        }
    }
    if taken[0].is_empty() {
        taken[0].push(sample(0)?);
    }
    let medians: Vec<f64> = taken.iter().map(|rounds| median_score(rounds)).collect();
    let best = alive.iter().copied().min_by(|&a, &b| medians[a].total_cmp(&medians[b])).unwrap_or(0);
    let mut outcome = SearchOutcome {
        winner: None,
        speedup: 1.0,
        rounds: taken.iter().map(Vec::len).collect(),
        medians,
        default_rounds: taken[0].clone(),
        winner_rounds: taken[best].clone(),
    };
    if best == 0 {
        return Ok(outcome);
    }
    let wins = if is_counted {
        outcome.speedup = speedup(&outcome.default_rounds, &outcome.winner_rounds);
        outcome.speedup >= COUNTED_WORTH
    } else {
        doing(2);
        let (default, tuned) = decide(best, effort, start + effort.budget, sample)?;
        outcome.speedup = speedup(&default, &tuned);
        (outcome.default_rounds, outcome.winner_rounds) = (default, tuned);
        is_faster(&outcome.default_rounds, &outcome.winner_rounds)
    };
    outcome.winner = wins.then_some(best);
    Ok(outcome)
}

impl SearchOutcome {
    /// Measures the winner against the default once more, at another moment: what slowed the default down
    /// may have lasted for the whole search. Keeps the winner if it wins again, with the smaller speedup.
    pub fn confirm(
        &mut self,
        effort: &SearchEffort,
        mut sample: impl FnMut(usize) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let Some(winner) = self.winner else { return Ok(()) };
        // Clocks have dropped, threads sleep, and memory may be fresh.
        for candidate in [0, winner] {
            sample(candidate)?;
        }
        let end = Instant::now() + effort.budget.mul_f64(CONFIRMING);
        let (default, tuned) = decide(winner, effort, end, sample)?;
        if !is_faster(&default, &tuned) {
            self.winner = None;
        } else if speedup(&default, &tuned) < self.speedup {
            self.speedup = speedup(&default, &tuned);
            (self.default_rounds, self.winner_rounds) = (default, tuned);
        }
        Ok(())
    }
}

/// Costs of rounds, one per way of calling.
type Rounds = Vec<Vec<f64>>;

/// Fresh rounds of the default and one candidate.
fn decide(
    candidate: usize,
    effort: &SearchEffort,
    end: Instant,
    mut sample: impl FnMut(usize) -> Result<Vec<f64>>,
) -> Result<(Rounds, Rounds)> {
    let mut rounds = (Vec::new(), Vec::new());
    for round in 0..effort.deciding.max(FEWEST_DECIDING) {
        if round >= FEWEST_DECIDING && Instant::now() > end {
            break;
        }
        // Whoever comes first changes from round to round.
        if round % 2 == 0 {
            rounds.0.push(sample(0)?);
            rounds.1.push(sample(candidate)?);
        } else {
            rounds.1.push(sample(candidate)?);
            rounds.0.push(sample(0)?);
        }
    }
    Ok(rounds)
}

/// Whether the second is faster than the first in every way of calling, by more than the noise.
fn is_faster(default: &[Vec<f64>], tuned: &[Vec<f64>]) -> bool {
    let calls = default.first().map_or(0, Vec::len);
    let of_call = |rounds: &[Vec<f64>], at: usize| rounds.iter().map(|costs| costs[at]).collect::<Vec<_>>();
    let scores = |rounds: &[Vec<f64>]| rounds.iter().map(|costs| score(costs)).collect::<Vec<_>>();
    speedup(default, tuned) >= WORTH
        && gains(&scores(default), &scores(tuned), WORTH)
        && (0..calls).all(|at| gains(&of_call(default, at), &of_call(tuned, at), 1.0))
}

/// Whether the second costs are lower, by more than the noise and by a factor.
fn gains(default: &[f64], tuned: &[f64], least: f64) -> bool {
    // Runs of one round saw the machine in the same state, so their ratios have the least variance.
    let gains: Vec<f64> = default.iter().zip(tuned).map(|(slow, fast)| (slow / fast).ln()).collect();
    let mean = gains.iter().sum::<f64>() / gains.len().max(1) as f64;
    let typical = median(&gains);
    let Some(noise) = uncertainty(&[gains]) else { return false };
    mean > noise && mean.min(typical) > least.ln() && median(tuned) < median(default)
}

/// Speedup of the second over the first, as tables give it.
fn speedup(default: &[Vec<f64>], tuned: &[Vec<f64>]) -> f64 {
    median_score(default) / median_score(tuned)
}

/// One cost for all ways of calling: the geometric mean.
fn score(costs: &[f64]) -> f64 {
    (costs.iter().map(|cost| cost.ln()).sum::<f64>() / costs.len() as f64).exp()
}

fn median_score(rounds: &[Vec<f64>]) -> f64 {
    median(&rounds.iter().map(|costs| score(costs)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use octile_core::sample::Rng;

    use super::*;

    /// Costs of these means with noise of so much.
    fn sampled(costs: &[&[f64]], noise: f64, seed: u64) -> impl FnMut(usize) -> Result<Vec<f64>> {
        let mut rng = Rng::new(seed, 0);
        move |index| {
            let drawn = costs[index].iter().map(|cost| cost * (1.0 + noise * f64::from(rng.bell()).abs()));
            Ok(drawn.collect())
        }
    }

    /// Searches such candidates.
    fn noisy(costs: &[&[f64]], noise: f64, seed: u64) -> SearchOutcome {
        let sample = sampled(costs, noise, seed);
        search(costs.len(), false, &SearchEffort::default(), sample, |_| ()).unwrap()
    }

    #[test]
    fn the_fastest_wins_and_slow_ones_drop_out() {
        let outcome = noisy(&[&[1.0], &[3.0], &[0.8], &[0.9]], 0.01, 1);
        assert_eq!(outcome.winner, Some(2));
        assert!((outcome.speedup - 1.25).abs() < 0.02, "{}", outcome.speedup);
        assert_eq!(outcome.rounds[1], FEWEST_ROUNDS);
        assert_eq!(outcome.rounds[2], SearchEffort::default().rounds);
        assert_eq!(outcome.winner_rounds.len(), SearchEffort::default().deciding);
    }

    /// Of many candidates that are all as fast as the default, the best is luck, and must not be recorded.
    #[test]
    fn luck_is_no_reason() {
        let same: Vec<&[f64]> = vec![&[1.0]; 20];
        let lucky: Vec<_> = (0..400)
            .map(|seed| (seed, noisy(&same, 0.1, seed)))
            .filter(|(_, o)| o.winner.is_some())
            .collect();
        assert!(lucky.len() <= 12, "{} of 400", lucky.len());
        let confirmed = lucky.into_iter().filter_map(|(seed, mut outcome)| {
            outcome.confirm(&SearchEffort::default(), sampled(&same, 0.1, seed + 400)).unwrap();
            outcome.winner
        });
        assert!(confirmed.count() <= 1);
    }

    /// A machine may be busy for as long as a search takes.
    #[test]
    fn a_win_must_repeat() {
        let costs: [&[f64]; 2] = [&[1.0, 1.0], &[0.8, 0.8]];
        let found = noisy(&costs, 0.01, 1);
        let confirm = |costs: &[&[f64]]| {
            let mut outcome = found.clone();
            outcome.confirm(&SearchEffort::default(), sampled(costs, 0.01, 2)).unwrap();
            outcome
        };
        assert_eq!(found.winner, Some(1));
        assert_eq!(confirm(&[&[1.0, 1.0], &[1.0, 1.0]]).winner, None);
        assert_eq!(confirm(&[&[1.0, 1.0], &[0.5, 1.05]]).winner, None, "slower in one way of calling");
        // The smaller gain is the one to promise.
        let again = confirm(&[&[1.0, 1.0], &[0.9, 0.9]]);
        assert!(again.winner == Some(1) && (again.speedup - 1.11).abs() < 0.02, "{}", again.speedup);
        assert_eq!(confirm(&[&[1.0, 1.0], &[0.5, 0.5]]).speedup, found.speedup);
    }

    #[test]
    fn every_way_of_calling_must_gain_more_than_its_noise() {
        // Both gain in their medians, the second by less than its rounds scatter.
        let costs = |round: usize, index: usize| match (index, round % 2) {
            (0, _) => vec![1.0, 1.0],
            (_, 0) => vec![0.5, 0.7],
            (_, _) => vec![0.5, if round % 4 == 1 { 0.98 } else { 3.0 }],
        };
        let rounds = |index| (0..31).map(|round| costs(round, index)).collect::<Vec<_>>();
        assert!(median(&rounds(1).iter().map(|costs| costs[1]).collect::<Vec<_>>()) < 1.0);
        assert!(!is_faster(&rounds(0), &rounds(1)));
    }

    #[test]
    fn a_candidate_that_is_slower_in_one_way_of_calling_does_not_win() {
        assert_eq!(noisy(&[&[1.0, 1.0], &[0.5, 1.02]], 0.0, 1).winner, None);
        assert_eq!(noisy(&[&[1.0, 1.0], &[0.5, 0.99]], 0.0, 1).winner, Some(1));
    }

    #[test]
    fn a_gain_below_one_percent_is_not_worth_an_entry() {
        assert_eq!(noisy(&[&[1.0], &[0.995]], 0.0, 1).winner, None);
    }

    #[test]
    fn counted_costs_are_taken_once() {
        let mut calls = 0;
        let costs = [100.0, 90.0, 120.0];
        let sample = |index: usize| {
            calls += 1;
            Ok(vec![costs[index]])
        };
        let outcome = search(3, true, &SearchEffort::default(), sample, |_| ()).unwrap();
        assert_eq!((outcome.winner, calls), (Some(1), 3));
        // Less than the model of DMAs and spills may be wrong by.
        let close = search(2, true, &SearchEffort::default(), |index| Ok(vec![[100.0, 98.0][index]]), |_| ());
        assert_eq!(close.unwrap().winner, None);
        let alone = search(1, true, &SearchEffort::default(), |_| Ok(vec![5.0]), |_| ()).unwrap();
        assert_eq!((alone.winner, alone.default_rounds), (None, vec![vec![5.0]]));
    }
}

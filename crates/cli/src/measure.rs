//! Timing contenders side by side.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{backend::Contender, stats::Statistics};

/// How often to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Timed runs of each contender.
    pub iterations: u32,
    /// Untimed runs before them.
    pub warmup: u32,
    /// Stop after this time, once every contender has [`Effort::FEWEST`] timed runs.
    pub budget: Option<Duration>,
}

impl Effort {
    /// Fewest timed runs that a budget leaves.
    pub const FEWEST: u32 = 3;

    /// 10 runs after 2 to warm up.
    pub const QUICK: Self = Self { iterations: 10, warmup: 2, budget: None };
}

/// Times the contenders in turns, so that a disturbance of the machine hits all of them alike. Every round starts
/// with another contender, because the first of a round finds the caches as the last one left them.
pub fn interleaved(
    contenders: &mut [Box<dyn Contender + '_>],
    effort: Effort,
    mut after_round: impl FnMut(),
) -> Result<Vec<Statistics>> {
    for _ in 0..effort.warmup {
        for contender in contenders.iter_mut() {
            contender.run()?;
        }
    }
    let mut samples = vec![Vec::new(); contenders.len()];
    let start = Instant::now();
    for round in 0..effort.iterations {
        if round >= Effort::FEWEST && effort.budget.is_some_and(|budget| start.elapsed() > budget) {
            break;
        }
        for turn in 0..contenders.len() {
            let index = (round as usize + turn) % contenders.len();
            samples[index].push(contenders[index].run()?.as_secs_f64() * 1e3);
        }
        after_round();
    }
    Ok(samples.into_iter().map(Statistics::of).collect())
}

//! Interleaved timing of contenders.

use std::time::Duration;

use crate::{Result, backend::Contender, stats::Statistics};

/// Number of runs, and a limit on their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Timed runs of each contender.
    pub iterations: u32,
    /// Untimed runs before them.
    pub warmup: u32,
    /// Time for one shape, divided equally between its contenders. A contender that has used up its share
    /// stops after `fewest` timed runs at the earliest.
    pub budget: Option<Duration>,
    /// Fewest timed runs of each contender, whatever the budget.
    pub fewest: u32,
}

impl Effort {
    /// Default of [`Effort::fewest`].
    pub const FEWEST: u32 = 3;

    /// 10 timed runs after 2 warm-up runs, without a budget.
    pub const QUICK: Self = Self { iterations: 10, warmup: 2, budget: None, fewest: Self::FEWEST };

    /// Default time for one shape.
    pub const BUDGET: Duration = Duration::from_secs(10);
}

/// Times the contenders in turns, so that a disturbance of the machine affects all of them alike. Each round
/// starts with the next contender, because the first one finds the caches as the last one left them.
pub fn interleaved(
    contenders: &mut [Box<dyn Contender + '_>],
    effort: Effort,
    mut after_round: impl FnMut(),
) -> Result<Vec<Statistics>> {
    let share = effort.budget.map_or(Duration::MAX, |budget| budget / contenders.len().max(1) as u32);
    for contender in contenders.iter_mut() {
        warm_up(contender.as_mut(), effort.warmup, share)?;
    }
    let mut samples = vec![Vec::new(); contenders.len()];
    let mut spent = vec![Duration::ZERO; contenders.len()];
    for round in 0..effort.iterations {
        let may_stop = round >= effort.fewest;
        if may_stop && spent.iter().all(|&spent| spent >= share) {
            break;
        }
        for turn in 0..contenders.len() {
            let index = (round as usize + turn) % contenders.len();
            if may_stop && spent[index] >= share {
                continue;
            }
            let time = contenders[index].run()?;
            spent[index] += time;
            samples[index].push(time.as_secs_f64() * 1e3);
        }
        after_round();
    }
    Ok(samples.into_iter().map(Statistics::of).collect())
}

/// Warms up for at most a tenth of the contender's share, but with one run at least.
fn warm_up(contender: &mut dyn Contender, runs: u32, share: Duration) -> Result<()> {
    let mut spent = Duration::ZERO;
    for run in 0..runs {
        if run > 0 && spent >= share / 10 {
            break;
        }
        spent += contender.run()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use octile_core::FloatKind;

    use super::*;
    use crate::backend::OutputBuffer;

    struct Fixed(Duration, u32, OutputBuffer);

    impl Contender for Fixed {
        fn run(&mut self) -> Result<Duration> {
            self.1 += 1;
            Ok(self.0)
        }

        fn output(&mut self) -> &mut OutputBuffer {
            &mut self.2
        }
    }

    #[test]
    fn a_slow_contender_stops_and_the_others_go_on() {
        let fixed = |ms| -> Box<dyn Contender> {
            Box::new(Fixed(Duration::from_millis(ms), 0, OutputBuffer::poisoned(FloatKind::F32, 1)))
        };
        let mut contenders = [fixed(1000), fixed(100), fixed(1)];
        let effort = Effort { iterations: 50, warmup: 3, budget: Some(Duration::from_secs(3)), fewest: 3 };
        let runs = |stats: Vec<Statistics>| stats.iter().map(|s| s.samples_ms.len()).collect::<Vec<_>>();
        assert_eq!(runs(interleaved(&mut contenders, effort, || ()).unwrap()), [3, 10, 50]);
        let unlimited = Effort { budget: None, ..effort };
        assert_eq!(runs(interleaved(&mut contenders, unlimited, || ()).unwrap()), [50; 3]);
    }
}

//! Problems drawn from the layers of real models, so that kernels are not tuned to the test.
//!
//! [`Sample::Fit`] is for fitting models of time and for looking at; [`Sample::Judge`] is for judging only,
//! and shares no problem with it. Whoever has looked at results of `Judge` draws a [`Sample::Fresh`] to judge
//! by. All are drawn once and for all from a seed: layers of published configurations under tensor
//! parallelism, with M on a log scale, and a few with ragged sides.

mod config;
mod models;

use std::{fmt, str::FromStr};

use octile_core::{Problem, QuantBlock, sample::Rng};

use crate::case::Case;
use models::{Layer, MODELS};

pub use config::{ACTIVE_EXPERTS, ConfigError, ConfiguredLayer, EXPERTS, ModelConfig, Routing};

/// Most rows of x.
const MOST_ROWS: f64 = 16384.0;
/// One problem in so many has ragged N and K.
const RAGGED: u64 = 10;
/// The quantization block of published fp8 checkpoints.
const BLOCK: QuantBlock = QuantBlock::B128;

/// A fixed sample of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// 200 problems to fit models of time to.
    Fit,
    /// 100 other problems, to judge the result by.
    Judge,
    /// 100 problems for each number, which neither of the others has.
    Fresh(u32),
}

/// Text that names no sample.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown sample '{0}': expected fit, judge, or a number, which draws a fresh one")]
pub struct UnknownSample(String);

impl FromStr for Sample {
    type Err = UnknownSample;

    fn from_str(text: &str) -> Result<Self, UnknownSample> {
        match text {
            "fit" => Ok(Self::Fit),
            "judge" => Ok(Self::Judge),
            _ => text.parse().map(Self::Fresh).map_err(|_| UnknownSample(text.to_owned())),
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fit => f.pad("fit"),
            Self::Judge => f.pad("judge"),
            Self::Fresh(number) => f.pad(&number.to_string()),
        }
    }
}

impl Sample {
    /// Number of problems.
    pub const fn size(self) -> usize {
        match self {
            Self::Fit => 200,
            Self::Judge | Self::Fresh(_) => 100,
        }
    }

    /// The problems, by rising M.
    pub fn cases(self) -> Vec<Case> {
        let fit = draw(Self::Fit.size(), 1, &[]);
        if self == Self::Fit {
            return fit;
        }
        let judge = draw(Self::Judge.size(), 2, &fit);
        match self {
            Self::Fresh(number) => draw(self.size(), 3 + u64::from(number), &[fit, judge].concat()),
            _ => judge,
        }
    }
}

/// Distinct problems for a seed, none of them in `others`.
fn draw(count: usize, stream: u64, others: &[Case]) -> Vec<Case> {
    let mut rng = Rng::new(22, stream);
    let mut cases: Vec<Case> = Vec::with_capacity(count);
    while cases.len() < count {
        // One M from each part of the log scale, so that no band is left out by chance.
        let m = rows(&mut rng, cases.len(), count);
        let case = case(&mut rng, m);
        let known = |other: &Case| other.problem == case.problem;
        if !others.iter().any(known) && !cases.iter().any(known) {
            cases.push(case);
        }
    }
    cases
}

/// A number of rows from one of `parts` equal parts of the log scale. Every other one is rounded to what
/// schedulers like: a power of two, or three quarters of one.
fn rows(rng: &mut Rng, part: usize, parts: usize) -> usize {
    let at = (part as f64 + fraction(rng)) / parts as f64;
    let rows = MOST_ROWS.powf(at);
    let rounded = [1.0, 0.75].map(|factor| 2f64.powf((rows / factor).log2().round()) * factor);
    let nearest = rounded.into_iter().min_by(|a, b| (a - rows).abs().total_cmp(&(b - rows).abs()));
    let is_round = rng.next_u64().is_multiple_of(2);
    let rows = if is_round { nearest.unwrap_or(rows) } else { rows };
    (rows.round() as usize).clamp(1, MOST_ROWS as usize)
}

/// A layer of some model with `m` rows of x.
fn case(rng: &mut Rng, m: usize) -> Case {
    let model = pick(rng, MODELS);
    let degree = *pick(rng, &[1, 2, 4, 8]);
    let layers = model.layers(degree);
    let Layer { name, mut n, mut k } = *pick(rng, &layers);
    let mut label = format!("{} {name}", model.name);
    if degree > 1 {
        label += &format!(", TP {degree}");
    }
    if rng.next_u64().is_multiple_of(RAGGED) {
        // Vocabularies, pruned and sharded layers: no multiple of anything.
        n = ragged(rng, n);
        k = ragged(rng, k);
        label += ", ragged";
    }
    let problem = Problem::new(m, n, k, BLOCK).expect("layers of models can be addressed");
    Case { label, problem }
}

/// A length of three quarters to all of `len`.
fn ragged(rng: &mut Rng, len: usize) -> usize {
    len - (fraction(rng) * len as f64 / 4.0) as usize
}

/// A number from 0 up to, but not including, 1.
fn fraction(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[(rng.next_u64() % from.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn shapes(sample: Sample) -> HashSet<String> {
        sample.cases().iter().map(|case| case.problem.to_string()).collect()
    }

    #[test]
    fn samples_have_their_size_and_nothing_in_common() {
        let (fit, judge) = (shapes(Sample::Fit), shapes(Sample::Judge));
        assert_eq!((fit.len(), judge.len()), (200, 100));
        assert!(fit.is_disjoint(&judge));
        let fresh = [0, 1, u32::MAX].map(|number| shapes(Sample::Fresh(number)));
        for sample in &fresh {
            assert_eq!(sample.len(), 100);
            assert!(sample.is_disjoint(&fit) && sample.is_disjoint(&judge));
        }
        assert_ne!(fresh[0], fresh[1]);
    }

    #[test]
    fn samples_have_names() {
        for (name, sample) in [("fit", Sample::Fit), ("judge", Sample::Judge), ("7", Sample::Fresh(7))] {
            assert_eq!(name.parse(), Ok(sample));
            assert_eq!(sample.to_string(), name);
        }
        for name in ["", "all", "-1", "1.5", "4294967296"] {
            assert_eq!(name.parse::<Sample>(), Err(UnknownSample(name.to_owned())));
        }
    }

    /// A sample that changes would make old records incomparable.
    #[test]
    fn samples_never_change() {
        let first = |sample: Sample| {
            let cases = sample.cases();
            [0, 50, 99].map(|at| format!("{} {}", cases[at].problem, cases[at].label))
        };
        assert_eq!(first(Sample::Fit), FIT);
        assert_eq!(first(Sample::Judge), JUDGE);
    }

    const FIT: [&str; 3] = [
        "1x1536x5120:128 GLM-4.5 expert gate",
        "12x5120x2176:128 Qwen3-14B down, TP 8",
        "128x2048x2048:128 Llama-3.2-1B gate-up, TP 8",
    ];
    const JUDGE: [&str; 3] = [
        "1x1024x2048:128 Llama-3.2-1B gate, TP 8",
        "140x1024x1024:128 Qwen3-0.6B qkv, TP 4",
        "16384x6848x4096:128 GLM-4-9B gate-up, TP 4",
    ];

    /// Kernels were tuned on these.
    #[test]
    fn no_judged_shape_is_an_old_benchmark() {
        let judge = shapes(Sample::Judge);
        for shape in include_str!("../../../bench/peers/gpu/shapes.txt").split_whitespace() {
            assert!(!judge.contains(&format!("{shape}:128")), "{shape}");
        }
    }

    #[test]
    fn every_band_of_rows_and_many_models_are_there() {
        for sample in [Sample::Fit, Sample::Judge] {
            let cases = sample.cases();
            for octave in 0..14 {
                let band = (1 << octave)..=(2 << octave);
                assert!(cases.iter().any(|case| band.contains(&case.problem.m)), "{sample} {octave}");
            }
            for model in MODELS {
                assert!(
                    cases.iter().any(|case| case.label.starts_with(model.name)),
                    "{sample} {}",
                    model.name
                );
            }
            let ragged = cases.iter().filter(|case| case.label.ends_with("ragged")).count();
            assert!(ragged * 25 >= cases.len() && ragged * 5 <= cases.len(), "{sample} {ragged}");
        }
    }
}

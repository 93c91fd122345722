//! Statistics of timings.

use serde::Serialize;

/// Statistics of a set of times, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Every time, in the order of the runs.
    pub samples_ms: Vec<f64>,
    /// Mean.
    pub mean_ms: f64,
    /// Minimum.
    pub min_ms: f64,
    /// Maximum.
    pub max_ms: f64,
    /// Sample standard deviation (n - 1); 0 for a single time.
    pub std_ms: f64,
    /// Median.
    pub median_ms: f64,
}

impl Statistics {
    /// Statistics of these times.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(samples_ms: Vec<f64>) -> Self {
        assert!(!samples_ms.is_empty());
        let count = samples_ms.len() as f64;
        let mean_ms = samples_ms.iter().sum::<f64>() / count;
        let squares: f64 = samples_ms.iter().map(|s| (s - mean_ms).powi(2)).sum();
        let sorted = sorted(&samples_ms);
        Self {
            mean_ms,
            min_ms: sorted[0],
            max_ms: sorted[sorted.len() - 1],
            std_ms: (squares / (count - 1.0).max(1.0)).sqrt(),
            median_ms: median_of_sorted(&sorted),
            samples_ms,
        }
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// A value with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Fewest samples for which [`median_interval`] exists.
pub const FEWEST_FOR_INTERVAL: usize = 7;

/// Two medians at this level give a ratio at 95 %.
const MEDIAN_CONFIDENCE: f64 = 0.975;

/// The median with its 97.5 % confidence interval from order statistics, which assumes nothing about the
/// distribution. `None` with fewer than [`FEWEST_FOR_INTERVAL`] samples.
pub fn median_interval(samples: &[f64]) -> Option<Estimate> {
    if samples.len() < FEWEST_FOR_INTERVAL {
        return None;
    }
    let sorted = sorted(samples);
    // The median lies outside of ranks r + 1 .. n - r with the probability of at most r heads, or tails, in n
    // tosses.
    let tail = (1.0 - MEDIAN_CONFIDENCE) / 2.0;
    let count = sorted.len() as f64;
    let mut log_term = -count * std::f64::consts::LN_2;
    let mut outside = log_term.exp();
    let mut rank = 0;
    loop {
        log_term += ((count - rank as f64) / (rank + 1) as f64).ln();
        outside += log_term.exp();
        if outside > tail || rank + 1 >= sorted.len() / 2 {
            break;
        }
        rank += 1;
    }
    let high = sorted[sorted.len() - 1 - rank];
    Some(Estimate { value: median_of_sorted(&sorted), low: sorted[rank], high })
}

/// Ratio of two medians, `after / before`, with its 95 % confidence interval.
pub fn median_ratio(before: &[f64], after: &[f64]) -> Option<Estimate> {
    let (before, after) = (median_interval(before)?, median_interval(after)?);
    Some(Estimate {
        value: after.value / before.value,
        low: after.low / before.high,
        high: after.high / before.low,
    })
}

/// Geometric mean of independent ratios with its confidence interval; `None` when there are none.
pub fn mean_ratio(ratios: &[Estimate]) -> Option<Estimate> {
    let count = ratios.len() as f64;
    let value = geometric_mean(ratios.iter().map(|ratio| ratio.value));
    // Independent deviations add up like the sides of a right-angled triangle.
    let spread = |side: fn(&Estimate) -> f64| {
        let squares: f64 = ratios.iter().map(|ratio| (side(ratio) / ratio.value).ln().powi(2)).sum();
        (squares.sqrt() / count).exp()
    };
    (!ratios.is_empty()).then(|| Estimate {
        value,
        low: value / spread(|ratio| ratio.low),
        high: value * spread(|ratio| ratio.high),
    })
}

/// Geometric mean.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.into_iter().fold((0.0, 0.0), |(sum, count), r| (sum + r.ln(), count + 1.0));
    (sum / count).exp()
}

/// Half-width of the approximate 95 % confidence interval of the mean over several sets of values. `None`
/// where a set has fewer than three values, too few to estimate their variance.
pub fn uncertainty(sets: &[Vec<f64>]) -> Option<f64> {
    let squares = |values: &Vec<f64>| {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Student's t: 4.3 for three values, 2 for many.
        let t = 2.0 + 4.6 / (count - 1.0);
        (values.len() >= 3).then_some(t * t * variance / count)
    };
    let sum = sets.iter().map(squares).sum::<Option<f64>>()?;
    (!sets.is_empty()).then(|| sum.sqrt() / sets.len() as f64)
}

#[cfg(test)]
mod tests {
    use octile_core::sample::Rng;

    use super::*;

    #[test]
    fn figures_of_a_known_sample() {
        let stats = Statistics::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((stats.mean_ms, stats.min_ms, stats.max_ms, stats.median_ms), (2.5, 1.0, 4.0, 2.5));
        assert!((stats.std_ms - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Statistics::of(vec![7.0]).std_ms, 0.0);
        assert!((geometric_mean([2.0, 8.0]) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn fewer_values_are_less_certain() {
        let half = |sets: &[Vec<f64>]| uncertainty(sets).unwrap();
        let alternating = |count: usize| (0..count).map(|i| (i % 2) as f64).collect::<Vec<_>>();
        assert_eq!(uncertainty(&[alternating(2)]), None);
        assert_eq!(uncertainty(&[]), None);
        assert!(half(&[alternating(4)]) > 3.0 * half(&[alternating(20)]));
        assert!(half(&[alternating(20), alternating(20)]) < half(&[alternating(20)]));
        // Student's t for 10 values is 2.26.
        let scatter = (10.0f64 / 4.0 / 9.0 / 10.0).sqrt();
        assert!((half(&[alternating(10)]) / scatter - 2.26).abs() < 0.3);
    }

    #[test]
    fn ranks_of_the_median_interval() {
        let interval = |count: usize| {
            let samples: Vec<_> = (1..=count).map(|i| i as f64).collect();
            median_interval(&samples).map(|estimate| (estimate.low, estimate.high))
        };
        // Twice the binomial tail is 0.03 for six samples, 0.016 for seven and 0.021 for the second of ten.
        assert_eq!([6, 7, 10].map(interval), [None, Some((1.0, 7.0)), Some((2.0, 9.0))]);
        // By the normal approximation 50 -+ 2.24 * 5.
        let (low, high) = interval(100).unwrap();
        assert!((38.0..=40.0).contains(&low) && (61.0..=63.0).contains(&high), "{low} {high}");
        assert!(interval(100_000).is_some());
    }

    #[test]
    fn the_interval_covers_the_true_ratio() {
        let mut rng = Rng::new(1, 0);
        let mut draw = |scale: f64| -> Vec<f64> {
            let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            (0..20).map(|_| scale * (1.0 + uniform().powi(4))).collect()
        };
        let covered = (0..1000).filter(|_| {
            let ratio = median_ratio(&draw(1.0), &draw(1.2)).unwrap();
            ratio.low <= 1.2 && 1.2 <= ratio.high
        });
        assert!(covered.count() >= 950);
        assert_eq!(mean_ratio(&[]), None);
        let one = Estimate { value: 1.2, low: 1.1, high: 1.3 };
        let [alone, both] = [&[one][..], &[one, one]].map(|ratios| mean_ratio(ratios).unwrap());
        assert!((alone.low - 1.1).abs() < 1e-12 && (alone.high - 1.3).abs() < 1e-12, "{alone:?}");
        assert!((both.value - 1.2).abs() < 1e-12 && both.low > 1.12 && both.high < 1.28, "{both:?}");
    }
}

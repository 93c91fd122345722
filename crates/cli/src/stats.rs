//! From samples to figures.

use serde::Serialize;

/// Figures of a set of times, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Every time, in the order in which they were taken.
    pub samples_ms: Vec<f64>,
    /// Mean.
    pub mean_ms: f64,
    /// Least.
    pub min_ms: f64,
    /// Greatest.
    pub max_ms: f64,
    /// Standard deviation of the sample (n - 1); 0 for a single time.
    pub std_ms: f64,
    /// Median.
    pub median_ms: f64,
}

impl Statistics {
    /// The figures of these times.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(samples_ms: Vec<f64>) -> Self {
        assert!(!samples_ms.is_empty());
        let count = samples_ms.len() as f64;
        let mean_ms = samples_ms.iter().sum::<f64>() / count;
        let squares: f64 = samples_ms.iter().map(|s| (s - mean_ms).powi(2)).sum();
        let mut sorted = samples_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let (below, above) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self {
            mean_ms,
            min_ms: sorted[0],
            max_ms: sorted[sorted.len() - 1],
            std_ms: (squares / (count - 1.0).max(1.0)).sqrt(),
            median_ms: (below + above) / 2.0,
            samples_ms,
        }
    }
}

/// The mean of ratios: their product's root.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.into_iter().fold((0.0, 0.0), |(sum, count), r| (sum + r.ln(), count + 1.0));
    (sum / count).exp()
}

/// How far a mean over several sets of values may be off: about the half-width of its 95 % confidence interval. `None`
/// where a set has fewer than three values, which say nothing about their scatter.
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
    fn few_values_leave_more_open() {
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
}

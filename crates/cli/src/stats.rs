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
}

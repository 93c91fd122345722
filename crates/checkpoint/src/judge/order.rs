//! Whether scales belong to their blocks, judged without the original.
//!
//! A scale is the largest magnitude of its block, divided by 448, while the root mean square hardly varies
//! from block to block. So where the largest magnitude happens to be high, the scale is high and the codes
//! are small: scales and codes are anticorrelated, but only if each scale is at its block. Magnitudes of
//! whole rows and columns are removed first, because they would correlate a matrix with its transpose.

/// What the order of the scales shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleOrder {
    /// The scales are multipliers of the blocks at which they are.
    Confirmed,
    /// The scales belong to the transposed grid.
    Transposed,
    /// The codes do not tell: too few blocks, or too uniform.
    NotObservable,
    /// There is one order only: a row, a column or a single scale.
    NotApplicable,
}

/// Standard errors that a correlation must exceed to count.
const SIGNIFICANT: f64 = 6.0;

/// Fewest independent blocks that can reach significance.
const FEWEST: usize = 40;

/// Judges a stack of matrices with `rows x cols` scales each. `rms` is that of the codes, 0 for unknown.
pub(super) fn judge(scales: &[f32], rms: &[f32], [rows, cols]: [usize; 2]) -> ScaleOrder {
    if rows < 2 || cols < 2 {
        return ScaleOrder::NotApplicable;
    }
    let matrices = || scales.chunks_exact(rows * cols).zip(rms.chunks_exact(rows * cols));
    let (mut codes, mut aligned, mut turned) = (Vec::new(), Vec::new(), Vec::new());
    for (scales, rms) in matrices() {
        let log = |value: f32| if value > 0.0 && value.is_finite() { value.ln() } else { f32::NAN };
        let straight: Vec<f32> = scales.iter().map(|scale| log(*scale)).collect();
        let transposed: Vec<f32> =
            (0..rows * cols).map(|at| straight[at % cols * rows + at / cols]).collect();
        let sizes: Vec<f32> = rms.iter().map(|rms| log(*rms)).collect();
        let [sizes, straight, transposed] =
            [sizes, straight, transposed].map(|values| residuals(values, cols));
        for at in 0..rows * cols {
            if [sizes[at], straight[at], transposed[at]].iter().all(|value| value.is_finite()) {
                codes.push(sizes[at]);
                aligned.push(straight[at]);
                turned.push(transposed[at]);
            }
        }
    }
    let batch = scales.len() / (rows * cols);
    let independent = codes.len().min(batch * (rows - 1) * (cols - 1));
    if independent < FEWEST {
        return ScaleOrder::NotObservable;
    }
    let codes = ranks(&codes);
    let (Some(aligned), Some(turned)) =
        (correlation(&codes, &ranks(&aligned)), correlation(&codes, &ranks(&turned)))
    else {
        return ScaleOrder::NotObservable;
    };
    let error = 1.0 / (independent as f64).sqrt();
    if aligned < -SIGNIFICANT * error {
        ScaleOrder::Confirmed
    // Scales that resemble their transpose correlate in both orders.
    } else if turned < -SIGNIFICANT * error && aligned > turned / 2.0 {
        ScaleOrder::Transposed
    } else {
        ScaleOrder::NotObservable
    }
}

/// Subtracts the means of rows and columns; unknown values stay NaN.
fn residuals(mut values: Vec<f32>, cols: usize) -> Vec<f32> {
    // Unknown values make the means inexact, which a second pass mostly repairs.
    for _ in 0..2 {
        for row in values.chunks_exact_mut(cols) {
            let mean = mean(row.iter().copied());
            row.iter_mut().for_each(|value| *value -= mean);
        }
        for col in 0..cols {
            let mean = mean(values.iter().skip(col).step_by(cols).copied());
            values.iter_mut().skip(col).step_by(cols).for_each(|value| *value -= mean);
        }
    }
    values
}

fn mean(values: impl Iterator<Item = f32>) -> f32 {
    let known = values.filter(|value| value.is_finite());
    let (sum, count) = known.fold((0.0, 0), |(sum, count), value| (sum + f64::from(value), count + 1));
    if count == 0 { 0.0 } else { (sum / f64::from(count)) as f32 }
}

/// Replaces values by their ranks, so that a few outliers cannot make a correlation. Equal values share one.
fn ranks(values: &[f32]) -> Vec<f64> {
    // Differences within rounding are no differences.
    let rounded = |at: &usize| (values[*at] * 1e5).round() as i64;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by_key(rounded);
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let same = order[start..].iter().take_while(|at| rounded(at) == rounded(&order[start])).count();
        let rank = start as f64 + (same - 1) as f64 / 2.0;
        order[start..start + same].iter().for_each(|at| ranks[*at] = rank);
        start += same;
    }
    ranks
}

/// Pearson's correlation; `None` if one side is constant.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let count = a.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut cov, mut var_a, mut var_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a - mean_a, b - mean_b);
        cov += a * b;
        var_a += a * a;
        var_b += b * b;
    }
    let scale = (var_a * var_b).sqrt();
    (scale > 0.0).then(|| cov / scale)
}

#[cfg(test)]
mod tests {
    use octile_core::sample::Rng;

    use super::*;

    /// Largest magnitude and root mean square of normal blocks, whose rows and columns have magnitudes of
    /// their own.
    fn blocks(rows: usize, cols: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
        let mut rng = Rng::new(seed, 7);
        let of_row: Vec<f32> = (0..rows).map(|_| (0.5 * rng.bell()).exp()).collect();
        let of_col: Vec<f32> = (0..cols).map(|_| (0.5 * rng.bell()).exp()).collect();
        let (mut scales, mut rms) = (Vec::new(), Vec::new());
        for at in 0..rows * cols {
            let size = of_row[at / cols] * of_col[at % cols] * (0.02 * rng.bell()).exp();
            let peak = size * 4.0 * (0.07 * rng.bell()).exp();
            scales.push(peak / 448.0);
            rms.push(size * 448.0 / peak);
        }
        (scales, rms)
    }

    fn transposed(values: &[f32], rows: usize, cols: usize) -> Vec<f32> {
        (0..rows * cols).map(|at| values[at % rows * cols + at / rows]).collect()
    }

    #[test]
    fn the_order_shows_in_the_codes() {
        for (rows, cols) in [(16, 16), (32, 32), (8, 24), (40, 10)] {
            for seed in 0..20 {
                let (scales, rms) = blocks(rows, cols, seed);
                assert_eq!(judge(&scales, &rms, [rows, cols]), ScaleOrder::Confirmed, "{rows} {cols} {seed}");
                let turned = transposed(&scales, rows, cols);
                assert_eq!(
                    judge(&turned, &rms, [rows, cols]),
                    ScaleOrder::Transposed,
                    "{rows} {cols} {seed}"
                );
                let reciprocals: Vec<f32> = scales.iter().map(|scale| 1.0 / scale).collect();
                assert_eq!(judge(&reciprocals, &rms, [rows, cols]), ScaleOrder::NotObservable);
            }
        }
    }

    #[test]
    fn what_does_not_show_is_not_claimed() {
        let (scales, rms) = blocks(4, 4, 1);
        assert_eq!(judge(&scales, &rms, [4, 4]), ScaleOrder::NotObservable, "few blocks");
        assert_eq!(judge(&scales, &rms, [16, 1]), ScaleOrder::NotApplicable, "one column");
        let (_, rms) = blocks(16, 16, 1);
        assert_eq!(judge(&[0.5; 256], &rms, [16, 16]), ScaleOrder::NotObservable, "equal scales");
        for seed in 0..50 {
            let (scales, _) = blocks(16, 16, seed);
            let (_, unrelated) = blocks(16, 16, 1000 + seed);
            assert_eq!(judge(&scales, &unrelated, [16, 16]), ScaleOrder::NotObservable, "{seed}");
        }
    }
}

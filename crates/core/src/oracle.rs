//! The f64 reference: the product of the operands after quantization.
//!
//! Products of two f8e4m3fn values are multiples of 2^-18 below 2^18, so a whole block of them adds up
//! exactly in f64; only the scaling and the sum over blocks round, far below anything an f32 kernel could
//! show.

use half::bf16;
use rayon::prelude::*;

use crate::{
    E4m3, FloatKind, QuantizedActivation, QuantizedWeight,
    bound::{Accumulator, BlockRow, ErrorBound},
    quantize::flush_subnormal,
};

/// Activations after quantization.
#[derive(Debug, Clone)]
pub enum OracleInput {
    /// 8-bit codes with scales.
    Fp8(QuantizedActivation),
    /// Unquantized values in row-major order, widened to f32, which is exact. Subnormals count as zero.
    Plain(Vec<f32>),
}

/// The reference result with an error bound per element.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// `rows * cols` values.
    pub values: Vec<f64>,
    /// Error bound of each value.
    pub bounds: Vec<f64>,
}

/// Rows of x that one task multiplies, and the columns and rows of its register tile.
const TASK_ROWS: usize = 64;
const TILE_ROWS: usize = 4;
const TILE_COLS: usize = 4;

/// Multiplies `rows x k` activations with a weight.
///
/// # Panics
/// When the activations do not have `rows` rows of the weight's K columns, or another block size: the caller
/// made both from one [`crate::Problem`].
pub fn multiply(
    x: &OracleInput,
    rows: usize,
    weight: &QuantizedWeight,
    accumulator: Accumulator,
    out: FloatKind,
) -> Reference {
    let (cols, k, qb) = (weight.rows(), weight.cols(), weight.quant_block().size());
    match x {
        OracleInput::Fp8(x) => {
            assert_eq!((x.rows(), x.cols(), x.quant_block()), (rows, k, weight.quant_block()));
        }
        OracleInput::Plain(x) => assert_eq!(x.len(), rows * k),
    }
    let mut values = vec![0.0; rows * cols];
    let mut bound = ErrorBound::new(rows, cols, accumulator);
    let mut w_panel = Vec::new();
    for (kb, start) in (0..k).step_by(qb).enumerate() {
        let len = qb.min(k - start);
        let w_norms = pack_weight_block(weight, start, len, &mut w_panel);
        let w_scales: Vec<f64> = (0..cols).map(|n| f64::from(weight.scale_row(n / qb)[kb])).collect();
        let task = |(task, values): (usize, &mut [f64])| -> Vec<BlockRow> {
            let first = task * TASK_ROWS;
            let task_rows = values.len() / cols;
            let (x_panel, x_scales) = activation_block(x, first, task_rows, k, kb, start, len);
            multiply_block(&x_panel, &w_panel, len, cols, |row, col, sum| {
                values[row * cols + col] += x_scales[row] * w_scales[col] * sum;
            });
            let row = |row| BlockRow { norm: norm(&x_panel[row * len..][..len]), scale: x_scales[row] };
            (0..task_rows).map(row).collect()
        };
        let x_rows: Vec<BlockRow> =
            values.par_chunks_mut(TASK_ROWS * cols).enumerate().flat_map_iter(task).collect();
        let w_rows = w_norms.iter().zip(&w_scales).map(|(&norm, &scale)| BlockRow { norm, scale });
        bound.add_block(len, &x_rows, &w_rows.collect::<Vec<_>>());
    }
    let bounds = bound.finish(&values, out);
    Reference { rows, cols, values, bounds }
}

/// Widens columns `start..start + len` of the weight into `[tile of columns][k][column]`, and returns the
/// norm of every row.
fn pack_weight_block(weight: &QuantizedWeight, start: usize, len: usize, panel: &mut Vec<f64>) -> Vec<f64> {
    let (n, k) = (weight.rows(), weight.cols());
    panel.clear();
    panel.resize(n.div_ceil(TILE_COLS) * TILE_COLS * len, 0.0);
    let mut norms = Vec::with_capacity(n);
    for (row, codes) in weight.codes().chunks(k).enumerate() {
        let tile = &mut panel[row / TILE_COLS * TILE_COLS * len..][..TILE_COLS * len];
        let mut squares = 0.0;
        for (step, &code) in tile.chunks_mut(TILE_COLS).zip(&codes[start..start + len]) {
            let value = f64::from(E4m3::from_bits(code).to_f32());
            step[row % TILE_COLS] = value;
            squares += value * value;
        }
        norms.push(squares.sqrt());
    }
    norms
}

/// The widened activations of some rows and one k-block, and the scale of each row there.
fn activation_block(
    x: &OracleInput,
    first: usize,
    rows: usize,
    k: usize,
    kb: usize,
    start: usize,
    len: usize,
) -> (Vec<f64>, Vec<f64>) {
    let mut panel = Vec::with_capacity(rows * len);
    let mut scales = Vec::with_capacity(rows);
    for row in first..first + rows {
        let columns = row * k + start..row * k + start + len;
        match x {
            OracleInput::Fp8(x) => {
                panel.extend(x.codes()[columns].iter().map(|&c| f64::from(E4m3::from_bits(c).to_f32())));
                scales.push(f64::from(x.scales_of_row(row)[kb]));
            }
            OracleInput::Plain(x) => {
                panel.extend(x[columns].iter().map(|&v| f64::from(flush_subnormal(v))));
                scales.push(1.0);
            }
        }
    }
    (panel, scales)
}

/// Calls `emit(row, column, sum)` for every element of the product of the two panels.
fn multiply_block(
    x_panel: &[f64],
    w_panel: &[f64],
    len: usize,
    cols: usize,
    mut emit: impl FnMut(usize, usize, f64),
) {
    // The weight tile stays in L1 for all rows.
    for (col_tile, w) in w_panel.chunks(TILE_COLS * len).enumerate() {
        for (row_tile, x_rows) in x_panel.chunks(TILE_ROWS * len).enumerate() {
            let rows = x_rows.len() / len;
            // A partial last tile repeats its last row, which is cheaper than a second loop.
            let x: [&[f64]; TILE_ROWS] = std::array::from_fn(|row| &x_rows[row.min(rows - 1) * len..][..len]);
            let sums = multiply_tile(x, w);
            for (row, sums) in sums.iter().enumerate().take(rows) {
                for (col, &sum) in sums.iter().enumerate().take(cols - col_tile * TILE_COLS) {
                    emit(row_tile * TILE_ROWS + row, col_tile * TILE_COLS + col, sum);
                }
            }
        }
    }
}

fn multiply_tile(x: [&[f64]; TILE_ROWS], w: &[f64]) -> [[f64; TILE_COLS]; TILE_ROWS] {
    let mut sums = [[0.0; TILE_COLS]; TILE_ROWS];
    for (at, w) in w.chunks_exact(TILE_COLS).enumerate() {
        for (sums, x) in sums.iter_mut().zip(x) {
            for (sum, w) in sums.iter_mut().zip(w) {
                *sum += x[at] * w;
            }
        }
    }
    sums
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Comparison of a result with the reference.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// Largest error relative to the element, or to the magnitude of such an element if that is larger: a sum
    /// that cancels has no relative precision.
    pub max_relative: f64,
    /// Mean relative error.
    pub mean_relative: f64,
    /// Largest error as a fraction of its bound: above 1 the kernel is wrong.
    pub worst_of_bound: f64,
    /// Row and column of the element with that error.
    pub worst_at: (usize, usize),
}

impl Comparison {
    /// Whether every element is within its bound.
    pub fn passed(&self) -> bool {
        self.worst_of_bound <= 1.0
    }
}

impl Reference {
    /// Compares a row-major `result` with the reference. NaN has infinite error where the reference is
    /// finite.
    ///
    /// # Panics
    /// When `result` has another number of elements.
    pub fn compare<T: Widen>(&self, result: &[T]) -> Comparison {
        assert_eq!(result.len(), self.values.len());
        // Blocks differ in scale, and so do the magnitudes of elements, in proportion to their bounds.
        let magnitudes: f64 = self.values.iter().map(|value| value.abs()).sum();
        let per_bound = magnitudes / self.bounds.iter().sum::<f64>();
        let (mut max_relative, mut sum_relative, mut worst_of_bound, mut worst) = (0.0f64, 0.0, 0.0f64, 0);
        for (at, ((value, bound), result)) in self.values.iter().zip(&self.bounds).zip(result).enumerate() {
            let error = (result.widen() - value).abs();
            let of = |allowed: f64| match error {
                0.0 => 0.0,
                error if error.is_nan() => f64::INFINITY,
                error => error / allowed,
            };
            let relative = of(value.abs().max(per_bound * bound));
            max_relative = max_relative.max(relative);
            sum_relative += relative;
            if of(*bound) > worst_of_bound {
                (worst_of_bound, worst) = (of(*bound), at);
            }
        }
        let mean_relative = sum_relative / self.values.len() as f64;
        let worst_at = (worst / self.cols, worst % self.cols);
        Comparison { max_relative, mean_relative, worst_of_bound, worst_at }
    }
}

/// Element types of results.
pub trait Widen: Copy {
    /// The value as f64, exactly.
    fn widen(self) -> f64;
}

impl Widen for f32 {
    fn widen(self) -> f64 {
        self.into()
    }
}

impl Widen for bf16 {
    fn widen(self) -> f64 {
        self.into()
    }
}

impl Widen for half::f16 {
    fn widen(self) -> f64 {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActivationKind, Problem, QuantBlock, ScaleGranularity, sample::Operands};

    fn reference_of(problem: Problem) -> (Operands, Reference) {
        let operands = Operands::random(problem, 3);
        let input = operands.oracle_input();
        let reference = multiply(&input, problem.m, &operands.weight, Accumulator::F32, problem.out);
        (operands, reference)
    }

    /// The definition, one element at a time, from dequantized operands.
    fn by_definition(operands: &Operands) -> Vec<f64> {
        let Problem { m, n, k, .. } = operands.problem;
        let x = match operands.oracle_input() {
            OracleInput::Fp8(x) => x.dequantize(),
            OracleInput::Plain(x) => x,
        };
        let w = operands.weight.dequantize();
        let dot = |row: usize, col: usize| {
            let products = x[row * k..][..k].iter().zip(&w[col * k..][..k]);
            products.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum()
        };
        (0..m).flat_map(|row| (0..n).map(move |col| (row, col))).map(|(row, col)| dot(row, col)).collect()
    }

    #[test]
    fn agrees_with_the_definition_on_ragged_shapes() {
        for x in [
            ActivationKind::Fp8(ScaleGranularity::Block),
            ActivationKind::Fp8(ScaleGranularity::Token),
            ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token),
            ActivationKind::Plain(FloatKind::F16),
        ] {
            let problem = Problem::new(131, 137, 300, QuantBlock::B128).unwrap().with_x(x);
            let (operands, reference) = reference_of(problem);
            for ((value, bound), expected) in
                reference.values.iter().zip(&reference.bounds).zip(by_definition(&operands))
            {
                // Dequantizing rounds every operand to f32 once, which the bound allows.
                assert!((value - expected).abs() <= *bound, "{value} {expected} {bound} {x:?}");
            }
        }
    }

    #[test]
    fn comparison_finds_the_worst_element_and_poison() {
        let (_, reference) = reference_of(Problem::new(3, 5, 128, QuantBlock::B128).unwrap());
        let mut result: Vec<f32> = reference.values.iter().map(|v| *v as f32).collect();
        assert!(reference.compare(&result).passed());
        result[7] *= 1.01;
        let comparison = reference.compare(&result);
        assert!(!comparison.passed());
        assert_eq!(comparison.worst_at, (1, 2));
        result[7] = f32::NAN;
        assert_eq!(reference.compare(&result).worst_of_bound, f64::INFINITY);
    }

    #[test]
    fn relative_errors_follow_the_scales_of_an_element() {
        // A sum that cancels, of large and of small products, each off by as much of its bound.
        let (values, bounds) = (vec![0.0, 100.0, 0.0, 1.0], vec![2.0, 2.0, 0.02, 0.02]);
        let reference = Reference { rows: 2, cols: 2, values, bounds };
        let relative = |result: [f32; 4]| reference.compare(&result).max_relative;
        let (large, small) = (relative([1.0, 100.0, 0.0, 1.0]), relative([0.0, 100.0, 0.01, 1.0]));
        assert!((large / small - 1.0).abs() < 1e-6, "{large} {small}");
        assert!((large - 0.02).abs() < 1e-3, "{large}");
    }
}

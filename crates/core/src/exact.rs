//! Operands whose product is exact under every accumulator, so that every kernel must match it bit for bit.
//!
//! An error bound must allow for the rounding of long sums, and a k-block of small magnitude can hide in it.
//! With these operands the result has one correct value.
//!
//! - Values are ±2 in x and ±1 in the weight, and ±1 in both in the last column of every k-block. So the dot
//!   product of a block is odd, never zero: dropping a block, or its last column, changes every element of a
//!   tile with f32 results. Results in bf16 or f16 round at the end, so there single elements may hide a
//!   change.
//! - Scales are powers of two. The exponent of a block is the sum of a *level*, which depends on the row of
//!   blocks (or the token), and a *digit*, which depends on the k-block. Levels are multiples of the number
//!   of digits, so that no two blocks of a matrix share a scale. A level scales a whole row of the result and
//!   costs no precision.
//! - Partial sums in any order stay below `EXACT_SUM` units, which f32 holds; within a block they stay
//!   below 2^11, which the tensor cores of a Hopper GPU hold; and each scaled value is exact in bf16.
//!
//! Where there are too few exponents to give every block its own scale, several *draws* do: draw `r` takes
//! its digits and levels from the `r`-th digit of the index.

use rayon::prelude::*;

use crate::{
    ActivationKind, E4m3, FloatKind, Mat, Problem, QuantizedActivation, QuantizedWeight,
    fp8::exp2,
    oracle::Widen,
    sample::{Activations, Operands, Rng},
};

/// Integers below this are exact in f32.
const EXACT_SUM: u64 = 1 << 24;
/// More digits would take exponents away from the levels.
const MAX_DIGITS: usize = 8;
/// With results of 8 or 11 bits, a block further below the largest one would be lost in the last rounding.
const MAX_DIGITS_NARROW: usize = 4;
/// Exponents of activation scales and of weight scales, so that every product of two is a normal f32.
const X_EXPONENTS: usize = 96;
const W_EXPONENTS: usize = 64;
/// Exponents of f16 activations: from the smallest normal number to 448 * 2^7, below the largest.
const X_EXPONENTS_F16: usize = 22;
const SMALLEST_F16: i32 = -14;
/// Levels of either operand where the result must stay within the range of f16.
const LEVELS_F16: usize = 3;
/// Most draws for one problem; beyond it, distant blocks may share a scale.
const MAX_DRAWS: usize = 4;

/// The assignment of exponents for a problem.
#[derive(Debug, Clone, Copy)]
struct Layout {
    digits: usize,
    x_levels: usize,
    w_levels: usize,
    x_base: i32,
    w_base: i32,
    draws: usize,
}

impl Layout {
    /// `None` when K is so long that sums of this kind would round.
    fn new(problem: &Problem) -> Option<Self> {
        // Even without scales; also keeps the loops over blocks short.
        if problem.k as u64 >= EXACT_SUM / 2 {
            return None;
        }
        let (w_rows, k_blocks) = problem.w_scale_shape();
        let x_rows = problem.m.div_ceil(x_group(problem));
        let most = if problem.out == FloatKind::F32 { MAX_DIGITS } else { MAX_DIGITS_NARROW };
        let (digits, largest) = (1..=most.min(k_blocks))
            .rev()
            .filter(|&digits| digits > 1 || k_blocks == 1)
            .map(|digits| (digits, largest_sum(problem, digits)))
            .find(|(_, largest)| *largest < EXACT_SUM)?;
        let f16_in = matches!(
            problem.x,
            ActivationKind::Quantized(FloatKind::F16, _) | ActivationKind::Plain(FloatKind::F16)
        );
        let x_exponents = if f16_in { X_EXPONENTS_F16 } else { X_EXPONENTS };
        let (mut x_levels, mut w_levels) = (x_exponents / digits, W_EXPONENTS / digits);
        if problem.out == FloatKind::F16 {
            (x_levels, w_levels) = (x_levels.min(LEVELS_F16), w_levels.min(LEVELS_F16));
        }
        let span = |levels: usize| (digits * levels) as i32;
        let x_base = if f16_in { SMALLEST_F16 } else { -span(x_levels) / 2 };
        let w_base = if problem.out == FloatKind::F16 {
            // The largest result is below 2^15, and f16 reaches almost to 2^16.
            15 - largest.ilog2() as i32 - 1 - span(x_levels - 1) - span(w_levels - 1) - x_base
        } else {
            -span(w_levels) / 2
        };
        let draws = [(k_blocks, digits), (x_rows, x_levels), (w_rows, w_levels)]
            .map(|(count, radix)| places(count, radix))
            .into_iter()
            .fold(1, usize::max);
        Some(Self { digits, x_levels, w_levels, x_base, w_base, draws: draws.min(MAX_DRAWS) })
    }

    /// Exponents of `groups x k_blocks` scales.
    fn exponents(&self, draw: usize, groups: usize, k_blocks: usize, base: i32, levels: usize) -> Vec<i32> {
        let exponent = |group, kb| {
            base + (self.digits * place(group, levels, draw)) as i32 + place(kb, self.digits, draw) as i32
        };
        (0..groups).flat_map(|group| (0..k_blocks).map(move |kb| exponent(group, kb))).collect()
    }
}

/// Rows of x that share a scale; activations without scales have a magnitude per row instead.
fn x_group(problem: &Problem) -> usize {
    problem.x.granularity().map_or(1, |granularity| granularity.rows(problem.quant_block))
}

/// Digit `at` of `number`.
fn place(number: usize, radix: usize, at: usize) -> usize {
    number / radix.pow(at as u32) % radix
}

/// Number of digits of the numbers below `count`.
fn places(count: usize, radix: usize) -> usize {
    match radix {
        0 | 1 => 1,
        _ => (1..).find(|&places| radix.saturating_pow(places as u32) >= count).unwrap_or(1),
    }
}

/// The largest sum of magnitudes that an element can have, in units of the smallest scale of its row.
fn largest_sum(problem: &Problem, digits: usize) -> u64 {
    let (qb, k_blocks) = (problem.quant_block.size(), problem.quant_block.count(problem.k));
    let quantized = matches!(problem.x, ActivationKind::Quantized(..));
    let sum = |draw: usize| {
        (0..k_blocks).fold(0u64, |sum, kb| {
            let len = qb.min(problem.k - kb * qb);
            let block = if quantized && len == 1 { PEAK as u64 } else { 2 * len as u64 };
            sum.saturating_add(block << (2 * place(kb, digits, draw)))
        })
    };
    (0..MAX_DRAWS).map(sum).max().unwrap_or(0)
}

/// The largest f8e4m3fn value. Where activations are quantized in the call, it makes the scale of its block a
/// power of two.
const PEAK: i16 = 448;

/// One draw of operands with the result that they must have.
#[derive(Debug, Clone)]
pub struct ExactOperands {
    /// The operands.
    pub operands: Operands,
    /// The product before it is rounded to the result's type, row by row.
    sums: Vec<f32>,
}

impl ExactOperands {
    /// Number of draws that give every block a scale of its own; 0 when K is so long (about two million) that
    /// no f32 sum over it is exact.
    pub fn draws(problem: &Problem) -> usize {
        Layout::new(problem).map_or(0, |layout| layout.draws)
    }

    /// Draw number `draw` for `problem`, with the signs that `seed` stands for.
    ///
    /// # Panics
    /// When the problem has no such draw: see [`ExactOperands::draws`].
    pub fn new(problem: Problem, draw: usize, seed: u64) -> Self {
        let layout = Layout::new(&problem).expect("the problem has exact operands");
        assert!(draw < layout.draws, "draw {draw} of {}", layout.draws);
        let Problem { m, n, k, .. } = problem;
        let (w_rows, k_blocks) = problem.w_scale_shape();
        let group = x_group(&problem);
        let x = Scaled {
            values: signed(&problem, m, &mut Rng::new(seed, 4 * draw as u64 + 3), x_magnitude),
            exponents: layout.exponents(draw, m.div_ceil(group), k_blocks, layout.x_base, layout.x_levels),
            group,
        };
        let w = Scaled {
            values: signed(&problem, n, &mut Rng::new(seed, 4 * draw as u64 + 4), w_magnitude),
            exponents: layout.exponents(draw, w_rows, k_blocks, layout.w_base, layout.w_levels),
            group: problem.quant_block.size(),
        };
        let weight = w.codes();
        let weight = Mat::new(&weight, n, k).expect("a problem's dimensions fit its operands");
        let weight = QuantizedWeight::from_parts(weight, &w.scales(), problem.quant_block)
            .expect("powers of two are scales");
        let operands = Operands { problem, weight, x: x.activations(&problem) };
        Self { operands, sums: multiply(&x, &w, &problem) }
    }

    /// The correct element, rounded once to the type of the result.
    pub fn expected(&self, row: usize, col: usize) -> f64 {
        self.operands.problem.out.round(self.sums[row * self.operands.problem.n + col])
    }

    /// Compares a row-major result.
    ///
    /// # Panics
    /// When `result` has another number of elements.
    pub fn compare<T: Widen>(&self, result: &[T]) -> ExactComparison {
        let Problem { n, out, .. } = self.operands.problem;
        assert_eq!(result.len(), self.sums.len());
        let mut comparison = ExactComparison::default();
        for (at, (result, sum)) in result.iter().zip(&self.sums).enumerate() {
            let (result, expected) = (result.widen(), out.round(*sum));
            // NaN is not equal either.
            if result != expected {
                comparison.wrong += 1;
                let first = WrongElement { row: at / n, col: at % n, result, expected };
                comparison.first.get_or_insert(first);
            }
        }
        comparison
    }
}

/// Comparison of a result with the exact one.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct ExactComparison {
    /// Elements that are not equal to the expected value.
    pub wrong: usize,
    /// The first of them.
    pub first: Option<WrongElement>,
}

/// A wrong element.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct WrongElement {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// What the kernel computed.
    pub result: f64,
    /// What is correct.
    pub expected: f64,
}

/// Small integers with a power of two for every `group` rows and k-block.
struct Scaled {
    values: Vec<i16>,
    exponents: Vec<i32>,
    group: usize,
}

impl Scaled {
    fn codes(&self) -> Vec<u8> {
        self.values.iter().map(|&value| E4m3::from_f32(value.into()).to_bits()).collect()
    }

    fn scales(&self) -> Vec<f32> {
        self.exponents.iter().map(|&exponent| exp2(exponent)).collect()
    }

    /// Exponents of `row`, one per k-block.
    fn exponents_of(&self, row: usize, k_blocks: usize) -> &[i32] {
        &self.exponents[row / self.group * k_blocks..][..k_blocks]
    }

    /// Each value times its scale.
    fn wide(&self, problem: &Problem) -> impl Iterator<Item = f32> {
        let (k, qb, k_blocks) = (problem.k, problem.quant_block.size(), problem.quant_block.count(problem.k));
        self.values.chunks(k).enumerate().flat_map(move |(row, values)| {
            let exponents = self.exponents_of(row, k_blocks);
            values.iter().enumerate().map(move |(k, value)| f32::from(*value) * exp2(exponents[k / qb]))
        })
    }

    fn activations(&self, problem: &Problem) -> Activations {
        match problem.x {
            ActivationKind::Fp8(granularity) => {
                let codes = self.codes();
                let codes = Mat::new(&codes, problem.m, problem.k).expect("a problem's dimensions fit");
                Activations::Fp8(
                    QuantizedActivation::from_parts(codes, &self.scales(), problem.quant_block, granularity)
                        .expect("powers of two are scales"),
                )
            }
            ActivationKind::Quantized(float, _) | ActivationKind::Plain(float) => {
                Activations::narrowed(float, self.wide(problem))
            }
        }
    }
}

/// Position of a column in its k-block.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    First,
    Inner,
    Last,
    Only,
}

fn x_magnitude(quantized: bool, place: Place) -> i16 {
    match place {
        Place::First | Place::Only if quantized => PEAK,
        Place::First | Place::Inner => 2,
        Place::Last | Place::Only => 1,
    }
}

/// Zero beside a peak of x, which would otherwise drown the other products.
fn w_magnitude(quantized: bool, place: Place) -> i16 {
    i16::from(!(quantized && place == Place::First))
}

/// `rows` rows of K integers with random signs.
fn signed(problem: &Problem, rows: usize, rng: &mut Rng, magnitude: fn(bool, Place) -> i16) -> Vec<i16> {
    let (k, qb) = (problem.k, problem.quant_block.size());
    let quantized = matches!(problem.x, ActivationKind::Quantized(..));
    let magnitudes: Vec<i16> = (0..k)
        .map(|at| match (at % qb == 0, (at + 1) % qb == 0 || at + 1 == k) {
            (true, true) => Place::Only,
            (true, false) => Place::First,
            (false, true) => Place::Last,
            (false, false) => Place::Inner,
        })
        .map(|place| magnitude(quantized, place))
        .collect();
    let mut values = Vec::with_capacity(rows * k);
    for _ in 0..rows {
        for magnitudes in magnitudes.chunks(64) {
            let signs = rng.next_u64();
            values.extend(
                magnitudes.iter().enumerate().map(|(at, v)| if signs >> at & 1 == 1 { -v } else { *v }),
            );
        }
    }
    values
}

/// The product, in integers until the blocks are scaled.
fn multiply(x: &Scaled, w: &Scaled, problem: &Problem) -> Vec<f32> {
    let Problem { m, n, k, quant_block, .. } = *problem;
    let (qb, k_blocks) = (quant_block.size(), quant_block.count(k));
    let mut sums = vec![0.0; m * n];
    // A few rows at a time, so that a weight row in the cache is reused.
    const ROWS: usize = 8;
    sums.par_chunks_mut(ROWS * n).enumerate().for_each(|(task, sums)| {
        for col in 0..n {
            let w_values = &w.values[col * k..][..k];
            for (at, sums) in sums.chunks_mut(n).enumerate() {
                let row = task * ROWS + at;
                let x_values = &x.values[row * k..][..k];
                let exponents = x
                    .exponents_of(row, k_blocks)
                    .iter()
                    .zip(w.exponents_of(col, k_blocks))
                    .map(|(x, w)| x + w);
                let blocks = x_values.chunks(qb).zip(w_values.chunks(qb)).zip(exponents);
                sums[col] = blocks.map(|((x, w), exponent)| dot(x, w) as f32 * exp2(exponent)).sum();
            }
        }
    });
    sums
}

/// Wrapping, so that it vectorizes with overflow checks too; the sum is at most 1024.
fn dot(x: &[i16], w: &[i16]) -> i32 {
    let products = x.iter().zip(w).map(|(x, w)| i32::from(*x).wrapping_mul(i32::from(*w)));
    products.fold(0, i32::wrapping_add)
}

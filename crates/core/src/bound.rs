//! A-priori error bounds: how far a correct kernel may be from the exact result.
//!
//! A k-block of length L is summed in any order with an error of at most `L u` times the sum of magnitudes,
//! whatever L is (Jeannerod and Rump, Improved error bounds for inner products in floating-point arithmetic,
//! 2013: without the denominator `1 - L u` of older bounds, which turns negative for long sums). It is scaled
//! with at most 3 roundings (two scales multiplied, their product applied, and for unfused arithmetic the
//! product itself), and added to B - 1 other blocks. The sum of magnitudes is bounded block by block with the
//! norms of the two vectors (Cauchy-Schwarz), which costs M*N*B instead of M*N*K.
//!
//! Subnormal f32 may be flushed to zero: products of unquantized activations, products of two scales, and
//! scaled sums.

use crate::FloatKind;

/// How the products of one k-block are accumulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulator {
    /// f32, in any order, fused or not: CPUs and TPUs.
    F32,
    /// Hopper tensor cores: about 13 mantissa bits, truncated, between promotions to f32 every
    /// `promote_every` K elements.
    HopperTensorCore {
        /// Promotion interval.
        promote_every: usize,
    },
    /// f32 over all of K, of operands that were scaled and then rounded to bf16.
    Bf16Operands,
}

const F32_ROUNDOFF: f64 = FloatKind::F32.unit_roundoff();
/// Truncation to 13 bits errs by up to a whole unit in the last place.
const HOPPER_ROUNDOFF: f64 = 1.0 / (1u64 << 13) as f64;

impl Accumulator {
    /// Relative error of sums of `len` products, scaled and summed over `blocks` blocks, as a fraction of the
    /// sum of magnitudes.
    pub fn relative_error(self, len: usize, blocks: usize) -> f64 {
        let (len, blocks) = (len as f64, blocks as f64);
        match self {
            Self::F32 => f32_error(len, blocks),
            // Every product is aligned to the largest and truncated once; each of the `promote_every / 32`
            // MMA instructions between promotions truncates the accumulator again.
            Self::HopperTensorCore { promote_every } => {
                let instructions = (len.min(promote_every as f64) / 32.0).ceil();
                f32_error(len, blocks) + HOPPER_ROUNDOFF * (1.0 + instructions)
            }
            Self::Bf16Operands => {
                let operands = (1.0 + FloatKind::Bf16.unit_roundoff()).powi(2) - 1.0;
                operands + (1.0 + operands) * f32_error(len * blocks, 0.0)
            }
        }
    }
}

/// The same for f32 accumulation. Finite and positive for any length.
fn f32_error(len: f64, blocks: f64) -> f64 {
    let u = F32_ROUNDOFF;
    // Not (1 + len u)(1 + blocks u)(1 + u)^3 - 1, which would round.
    let sums = len * u + blocks * u + len * blocks * u * u;
    let scaling = 3.0 * u + 3.0 * u * u + u * u * u;
    sums + scaling + sums * scaling
}

/// A row of an operand within one k-block.
#[derive(Debug, Clone, Copy)]
pub struct BlockRow {
    /// The norm of its values before scaling.
    pub norm: f64,
    /// Their scale.
    pub scale: f64,
}

/// Collects the bound of every element, one k-block at a time.
#[derive(Debug)]
pub struct ErrorBound {
    accumulator: Accumulator,
    cols: usize,
    longest: usize,
    blocks: usize,
    magnitudes: Vec<f64>,
}

impl ErrorBound {
    /// A bound for `rows x cols` elements.
    pub fn new(rows: usize, cols: usize, accumulator: Accumulator) -> Self {
        Self { accumulator, cols, longest: 0, blocks: 0, magnitudes: vec![0.0; rows * cols] }
    }

    /// Adds a k-block of `len` products of these activation and weight rows.
    pub fn add_block(&mut self, len: usize, x: &[BlockRow], w: &[BlockRow]) {
        self.longest = self.longest.max(len);
        self.blocks += 1;
        let smallest = f64::from(f32::MIN_POSITIVE);
        // Underflow errors are absolute. They are added to the magnitudes, which are later multiplied by at
        // least F32_ROUNDOFF.
        let flushed = smallest / F32_ROUNDOFF;
        for (row, x) in self.magnitudes.chunks_mut(self.cols).zip(x) {
            for (magnitude, w) in row.iter_mut().zip(w) {
                let (norms, scale) = (x.norm * w.norm, x.scale * w.scale);
                let of_scale = if scale < smallest { norms * flushed } else { 0.0 };
                *magnitude += norms * scale + len as f64 * scale * flushed + of_scale;
            }
        }
    }

    /// The bound of every element, once all blocks are in and the result is rounded to `out`.
    pub fn finish(self, values: &[f64], out: FloatKind) -> Vec<f64> {
        let relative = self.accumulator.relative_error(self.longest, self.blocks);
        // Subnormal results have absolute, not relative, precision.
        let smallest = match out {
            FloatKind::F32 | FloatKind::Bf16 => f64::from(f32::MIN_POSITIVE),
            FloatKind::F16 => f64::from(half::f16::MIN_POSITIVE),
        };
        let underflow = self.blocks as f64 * f64::from(f32::MIN_POSITIVE) + smallest * out.unit_roundoff();
        let rounding = if out == FloatKind::F32 { 0.0 } else { out.unit_roundoff() };
        let bound = |(magnitude, value): (f64, &f64)| {
            let before = relative * magnitude;
            before + rounding * (value.abs() + before) + underflow
        };
        self.magnitudes.into_iter().zip(values).map(bound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_grows_with_length_and_a_narrow_accumulator() {
        let f32_error = Accumulator::F32.relative_error(128, 4);
        assert!(f32_error > 128.0 * F32_ROUNDOFF && f32_error < 200.0 * F32_ROUNDOFF);
        assert!(Accumulator::F32.relative_error(512, 4) > 3.0 * f32_error);
        let hopper = Accumulator::HopperTensorCore { promote_every: 128 }.relative_error(128, 4);
        assert!(hopper > 10.0 * f32_error);
    }

    #[test]
    fn the_bound_of_a_sum_of_any_length_is_positive_and_grows() {
        let hopper = |promote_every| Accumulator::HopperTensorCore { promote_every };
        let all = [Accumulator::F32, Accumulator::Bf16Operands, hopper(128), hopper(usize::MAX)];
        for accumulator in all {
            for (len, blocks) in [(512, 1), (1 << 24, 1), (512, 1 << 15), (512, 1 << 40)] {
                let shorter = accumulator.relative_error(len, blocks);
                let longer = accumulator.relative_error(len, 2 * blocks);
                assert!(shorter > 0.0 && longer.is_finite(), "{accumulator:?} {len} {blocks}: {shorter}");
                assert!(longer > shorter, "{accumulator:?} {len} {blocks}: {longer} after {shorter}");
            }
            let longest = accumulator.relative_error(usize::MAX, usize::MAX);
            assert!(longest > 1.0 && longest.is_finite(), "{accumulator:?}: {longest}");
        }
    }
}

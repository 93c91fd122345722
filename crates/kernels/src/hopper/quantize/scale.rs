//! The scale of a block and its reciprocal, correctly rounded in few instructions.

use octile_core::E4m3;

use crate::hopper::ptx::{F32, Ptx};

/// `1 / 448`, rounded.
const CODE_RECIPROCAL: f32 = 1.0 / E4m3::MAX;

/// The scale of a block and its reciprocal: zero for a block of zeros, never subnormal otherwise. Both are
/// correctly rounded quotients, from an estimate, its exact remainder (one FMA) and one correction; the
/// assembler expands a rounded reciprocal in the same way, with slow paths for subnormals that cannot occur
/// here. An infinite maximum stays infinite.
pub(super) fn scale_of(ptx: &mut Ptx, abs_max: F32) -> (F32, F32) {
    let (zero, one) = (ptx.float(0.0), ptx.float(1.0));
    let (minus_max, smallest) = (ptx.float(-E4m3::MAX), ptx.float(f32::MIN_POSITIVE));
    let (by_max, infinity) = (ptx.float(CODE_RECIPROCAL), ptx.float(f32::INFINITY));
    let estimate = ptx.mul_f32(abs_max, by_max);
    let remainder = ptx.fma(minus_max, estimate, abs_max);
    let scale = ptx.fma(remainder, by_max, estimate);
    let finite = ptx.lt_f32(abs_max, infinity);
    let scale = ptx.select_f32(scale, abs_max, finite);
    let scale = ptx.max_f32(scale, smallest);

    let estimate = ptx.rough_reciprocal(scale);
    let minus_scale = ptx.negate(scale);
    let remainder = ptx.fma(minus_scale, estimate, one);
    let inverse = ptx.fma(remainder, estimate, estimate);

    let is_zero = ptx.eq_f32(abs_max, zero);
    (ptx.select_f32(zero, scale, is_zero), ptx.select_f32(zero, inverse, is_zero))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's arithmetic is correctly rounded for every number: quotients depend on the mantissa alone
    /// as long as nothing is subnormal, and subnormal scales are raised to the smallest normal number.
    #[test]
    fn short_divisions_round_correctly() {
        let max = E4m3::MAX;
        for mantissa in 0..1u32 << 23 {
            let value = f32::from_bits(127 << 23 | mantissa);
            let estimate = value * CODE_RECIPROCAL;
            let remainder = (-max).mul_add(estimate, value);
            assert_eq!(remainder.mul_add(CODE_RECIPROCAL, estimate), value / max, "{value}");
            let exact = 1.0 / value;
            for off in [-1i32, 0, 1] {
                let estimate = f32::from_bits(exact.to_bits().wrapping_add_signed(off));
                // `rcp.approx` is within one ulp. The one case that the correction cannot repair, a
                // reciprocal just above a power of two, is halfway between two estimates; the instruction
                // returns the right one there.
                let just_below = mantissa == (1 << 23) - 1 && off != 0;
                let unit = f64::from(exact) - f64::from(exact.next_down());
                if (f64::from(estimate) - 1.0 / f64::from(value)).abs() > unit || just_below {
                    continue;
                }
                let remainder = (-value).mul_add(estimate, 1.0);
                assert_eq!(remainder.mul_add(estimate, estimate), exact, "1 / {value}, estimated {estimate}");
            }
        }
        // Near the smallest normal scale, where remainders are subnormal.
        for above in 0..1u32 << 16 {
            let value = f32::from_bits((max * f32::MIN_POSITIVE).to_bits() - (1 << 15) + above);
            let estimate = value * CODE_RECIPROCAL;
            let remainder = (-max).mul_add(estimate, value);
            let scale = remainder.mul_add(CODE_RECIPROCAL, estimate).max(f32::MIN_POSITIVE);
            assert_eq!(scale, octile_core::quantize::scale_of(value).0, "{value:e}");
        }
    }
}

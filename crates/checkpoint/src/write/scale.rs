//! The scale of a block, bit-identical to the fine-grained fp8 quantizer of transformers.

use octile_core::E4m3;

use crate::ScaleKind;

/// Returns the stored scale of a block, and the factor its elements are multiplied by before rounding.
///
/// transformers computes `448 / abs_max`, which torch evaluates as `(1 / abs_max) * 448`, and stores its
/// reciprocal: not always the same as `abs_max / 448`. A block of zeros has scale 1. Below an `abs_max` of
/// 1.4e-36 transformers gets an infinite factor and NaN codes; here the factor is the largest finite value.
pub(super) fn of_block(abs_max: f32, kind: ScaleKind) -> (f32, f32) {
    if abs_max == 0.0 {
        return (1.0, 1.0);
    }
    let factor = (1.0 / abs_max * E4m3::MAX).min(f32::MAX);
    let scale = 1.0 / factor;
    match kind {
        ScaleKind::F32 => (scale, factor),
        ScaleKind::Ue8m0 => {
            // Rounded to f32 before `ceil`, as in transformers: just above a power of two becomes it.
            let exponent = f64::from(scale.max(f32::MIN_POSITIVE)).log2() as f32;
            let scale = exponent.ceil().exp2();
            (scale, 1.0 / scale)
        }
    }
}

/// Whether a scale is a power of two that f8e8m0 can represent.
pub(crate) fn is_power_of_two(scale: f32) -> bool {
    const SMALLEST: u32 = 1 << 22;
    let bits = scale.to_bits();
    scale.is_normal() && scale > 0.0 && bits & 0x7f_ffff == 0 || bits == SMALLEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_those_of_transformers() {
        assert_eq!(of_block(0.0, ScaleKind::F32), (1.0, 1.0));
        assert_eq!(of_block(448.0, ScaleKind::F32), (1.0, 1.0));
        let (scale, factor) = of_block(3.0, ScaleKind::F32);
        assert_eq!((scale, factor), (1.0 / (1.0 / 3.0f32 * 448.0), 1.0 / 3.0 * 448.0));
        assert_eq!(of_block(449.0, ScaleKind::Ue8m0), (2.0, 0.5));
        assert_eq!(of_block(448.0, ScaleKind::Ue8m0), (1.0, 1.0));
    }

    #[test]
    fn tiny_blocks_keep_finite_scales() {
        for kind in [ScaleKind::F32, ScaleKind::Ue8m0] {
            for abs_max in [f32::from_bits(1), 1e-40, 1e-37, 1.3e-36, 1.4e-36, 5e-36, f32::MAX] {
                let (scale, factor) = of_block(abs_max, kind);
                assert!(scale > 0.0 && scale.is_finite() && factor > 0.0 && factor.is_finite(), "{abs_max}");
                assert!(abs_max * factor <= 464.0, "{abs_max}");
            }
        }
    }

    #[test]
    fn powers_of_two_are_known() {
        assert!([1.0, 0.25, 2f32.powi(-127), 2f32.powi(127)].into_iter().all(is_power_of_two));
        assert!(![0.0, -1.0, 0.75, f32::INFINITY, f32::NAN, 1e-40].into_iter().any(is_power_of_two));
    }
}

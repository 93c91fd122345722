//! The two 8-bit floats of the OCP standard: `f8e4m3fn` (weights and activations) and `f8e5m2`.
//!
//! Both codecs give the same bits as ml_dtypes for every f16, bf16 and f32: see
//! `tests/fp8_against_ml_dtypes.rs`. The `float8` crate (0.7.0) fails that test: it encodes infinities and
//! overflows as the largest finite value, and decodes a negative NaN without its sign.

use half::{bf16, f16};

/// Parameters of an 8-bit float format.
struct Format {
    mantissa_bits: u32,
    exponent_bias: i32,
    /// The largest finite code, without sign.
    max_code: u8,
    /// Code of infinities, and of finite values that round past `max_code`.
    overflow: u8,
    nan: u8,
}

const E4M3: Format = Format { mantissa_bits: 3, exponent_bias: 7, max_code: 0x7e, overflow: 0x7f, nan: 0x7f };
const E5M2: Format =
    Format { mantissa_bits: 2, exponent_bias: 15, max_code: 0x7b, overflow: 0x7c, nan: 0x7e };

impl Format {
    /// Rounds to nearest, ties to even, as ml_dtypes does. Branch-free, and always inlined with a constant
    /// format, so that loops over it vectorize.
    #[inline(always)]
    const fn encode(&self, value: f32) -> u8 {
        let bits = value.to_bits();
        let sign = (bits >> 24) as u8 & 0x80;
        let magnitude = bits & 0x7fff_ffff;

        // Normal range: drop mantissa bits and rebias the exponent.
        let dropped = 23 - self.mantissa_bits;
        let half_minus_one = (1 << (dropped - 1)) - 1;
        let odd = (magnitude >> dropped) & 1;
        let rounded = magnitude.wrapping_add(half_minus_one + odd) >> dropped;
        let normal = rounded.wrapping_sub(((127 - self.exponent_bias) as u32) << self.mantissa_bits);

        // Subnormal range: all steps are equal to the last bit of `aligner`, so adding it rounds correctly.
        let aligner = exp2(24 - self.exponent_bias - self.mantissa_bits as i32);
        let aligned = f32::from_bits(magnitude) + aligner;
        let subnormal = aligned.to_bits().wrapping_sub(aligner.to_bits());

        let is_subnormal = magnitude < exp2(1 - self.exponent_bias).to_bits();
        let code = if is_subnormal { subnormal } else { normal };
        let is_nan = magnitude > f32::INFINITY.to_bits();
        let beyond = if is_nan { self.nan } else { self.overflow };
        let overflows = code > self.max_code as u32;
        sign | if overflows { beyond } else { code as u8 }
    }

    const fn decode(&self, code: u8) -> f32 {
        let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
        let magnitude = code & 0x7f;
        if magnitude > self.max_code {
            let infinite = self.overflow != self.nan && magnitude == self.overflow;
            return if infinite {
                sign * f32::INFINITY
            } else {
                f32::from_bits(f32::NAN.to_bits() | (((code & 0x80) as u32) << 24))
            };
        }
        let mantissa = (magnitude & ((1 << self.mantissa_bits) - 1)) as f32;
        let one = (1 << self.mantissa_bits) as f32;
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        if exponent == 0 {
            sign * (mantissa / one) * exp2(1 - self.exponent_bias)
        } else {
            sign * (1.0 + mantissa / one) * exp2(exponent - self.exponent_bias)
        }
    }

    const fn decode_all(&self) -> [f32; 256] {
        let mut table = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            table[code] = self.decode(code as u8);
            code += 1;
        }
        table
    }
}

/// 2 to the power of `exponent`, for normal f32 exponents.
#[inline]
pub(crate) const fn exp2(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

static E4M3_VALUES: [f32; 256] = E4M3.decode_all();
static E5M2_VALUES: [f32; 256] = E5M2.decode_all();

macro_rules! eight_bit_float {
    ($(#[$doc:meta])* $name:ident, $format:ident, $values:ident, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u8);

        impl $name {
            /// The largest finite value.
            pub const MAX: f32 = $max;

            /// Constructs the value with this code.
            #[inline]
            pub const fn from_bits(code: u8) -> Self {
                Self(code)
            }

            /// Returns the code.
            #[inline]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Rounds to nearest, ties to even.
            #[inline]
            pub fn from_f32(value: f32) -> Self {
                Self($format.encode(value))
            }

            /// Rounds to nearest, ties to even. Exact, because every bf16 is an f32.
            #[inline]
            pub fn from_bf16(value: bf16) -> Self {
                Self::from_f32(value.to_f32())
            }

            /// Rounds to nearest, ties to even. Exact, because every f16 is an f32.
            #[inline]
            pub fn from_f16(value: f16) -> Self {
                Self::from_f32(value.to_f32())
            }

            /// Returns the value, exactly.
            #[inline]
            pub fn to_f32(self) -> f32 {
                $values[usize::from(self.0)]
            }

            /// Whether this is not a number.
            #[inline]
            pub fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
        }
    };
}

eight_bit_float! {
    /// `f8e4m3fn`: 4 exponent bits, 3 mantissa bits, no infinities; NaN is 0x7f and 0xff, and what overflows.
    E4m3, E4M3, E4M3_VALUES, 448.0
}

eight_bit_float! {
    /// `f8e5m2`: 5 exponent bits, 2 mantissa bits, with infinities; overflow gives an infinity.
    E5m2, E5M2, E5M2_VALUES, 57344.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether `code` is the nearest finite code to `value`, the even one of two.
    fn is_nearest_even(format: &Format, value: f32, code: u8) -> bool {
        let distance = |code: u8| (f64::from(format.decode(code)) - f64::from(value)).abs();
        (0..=format.max_code).flat_map(|magnitude| [magnitude, magnitude | 0x80]).all(|other| {
            let (ours, theirs) = (distance(code), distance(other));
            ours < theirs || (ours == theirs && (code == other || code & 1 == 0))
        })
    }

    fn check_nearest(format: &Format, value: f32) -> Result<(), TestCaseError> {
        let code = format.encode(value);
        prop_assert_eq!(code & 0x80 != 0, value.is_sign_negative(), "{} became {:#04x}", value, code);
        let [last, before] = [0, 1].map(|steps| format.decode(format.max_code - steps));
        let border = last + (last - before) / 2.0;
        let beyond = value.abs() > border || (value.abs() == border && format.max_code & 1 == 1);
        let expected =
            if beyond { code & 0x7f == format.overflow } else { is_nearest_even(format, value, code) };
        prop_assert!(expected, "{} became {:#04x}", value, code);
        Ok(())
    }

    proptest! {
        #[test]
        fn any_finite_value_becomes_the_nearest(value in any::<f32>()) {
            check_nearest(&E4M3, value)?;
            check_nearest(&E5M2, value)?;
        }

        // Most f32 overflow or underflow; these are in range, and many are halfway between two codes.
        #[test]
        fn values_near_the_codes_become_the_nearest(code in 0..=0xffu8, eighths in -8..=8i32) {
            for format in [&E4M3, &E5M2] {
                let value = format.decode(code);
                let step = format.decode((code & 0x7f) + 1) - format.decode(code & 0x7f);
                let value = value + step * eighths as f32 / 8.0;
                if value.is_finite() {
                    check_nearest(format, value)?;
                }
            }
        }
    }

    #[test]
    fn every_code_survives_a_round_trip() {
        for code in 0..=255u8 {
            let e4m3 = E4m3::from_bits(code);
            assert!(e4m3.is_nan() || E4m3::from_f32(e4m3.to_f32()) == e4m3, "{code:#04x}");
            let e5m2 = E5m2::from_bits(code);
            assert!(e5m2.is_nan() || E5m2::from_f32(e5m2.to_f32()) == e5m2, "{code:#04x}");
        }
    }

    #[test]
    fn overflow_and_ties() {
        let tie = E4m3::from_f32(464.0);
        assert_eq!(tie.to_bits(), 0x7e, "a tie goes to the even 448");
        assert!(E4m3::from_f32(464.1).is_nan());
        let tie = E5m2::from_f32(61440.0);
        assert_eq!(tie.to_bits(), 0x7c, "a tie goes to the even infinity");
        assert_eq!(E4m3::from_f32(-0.0).to_bits(), 0x80);
    }
}

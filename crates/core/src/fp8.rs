//! The two 8-bit floats of the OCP standard: `f8e4m3fn` (weights and activations) and `f8e5m2`.
//!
//! Both codecs are checked exhaustively against ml_dtypes, see `tests/fp8_against_ml_dtypes.rs`.

use half::{bf16, f16};

/// What distinguishes one 8-bit float from another.
struct Format {
    mantissa_bits: u32,
    exponent_bias: i32,
    /// The largest finite code, without sign.
    max_code: u8,
    /// What a finite value that rounds past `max_code` becomes.
    overflow: u8,
    infinity: u8,
    nan: u8,
}

const E4M3: Format = Format {
    mantissa_bits: 3,
    exponent_bias: 7,
    max_code: 0x7e,
    overflow: 0x7f,
    infinity: 0x7f,
    nan: 0x7f,
};
const E5M2: Format = Format {
    mantissa_bits: 2,
    exponent_bias: 15,
    max_code: 0x7b,
    overflow: 0x7c,
    infinity: 0x7c,
    nan: 0x7e,
};

impl Format {
    /// Round to nearest, ties to even, as ml_dtypes does.
    fn encode(&self, value: f32) -> u8 {
        let sign = ((value.to_bits() >> 24) & 0x80) as u8;
        let magnitude = value.abs();
        if magnitude.is_nan() {
            return sign | self.nan;
        }
        if magnitude.is_infinite() {
            return sign | self.infinity;
        }
        // Where the format is normal, drop mantissa bits; below that, its steps are all of one size.
        let smallest_normal = exp2(1 - self.exponent_bias);
        let code = if magnitude >= smallest_normal {
            let dropped = 23 - self.mantissa_bits;
            let bits = magnitude.to_bits();
            let half_minus_one = (1 << (dropped - 1)) - 1;
            let rounded = (bits + half_minus_one + ((bits >> dropped) & 1)) >> dropped;
            rounded - (((127 - self.exponent_bias) as u32) << self.mantissa_bits)
        } else {
            let steps = magnitude * exp2(self.exponent_bias - 1 + self.mantissa_bits as i32);
            steps.round_ties_even() as u32
        };
        sign | if code > u32::from(self.max_code) {
            self.overflow
        } else {
            code as u8
        }
    }

    const fn decode(&self, code: u8) -> f32 {
        let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
        let magnitude = code & 0x7f;
        if magnitude > self.max_code {
            let infinite = self.infinity != self.nan && magnitude == self.infinity;
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
const fn exp2(exponent: i32) -> f32 {
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

            /// The value with this code.
            pub const fn from_bits(code: u8) -> Self {
                Self(code)
            }

            /// The code of this value.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Rounds to nearest, ties to even.
            pub fn from_f32(value: f32) -> Self {
                Self($format.encode(value))
            }

            /// Rounds to nearest, ties to even. Exact, because every bf16 is an f32.
            pub fn from_bf16(value: bf16) -> Self {
                Self::from_f32(value.to_f32())
            }

            /// Rounds to nearest, ties to even. Exact, because every f16 is an f32.
            pub fn from_f16(value: f16) -> Self {
                Self::from_f32(value.to_f32())
            }

            /// The value, exactly.
            pub fn to_f32(self) -> f32 {
                $values[usize::from(self.0)]
            }

            /// Whether this is not a number.
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
    use super::*;

    #[test]
    fn every_code_survives_a_round_trip() {
        for code in 0..=255u8 {
            let e4m3 = E4m3::from_bits(code);
            assert!(
                e4m3.is_nan() || E4m3::from_f32(e4m3.to_f32()) == e4m3,
                "{code:#04x}"
            );
            let e5m2 = E5m2::from_bits(code);
            assert!(
                e5m2.is_nan() || E5m2::from_f32(e5m2.to_f32()) == e5m2,
                "{code:#04x}"
            );
        }
    }

    #[test]
    fn overflow_and_ties() {
        assert_eq!(
            E4m3::from_f32(464.0).to_bits(),
            0x7e,
            "a tie goes to the even 448"
        );
        assert!(E4m3::from_f32(464.1).is_nan());
        assert_eq!(
            E5m2::from_f32(61440.0).to_bits(),
            0x7c,
            "a tie goes to the even infinity"
        );
        assert_eq!(E4m3::from_f32(-0.0).to_bits(), 0x80);
    }
}

//! Conversion between floats and f8e4m3fn codes, row by row, vectorized.
//!
//! The loops are branch-free Rust; each is compiled once per ISA.

use half::{bf16, f16};
use octile_core::{E4m3, device::cpu::Isa};

use super::isa::is_available;

/// A float type of stored weights.
pub trait StoredFloat: Copy + Default + Send + Sync + private::Sealed {
    /// The value, exactly.
    fn widen(self) -> f32;
    /// Rounds to nearest, ties to even.
    fn narrow(value: f32) -> Self;
    /// Magnitude as f32 bits; infinities and NaN compare larger than any number.
    fn magnitude_bits(self) -> u32;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITY: u32 = f32::INFINITY.to_bits();

impl StoredFloat for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        self.to_bits() & MAGNITUDE
    }
}

impl StoredFloat for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    // `half` branches for NaN, which prevents vectorization.
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet_nan = bits >> 16 | 0x40;
        let is_nan = bits & MAGNITUDE > INFINITY;
        Self::from_bits(if is_nan { quiet_nan } else { rounded } as u16)
    }

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        u32::from(self.to_bits() & 0x7fff) << 16
    }
}

impl StoredFloat for f16 {
    // `half` detects CPU features in every call.
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = (bits & 0x7fff) << 13;
        // Rebias the exponent from f16 to f32; the product is exact, for subnormals too.
        let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
        let is_finite = bits & 0x7c00 != 0x7c00;
        let magnitude = if is_finite { finite } else { magnitude | INFINITY };
        f32::from_bits(magnitude | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Self::from_f32(value)
    }

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        self.widen().to_bits() & MAGNITUDE
    }
}

/// Decodes a code without a table, so that loops vectorize.
#[inline(always)]
fn decode(code: u8) -> f32 {
    let code = u32::from(code);
    let magnitude = f32::from_bits((code & 0x7f) << 20) * f32::from_bits((127 + 120) << 23);
    let is_nan = code & 0x7f == 0x7f;
    let magnitude = if is_nan { f32::NAN.to_bits() } else { magnitude.to_bits() };
    f32::from_bits(magnitude | (code & 0x80) << 24)
}

/// Raises `maxima`, one per block of `block` columns, to the largest magnitude bits of these rows.
#[inline(always)]
fn raise_maxima<T: StoredFloat>(values: &[T], cols: usize, block: usize, maxima: &mut [u32]) {
    for row in values.chunks_exact(cols) {
        for (maximum, values) in maxima.iter_mut().zip(row.chunks(block)) {
            *maximum = values.iter().fold(*maximum, |max, value| max.max(value.magnitude_bits()));
        }
    }
}

/// Encodes rows; block `i` of each row is multiplied by `factors[i]`.
#[inline(always)]
fn encode_rows<T: StoredFloat>(values: &[T], cols: usize, block: usize, factors: &[f32], codes: &mut [u8]) {
    for (row, codes) in values.chunks_exact(cols).zip(codes.chunks_exact_mut(cols)) {
        for ((values, codes), factor) in row.chunks(block).zip(codes.chunks_mut(block)).zip(factors) {
            for (value, code) in values.iter().zip(codes) {
                *code = E4m3::from_f32(value.widen() * factor).to_bits();
            }
        }
    }
}

/// Decodes rows; block `i` of each row is multiplied by `scales[i]`.
#[inline(always)]
fn decode_rows<T: StoredFloat>(codes: &[u8], cols: usize, block: usize, scales: &[f32], values: &mut [T]) {
    for (codes, row) in codes.chunks_exact(cols).zip(values.chunks_exact_mut(cols)) {
        for ((codes, values), scale) in codes.chunks(block).zip(row.chunks_mut(block)).zip(scales) {
            for (code, value) in codes.iter().zip(values) {
                *value = T::narrow(decode(*code) * scale);
            }
        }
    }
}

macro_rules! compiled {
    ($name:ident $(, $features:literal)?) => {
        mod $name {
            use super::StoredFloat;

            $(#[target_feature(enable = $features)])?
            pub(super) fn raise_maxima<T: StoredFloat>(
                values: &[T], cols: usize, block: usize, maxima: &mut [u32],
            ) {
                super::raise_maxima(values, cols, block, maxima);
            }

            $(#[target_feature(enable = $features)])?
            pub(super) fn encode_rows<T: StoredFloat>(
                values: &[T], cols: usize, block: usize, factors: &[f32], codes: &mut [u8],
            ) {
                super::encode_rows(values, cols, block, factors, codes);
            }

            $(#[target_feature(enable = $features)])?
            pub(super) fn decode_rows<T: StoredFloat>(
                codes: &[u8], cols: usize, block: usize, scales: &[f32], values: &mut [T],
            ) {
                super::decode_rows(codes, cols, block, scales, values);
            }
        }
    };
}
compiled!(portable);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

/// Converts rows of weights with the fastest ISA of this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowConverter {
    isa: Isa,
}

macro_rules! dispatch {
    ($self:ident, $function:ident($($argument:expr),*)) => {
        match $self.isa {
            // SAFETY: `with_isa` checked that the CPU supports the ISA.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::$function($($argument),*) },
            // SAFETY: `with_isa` checked that the CPU supports the ISA.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => unsafe { avx512::$function($($argument),*) },
            // NEON is the baseline of its architecture.
            _ => portable::$function($($argument),*),
        }
    };
}

impl Default for RowConverter {
    fn default() -> Self {
        let best = Isa::ALL.into_iter().rev().find(|&isa| is_available(isa));
        Self { isa: best.unwrap_or(Isa::Portable) }
    }
}

impl RowConverter {
    /// Selects an ISA; `None` if the CPU does not support it.
    pub fn with_isa(isa: Isa) -> Option<Self> {
        is_available(isa).then_some(Self { isa })
    }

    /// Raises `maxima`, one per block of `block` columns, to the largest magnitude of the rows, as f32 bits.
    ///
    /// # Panics
    /// If `values` is not whole rows of `cols`, or `maxima` does not cover a row.
    pub fn raise_maxima<T: StoredFloat>(self, values: &[T], cols: usize, block: usize, maxima: &mut [u32]) {
        assert!(values.len().is_multiple_of(cols) && maxima.len() == cols.div_ceil(block));
        dispatch!(self, raise_maxima(values, cols, block, maxima));
    }

    /// Encodes rows as f8e4m3fn, each block of columns multiplied by its factor.
    ///
    /// # Panics
    /// If the lengths do not match.
    pub fn encode_rows<T: StoredFloat>(
        self,
        values: &[T],
        cols: usize,
        block: usize,
        factors: &[f32],
        codes: &mut [u8],
    ) {
        assert!(values.len().is_multiple_of(cols) && values.len() == codes.len());
        assert!(factors.len() == cols.div_ceil(block));
        dispatch!(self, encode_rows(values, cols, block, factors, codes));
    }

    /// Decodes rows of f8e4m3fn, each block of columns multiplied by its scale, and rounds them to `T`.
    ///
    /// # Panics
    /// If the lengths do not match.
    pub fn decode_rows<T: StoredFloat>(
        self,
        codes: &[u8],
        cols: usize,
        block: usize,
        scales: &[f32],
        values: &mut [T],
    ) {
        assert!(codes.len().is_multiple_of(cols) && values.len() == codes.len());
        assert!(scales.len() == cols.div_ceil(block));
        dispatch!(self, decode_rows(codes, cols, block, scales, values));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converters() -> impl Iterator<Item = RowConverter> {
        Isa::ALL.into_iter().filter_map(RowConverter::with_isa)
    }

    #[test]
    fn all_codes_decode_as_in_core() {
        let codes: Vec<u8> = (0..=255).collect();
        for converter in converters() {
            for scale in [1.0f32, 0.3, 1e-3] {
                let mut values = vec![0.0f32; 256];
                converter.decode_rows(&codes, 256, 128, &[scale, scale], &mut values);
                let mut halves = vec![bf16::ZERO; 256];
                converter.decode_rows(&codes, 256, 128, &[scale, scale], &mut halves);
                for ((code, value), half) in codes.iter().zip(values).zip(halves) {
                    let expected = E4m3::from_bits(*code).to_f32() * scale;
                    if expected.is_nan() {
                        assert!(value.is_nan() && half.is_nan(), "{code:#04x}");
                        continue;
                    }
                    assert_eq!(value.to_bits(), expected.to_bits(), "{code:#04x}");
                    assert_eq!(half.to_bits(), bf16::from_f32(expected).to_bits(), "{code:#04x}");
                }
            }
        }
    }

    #[test]
    fn sixteen_bit_floats_widen_and_encode_as_in_core() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let brains: Vec<bf16> = all.iter().copied().map(bf16::from_bits).collect();
        let halves: Vec<f16> = all.iter().copied().map(f16::from_bits).collect();
        for half in &halves {
            assert!(half.is_nan() && half.widen().is_nan() || half.widen() == half.to_f32(), "{half:?}");
            assert_eq!(half.widen().is_sign_negative(), half.is_sign_negative());
        }
        for converter in converters() {
            for factor in [1.0f32, 3.7] {
                let factors = [factor; 2];
                let mut codes = vec![0; all.len()];
                converter.encode_rows(&brains, 256, 128, &factors, &mut codes);
                for (value, code) in brains.iter().zip(&codes) {
                    let expected = E4m3::from_f32(value.to_f32() * factor);
                    assert_eq!(*code, expected.to_bits(), "{value}");
                }
                converter.encode_rows(&halves, 256, 128, &factors, &mut codes);
                for (value, code) in halves.iter().zip(&codes) {
                    let expected = E4m3::from_f32(value.to_f32() * factor);
                    assert_eq!(*code, expected.to_bits(), "{value}");
                }
            }
        }
    }

    #[test]
    fn maxima_are_per_block_and_find_what_is_not_finite() {
        let mut values: Vec<bf16> = (0..3 * 200).map(|i| bf16::from_f32(-(i as f32))).collect();
        for converter in converters() {
            let mut maxima = [0; 2];
            converter.raise_maxima(&values, 200, 128, &mut maxima);
            let largest = [527, 599].map(|i: usize| values[i].to_f32().abs().to_bits());
            assert_eq!(maxima, largest);
        }
        values[130] = bf16::NAN;
        for converter in converters() {
            let mut maxima = [0; 2];
            converter.raise_maxima(&values, 200, 128, &mut maxima);
            assert!(maxima[0] < INFINITY && maxima[1] > INFINITY);
        }
    }

    #[test]
    fn narrowing_to_bf16_rounds_as_half_does() {
        for bits in (0..=u32::MAX).step_by(997) {
            let value = f32::from_bits(bits);
            let (ours, theirs) = (<bf16 as StoredFloat>::narrow(value), bf16::from_f32(value));
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{value}");
        }
    }
}

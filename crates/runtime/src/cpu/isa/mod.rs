//! The vector operations that microkernels are written in: one file of intrinsics per ISA.

mod portable;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512bf16;
#[cfg(target_arch = "x86_64")]
mod avx512vbmi;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neonbf16;

use octile_core::{E4m3, FloatKind, device::cpu::Isa};

use super::kernel::Kernels;

/// The operations of one ISA.
///
/// A vector of weights holds, for `COLS` adjacent columns, the values of two adjacent k: a *pair* per column.
/// An accumulator sums products of pairs; whether the two products of a pair share a lane is up to the ISA
/// until [`Vector::put_columns`]. `GROUP` vectors hold the 32 columns of a panel.
///
/// # Safety
/// The CPU must support the ISA, and functions must be inlined into a function compiled for it. Pointers must
/// be valid for the documented number of bytes.
pub(super) trait Vector<const GROUP: usize> {
    /// Decoded weights in memory.
    type Stored: Copy;
    /// Decoded weights in registers.
    type Weights: Copy;
    /// Accumulators of `COLS` columns.
    type Sums: Copy;

    /// The type that activations are decoded to.
    const OPERAND: FloatKind;
    /// Columns of one vector.
    const COLS: usize = 32 / GROUP;
    /// Bytes of one pair of activations.
    const PAIR: usize = 2 * Self::OPERAND.bytes();

    /// Returns zeroed accumulators.
    unsafe fn zero() -> Self::Sums;

    /// Decodes the 64 codes of one pair of k and the 32 columns of a packed panel, none of them NaN. The
    /// values may be off by a power of two, which `put_columns` corrects.
    unsafe fn decode(codes: *const u8) -> [Self::Stored; GROUP];

    /// Decodes 64 contiguous codes, none of them NaN, in order.
    unsafe fn decode_line(codes: *const u8, out: *mut u8);

    /// Converts weights from their form in memory to that in registers.
    unsafe fn widen(stored: Self::Stored) -> Self::Weights;

    /// Adds the products of `weights` with the pair of activations at `x` (`PAIR` bytes).
    unsafe fn dot(sums: Self::Sums, x: *const u8, weights: Self::Weights) -> Self::Sums;

    /// `total + scale * sums`, lane by lane.
    unsafe fn add_scaled(total: Self::Sums, scale: f32, sums: Self::Sums) -> Self::Sums;

    /// Reduces two adjacent accumulators to columns, adds the `2 * COLS` floats at `old` unless it is null,
    /// and stores them to `out`.
    unsafe fn put_columns(low: Self::Sums, high: Self::Sums, old: *const f32, out: *mut f32);

    /// Quantizes `values * factor` to f8e4m3fn. Both slices have the same length.
    #[inline(always)]
    unsafe fn encode(values: &[f32], factor: f32, codes: &mut [u8]) {
        for (code, value) in codes.iter_mut().zip(values) {
            *code = E4m3::from_f32(value * factor).to_bits();
        }
    }
}

/// Whether this CPU supports an ISA.
pub(super) fn is_available(isa: Isa) -> bool {
    macro_rules! has {
        ($($feature:tt)*) => {{
            #[cfg(target_arch = "x86_64")]
            { true $(&& std::arch::is_x86_feature_detected!($feature))* }
            #[cfg(not(target_arch = "x86_64"))]
            { false }
        }};
    }
    macro_rules! has_on_arm {
        ($($feature:tt)*) => {{
            // Vectors are reinterpreted as wider or narrower lanes, in little-endian order.
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            { true $(&& std::arch::is_aarch64_feature_detected!($feature))* }
            #[cfg(not(all(target_arch = "aarch64", target_endian = "little")))]
            { false }
        }};
    }
    match isa {
        Isa::Portable => true,
        Isa::Avx2 => has!("avx2" "fma" "f16c"),
        Isa::Avx512 => is_available(Isa::Avx2) && has!("avx512f" "avx512bw" "avx512dq" "avx512vl"),
        Isa::Avx512Bf16 => is_available(Isa::Avx512) && has!("avx512vbmi" "avx512bf16"),
        #[cfg(target_arch = "x86_64")]
        Isa::Amx => is_available(Isa::Avx512Bf16) && amx::is_usable(),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Amx => false,
        Isa::Neon => has_on_arm!("neon"),
        Isa::NeonBf16 => has_on_arm!("neon" "bf16"),
    }
}

/// The microkernels of an ISA for one operand type; to be called only if it [`is_available`].
#[cfg(target_arch = "x86_64")]
pub(super) fn kernels(isa: Isa, operand: FloatKind) -> &'static Kernels {
    match (isa, operand) {
        (Isa::Portable, _) => &portable::KERNELS,
        (Isa::Avx2, _) => &avx2::KERNELS,
        (Isa::Amx, FloatKind::Bf16) => &amx::KERNELS,
        (Isa::Avx512Bf16, FloatKind::Bf16) => &avx512bf16::KERNELS,
        (Isa::Avx512, _) if !std::arch::is_x86_feature_detected!("avx512vbmi") => &avx512::KERNELS,
        (Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx, _) => &avx512vbmi::KERNELS,
        (Isa::Neon | Isa::NeonBf16, _) => unreachable!("{isa} is not an ISA of x86-64"),
    }
}

/// The microkernels of an ISA for one operand type; to be called only if it [`is_available`].
#[cfg(target_arch = "aarch64")]
pub(super) fn kernels(isa: Isa, operand: FloatKind) -> &'static Kernels {
    match (isa, operand) {
        (Isa::Portable, _) => &portable::KERNELS,
        (Isa::NeonBf16, FloatKind::Bf16) => &neonbf16::KERNELS,
        (Isa::Neon | Isa::NeonBf16, _) => &neon::KERNELS,
        _ => unreachable!("{isa} is not an ISA of AArch64"),
    }
}

/// The microkernels of an ISA for one operand type; to be called only if it [`is_available`].
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn kernels(_: Isa, _: FloatKind) -> &'static Kernels {
    &portable::KERNELS
}

/// Prefetches a cache line; any address is valid.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no visible effect, and every x86-64 CPU supports it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch has no visible effect, and every AArch64 CPU supports it.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Bytes ahead of a stream of codes that are fetched from memory, and those that are fetched from the L2
/// cache. Panels follow each other, so that the end of one prefetches the next.
const AHEAD: [usize; 2] = [4096, 512];

/// Prefetches what follows codes that are decoded once: few rows are bound by memory, and the prefetchers of
/// the hardware alone reach half of its bandwidth (Emerald Rapids).
#[inline(always)]
pub(super) fn prefetch_stream(codes: *const u8) {
    prefetch_far(codes.wrapping_add(AHEAD[0]));
    prefetch(codes.wrapping_add(AHEAD[1]));
}

/// The same straight into the L1 cache.
#[inline(always)]
pub(super) fn prefetch_stream_into_l1(codes: *const u8) {
    prefetch(codes.wrapping_add(AHEAD_OF_L1));
}

/// Bytes ahead of a stream of codes that are fetched straight into the L1 cache. Tuned on Zen 5.
const AHEAD_OF_L1: usize = 8192;

/// The same for codes of two blocks that are decoded in turns; the next ones are `far` bytes ahead.
#[inline(always)]
pub(super) fn prefetch_blocks(codes: *const u8, far: usize) {
    prefetch_far(codes.wrapping_add(far));
    prefetch(codes.wrapping_add(AHEAD[1]));
}

/// Prefetches a cache line into the L2 cache only; any address is valid.
#[inline(always)]
fn prefetch_far(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no visible effect, and every x86-64 CPU supports it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch has no visible effect, and every AArch64 CPU supports it.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use octile_core::{ActivationKind, ScaleGranularity};

    use super::*;

    const FP8: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Block);

    #[test]
    fn all_isas_quantize_alike() {
        let widened = |high: u32, low: u32| f32::from_bits(high << 16 | low);
        // Every bf16, so every tie, and numbers beside the ties; a length that is no multiple of a vector's.
        let values: Vec<f32> = (0..1 << 16)
            .flat_map(|high| [0, 1, 0x7fff, 0x8000, 0xffff].map(|low| widened(high, low)))
            .collect();
        let expected = |factor: f32| values.iter().map(move |value| E4m3::from_f32(value * factor).to_bits());
        let bf16s: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        for isa in Isa::ALL.into_iter().filter(|isa| is_available(*isa)) {
            let kernels = kernels(isa, isa.operand(FP8));
            for factor in [1.0, 0.37, 3e-5] {
                let mut codes = vec![0; values.len()];
                // SAFETY: the ISA is available.
                unsafe { (kernels.encode)(&values, factor, &mut codes) };
                let wrong = codes.iter().zip(expected(factor)).position(|(code, expected)| *code != expected);
                assert_eq!(wrong.map(|at| values[at]), None, "{isa} times {factor}");
            }
            let mut floats = vec![0.0; bf16s.len()];
            // SAFETY: the ISA is available.
            unsafe { (kernels.widen_bf16)(&bf16s, &mut floats) };
            let is_same = |(float, value): (&f32, &bf16)| float.to_bits() >> 16 == u32::from(value.to_bits());
            assert!(floats.iter().zip(&bf16s).all(is_same), "{isa}");
        }
    }

    #[test]
    fn all_isas_round_results_alike() {
        let ties = (0..1 << 16).flat_map(|high: u32| [0, 1, 0x7fff, 0x8000].map(|low| high << 16 | low));
        let values: Vec<f32> = ties.map(f32::from_bits).collect();
        for isa in Isa::ALL.into_iter().filter(|isa| is_available(*isa)) {
            let kernels = kernels(isa, isa.operand(FP8));
            for cols in [32, 5] {
                let stride = cols + 1;
                let mut out = vec![bf16::ONE; values.len() / 32 * stride];
                // SAFETY: the ISA is available, and every row has room.
                unsafe { (kernels.narrow_bf16)(&values, out.as_mut_ptr(), stride, cols) };
                for (out, values) in out.chunks(stride).zip(values.chunks(32)) {
                    let is_same = |(out, value): (&bf16, &f32)| {
                        let expected = bf16::from_f32(*value);
                        out.to_bits() == expected.to_bits() || out.is_nan() && expected.is_nan()
                    };
                    assert!(out[..cols].iter().zip(values).all(is_same), "{isa}: {values:?}");
                    assert_eq!(out[cols], bf16::ONE, "{isa}: beyond the columns");
                }
            }
        }
    }

    #[test]
    fn kernels_are_what_plans_count_on() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_native()) {
            for operand in [FloatKind::F32, FloatKind::Bf16] {
                if operand == FloatKind::Bf16 && isa.operand(FP8) != FloatKind::Bf16 {
                    continue;
                }
                let (kernels, tile) = (kernels(isa, operand), isa.tile(operand));
                assert_eq!(kernels.operand, operand, "{isa}");
                assert_eq!(kernels.weight_bytes, tile.weight.bytes(), "{isa}");
                assert_eq!((kernels.tiles.len(), kernels.tile_cols), (tile.rows, tile.cols), "{isa}");
                assert_eq!(kernels.decoding_tiles.len(), tile.decoding_rows, "{isa}");
                assert!([0, tile.rows].contains(&kernels.keeping_tiles.len()), "{isa}");
            }
        }
    }
}

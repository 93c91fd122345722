//! How fast ISAs multiply, by the number of rows.

use super::{Isa, Microarchitecture};

/// Numbers of rows at which rates are measured. Times between them are interpolated; beyond the last they
/// grow with the rows.
pub const SAMPLED_ROWS: [usize; 6] = [1, 2, 4, 8, 16, 64];

/// GFLOP/s of one ISA and one thread with a packed weight, at each of [`SAMPLED_ROWS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IsaRates {
    /// The ISA.
    pub isa: Isa,
    /// Its rates.
    pub gflops: [f64; SAMPLED_ROWS.len()],
}

impl IsaRates {
    /// Nanoseconds for some rows, per 1000 weights.
    pub(super) fn time(&self, rows: usize) -> f64 {
        let sampled = |at: usize| 2e3 * SAMPLED_ROWS[at] as f64 / self.gflops[at];
        let last = SAMPLED_ROWS.len() - 1;
        if rows >= SAMPLED_ROWS[last] {
            return sampled(last) * rows as f64 / SAMPLED_ROWS[last] as f64;
        }
        let next = SAMPLED_ROWS.partition_point(|sampled| *sampled <= rows).max(1);
        let (from, to) = (SAMPLED_ROWS[next - 1], SAMPLED_ROWS[next]);
        let share = (rows - from) as f64 / (to - from) as f64;
        sampled(next - 1) * (1.0 - share) + sampled(next) * share
    }
}

/// Rates of the ISAs of a CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuRates {
    /// With x that is exact in bf16: fp8, quantized, bf16.
    pub bf16: Vec<IsaRates>,
    /// With unquantized x of f32 or f16.
    pub f32: Vec<IsaRates>,
}

impl Microarchitecture {
    /// Rates measured on this design. Where there are none, measure.
    pub fn rates(self) -> Option<CpuRates> {
        let rates = |isa, gflops| IsaRates { isa, gflops };
        match self {
            // Weight of 4096 x 4096, blocks of 128: bench/record/cpu-rates-emerald-rapids-2026-11-18.json.
            // AMX at one row is slower with two threads, which count here: 17 % at 3424 x 4096. Dot products
            // of bf16 run at half the rate of f32 FMAs. x of f32 is multiplied by the same kernel as fp8 x
            // with AVX-512.
            Self::SapphireRapids | Self::EmeraldRapids => Some(CpuRates {
                bf16: vec![
                    rates(Isa::Avx512, [33.0, 56.5, 75.0, 86.5, 121.0, 143.0]),
                    rates(Isa::Avx512Bf16, [33.3, 47.4, 59.6, 66.9, 72.1, 81.5]),
                    rates(Isa::Amx, [28.5, 66.6, 130.6, 244.0, 462.0, 948.0]),
                ],
                f32: vec![rates(Isa::Avx512, [33.0, 56.5, 75.0, 86.5, 121.0, 143.0])],
            }),
            // The same weight: bench/record/cpu-rates-zen-5-2026-11-18.json. Dot products of bf16 run at
            // twice the rate of f32 FMAs; designs of laptops halve both.
            Self::Zen5 => Some(CpuRates {
                bf16: vec![
                    rates(Isa::Avx512, [104.0, 158.0, 208.0, 206.0, 239.0, 260.0]),
                    rates(Isa::Avx512Bf16, [125.0, 235.0, 404.0, 485.0, 483.0, 530.0]),
                ],
                f32: vec![rates(Isa::Avx512, [104.0, 158.0, 208.0, 206.0, 239.0, 260.0])],
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_samples_are_interpolated() {
        let rates = IsaRates { isa: Isa::Avx2, gflops: [2.0, 4.0, 4.0, 8.0, 8.0, 16.0] };
        let times = [1, 2, 3, 4, 6, 8, 12, 16, 40, 64, 128].map(|rows| rates.time(rows));
        assert_eq!(times, [1e3, 1e3, 1.5e3, 2e3, 2e3, 2e3, 3e3, 4e3, 6e3, 8e3, 16e3]);
    }
}

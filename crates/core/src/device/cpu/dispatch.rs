//! Which ISA multiplies a problem, by the type of x and the number of rows.

use std::fmt;

use super::{CpuRates, Isa, IsaRates, SAMPLED_ROWS};
use crate::{FloatKind, Problem};

/// How much faster than the ISA for many rows another one must be at few rows. Results of two ISAs differ in
/// their last bits, and close races would be decided by noise.
const WORTH_SWITCHING: f64 = 1.05;

/// Rows that an ISA multiplies: from `first` on, up to the next range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRange {
    /// Fewest rows.
    pub first: usize,
    /// Most rows; `None` for any number.
    pub last: Option<usize>,
    /// The ISA.
    pub isa: Isa,
}

impl fmt::Display for RowRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { first: 1, last: None, .. } => f.write_str("any number of rows"),
            Self { first, last: None, .. } => write!(f, "{first} rows and more"),
            Self { first: 1, last: Some(1), .. } => f.write_str("1 row"),
            Self { first, last: Some(last), .. } if first == last => write!(f, "{first} rows"),
            Self { first, last: Some(last), .. } => write!(f, "{first} to {last} rows"),
        }
    }
}

/// Which ISA multiplies what.
///
/// ```
/// use octile_core::device::cpu::{Isa, IsaDispatch};
///
/// let problem = "16x4096x4096:128".parse()?;
/// assert_eq!(IsaDispatch::only(Isa::Avx2).isa_for(&problem), Isa::Avx2);
/// # Ok::<(), octile_core::problem::ProblemError>(())
/// ```
///
/// `{}` names the ISAs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsaDispatch {
    bf16: Vec<RowRange>,
    f32: Vec<RowRange>,
}

impl IsaDispatch {
    /// One ISA for everything.
    pub fn only(isa: Isa) -> Self {
        let ranges = vec![RowRange { first: 1, last: None, isa }];
        Self { bf16: ranges.clone(), f32: ranges }
    }

    /// The fastest of the `available` ISAs; `None` where rates of none of them are known.
    pub fn fastest(rates: &CpuRates, available: &[Isa]) -> Option<Self> {
        let ranges = |rates: &[IsaRates]| {
            let rates: Vec<_> =
                rates.iter().filter(|rates| available.contains(&rates.isa)).copied().collect();
            fastest_ranges(&rates)
        };
        Some(Self { bf16: ranges(&rates.bf16)?, f32: ranges(&rates.f32)? })
    }

    /// The same for any number of rows: the ISA that is fastest for many.
    pub fn batch_invariant(&self) -> Self {
        let for_many = |ranges: &[RowRange]| {
            let last = ranges.last().map(|range| RowRange { first: 1, ..*range });
            last.into_iter().collect()
        };
        Self { bf16: for_many(&self.bf16), f32: for_many(&self.f32) }
    }

    /// The ISA for a problem.
    pub fn isa_for(&self, problem: &Problem) -> Isa {
        let ranges = self.ranges(Isa::Amx.operand(problem.x));
        let range = ranges.iter().find(|range| range.last.is_none_or(|last| problem.m <= last));
        range.map_or(Isa::Portable, |range| range.isa)
    }

    /// The ISAs by rows, for x that is exact in `operand`.
    pub fn ranges(&self, operand: FloatKind) -> &[RowRange] {
        match operand {
            FloatKind::Bf16 => &self.bf16,
            FloatKind::F32 | FloatKind::F16 => &self.f32,
        }
    }
}

/// Names of the ISAs, those for few rows first.
impl fmt::Display for IsaDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = Vec::new();
        for range in self.bf16.iter().chain(&self.f32) {
            if !names.contains(&range.isa.name()) {
                names.push(range.isa.name());
            }
        }
        f.write_str(&names.join(" + "))
    }
}

fn fastest_ranges(rates: &[IsaRates]) -> Option<Vec<RowRange>> {
    let fastest = |rows: usize| rates.iter().min_by(|a, b| a.time(rows).total_cmp(&b.time(rows)));
    let [.., most_rows] = SAMPLED_ROWS;
    let for_many = fastest(most_rows)?;
    let mut ranges: Vec<RowRange> = Vec::new();
    for rows in 1..=most_rows {
        let best = fastest(rows)?;
        let is_worth = best.time(rows) * WORTH_SWITCHING <= for_many.time(rows);
        let isa = if is_worth { best.isa } else { for_many.isa };
        match ranges.last_mut().filter(|range| range.isa == isa) {
            Some(range) => range.last = Some(rows),
            None => ranges.push(RowRange { first: rows, last: Some(rows), isa }),
        }
    }
    ranges.last_mut()?.last = None;
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActivationKind, QuantBlock, ScaleGranularity, device::cpu::Microarchitecture};

    fn shown(ranges: &[RowRange]) -> Vec<String> {
        ranges.iter().map(|range| format!("{}: {range}", range.isa)).collect()
    }

    fn problem(m: usize, x: ActivationKind) -> Problem {
        Problem::new(m, 256, 512, QuantBlock::B128).unwrap().with_x(x)
    }

    #[test]
    fn few_rows_may_want_another_isa() {
        let rates = |isa, gflops| IsaRates { isa, gflops };
        let slow_bf16 = CpuRates {
            bf16: vec![
                rates(Isa::Avx512, [10.0, 20.0, 40.0, 60.0, 80.0, 80.0]),
                rates(Isa::Avx512Bf16, [15.0, 22.0, 30.0, 40.0, 40.0, 40.0]),
                rates(Isa::Amx, [5.0, 10.0, 20.0, 40.0, 160.0, 640.0]),
            ],
            f32: vec![rates(Isa::Avx2, [12.0; 6]), rates(Isa::Avx512, [10.0, 20.0, 40.0, 60.0, 80.0, 80.0])],
        };
        let all = IsaDispatch::fastest(&slow_bf16, &Isa::ALL).unwrap();
        assert_eq!(
            shown(all.ranges(FloatKind::Bf16)),
            ["avx512bf16: 1 to 2 rows", "avx512: 3 to 10 rows", "amx: 11 rows and more"]
        );
        assert_eq!(shown(all.ranges(FloatKind::F32)), ["avx2: 1 row", "avx512: 2 rows and more"]);
        assert_eq!(all.to_string(), "avx512bf16 + avx512 + amx + avx2");
        let invariant = all.batch_invariant();
        assert_eq!(shown(invariant.ranges(FloatKind::Bf16)), ["amx: any number of rows"]);
        assert_eq!(shown(invariant.ranges(FloatKind::F32)), ["avx512: any number of rows"]);
        let fp8 = ActivationKind::Fp8(ScaleGranularity::Token);
        let of = |m, x| all.isa_for(&problem(m, x));
        assert_eq!(
            [2, 3, 10, 11, 5000].map(|m| of(m, fp8).name()),
            ["avx512bf16", "avx512", "avx512", "amx", "amx"]
        );
        let plain = |kind| of(64, ActivationKind::Plain(kind));
        assert_eq!(plain(FloatKind::F32), Isa::Avx512);
        assert_eq!(plain(FloatKind::F16), Isa::Avx512);
        assert_eq!(plain(FloatKind::Bf16), Isa::Amx);
        let quantized = ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Block);
        assert_eq!(of(64, quantized), Isa::Amx);
        // AMX is advertised, but the operating system does not permit it.
        let without_amx = IsaDispatch::fastest(&slow_bf16, &Isa::ALL[..4]).unwrap();
        assert_eq!(
            shown(without_amx.ranges(FloatKind::Bf16)),
            ["avx512bf16: 1 to 2 rows", "avx512: 3 rows and more"]
        );
        assert_eq!(IsaDispatch::fastest(&slow_bf16, &Isa::ALL[..1]), None);
    }

    #[test]
    fn a_close_race_goes_to_the_isa_for_many_rows() {
        let rates = |isa, few| IsaRates {
            isa,
            gflops: [few, few, few, 50.0, 50.0, if few > 10.0 { 50.0 } else { 99.0 }],
        };
        let ranges = |few| fastest_ranges(&[rates(Isa::Avx512Bf16, 10.0), rates(Isa::Avx512, few)]).unwrap();
        assert_eq!(shown(&ranges(10.4)), ["avx512bf16: any number of rows"]);
        assert_eq!(ranges(12.0)[0].isa, Isa::Avx512);
    }

    #[test]
    fn one_isa_for_everything() {
        let only = IsaDispatch::only(Isa::Avx2);
        assert_eq!(only.to_string(), "avx2");
        assert_eq!(shown(only.ranges(FloatKind::F32)), ["avx2: any number of rows"]);
    }

    #[test]
    fn sapphire_rapids_multiplies_many_rows_with_tiles() {
        let rates = Microarchitecture::SapphireRapids.rates().unwrap();
        let dispatch = IsaDispatch::fastest(&rates, &Isa::ALL).unwrap();
        let fp8 = ActivationKind::Fp8(ScaleGranularity::Token);
        let of = |m, x| dispatch.isa_for(&problem(m, x));
        assert_eq!(of(1, fp8), Isa::Avx512Bf16);
        assert_eq!(of(16, fp8), Isa::Amx);
        assert_eq!(of(16, ActivationKind::Plain(FloatKind::F32)), Isa::Avx512);
        // Dot products of bf16 have half the rate of f32 there.
        let dispatch = IsaDispatch::fastest(&rates, &Isa::ALL[..4]).unwrap();
        assert_eq!(dispatch.isa_for(&problem(16, fp8)), Isa::Avx512);
    }

    #[test]
    fn zen_5_multiplies_any_number_of_rows_with_bf16_dot_products() {
        let rates = Microarchitecture::Zen5.rates().unwrap();
        let dispatch = IsaDispatch::fastest(&rates, &Isa::ALL[..4]).unwrap();
        assert_eq!(shown(dispatch.ranges(FloatKind::Bf16)), ["avx512bf16: any number of rows"]);
        assert_eq!(shown(dispatch.ranges(FloatKind::F32)), ["avx512: any number of rows"]);
        // Where a virtual machine hides AVX-512, there is nothing to choose.
        assert_eq!(IsaDispatch::fastest(&rates, &Isa::ALL[..2]), None);
    }
}

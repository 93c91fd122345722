//! The kernel that quantizes activations before the matmul: its tuning, its launch and its arguments.

use serde::{Deserialize, Serialize};

use super::{HopperPlan, arguments::countable_stride};
use crate::{ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, ScaleLayout};

/// Names of the numbers that the quantization kernel takes after pointers to x, its codes and its scales. The
/// last three are the k-blocks of a row and the constants that divide by that:
/// `high(2 * n * reciprocal) >> shift`.
pub const QUANTIZE_NUMBERS: [&str; 10] = [
    "m",
    "k",
    "quant_shift",
    "x_stride",
    "codes_stride",
    "scale_row",
    "scale_k",
    "k_groups",
    "k_groups_reciprocal",
    "k_groups_shift",
];

/// Shared memory of a CTA of the quantization kernel, in bytes.
pub const QUANTIZE_SHARED_BYTES: u32 = 16;

/// Eviction priority of lines in the L2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePriority {
    /// The default.
    Normal,
    /// Evicted first: the line is not needed again.
    EvictFirst,
    /// Evicted last: the line is needed soon.
    EvictLast,
}

/// Choices that change the speed of the quantization kernel, and not its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuantizeTuning {
    /// Threads of a CTA.
    pub threads: u32,
    /// Unroll factor: 512-value loads in flight per warp.
    pub unroll: u32,
    /// L2 priority of the floats.
    pub floats: CachePriority,
    /// L2 priority of the codes.
    pub codes: CachePriority,
    /// CTAs per SM of a persistent kernel; `None` launches one CTA for each piece of work.
    pub persistent_ctas: Option<u32>,
}

impl QuantizeTuning {
    /// The fastest that was measured. No unrolling, because a small x then still occupies every SM; codes
    /// stay in L2, because the matmul reads them next.
    pub const BEST: Self = Self {
        threads: 256,
        unroll: 1,
        floats: CachePriority::Normal,
        codes: CachePriority::EvictLast,
        persistent_ctas: None,
    };

    /// Whether the kernel supports this tuning: whole warps that fit on an SM; block scales take the default
    /// only.
    pub fn is_for(self, granularity: ScaleGranularity) -> bool {
        let Self { threads, unroll, persistent_ctas, .. } = self;
        match granularity {
            ScaleGranularity::Token => {
                matches!(threads, 128 | 256 | 512 | 1024)
                    && (1..=4).contains(&unroll)
                    && persistent_ctas.is_none_or(|ctas| (1..=16).contains(&ctas))
            }
            ScaleGranularity::Block => threads == Self::BEST.threads && persistent_ctas.is_none(),
        }
    }
}

/// Everything that the quantization kernel is generated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizePlan {
    /// Type of the activations.
    pub kind: FloatKind,
    /// Which of them share a scale.
    pub granularity: ScaleGranularity,
    /// Columns, and for block scales rows, that share a scale.
    pub quant_block: QuantBlock,
    /// Whether rows are loaded in vectors of 16 bytes: K and the row stride are multiples of
    /// [`QuantizePlan::VECTOR`], and the first row is aligned.
    pub vectors: bool,
    /// Its tuning.
    pub tuning: QuantizeTuning,
}

impl QuantizePlan {
    /// Values of a 16-byte vector of 16-bit floats.
    pub const VECTOR: usize = 8;
    /// Values of a token group that one lane quantizes.
    pub const LANE_VALUES: usize = 16;
    /// Threads that an SM should hold, which bounds their registers.
    const RESIDENT_THREADS: u32 = 1024;

    /// The plan for a problem's activations, with [`QuantizeTuning::BEST`]; `None` where they do not come as
    /// floats.
    pub fn new(problem: &Problem) -> Option<Self> {
        let ActivationKind::Quantized(kind, granularity) = problem.x else { return None };
        Some(Self {
            kind,
            granularity,
            quant_block: problem.quant_block,
            vectors: problem.k.is_multiple_of(Self::VECTOR),
            tuning: QuantizeTuning::BEST,
        })
    }

    /// The same plan with another tuning; `None` where the kernel does not support it.
    pub fn with_tuning(self, tuning: QuantizeTuning) -> Option<Self> {
        tuning.is_for(self.granularity).then_some(Self { tuning, ..self })
    }

    /// The row stride of x must be a multiple of this many values.
    pub fn row_alignment(&self) -> usize {
        if self.vectors { Self::VECTOR } else { 1 }
    }

    /// Lanes that share a token group.
    pub fn lanes_per_group(&self) -> u32 {
        (self.quant_block.size() / Self::LANE_VALUES) as u32
    }

    /// Token groups that a warp loads at once.
    pub fn groups_per_load(&self) -> u32 {
        32 / self.lanes_per_group()
    }

    /// CTAs that must fit on an SM.
    pub fn ctas_per_sm(&self) -> u32 {
        Self::RESIDENT_THREADS / self.tuning.threads
    }

    /// How the kernel is launched.
    pub fn launch(&self) -> QuantizeLaunch {
        let QuantizeTuning { threads, unroll, persistent_ctas, .. } = self.tuning;
        let groups_per_block = threads / 32 * unroll * self.groups_per_load();
        QuantizeLaunch { threads, groups_per_block, persistent_ctas }
    }
}

impl HopperPlan {
    /// The plan of the quantization kernel, where activations come as floats.
    pub fn quantization(&self) -> Option<QuantizePlan> {
        QuantizePlan::new(&self.problem)
    }
}

/// How the quantization kernel divides its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeLaunch {
    /// Threads of a CTA.
    pub threads: u32,
    /// Token groups that a CTA takes at a time.
    pub groups_per_block: u32,
    /// CTAs per SM of a persistent kernel; `None` launches one CTA for each piece of work.
    pub persistent_ctas: Option<u32>,
}

impl QuantizeLaunch {
    /// The grid for the activations of a problem; `None` where its size exceeds what the kernel can index.
    pub fn grid(&self, problem: &Problem, sms: usize) -> Option<(u32, u32)> {
        let (rows, k_blocks) = problem.x_scale_shape()?;
        let (ctas, rows) = match problem.x.granularity()? {
            ScaleGranularity::Token => {
                let per_cta = self.groups_per_block as usize;
                let needed = rows.checked_mul(k_blocks)?.checked_next_multiple_of(per_cta)? / per_cta;
                // The kernel's division of group indices needs the top bit free.
                i32::try_from(needed.checked_mul(per_cta)?).ok()?;
                let most =
                    self.persistent_ctas.map_or(Some(needed), |ctas| sms.checked_mul(ctas as usize))?;
                (needed.min(most), 1)
            }
            ScaleGranularity::Block => (k_blocks, rows),
        };
        Some((u32::try_from(ctas).ok()?, u32::try_from(rows).ok()?))
    }
}

/// The numbers, in the order of [`QUANTIZE_NUMBERS`]; `None` when one, or a stride in bytes, does not fit in
/// 32 bits, or when the activations do not come as floats.
pub fn quantize_numbers(
    problem: &Problem,
    x_stride: usize,
    codes_stride: usize,
    scales: ScaleLayout,
) -> Option<[u32; QUANTIZE_NUMBERS.len()]> {
    let ActivationKind::Quantized(kind, _) = problem.x else { return None };
    let (_, cols) = problem.x_scale_shape()?;
    let x_stride = countable_stride(x_stride, kind.bytes())?;
    let [scale_row, scale_k] = scales.numbers()?;
    let shift = problem.quant_block.size().ilog2() as usize;
    let (reciprocal, reciprocal_shift) = reciprocal(cols);
    let numbers = [
        problem.m,
        problem.k,
        shift,
        x_stride as usize,
        codes_stride,
        scale_row as usize,
        scale_k as usize,
        cols,
        reciprocal,
        reciprocal_shift,
    ];
    let mut narrow = [0; QUANTIZE_NUMBERS.len()];
    for (narrow, number) in narrow.iter_mut().zip(numbers) {
        *narrow = u32::try_from(number).ok()?;
    }
    Some(narrow)
}

/// Constants to divide a number below 2^31 by `divisor`, because GPUs have no integer division: a factor, and
/// a shift of the high half of its product with twice the number.
fn reciprocal(divisor: usize) -> (usize, usize) {
    let shift = divisor.next_power_of_two().ilog2() as usize;
    ((1usize << (31 + shift)) / divisor + 1, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide() {
        for divisor in (1..2000).chain([4095, 4096, 4097, 65_535, 1 << 20, (1 << 20) + 1, i32::MAX as usize])
        {
            let (factor, shift) = reciprocal(divisor);
            let factor = u64::from(u32::try_from(factor).expect("a factor has 32 bits"));
            let last = i32::MAX as u64;
            let divisor = divisor as u64;
            let edges = (0..200).flat_map(|at| {
                let multiple = last / divisor / 200 * at * divisor;
                [multiple.saturating_sub(1), multiple, multiple + 1, last - at]
            });
            for number in edges.filter(|number| *number <= last) {
                assert_eq!((2 * number * factor) >> 32 >> shift, number / divisor, "{number} / {divisor}");
            }
        }
    }

    #[test]
    fn only_supported_tunings_are_planned() {
        let tokens = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token);
        let problem = Problem::new(3, 1, 200, QuantBlock::B128).unwrap().with_x(tokens);
        let plan = QuantizePlan::new(&problem).unwrap();
        for (threads, unroll) in [(0, 1), (33, 1), (2048, 1), (256, 0), (256, 1000)] {
            let tuning = QuantizeTuning { threads, unroll, ..QuantizeTuning::BEST };
            assert_eq!(plan.with_tuning(tuning), None, "{tuning:?}");
        }
        assert_eq!(plan.with_tuning(QuantizeTuning::BEST), Some(plan));
        assert_eq!(QuantizePlan::new(&problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token))), None);
    }
}

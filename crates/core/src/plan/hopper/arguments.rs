//! The arguments of a matmul kernel.

use super::HopperPlan;
use crate::{Problem, ScaleGranularity, ScaleLayout};

/// Scales that one `cp.async` copies where they are adjacent: 16 bytes.
pub const COPIED_AT_ONCE: usize = 4;

impl ScaleLayout {
    /// MN-major with every k-block aligned to 16 bytes, so that kernels copy [`COPIED_AT_ONCE`] scales at
    /// once.
    pub fn aligned((rows, _): (usize, usize)) -> Self {
        Self { row: 1, k: rows.next_multiple_of(COPIED_AT_ONCE) }
    }

    /// Elements that kernels may read: the [span](ScaleLayout::span); where several are copied at once, to
    /// the end of the last copy.
    pub fn extent(self, (rows, k_blocks): (usize, usize)) -> usize {
        let padded = rows.checked_next_multiple_of(COPIED_AT_ONCE).unwrap_or(rows);
        let rows = if self.is_aligned() { padded } else { rows };
        self.span((rows, k_blocks))
    }

    /// Whether kernels copy [`COPIED_AT_ONCE`] scales at once, from a first one that is aligned to 16 bytes.
    pub fn is_aligned(self) -> bool {
        self.row == 1 && self.k.is_multiple_of(COPIED_AT_ONCE)
    }

    /// The strides as kernel arguments; `None` when one does not fit in 32 bits in bytes, as kernels compute
    /// it.
    pub(super) fn numbers(self) -> Option<[u32; 2]> {
        Some([countable_stride(self.row, size_of::<f32>())?, countable_stride(self.k, size_of::<f32>())?])
    }

    /// Copies K-major scales, `k_blocks` per row, into this layout.
    pub fn arrange(self, k_major: &[f32], k_blocks: usize) -> Vec<f32> {
        let mut arranged = vec![0.0; self.extent((k_major.len() / k_blocks, k_blocks))];
        for (row, scales) in k_major.chunks(k_blocks).enumerate() {
            for (k, &scale) in scales.iter().enumerate() {
                arranged[row * self.row + k * self.k] = scale;
            }
        }
        arranged
    }
}

/// Names of the numbers that every matmul kernel takes after its tensor maps and pointers.
pub const NUMBERS: [&str; 17] = [
    "m",
    "n",
    "k",
    "k_blocks",
    "a_units",
    "b_units",
    "raster",
    "quant_shift",
    "x_scale_shift",
    "x_scale_row",
    "x_scale_k",
    "w_scale_row",
    "w_scale_k",
    "out_stride",
    "x_stride",
    "w_stride",
    "constant_weight",
];

/// What the caller decides beyond the plan: the layout of operands and result, strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// Layout of the activation scales.
    pub x_scales: ScaleLayout,
    /// Layout of the weight scales.
    pub w_scales: ScaleLayout,
    /// From one row of x to the next.
    pub x_stride: usize,
    /// From one row of the weight to the next.
    pub w_stride: usize,
    /// From one row of the result to the next.
    pub out_stride: usize,
    /// Whether the weight was complete before the kernel that precedes the multiplication in its stream was
    /// launched, as in inference. Then the producer warp prefetches it under programmatic dependent launch
    /// (PDL), before the preceding kernel is done, except in kernels with three consumer warpgroups. Off by
    /// default, because a broken promise gives wrong results.
    pub constant_weight: bool,
}

impl Arguments {
    /// Contiguous rows, padded only to TMA's alignment, and K-major scales.
    pub fn packed(problem: &Problem) -> Self {
        let stride = Self::aligned_stride(problem.k);
        Self {
            x_scales: ScaleLayout::k_major(problem.x_scale_shape().unwrap_or((1, 1))),
            w_scales: ScaleLayout::k_major(problem.w_scale_shape()),
            x_stride: stride,
            w_stride: stride,
            out_stride: problem.n,
            constant_weight: false,
        }
    }

    /// The same with a constant weight: see [`Arguments::constant_weight`].
    pub fn with_constant_weight(self) -> Self {
        Self { constant_weight: true, ..self }
    }

    /// As [`Arguments::packed`], with activation scales MN-major and aligned: the fastest layout, because the
    /// scales of a stage are adjacent.
    pub fn fastest(problem: &Problem) -> Self {
        let x_scales = ScaleLayout::aligned(problem.x_scale_shape().unwrap_or((1, 1)));
        Self { x_scales, ..Self::packed(problem) }
    }

    /// Smallest row stride of 8-bit operands that TMA takes.
    pub fn aligned_stride(k: usize) -> usize {
        k.next_multiple_of(16)
    }

    /// The numbers, in the order of [`NUMBERS`]; `None` when one, or a stride in bytes, does not fit in 32
    /// bits.
    pub fn numbers(&self, plan: &HopperPlan) -> Option<[u32; NUMBERS.len()]> {
        let problem = &plan.problem;
        let quant_shift = problem.quant_block.size().ilog2() as usize;
        let x_scale_shift = match problem.x.granularity() {
            Some(ScaleGranularity::Block) => quant_shift,
            Some(ScaleGranularity::Token) | None => 0,
        };
        let [x_scale_row, x_scale_k] = self.x_scales.numbers()?;
        let [w_scale_row, w_scale_k] = self.w_scales.numbers()?;
        let out_stride = countable_stride(self.out_stride, problem.out.bytes())?;
        let numbers = [
            problem.m,
            problem.n,
            problem.k,
            plan.k_blocks(),
            plan.units.0,
            plan.units.1,
            plan.raster,
            quant_shift,
            x_scale_shift,
            x_scale_row as usize,
            x_scale_k as usize,
            w_scale_row as usize,
            w_scale_k as usize,
            out_stride as usize,
            self.x_stride,
            self.w_stride,
            usize::from(self.constant_weight),
        ];
        let mut narrow = [0; NUMBERS.len()];
        for (narrow, number) in narrow.iter_mut().zip(numbers) {
            *narrow = u32::try_from(number).ok()?;
        }
        Some(narrow)
    }
}

/// A stride in elements of `bytes` bytes; `None` when it does not fit in 32 bits in bytes, as kernels compute
/// it.
pub(super) fn countable_stride(stride: usize, bytes: usize) -> Option<u32> {
    let in_bytes = stride.checked_mul(bytes)?;
    u32::try_from(in_bytes).ok().and(u32::try_from(stride).ok())
}

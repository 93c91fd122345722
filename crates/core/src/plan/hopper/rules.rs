//! Choices that follow from a problem and a shape.

use super::{ClusterMode, RESULT_COLUMNS, Release, ResultPath, STAGE_K, TileConfig, WAVE_ROWS};
use crate::{FloatKind, Problem, Strategy, device::hopper::HopperGpu};

/// Most stages along K of a short problem: they fit in most pipelines at once.
const SHORT_STAGES: usize = 8;

/// With several waves in a stage there is time for a warpgroup barrier, which saves arrivals.
pub(super) fn release(strategy: Strategy, shape: TileConfig, consumers: usize) -> Release {
    if strategy == Strategy::Strip && waves(shape, consumers) > 1 {
        Release::Warpgroup
    } else {
        Release::Warp
    }
}

pub(super) fn waves(shape: TileConfig, consumers: usize) -> usize {
    shape.tile.a / WAVE_ROWS / consumers
}

/// Whether the weight is still in L2 when it is read again.
pub(super) fn weight_stays(problem: &Problem, gpu: &HopperGpu) -> bool {
    problem.n * problem.k < gpu.l2 * 5 / 6
}

/// Whether all of an operand stays in L2 beside what streams through.
pub(super) fn operand_stays(rows: usize, k: usize, gpu: &HopperGpu) -> bool {
    rows * k <= gpu.l2 * 2 / 5
}

/// Whether only so many CTAs run as finish their tiles in as many rounds: cold calls then take up to 2.4 %
/// less, others as long. Few rows need every SM to load the weight, and short tiles to store results.
pub(super) fn needs_few_sms(problem: &Problem, cluster: ClusterMode) -> bool {
    let (rows, stages) = (problem.m, problem.k / STAGE_K);
    cluster != ClusterMode::SplitTail && rows >= 192 && stages >= 16
}

/// Whether two CTAs are resident on an SM, as far as the accumulators leave registers for that.
pub(super) fn shares_sm(
    problem: &Problem,
    shape: TileConfig,
    consumers: usize,
    more_ctas_than_sms: bool,
) -> bool {
    if consumers == 1 {
        return shape.tile.b <= 96;
    }
    let is_small = consumers == 2 && shape.tile.b <= 64;
    let is_short = is_short(problem);
    if shape.swapped {
        // One CTA multiplies while the other waits for its weight. A short problem does not need that: the
        // pipeline of a CTA alone on its SM already holds the next tile's stages.
        return is_small && more_ctas_than_sms && !is_short;
    }
    // In a short problem the next kernel's first loads hide behind the end of this one (PDL). In a longer
    // one, half the stages would cost more than that gains.
    is_small && is_short && shape.cluster == ClusterMode::Single
}

/// Whether a warpgroup starts the wgmma of a stage before it promotes the previous one: where nothing else
/// would keep the tensor cores busy, and a thread has registers for the wgmma accumulators of two stages.
pub(super) fn overlaps_stages(
    problem: &Problem,
    shape: TileConfig,
    consumers: usize,
    has_sm_to_itself: bool,
) -> bool {
    let splits_k = matches!(shape.cluster, ClusterMode::SplitK(_));
    match consumers {
        1 if shape.swapped => !splits_k && has_sm_to_itself,
        1 => shape.tile.b <= 128 && (has_sm_to_itself || is_short(problem)),
        // For narrower tiles the other warpgroup's wgmma suffice. With 112 columns there are too many scale
        // boundaries to select among.
        2 => waves(shape, consumers) == 1 && !shape.swapped && matches!(shape.tile.b, 96 | 128),
        _ => false,
    }
}

/// Whether K is short.
fn is_short(problem: &Problem) -> bool {
    problem.k.div_ceil(STAGE_K) <= SHORT_STAGES
}

pub(super) fn operand_rows(problem: &Problem, swapped: bool) -> (usize, usize) {
    if swapped { (problem.n, problem.m) } else { (problem.m, problem.n) }
}

pub(super) fn units(problem: &Problem, shape: TileConfig) -> (usize, usize) {
    let (rows_a, rows_b) = operand_rows(problem, shape.swapped);
    let (a, b) = (rows_a.div_ceil(shape.tile.a), rows_b.div_ceil(shape.tile.b));
    match shape.cluster {
        ClusterMode::MulticastA => (a, b.div_ceil(2)),
        ClusterMode::MulticastB => (a.div_ceil(2), b),
        ClusterMode::Single | ClusterMode::SplitK(_) | ClusterMode::SplitTail => (a, b),
    }
}

/// CTAs that the problem would take if each had one tile, or with split-K one part of a tile.
pub(super) fn ctas_needed(units: (usize, usize), shape: TileConfig) -> usize {
    units.0 * units.1 * shape.cluster.ctas_per_unit()
}

/// How results get to global memory.
pub(super) fn result_path(
    problem: &Problem,
    strategy: Strategy,
    shape: TileConfig,
    consumers: usize,
    one_tile_each: bool,
) -> ResultPath {
    let splits_k = matches!(shape.cluster, ClusterMode::SplitK(_));
    let is_direct = strategy != Strategy::Strip || shape.swapped || splits_k;
    if is_direct || problem.out == FloatKind::F32 {
        ResultPath::Direct
    } else if !problem.n.is_multiple_of(8) {
        if stores_vectors(problem) { ResultPath::Direct } else { ResultPath::Elements }
    } else if !shape.tile.b.is_multiple_of(RESULT_COLUMNS)
        || (one_tile_each && shape.tile.b == RESULT_COLUMNS)
    {
        // Nothing but its own last wave is computed while TMA stores a CTA's only tile; for a narrow one, TMA
        // does not pay.
        ResultPath::Lines
    } else if one_tile_each {
        ResultPath::TmaStoreByWave
    } else if waves(shape, consumers) > 1 {
        // Only with several waves: warpgroups of one wave drift further apart, and the first to finish should
        // not wait for the last.
        ResultPath::TmaStoreByProducer
    } else {
        ResultPath::TmaStore
    }
}

/// Whether four neighbouring results can be stored at once.
pub(super) fn stores_vectors(problem: &Problem) -> bool {
    problem.n.is_multiple_of(4)
}

/// Chunks of 8 columns whose results are stored together: unswapped, two fill a memory sector; swapped, the
/// 16 rows of one do.
pub(super) fn chunks_per_part(shape: TileConfig) -> usize {
    if shape.swapped { 1 } else { 2 }
}

/// Whether some tile of that width would touch more weight scales than the two that a stage holds.
pub(super) fn touches_three_scales(problem: &Problem, shape: TileConfig) -> bool {
    let (columns, quant) = (shape.tile.b, problem.quant_block.size());
    let mut starts = (0..quant).map(|tile| tile * columns % quant);
    starts.any(|start| start + columns > 2 * quant)
}

pub(super) fn w_scales_per_stage(shape: TileConfig) -> usize {
    if shape.swapped { shape.tile.a / WAVE_ROWS } else { 2 }
}

//! Tile selection: aligned tiles are fixed, large tiles fill the VMEM budget, strips minimize modelled
//! cycles.

use super::{Arithmetic, BlockMode, Dims, TpuPlan, WeightPipeline, memory};
use crate::{Problem, ScaleGranularity, Strategy, device::tpu::TpuChip};

/// Up to this many rows, loading the weights takes longer than multiplying them.
const FEW_ROWS: usize = 64;

/// Rows of x per weight block that keep an MXU busy, and columns that fill both MXUs.
const CHUNK: usize = 256;

/// Chooses the tile for a problem. The caller checks that it fits.
pub(super) fn choose(problem: &Problem, chip: &'static TpuChip, strategy: Strategy, mode: BlockMode) -> Dims {
    let aligned = aligned(problem);
    match (mode, strategy) {
        (BlockMode::Aligned, Strategy::Strip) => aligned_strip(problem, chip, aligned),
        (BlockMode::Aligned, _) => aligned,
        (BlockMode::Large | BlockMode::Auto, Strategy::Strip) => {
            few_rows(problem, chip, aligned).unwrap_or_else(|| strip(problem, chip, aligned))
        }
        (BlockMode::Large | BlockMode::Auto, _) => large(problem, chip, strategy, aligned),
    }
}

/// One quantization block. Few rows of x are not padded to a whole block.
pub(super) fn aligned(problem: &Problem) -> Dims {
    let qb = problem.quant_block.size();
    let rows = problem.m.next_multiple_of(if problem.m <= 16 { 16 } else { 32 });
    Dims { m: rows.min(qb), n: qb, k: qb }
}

/// The multiple of `block` up to `limit` that covers `len` with the least padding; the longest of several.
fn covering(len: usize, block: usize, limit: usize) -> usize {
    let blocks = len.div_ceil(block);
    let most = (limit / block).clamp(1, blocks);
    (1..=most)
        .min_by_key(|&per_tile| (blocks.next_multiple_of(per_tile), most - per_tile))
        .expect("at least one block per tile")
        * block
}

/// Tiles of about 1024 on a side; 512 for the smallest quantization blocks, where a tile is many small
/// matmuls.
fn large(problem: &Problem, chip: &'static TpuChip, strategy: Strategy, aligned: Dims) -> Dims {
    let few_rows = problem.m <= FEW_ROWS;
    let nominal = if aligned.n < 256 && !few_rows { 512 } else { 1024 };
    let sized = |limit: usize| Dims {
        m: covering(problem.m, aligned.m, limit),
        n: covering(problem.n, aligned.n, limit),
        k: covering(problem.k, aligned.k, limit),
    };
    let limits = [nominal, nominal / 2, nominal / 4];
    let fits = |tile: &Dims| fits(problem, chip, strategy, *tile);
    limits.into_iter().map(sized).find(fits).unwrap_or(aligned)
}

fn fits(problem: &Problem, chip: &'static TpuChip, strategy: Strategy, tile: Dims) -> bool {
    let plan = TpuPlan::lay_out(problem, chip, strategy, BlockMode::Large, tile);
    if plan.arithmetic == Arithmetic::Dequantized && tile.k > MOST_DEQUANTIZED {
        return false;
    }
    memory::vmem_budget(&plan) <= memory::usable_vmem(chip)
}

/// Strip lengths along K, from all of K down to one block, without padding beyond whole blocks.
fn strip_lengths(problem: &Problem, aligned: Dims) -> impl Iterator<Item = usize> {
    let blocks = problem.k.div_ceil(aligned.k);
    (1..=blocks).map(move |parts| covering(problem.k, aligned.k, blocks.div_ceil(parts) * aligned.k))
}

/// One block of rows and columns by all of K, or by the longest part of K that fits.
fn aligned_strip(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Dims {
    strip_lengths(problem, aligned)
        .map(|k| Dims { k, ..aligned })
        .find(|&tile| fits(problem, chip, Strategy::Strip, tile))
        .unwrap_or(aligned)
}

/// The tiles that a strategy chooses among, aligned ones first.
pub(super) fn candidates(problem: &Problem, chip: &'static TpuChip, strategy: Strategy) -> Vec<Dims> {
    let aligned = aligned(problem);
    if strategy != Strategy::Strip {
        return vec![aligned, large(problem, chip, strategy, aligned)];
    }
    let mut tiles = vec![aligned_strip(problem, chip, aligned)];
    tiles.extend(few_rows(problem, chip, aligned));
    tiles.extend(strips(problem, chip, aligned).into_iter().map(|(_, tile)| tile));
    tiles
}

/// Strips that fit, over all of K or the longest part of it, with their modelled cycles.
fn strips(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Vec<(ModelledCycles, Dims)> {
    let sides = |len: usize, block: usize| {
        let limits = [256, 512, 768, 1024, 1536, 1792, 2048];
        let mut sides: Vec<usize> = limits.iter().map(|&limit| covering(len, block, limit)).collect();
        sides.dedup();
        sides
    };
    for k in strip_lengths(problem, aligned) {
        let tiles = sides(problem.m, aligned.m).into_iter().flat_map(|m| {
            let columns = sides(problem.n, aligned.n);
            columns.into_iter().map(move |n| Dims { m, n, k })
        });
        let fitting: Vec<_> = tiles
            .filter(|&tile| fits(problem, chip, Strategy::Strip, tile))
            .map(|tile| (modelled_cycles(&strip_plan(problem, chip, tile)), tile))
            .filter(|(cycles, _)| cycles.unrolled <= MOST_UNROLLED)
            .collect();
        if !fitting.is_empty() {
            return fitting;
        }
    }
    Vec::new()
}

/// The strip with the fewest modelled cycles.
fn strip(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Dims {
    let strips = strips(problem, chip, aligned).into_iter();
    let best = strips.min_by(|(a, _), (b, _)| a.total.total_cmp(&b.total));
    best.map_or(aligned, |(_, tile)| tile)
}

fn strip_plan(problem: &Problem, chip: &'static TpuChip, tile: Dims) -> TpuPlan {
    TpuPlan::lay_out(problem, chip, Strategy::Strip, BlockMode::Large, tile)
}

/// A grid step is straight-line code; beyond this many bundles it grows without getting faster.
const MOST_UNROLLED: f64 = 15_000.0;

/// Longest strip that is dequantized in one step: compile time grows faster than the strip.
const MOST_DEQUANTIZED: usize = 8_192;

/// Modelled cycles of a kernel.
pub(super) struct ModelledCycles {
    /// MXU cycles of one grid step.
    unrolled: f64,
    /// Cycles of the kernel.
    pub(super) total: f64,
}

/// Models the cycles of a kernel. A grid step takes its matmuls and a fixed cost, or its DMAs if they take
/// longer; nothing hides the first loads and the last store. The constants were fitted to libtpu's listings
/// for tpu7x.
pub(super) fn modelled_cycles(plan: &TpuPlan) -> ModelledCycles {
    const STEP: f64 = 600.0;
    const LATENCY: f64 = 1_100.0;
    const BYTES_PER_CYCLE: f64 = 1_680.0;
    let tile = plan.tile;
    let products_per_cycle = match plan.arithmetic {
        Arithmetic::Fp8 => 524_288.0,
        Arithmetic::Widened | Arithmetic::Dequantized => 262_144.0,
    };
    let busy_rows = tile.m.max(CHUNK);
    let products = (busy_rows * tile.n * tile.k) as f64 / products_per_cycle;
    let copy = |bytes: usize| bytes as f64 / BYTES_PER_CYCLE;
    let x_strip = copy(tile.m * tile.k * plan.problem.x.bytes());
    let w_strip = copy(tile.n * tile.k);
    let out = copy(tile.m * tile.n * plan.kernel_out().bytes());
    let steps = plan.steps() as f64;
    let copies = w_strip + out + x_strip / plan.grid.n as f64;
    let total = steps * (products + STEP).max(copies) + x_strip + w_strip + out + 3.0 * LATENCY;
    ModelledCycles { unrolled: products, total }
}

/// Columns of one stage of the weight pipeline. Fewer wait too often for the MXUs to drain, more wait too
/// long for the first stage.
const STAGE_COLUMNS: usize = 512;

/// VMEM that the weight pipeline may fill.
fn pipeline_budget(chip: &TpuChip) -> usize {
    memory::usable_vmem(chip) / 4 * 3
}

fn stage_bytes(columns: usize, k: usize) -> usize {
    memory::full_tile_bytes(&[columns, k], 1)
}

/// Columns of one stage; `None` where rows are not few or two stages do not fit.
fn stage_columns(problem: &Problem, chip: &TpuChip, rows: usize, columns: usize, k: usize) -> Option<usize> {
    let qb = problem.quant_block.size();
    let two_fit = |limit: &usize| stage_bytes(*limit, k).saturating_mul(2) <= pipeline_budget(chip);
    let limits = [STAGE_COLUMNS, STAGE_COLUMNS / 2, STAGE_COLUMNS / 4];
    let limit = limits.into_iter().filter(|&limit| limit >= qb).find(two_fit);
    limit.filter(|_| rows <= FEW_ROWS).map(|limit| covering(columns, qb, limit))
}

/// The tile of a kernel for few rows: as many stages as one step of straight-line code can hold.
fn few_rows(problem: &Problem, chip: &TpuChip, aligned: Dims) -> Option<Dims> {
    let k = problem.k.next_multiple_of(aligned.k);
    let columns = stage_columns(problem, chip, problem.m, problem.n, k)?;
    let cycles_per_stage = (CHUNK * columns * k) as f64 / 524_288.0;
    let most = (MOST_UNROLLED / cycles_per_stage) as usize;
    let stages = problem.n.div_ceil(columns);
    let per_step = (1..=most.clamp(1, stages)).rev().find(|&per_step| stages.is_multiple_of(per_step))?;
    Some(Dims { m: aligned.m, n: columns * per_step, k })
}

/// The weight pipeline of a kernel for few rows: all of w where it fits, else as many stages as do.
pub(super) fn weight_pipeline(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
) -> Option<WeightPipeline> {
    if strategy != Strategy::Strip || tile.k != padded.k {
        return None;
    }
    let columns = stage_columns(problem, chip, padded.m, tile.n, tile.k)?;
    let stages = pipeline_budget(chip) / stage_bytes(columns, tile.k);
    Some(WeightPipeline { columns, stages: stages.min(padded.n / columns).max(2) })
}

/// Rows and columns of one matmul inside a tile: enough to keep the MXUs busy, few enough for its result to
/// stay in or near the vector registers.
pub(super) fn chunk(
    problem: &Problem,
    strategy: Strategy,
    arithmetic: Arithmetic,
    tile: Dims,
    weight_pipeline: Option<WeightPipeline>,
) -> (usize, usize) {
    let qb = problem.quant_block.size();
    if let Some(pipeline) = weight_pipeline {
        return (tile.m, pipeline.columns);
    }
    if strategy != Strategy::Strip {
        return (qb.min(tile.m), qb);
    }
    let rows = [CHUNK, 2 * CHUNK, CHUNK / 2, tile.m].into_iter();
    let rows = rows.filter(|&rows| tile.m.is_multiple_of(rows) && rows <= tile.m);
    // Rows with different block scales would have to be split again after the matmul.
    let one_scale = |&rows: &usize| arithmetic == Arithmetic::Dequantized || per_row(problem) || rows <= qb;
    let rows = rows.clone().find(one_scale).unwrap_or(qb.min(tile.m));
    let one_block = match arithmetic {
        Arithmetic::Dequantized => tile.n,
        Arithmetic::Fp8 | Arithmetic::Widened => qb,
    };
    let columns = [CHUNK, CHUNK / 2].into_iter();
    let columns = columns.filter(|&columns| tile.n.is_multiple_of(columns) && columns <= one_block);
    (rows, columns.max().expect("128 divides every tile"))
}

fn per_row(problem: &Problem) -> bool {
    !matches!(problem.x.granularity(), Some(ScaleGranularity::Block))
}

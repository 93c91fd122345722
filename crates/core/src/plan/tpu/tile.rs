//! Choosing tiles. Aligned tiles are given; large ones are chosen within the chip's memory, strips by a model of
//! the cycles that they take.

use super::{Arithmetic, BlockMode, Dims, Ring, TpuPlan, memory};
use crate::{Problem, ScaleGranularity, Strategy, device::tpu::TpuChip, plan::MemorySpace};

/// Rows up to which loading the weights takes longer than multiplying by them.
pub(super) const FEW_ROWS: usize = 64;

/// Rows of x that a matrix unit must see per block of weights to be kept busy, and columns that fill both units.
const CHUNK: usize = 256;

/// The tile for a problem; whether it fits is for the plan to say.
pub(super) fn choose(problem: &Problem, chip: &'static TpuChip, strategy: Strategy, mode: BlockMode) -> Dims {
    let aligned = aligned(problem);
    match (mode, strategy) {
        (BlockMode::Aligned, Strategy::Strip) => aligned_strip(problem, chip, aligned),
        (BlockMode::Aligned, _) => aligned,
        (BlockMode::Large, Strategy::Strip) => {
            few_rows(problem, chip, aligned).unwrap_or_else(|| strip(problem, chip, aligned))
        }
        (BlockMode::Large, _) => large(problem, chip, strategy, aligned),
    }
}

/// One quantization block. Few rows of x are not padded to a whole one.
fn aligned(problem: &Problem) -> Dims {
    let qb = problem.quant_block.size();
    let rows = problem.m.next_multiple_of(if problem.m <= 16 { 16 } else { 32 });
    Dims { m: rows.min(qb), n: qb, k: qb }
}

/// Multiples of `block` that cover `len` with the least padding, at most `limit` long; the longest of them.
fn covering(len: usize, block: usize, limit: usize) -> usize {
    let blocks = len.div_ceil(block);
    let most = (limit / block).clamp(1, blocks);
    (1..=most)
        .min_by_key(|&per_tile| (blocks.next_multiple_of(per_tile), most - per_tile))
        .expect("at least one block per tile")
        * block
}

/// Tiles of about 1024 on a side; of 512 at the smallest blocks, where a tile is a lot of small products.
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
    plan.memory.total(MemorySpace::Vmem) <= memory::usable_vmem(chip)
}

/// Lengths along K, from all of it down to one block, with no more padding than blocks need.
fn strip_lengths(problem: &Problem, aligned: Dims) -> impl Iterator<Item = usize> {
    let blocks = problem.k.div_ceil(aligned.k);
    (1..=blocks).map(move |parts| covering(problem.k, aligned.k, blocks.div_ceil(parts) * aligned.k))
}

/// One block of rows and columns by all of K, or the longest part of it that fits.
fn aligned_strip(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Dims {
    strip_lengths(problem, aligned)
        .map(|k| Dims { k, ..aligned })
        .find(|&tile| fits(problem, chip, Strategy::Strip, tile))
        .unwrap_or(aligned)
}

/// The strip with the fewest modelled cycles: whole K, or the longest part of it that fits.
fn strip(problem: &Problem, chip: &'static TpuChip, aligned: Dims) -> Dims {
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
        let best = tiles
            .filter(|&tile| fits(problem, chip, Strategy::Strip, tile))
            .map(|tile| (modelled_cycles(problem, chip, tile), tile))
            .filter(|(cycles, _)| cycles.unrolled <= MOST_UNROLLED)
            .min_by(|(a, _), (b, _)| a.total.total_cmp(&b.total));
        if let Some((_, tile)) = best {
            return tile;
        }
    }
    aligned
}

/// A step is straight-line code; beyond this many bundles it grows without getting faster.
const MOST_UNROLLED: f64 = 15_000.0;

/// Columns of a strip that become bf16 in one step: the compiler's time grows faster than they do.
const MOST_DEQUANTIZED: usize = 8_192;

/// What a strip is modelled to take, in cycles.
struct Cycles {
    /// Of the matrix units in one step.
    unrolled: f64,
    /// Of everything.
    total: f64,
}

/// Products of a step, the fixed cost of a step, and copies where they are longer; then the first strips in and
/// the last tile out, which nothing hides. The constants were fitted to libtpu's listings for tpu7x.
fn modelled_cycles(problem: &Problem, chip: &'static TpuChip, tile: Dims) -> Cycles {
    const STEP: f64 = 600.0;
    const LATENCY: f64 = 1_100.0;
    const BYTES_PER_CYCLE: f64 = 1_680.0;
    let plan = TpuPlan::lay_out(problem, chip, Strategy::Strip, BlockMode::Large, tile);
    let products_per_cycle = match plan.arithmetic {
        Arithmetic::Fp8 => 524_288.0,
        Arithmetic::Widened | Arithmetic::Dequantized => 262_144.0,
    };
    let busy_rows = tile.m.max(CHUNK);
    let products = (busy_rows * tile.n * tile.k) as f64 / products_per_cycle;
    let copy = |bytes: usize| bytes as f64 / BYTES_PER_CYCLE;
    let x_strip = copy(tile.m * tile.k * problem.x.bytes());
    let w_strip = copy(tile.n * tile.k);
    let out = copy(tile.m * tile.n * plan.kernel_out().bytes());
    let steps = plan.steps() as f64;
    let copies = w_strip + out + x_strip / plan.grid.n as f64;
    let total = steps * (products + STEP).max(copies) + x_strip + w_strip + out + 3.0 * LATENCY;
    Cycles { unrolled: products, total }
}

/// Columns of w that are copied, waited for and multiplied together where rows are few. Fewer would wait too
/// often for the matrix units to drain, more would wait too long for the first of them.
const PIECE: usize = 512;

/// Vector memory that the weights of a kernel for few rows may fill.
fn room_for_weights(chip: &TpuChip) -> usize {
    memory::usable_vmem(chip) / 4 * 3
}

/// Columns of one piece; none where rows are not few, or where two pieces do not fit.
fn piece(problem: &Problem, chip: &TpuChip, rows: usize, columns: usize, k: usize) -> Option<usize> {
    let qb = problem.quant_block.size();
    let two_fit = |limit: &usize| 2 * memory::vmem_bytes(*limit, k, 1) <= room_for_weights(chip);
    let limit = [PIECE, PIECE / 2, PIECE / 4].into_iter().filter(|&limit| limit >= qb).find(two_fit);
    limit.filter(|_| rows <= FEW_ROWS).map(|limit| covering(columns, qb, limit))
}

/// The tile of a kernel for few rows: as many pieces as a step of straight-line code can hold.
fn few_rows(problem: &Problem, chip: &TpuChip, aligned: Dims) -> Option<Dims> {
    let k = problem.k.next_multiple_of(aligned.k);
    let columns = piece(problem, chip, problem.m, problem.n, k)?;
    let cycles_per_piece = (CHUNK * columns * k) as f64 / 524_288.0;
    let most = (MOST_UNROLLED / cycles_per_piece) as usize;
    let pieces = problem.n.div_ceil(columns);
    let per_step = (1..=most.clamp(1, pieces)).rev().find(|&per_step| pieces.is_multiple_of(per_step))?;
    Some(Dims { m: aligned.m, n: columns * per_step, k })
}

/// The ring of a kernel for few rows: all of w where it fits, else as much of it as does.
pub(super) fn ring(
    problem: &Problem,
    chip: &TpuChip,
    strategy: Strategy,
    tile: Dims,
    padded: Dims,
) -> Option<Ring> {
    if strategy != Strategy::Strip || tile.k != padded.k {
        return None;
    }
    let columns = piece(problem, chip, padded.m, tile.n, tile.k)?;
    let slots = room_for_weights(chip) / memory::vmem_bytes(columns, tile.k, 1);
    Some(Ring { columns, slots: slots.min(padded.n / columns).max(2) })
}

/// Rows and columns of one product inside a tile: enough to keep the matrix units busy, few enough that its
/// result stays close to the registers.
pub(super) fn chunk(
    problem: &Problem,
    strategy: Strategy,
    arithmetic: Arithmetic,
    tile: Dims,
    ring: Option<Ring>,
) -> (usize, usize) {
    let qb = problem.quant_block.size();
    if let Some(ring) = ring {
        return (tile.m, ring.columns);
    }
    if strategy != Strategy::Strip {
        return (qb.min(tile.m), qb);
    }
    let rows = [CHUNK, 2 * CHUNK, CHUNK / 2, tile.m].into_iter();
    let rows = rows.filter(|&rows| tile.m.is_multiple_of(rows) && rows <= tile.m);
    // A product whose rows have different scales would have to be cut up again.
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

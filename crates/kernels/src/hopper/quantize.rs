//! Floats to f8e4m3fn with one scale per block or token group: the same bits as the CPU's quantization.
//!
//! The work is reading once and writing once, so little may be done per value: 16 bytes are loaded at a time, the largest
//! magnitude is sought among pairs, and sixteen values share the arithmetic of their scale.

mod blocks;
mod rows;
mod scale;

use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity,
    plan::hopper::{QUANTIZE_NUMBERS, QuantizeLaunch},
};

use super::{
    Kernel,
    ptx::{B32, CachePriority, LaunchBounds, Parameter, Ptx},
};
use rows::Rows;

/// Values of a token group that one lane takes.
const LANE_VALUES: u32 = 16;
/// Threads that a multiprocessor should hold, which caps their registers.
const RESIDENT_THREADS: u32 = 1024;

/// What does not change the result, only the time that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeTuning {
    /// Threads of a block.
    pub threads: u32,
    /// Times that a warp takes 512 values, all of them in flight at once.
    pub steps: u32,
    /// How long the floats stay in the second-level cache.
    pub floats: CachePriority,
    /// How long the codes do.
    pub codes: CachePriority,
    /// Blocks per multiprocessor that stay and take one piece of work after another; `None` for one block per piece.
    pub staying: Option<u32>,
}

impl QuantizeTuning {
    /// What [`quantize`] takes: one step, because a small x then still has work for every multiprocessor, and codes that stay, because the
    /// very next kernel reads them.
    pub const BEST: Self = Self {
        threads: 256,
        steps: 1,
        floats: CachePriority::Normal,
        codes: CachePriority::EvictLast,
        staying: None,
    };

    /// Whether this tuning is supported: whole warps that fit on an SM; block scales take the default only.
    pub fn is_for(self, granularity: ScaleGranularity) -> bool {
        let Self { threads, steps, staying, .. } = self;
        match granularity {
            ScaleGranularity::Token => {
                matches!(threads, 128 | 256 | 512 | 1024)
                    && (1..=4).contains(&steps)
                    && staying.is_none_or(|blocks| (1..=16).contains(&blocks))
            }
            ScaleGranularity::Block => threads == Self::BEST.threads && staying.is_none(),
        }
    }

    /// Token groups of `quant_block` values that a block of threads quantizes.
    pub fn groups_per_block(self, quant_block: usize) -> u32 {
        self.threads / 32 * self.steps * groups_per_step(quant_block as u32)
    }

    /// How a kernel for blocks of `quant_block` is launched.
    pub fn launch(self, quant_block: usize) -> QuantizeLaunch {
        let Self { threads, staying, .. } = self;
        QuantizeLaunch { threads, groups_per_block: self.groups_per_block(quant_block), staying }
    }

    fn name(self) -> String {
        let word = |keep: CachePriority| match keep {
            CachePriority::Normal => "normal",
            CachePriority::EvictFirst => "first",
            CachePriority::EvictLast => "last",
        };
        match self {
            Self::BEST => String::new(),
            Self { threads, steps, floats, codes, staying } => {
                let staying = staying.map_or_else(String::new, |blocks| format!("_staying{blocks}"));
                format!("_{threads}x{steps}_{}_{}{staying}", word(floats), word(codes))
            }
        }
    }
}

/// Lanes that share a token group.
fn lanes_per_group(quant_block: u32) -> u32 {
    quant_block / LANE_VALUES
}

fn groups_per_step(quant_block: u32) -> u32 {
    32 / lanes_per_group(quant_block)
}

/// Rows of an aligned kernel start at multiples of so many values, and have a multiple of so many.
pub const QUANTIZE_ALIGNMENT: usize = 8;

/// Whether rows of `k` values can be loaded 16 bytes at a time: each then starts at a multiple of that, where the first
/// does and rows have no gaps.
pub fn quantizes_vectors(k: usize) -> bool {
    k.is_multiple_of(QUANTIZE_ALIGNMENT)
}

/// The kernel that quantizes floats of one kind. `quant_block` is the number of columns that share a scale; `aligned`
/// says that rows start at multiples of 16 bytes and K is a multiple of 8.
///
/// A launch has one block per [`QuantizeTuning::groups_per_block`] token groups, or one block per quantization block, those along K
/// first.
pub fn quantize(kind: FloatKind, granularity: ScaleGranularity, quant_block: usize, aligned: bool) -> Kernel {
    quantize_tuned(kind, granularity, quant_block, aligned, QuantizeTuning::BEST)
}

/// The same with another tuning; then a block of threads takes [`QuantizeTuning::groups_per_block`].
pub fn quantize_tuned(
    kind: FloatKind,
    granularity: ScaleGranularity,
    quant_block: usize,
    aligned: bool,
    tuning: QuantizeTuning,
) -> Kernel {
    let mut ptx = Ptx::default();
    let rows = Rows::new(&mut ptx, kind, aligned, tuning);
    ptx.wait_for_previous_kernel();
    ptx.let_next_kernel_start();
    match granularity {
        ScaleGranularity::Token => token_groups(&mut ptx, &rows, quant_block as u32, tuning),
        ScaleGranularity::Block => blocks::emit(&mut ptx, &rows, quant_block as u32, tuning.threads / 32),
    }
    let pointers = ["x", "codes", "scales"].map(Parameter::Pointer);
    let parameters: Vec<Parameter> =
        pointers.into_iter().chain(QUANTIZE_NUMBERS.map(Parameter::Number)).collect();
    let alignment = if aligned { "" } else { "_unaligned" };
    let entry = format!("octile_quantize_{kind}_{granularity}_{quant_block}{alignment}{}", tuning.name());
    let blocks_per_sm = RESIDENT_THREADS / tuning.threads;
    let bounds = LaunchBounds { threads: tuning.threads, blocks_per_sm, cluster: 1 };
    Kernel { ptx: ptx.module(&entry, &parameters, bounds).to_string(), entry }
}

/// The kernel that quantizes a problem's activations, where they come as floats without gaps between rows, and how it is launched.
pub fn quantize_for(problem: &Problem) -> Option<(Kernel, QuantizeLaunch)> {
    let ActivationKind::Quantized(kind, granularity) = problem.x else { return None };
    let quant_block = problem.quant_block.size();
    let kernel = quantize(kind, granularity, quant_block, quantizes_vectors(problem.k));
    Some((kernel, QuantizeTuning::BEST.launch(quant_block)))
}

/// A warp quantizes some groups, once or again and again.
fn token_groups(ptx: &mut Ptx, rows: &Rows, quant_block: u32, tuning: QuantizeTuning) {
    let (block, warps) = (ptx.block(), tuning.threads / 32);
    let warp = ptx.mad(block, warps, rows.warp);
    let groups = tuning.steps * groups_per_step(quant_block);
    let walk = GroupWalk::new(ptx, quant_block);
    let first = ptx.mul(warp, groups);
    if tuning.staying.is_none() {
        return walk.quantize(ptx, rows, first, tuning.steps);
    }
    let (first, all) = (ptx.variable(first), ptx.mul(rows.m, walk.k_groups));
    let blocks = ptx.blocks();
    let apart = ptx.mul(blocks, warps * groups);
    ptx.while_(
        |ptx| ptx.lt(first, all),
        |ptx| {
            walk.quantize(ptx, rows, first, tuning.steps);
            ptx.increase(first, apart);
        },
    );
}

/// How a warp finds its token groups.
struct GroupWalk {
    quant_block: u32,
    /// Lanes that share a group.
    lanes: u32,
    group_in_step: B32,
    lane_in_group: B32,
    /// Groups of a row, and what divides by it.
    k_groups: B32,
    reciprocal: B32,
    shift: B32,
}

impl GroupWalk {
    fn new(ptx: &mut Ptx, quant_block: u32) -> Self {
        let lanes = lanes_per_group(quant_block);
        let thread = ptx.thread();
        let lane = ptx.and(thread, 31);
        Self {
            quant_block,
            lanes,
            group_in_step: ptx.shr(lane, lanes.ilog2()),
            lane_in_group: ptx.and(lane, lanes - 1),
            k_groups: ptx.number("k_groups"),
            reciprocal: ptx.number("k_groups_reciprocal"),
            shift: ptx.number("k_groups_shift"),
        }
    }

    /// The row of a group, and its index along K. How the number of groups of a row divides: see `QUANTIZE_NUMBERS`.
    fn place(&self, ptx: &mut Ptx, group: B32) -> (B32, B32) {
        let twice = ptx.add(group, group);
        let high = ptx.mul_high(twice, self.reciprocal);
        let row = ptx.shr(high, self.shift);
        let before = ptx.mul(row, self.k_groups);
        (row, ptx.sub(group, before))
    }

    /// Quantizes the groups from `first` on, all loads before the first use.
    fn quantize(&self, ptx: &mut Ptx, rows: &Rows, first: B32, steps: u32) {
        let first_column = ptx.mul(self.lane_in_group, rows.chunk_values());
        let chunks = LANE_VALUES / rows.chunk_values();
        let load = |step: u32| {
            let group = ptx.add(first, step * groups_per_step(self.quant_block));
            let group = ptx.add(group, self.group_in_step);
            let (row, quant_k) = self.place(ptx, group);
            let column = ptx.mad(quant_k, self.quant_block, first_column);
            (row, quant_k, rows.load(ptx, row, column, chunks, self.lanes * rows.chunk_values()))
        };
        let loaded: Vec<_> = (0..steps).map(load).collect();
        let is_first = ptx.eq(self.lane_in_group, 0);
        for (row, quant_k, chunks) in loaded {
            let largest = rows.largest(ptx, &chunks);
            let abs_max = rows.largest_of_lanes(ptx, largest, self.lanes);
            let (scale, inverse) = scale::scale_of(ptx, abs_max);
            for chunk in &chunks {
                rows.store(ptx, chunk, inverse);
            }
            let in_rows = ptx.lt(row, rows.m);
            let stores = ptx.both(is_first, in_rows);
            rows.store_scale(ptx, row, quant_k, scale, stores);
        }
    }
}

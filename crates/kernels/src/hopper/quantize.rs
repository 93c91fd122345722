//! Quantizes activations to f8e4m3fn with one scale per block or token group, to the same bits as on the CPU.
//!
//! The kernel reads once and writes once, so it is memory-bound as long as little is done per value: loads
//! are 16 bytes wide, maxima are taken over packed pairs, and sixteen values share the arithmetic of their
//! scale.

mod blocks;
mod rows;
mod scale;

use octile_core::{
    Problem, ScaleGranularity,
    plan::hopper::{CachePriority, QUANTIZE_NUMBERS, QuantizeLaunch, QuantizePlan, QuantizeTuning},
};

use super::{
    Kernel,
    ptx::{B32, LaunchBounds, Parameter, Ptx},
};
use rows::Rows;

/// Emits the quantization kernel of a plan.
pub fn quantize(plan: &QuantizePlan) -> Kernel {
    let mut ptx = Ptx::default();
    let rows = Rows::new(&mut ptx, plan);
    ptx.wait_for_previous_kernel();
    ptx.let_next_kernel_start();
    match plan.granularity {
        ScaleGranularity::Token => token_groups(&mut ptx, &rows, plan),
        ScaleGranularity::Block => blocks::emit(&mut ptx, &rows, plan),
    }
    let pointers = ["x", "codes", "scales"].map(Parameter::Pointer);
    let parameters: Vec<Parameter> =
        pointers.into_iter().chain(QUANTIZE_NUMBERS.map(Parameter::Number)).collect();
    let entry = entry_name(plan);
    let bounds = LaunchBounds { threads: plan.tuning.threads, blocks_per_sm: plan.ctas_per_sm(), cluster: 1 };
    Kernel { ptx: ptx.module(&entry, &parameters, bounds).to_string(), entry }
}

/// Emits the kernel that quantizes a problem's activations, where they come as floats with contiguous rows,
/// and returns it with its launch.
pub fn quantize_for(problem: &Problem) -> Option<(Kernel, QuantizeLaunch)> {
    let plan = QuantizePlan::new(problem)?;
    Some((quantize(&plan), plan.launch()))
}

/// Name of the entry point, which tells the variant.
fn entry_name(plan: &QuantizePlan) -> String {
    let QuantizePlan { kind, granularity, tuning, .. } = plan;
    let alignment = if plan.vectors { "" } else { "_unaligned" };
    let tuning = tuning_name(*tuning);
    format!("octile_quantize_{kind}_{granularity}_{}{alignment}{tuning}", plan.quant_block.size())
}

fn tuning_name(tuning: QuantizeTuning) -> String {
    let word = |priority: CachePriority| match priority {
        CachePriority::Normal => "normal",
        CachePriority::EvictFirst => "first",
        CachePriority::EvictLast => "last",
    };
    match tuning {
        QuantizeTuning::BEST => String::new(),
        QuantizeTuning { threads, unroll, floats, codes, persistent_ctas } => {
            let persistent = persistent_ctas.map_or_else(String::new, |ctas| format!("_staying{ctas}"));
            format!("_{threads}x{unroll}_{}_{}{persistent}", word(floats), word(codes))
        }
    }
}

/// Each warp quantizes some token groups; in a persistent kernel, again and again.
fn token_groups(ptx: &mut Ptx, rows: &Rows, plan: &QuantizePlan) {
    let QuantizeTuning { threads, unroll, persistent_ctas, .. } = plan.tuning;
    let (cta, warps) = (ptx.block(), threads / 32);
    let warp = ptx.mad(cta, warps, rows.warp);
    let groups = unroll * plan.groups_per_load();
    let walk = GroupWalk::new(ptx, plan);
    let first = ptx.mul(warp, groups);
    if persistent_ctas.is_none() {
        return walk.quantize(ptx, rows, first);
    }
    let (first, all) = (ptx.variable(first), ptx.mul(rows.m, walk.k_groups));
    let ctas = ptx.blocks();
    let apart = ptx.mul(ctas, warps * groups);
    ptx.while_(
        |ptx| ptx.lt(first, all),
        |ptx| {
            walk.quantize(ptx, rows, first);
            ptx.increase(first, apart);
        },
    );
}

/// How a warp finds its token groups.
struct GroupWalk<'a> {
    plan: &'a QuantizePlan,
    group_in_load: B32,
    lane_in_group: B32,
    /// Groups of a row, and the constants that divide by it.
    k_groups: B32,
    reciprocal: B32,
    shift: B32,
}

impl<'a> GroupWalk<'a> {
    fn new(ptx: &mut Ptx, plan: &'a QuantizePlan) -> Self {
        let lanes = plan.lanes_per_group();
        let thread = ptx.thread();
        let lane = ptx.and(thread, 31);
        Self {
            plan,
            group_in_load: ptx.shr(lane, lanes.ilog2()),
            lane_in_group: ptx.and(lane, lanes - 1),
            k_groups: ptx.number("k_groups"),
            reciprocal: ptx.number("k_groups_reciprocal"),
            shift: ptx.number("k_groups_shift"),
        }
    }

    /// The row of a group, and its index along K. [`QUANTIZE_NUMBERS`] describes the division.
    fn place(&self, ptx: &mut Ptx, group: B32) -> (B32, B32) {
        let twice = ptx.add(group, group);
        let high = ptx.mul_high(twice, self.reciprocal);
        let row = ptx.shr(high, self.shift);
        let before = ptx.mul(row, self.k_groups);
        (row, ptx.sub(group, before))
    }

    /// Quantizes the groups from `first` on. All loads are issued before the first use.
    fn quantize(&self, ptx: &mut Ptx, rows: &Rows, first: B32) {
        let lanes = self.plan.lanes_per_group();
        let first_column = ptx.mul(self.lane_in_group, rows.chunk_values());
        let chunks = QuantizePlan::LANE_VALUES as u32 / rows.chunk_values();
        let load = |index: u32| {
            let group = ptx.add(first, index * self.plan.groups_per_load());
            let group = ptx.add(group, self.group_in_load);
            let (row, quant_k) = self.place(ptx, group);
            let column = ptx.mad(quant_k, self.plan.quant_block.size() as u32, first_column);
            (row, quant_k, rows.load(ptx, row, column, chunks, lanes * rows.chunk_values()))
        };
        let loaded: Vec<_> = (0..self.plan.tuning.unroll).map(load).collect();
        let is_first = ptx.eq(self.lane_in_group, 0);
        for (row, quant_k, chunks) in loaded {
            let largest = rows.largest(ptx, &chunks);
            let abs_max = rows.largest_of_lanes(ptx, largest, lanes);
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

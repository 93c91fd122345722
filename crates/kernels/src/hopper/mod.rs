//! PTX for NVIDIA Hopper GPUs.
//!
//! | strategy | operands | scales |
//! |---|---|---|
//! | `auto` | through registers into shared memory, the assembler schedules | loaded beside the product |
//! | `dma` | the copy engine fills a ring of stages | loaded beside the product |
//! | `smem` | as `dma` | travel through the ring, ahead of the product |
//! | `strip` | as `smem`; clusters share fetches or divide K; the copy engine stores results | as `smem` |
//!
//! The last three are one skeleton, because their differences are the lesson: [`ring`]. Of the warps that fetch, [`producer`] asks
//! for operands and [`scales`] for scales; [`consumer`] multiplies, with [`sums`] in its registers and stages that [`overlap`] where that pays.
//! Results leave straight ([`epilogue`]), line by line or by the copy engine ([`staged`]), or through the fetching warp ([`outbox`]);
//! [`split`] adds up what blocks that divide K have. [`schedule`] says who computes what, [`frame`] where everything is.

mod auto;
mod consumer;
mod epilogue;
mod frame;
mod outbox;
mod overlap;
mod peak;
mod producer;
mod quantize;
mod ring;
mod scales;
mod schedule;
mod split;
mod staged;
mod sums;

pub use peak::{PeakKernel, peak};
pub use ptx::CachePriority;
pub use quantize::{
    QUANTIZE_ALIGNMENT, QuantizeTuning, quantize, quantize_for, quantize_tuned, quantizes_vectors,
};

use octile_core::{
    Strategy,
    plan::hopper::{ClusterMode, GpuTile, HopperPlan, NUMBERS, Release, STAGE_K, TileConfig},
};

use octile_ptx::build as ptx;

use ptx::{LaunchBounds, Parameter, Ptx};

/// A kernel as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Name of the entry point.
    pub entry: String,
    /// The module.
    pub ptx: String,
}

/// The kernel of a plan. Its parameters: the tensor maps of A, of B and of the result, pointers to the scales of x and of the weight and
/// to the result, pointers to x and to the weight, and [`NUMBERS`].
pub fn multiply(plan: &HopperPlan) -> Kernel {
    let mut ptx = Ptx::default();
    match plan.strategy {
        Strategy::Auto => auto::emit(&mut ptx, plan),
        Strategy::Dma | Strategy::Smem | Strategy::Strip => ring::emit(&mut ptx, plan),
    }
    let maps = ["map_a", "map_b", "map_out"].map(Parameter::TensorMap);
    let pointers = ["x_scale", "w_scale", "out", "x", "w"].map(Parameter::Pointer);
    let numbers = NUMBERS.map(Parameter::Number);
    let parameters: Vec<Parameter> = maps.into_iter().chain(pointers).chain(numbers).collect();
    let bounds = LaunchBounds {
        threads: plan.threads() as u32,
        blocks_per_sm: plan.blocks_per_sm as u32,
        cluster: plan.shape.cluster.ctas() as u32,
    };
    let entry = entry_name(plan);
    Kernel { ptx: ptx.module(&entry, &parameters, bounds).to_string(), entry }
}

/// A name that says what the kernel is.
fn entry_name(plan: &HopperPlan) -> String {
    let shape = plan.shape;
    let cluster = match shape.cluster {
        ClusterMode::Single => String::new(),
        ClusterMode::MulticastA => "_share_a".to_owned(),
        ClusterMode::MulticastB => "_share_b".to_owned(),
        ClusterMode::SplitK(parts) => format!("_split{parts}"),
    };
    let swapped = if shape.swapped { "_swapped" } else { "" };
    let promotion = match plan.promote_every {
        STAGE_K => String::new(),
        every => format!("_promote{every}"),
    };
    let release = if plan.release == Release::Thread { "_for_racecheck" } else { "" };
    let TileConfig { tile: GpuTile { a, b }, .. } = shape;
    format!("octile_{}_{a}x{b}{swapped}{cluster}{promotion}{release}_{}", plan.strategy, plan.out())
}

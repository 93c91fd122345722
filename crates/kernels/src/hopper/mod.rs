//! PTX for NVIDIA Hopper GPUs: one file per strategy, to be read side by side.
//!
//! | strategy | operands | scales |
//! |---|---|---|
//! | `auto` | through registers into shared memory; the assembler schedules | loaded beside the wgmma |
//! | `dma` | TMA fills a pipeline of stages, ordered by full and empty barriers | loaded beside the wgmma |
//! | `smem` | as `dma` | staged in shared memory with the operands |
//! | `strip` | as `smem`; persistent, multicast, split-K, overlapping stages, TMA stores | as `smem` |
//!
//! `parts` holds what they share. `quantize` runs before the matmul where activations come as floats; `peak`
//! measures the tensor cores.

mod auto;
mod dma;
mod parts;
mod peak;
mod quantize;
mod smem;
mod strip;

pub use peak::{PeakKernel, peak};
pub use quantize::{quantize, quantize_for};

use octile_core::{
    Strategy,
    plan::hopper::{ClusterMode, GpuTile, HopperPlan, NUMBERS, Release, STAGE_K, TileConfig},
};

use octile_ptx::build as ptx;

use ptx::{LaunchBounds, Parameter, Ptx};

/// A kernel as PTX text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Name of the entry point.
    pub entry: String,
    /// The module.
    pub ptx: String,
}

/// Emits the matmul kernel of a plan. Its parameters: the tensor maps of A, B and the result; pointers to the
/// scales of x and of the weight, to the result, to x and to the weight; and [`NUMBERS`].
pub fn multiply(plan: &HopperPlan) -> Kernel {
    let mut ptx = Ptx::default();
    match plan.strategy {
        Strategy::Auto => auto::emit(&mut ptx, plan),
        Strategy::Dma => dma::emit(&mut ptx, plan),
        Strategy::Smem => smem::emit(&mut ptx, plan),
        Strategy::Strip => strip::emit(&mut ptx, plan),
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

/// Name of the entry point, which tells the variant.
fn entry_name(plan: &HopperPlan) -> String {
    let shape = plan.shape;
    let cluster = match shape.cluster {
        ClusterMode::Single => String::new(),
        ClusterMode::MulticastA => "_share_a".to_owned(),
        ClusterMode::MulticastB => "_share_b".to_owned(),
        ClusterMode::SplitK(parts) => format!("_split{parts}"),
        ClusterMode::SplitTail => "_tail".to_owned(),
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

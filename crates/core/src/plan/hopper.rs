//! Plans for NVIDIA Hopper GPUs.

use serde::Serialize;

use super::{MemoryMap, MemorySpace, PlanError};
use crate::{ActivationKind, Problem, ScaleGranularity, Strategy, device::hopper::HopperGpu};

/// Rows, columns and depth of the part of the result that one thread block computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GpuTile {
    /// Rows of x.
    pub m: usize,
    /// Rows of the weight.
    pub n: usize,
    /// Depth of one pipeline stage: 128, one row of the 128-byte swizzle.
    pub k: usize,
}

/// Everything that a Hopper kernel needs to know about its shape.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopperPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// How the data moves.
    pub strategy: Strategy,
    /// The tile of a thread block.
    pub tile: GpuTile,
    /// Tiles along M and N.
    pub grid: (usize, usize),
    /// Stages of the shared-memory ring; 0 where operands pass through registers.
    pub stages: usize,
    /// Barriers: one full and one empty per stage.
    pub barriers: usize,
    /// Buffers in shared memory.
    pub memory: MemoryMap,
}

/// Depth of a stage.
const STAGE_K: usize = 128;
/// Bytes of one mbarrier object (PTX ISA, "mbarrier").
const BARRIER_BYTES: usize = 8;
/// More stages than this hide no more latency.
const MOST_STAGES: usize = 8;

impl HopperPlan {
    /// A plan with the given tile and ring depth. `stages: None` takes as many as fit.
    pub fn new(
        problem: &Problem,
        gpu: &HopperGpu,
        strategy: Strategy,
        tile: (usize, usize),
        stages: Option<usize>,
    ) -> Result<Self, PlanError> {
        let tile = GpuTile { m: tile.0, n: tile.1, k: STAGE_K };
        let with = |stages: usize| Self {
            problem: *problem,
            strategy,
            tile,
            grid: (problem.m.div_ceil(tile.m), problem.n.div_ceil(tile.n)),
            stages,
            barriers: 2 * stages,
            memory: shared_memory(problem, strategy, tile, stages),
        };
        let fits = |plan: &Self| {
            plan.memory.require(MemorySpace::Shared, gpu.shared_memory_per_block, strategy, gpu.name)
        };
        let plan = match (strategy, stages) {
            (Strategy::Auto, _) => with(0),
            (_, Some(stages)) => with(stages),
            // Two stages are the least that overlap; when even they do not fit, the refusal is about them.
            (_, None) => {
                (2..=MOST_STAGES).rev().map(with).find(|plan| fits(plan).is_ok()).unwrap_or_else(|| with(2))
            }
        };
        fits(&plan)?;
        Ok(plan)
    }
}

fn shared_memory(problem: &Problem, strategy: Strategy, tile: GpuTile, stages: usize) -> MemoryMap {
    let mut memory = MemoryMap::default();
    let x_bytes = match problem.x {
        ActivationKind::Fp8(_) | ActivationKind::Quantized(..) => 1,
        ActivationKind::Plain(float) => float.bytes(),
    };
    if stages > 0 {
        memory.push("x", MemorySpace::Shared, stages, tile.m * tile.k * x_bytes);
        memory.push("w_q", MemorySpace::Shared, stages, tile.n * tile.k);
        if problem.x.granularity() == Some(ScaleGranularity::Token) {
            memory.push("x_scale", MemorySpace::Shared, stages, tile.m * 4);
        }
        memory.push("barriers", MemorySpace::Shared, 1, 2 * stages * BARRIER_BYTES);
    }
    if matches!(strategy, Strategy::Smem | Strategy::Strip) {
        // All scales that the tile's columns need, staged ahead of the main loop.
        let rows = tile.n.div_ceil(problem.quant_block.size()) + 1;
        memory.push("w_scale", MemorySpace::Shared, 1, rows * problem.quant_block.count(problem.k) * 4);
    }
    memory.push("out", MemorySpace::Shared, 1, tile.m * tile.n * problem.out.bytes());
    memory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FloatKind, QuantBlock, device::hopper::HOPPER_GPUS};

    #[test]
    fn the_ring_takes_what_the_tile_leaves() {
        let problem = Problem::new(4096, 4096, 7168, QuantBlock::B128).unwrap().with_out(FloatKind::Bf16);
        let plan = HopperPlan::new(&problem, &HOPPER_GPUS[1], Strategy::Strip, (128, 128), None).unwrap();
        assert_eq!((plan.grid, plan.stages), ((32, 32), 6));
        let deeper = HopperPlan::new(&problem, &HOPPER_GPUS[1], Strategy::Strip, (128, 128), Some(7));
        assert!(
            matches!(deeper, Err(PlanError::DoesNotFit { needed, available: 232_448, .. }) if needed > 232_448)
        );
    }

    #[test]
    fn a_tile_that_cannot_fit_is_refused_with_its_bytes() {
        let problem = Problem::new(4096, 4096, 4096, QuantBlock::B128).unwrap();
        let error = HopperPlan::new(&problem, &HOPPER_GPUS[0], Strategy::Dma, (256, 256), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "strategy dma needs 393248 bytes of shared memory on h100, but 232448 are available; \
             the largest buffer is out (262144 bytes)"
        );
    }
}

//! Scales that are in SMEM before the first step, for the strips that the compiler pipelines.

use octile_core::plan::{BufferId, MemorySpace};
use octile_mosaic::{FunctionBuilder, Value};

use crate::tpu::parts::{
    frame::{Along, Frame, Operand},
    scales::Scales,
};

/// Scales of the whole problem in SMEM. A scale per row of x is a vector, and comes with the strip instead.
pub(super) struct PrefetchedScales {
    w_scale: Value,
    x_scale: Option<Value>,
    x_by_strip: bool,
}

impl PrefetchedScales {
    /// Declares what is prefetched. Must come before all other arguments.
    pub(super) fn declare(f: &mut Frame<'_>) -> Self {
        let w_scale = f.prefetched(Operand::WScale, BufferId::WScale);
        let planned = f.plan.x_scale();
        let x_by_strip = planned.is_some_and(|buffer| buffer.space == MemorySpace::Vmem);
        let scalars = planned.filter(|_| !x_by_strip);
        let x_scale = scalars.map(|buffer| f.prefetched(Operand::XScale, buffer.id));
        Self { w_scale, x_scale, x_by_strip }
    }

    /// Declares what comes with the strips. Must come after the other operands.
    pub(super) fn declare_windows(&mut self, f: &mut Frame<'_>) {
        if let Some(buffer) = f.plan.x_scale().filter(|_| self.x_by_strip) {
            let along = [Along::M, Along::K, Along::First, Along::First];
            self.x_scale = Some(f.window(Operand::XScaleTiles, buffer.id, &along));
        }
    }

    /// The scales of this step's strips: of x and of w.
    pub(super) fn of_step(&self, f: &mut Frame<'_>) -> (Option<Scales>, Scales) {
        let (plan, m, n, k) = (f.plan, f.m, f.n, f.k);
        let b = &mut f.b;
        let first_k = origin(b, k, plan.k_blocks());
        let first_row = origin(b, n, plan.w_scale_tile().0);
        let w_scale = Scales::of_w(plan, self.w_scale).with_origin(first_row, first_k);
        let zero = b.index(0);
        let x_scale = self.x_scale.map(|memref| {
            let scales = Scales::of_x(plan, memref);
            if self.x_by_strip {
                scales.at(vec![zero, zero])
            } else {
                scales.with_origin(origin(b, m, plan.x_scale_tile().0), first_k)
            }
        });
        (x_scale, w_scale)
    }
}

fn origin(b: &mut FunctionBuilder, block: Value, per_block: usize) -> Value {
    let per_block = b.i32(per_block);
    b.muli(block, per_block)
}

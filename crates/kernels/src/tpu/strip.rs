//! `strip`, version 4: whole-K strips of x and w, scales in scalar memory before the first step. Nothing is
//! cleared: the first k-block of a strip begins the sum. Nothing is copied: the last one writes the result.
//!
//! Three kernels for three kinds of problems: codes multiplied as they are, codes turned into bf16 first where
//! quantization blocks are narrower than a matrix unit, and a ring of weights where rows are few.

mod dequantized;
mod few_rows;
mod native;

use octile_core::plan::tpu::{Arithmetic, TpuPlan};
use octile_mosaic::{Float, FunctionBuilder, MemorySpace, Value, build::IntPredicate};

use super::{
    Kernel,
    frame::{Along, Frame, Operand},
    scale::{Scales, x_scale_memory, x_scale_name},
    tile::{self, Buffer, Part, quantizes, shape_of},
};
use crate::stablehlo::float;

pub(super) fn kernel(plan: &TpuPlan) -> Kernel {
    match (plan.ring, plan.arithmetic) {
        (Some(ring), _) => few_rows::kernel(plan, ring),
        (None, Arithmetic::Dequantized) => dequantized::kernel(plan),
        (None, Arithmetic::Fp8 | Arithmetic::Widened) => native::kernel(plan),
    }
}

/// Scales before the first step, for the kernels whose strips the compiler moves. A scale per row of x is no
/// scalar and comes with the strip instead.
struct StripScales {
    w_scale: Value,
    x_scale: Option<Value>,
    x_by_strip: bool,
}

impl StripScales {
    /// Declares what is prefetched: first of all arguments.
    fn prefetched(f: &mut Frame<'_>) -> Self {
        let plan = f.plan;
        let all = |blocks: usize, (rows, cols): (usize, usize)| [blocks * rows, plan.grid.k * cols];
        let w_scale = f.prefetched("w_scale", Operand::WScale, all(plan.grid.n, plan.w_scale_tile()));
        let x_by_strip = x_scale_memory(plan, MemorySpace::Smem) == MemorySpace::Vmem;
        let is_scalar = plan.problem.x.granularity().is_some() && !x_by_strip;
        let shape = all(plan.grid.m, plan.x_scale_tile());
        let x_scale = is_scalar.then(|| f.prefetched(x_scale_name(plan), Operand::XScale, shape));
        Self { w_scale, x_scale, x_by_strip }
    }

    /// Declares what comes with the strips: after the other operands.
    fn windows(&mut self, f: &mut Frame<'_>) {
        if self.x_by_strip {
            let (rows, cols) = f.plan.x_scale_tile();
            let along = [Along::M, Along::K, Along::First, Along::First];
            let block = [1, 1, rows, cols];
            self.x_scale =
                Some(f.window(x_scale_name(f.plan), Operand::XScaleTiles, Float::F32, &block, &along));
        }
    }

    /// The scales of this step's strips: of x and of w.
    fn of_step(&self, f: &mut Frame<'_>) -> (Option<Scales>, Scales) {
        let (plan, m, n, k) = (f.plan, f.m, f.n, f.k);
        let b = &mut f.b;
        let first_k = origin(b, k, plan.k_blocks());
        let w_scale = Scales {
            memref: self.w_scale,
            leading: Vec::new(),
            origin: Some((origin(b, n, plan.w_scale_tile().0), first_k)),
            rows: plan.problem.quant_block.size(),
            from_abs_max: false,
        };
        let zero = b.index(0);
        let x_scale = self.x_scale.map(|memref| Scales {
            memref,
            leading: if self.x_by_strip { vec![zero, zero] } else { Vec::new() },
            origin: (!self.x_by_strip).then(|| (origin(b, m, plan.x_scale_tile().0), first_k)),
            rows: plan.x_scale_rows(),
            from_abs_max: quantizes(plan),
        });
        (x_scale, w_scale)
    }
}

fn origin(b: &mut FunctionBuilder, block: Value, per_block: usize) -> Value {
    let per_block = b.i32(per_block);
    b.muli(block, per_block)
}

/// Where finished sums go: straight to the result, or by way of an accumulator where K is cut.
struct Sink {
    out: Buffer,
    acc: Option<Buffer>,
    k: Value,
}

impl Sink {
    fn new(f: &mut Frame<'_>, out: Value) -> Self {
        let (plan, size) = (f.plan, f.plan.tile);
        let acc =
            (plan.grid.k > 1).then(|| f.scratch("acc", &[size.m, size.n], Float::F32, MemorySpace::Vmem));
        Self { out: Buffer::whole(out), acc: acc.map(Buffer::whole), k: f.k }
    }

    /// Takes one part of the strip's result. The first strip of a cut K does not read what was there before.
    fn put(&self, b: &mut FunctionBuilder, plan: &TpuPlan, Part { at, value }: Part) {
        let Some(acc) = &self.acc else {
            let result = b.to_float(value, float(plan.kernel_out()));
            return self.out.store(b, result, at);
        };
        let shape = shape_of(b, value);
        let zero = b.i32(0);
        let first = b.cmpi(IntPredicate::Eq, self.k, zero);
        let nothing = b.splat(0.0, [shape.0, shape.1]);
        let so_far = acc.load(b, at, shape);
        let so_far = b.select(first, nothing, so_far);
        let sum = b.addf(so_far, value);
        acc.store(b, sum, at);
    }

    /// After the last part: the last strip of a cut K writes the result.
    fn finish(&self, b: &mut FunctionBuilder, plan: &TpuPlan) {
        if let Some(acc) = &self.acc {
            b.when_equal(self.k, plan.grid.k - 1, |b| tile::write_out(b, plan, acc, &self.out));
        }
    }
}

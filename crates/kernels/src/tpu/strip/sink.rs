//! Where the finished sums of a strip go.

use octile_core::plan::{BufferId, tpu::TpuPlan};
use octile_mosaic::{FunctionBuilder, Value, build::IntPredicate};

use crate::{
    stablehlo::float,
    tpu::parts::{
        frame::Frame,
        tile::{self, Buffer, Part, shape_of},
    },
};

/// Stores sums to the result, or adds them to an accumulator where K takes several strips.
pub(super) struct Sink {
    out: Buffer,
    acc: Option<Buffer>,
    k: Value,
}

impl Sink {
    pub(super) fn new(f: &mut Frame<'_>, out: Value) -> Self {
        let acc = (f.plan.grid.k > 1).then(|| f.scratch("acc", BufferId::Acc));
        Self { out: Buffer::whole(out), acc: acc.map(Buffer::whole), k: f.k }
    }

    /// Takes one part of the strip's result. The first strip along K ignores what the accumulator holds.
    pub(super) fn put(&self, b: &mut FunctionBuilder, plan: &TpuPlan, Part { at, value }: Part) {
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

    /// After the last part: the last strip along K writes the result.
    pub(super) fn finish(&self, b: &mut FunctionBuilder, plan: &TpuPlan) {
        if let Some(acc) = &self.acc {
            b.when_equal(self.k, plan.grid.k - 1, |b| tile::write_out(b, plan, acc, &self.out));
        }
    }
}

//! The skeleton of `dma` and `smem`: explicit copies into two buffers, one semaphore per buffer and operand.
//!
//! A step waits for its own operands, whose copies the step before has started, and starts those of the next one,
//! across the borders of tiles. Results leave through two buffers of their own.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::{
    Float, FunctionBuilder, MemorySpace, Value,
    build::{Copy, IntPredicate},
};

use super::{
    Kernel,
    frame::{Frame, Operand},
    scale::{Scales, x_scale_memory, x_scale_name},
    tile::{self, Buffer, Tile, quantizes, x_element},
};
use crate::stablehlo::float;

const BUFFERS: usize = 2;

/// Semaphores of one buffer, by operand.
#[derive(Clone, Copy)]
enum Lane {
    X = 0,
    W = 1,
    WScale = 2,
    XScale = 3,
    Out = 4,
}

/// How many there are.
const LANES: usize = 5;

/// One operand: the whole of it in device memory, and its two buffers.
#[derive(Clone, Copy)]
struct Moved {
    lane: Lane,
    hbm: Value,
    buffers: Value,
}

struct Operands {
    x: Moved,
    w: Moved,
    w_scale: Moved,
    x_scale: Option<Moved>,
    out: Moved,
    semaphores: Value,
}

/// The coordinates of a step.
#[derive(Clone, Copy)]
struct At {
    m: Value,
    n: Value,
    k: Value,
}

/// The kernel with its scales in the given memory.
pub(super) fn kernel(plan: &TpuPlan, scale_memory: MemorySpace) -> Kernel {
    let mut f = Frame::new(plan, true);
    let operands = declare(&mut f, scale_memory);
    let size = plan.tile;
    let acc = Buffer::whole(f.scratch("acc", &[size.m, size.n], Float::F32, MemorySpace::Vmem));
    let codes = tile::codes(&mut f);
    let at = At { m: f.m, n: f.n, k: f.k };

    // Which buffer.
    let b = &mut f.b;
    let number = linear(b, at.m, plan.grid.n, at.n);
    b.name(number, "tile");
    let step = linear(b, number, plan.grid.k, at.k);
    b.name(step, "step");
    let one = b.i32(1);
    let slot = buffer_of(b, step);
    b.name(slot, "slot");

    // Prologue: nobody has started the copies of the first step.
    b.when_equal(step, 0, |b| operands.start(b, plan, at, slot));
    if plan.steps() > 1 {
        let next_slot = b.subi(one, slot);
        b.name(next_slot, "next_slot");
        let next = next(b, plan, at);
        let (after, steps) = (b.addi(step, one), b.i32(plan.steps()));
        let more = b.cmpi(IntPredicate::Slt, after, steps);
        b.when(more, |b| operands.start(b, plan, next, next_slot));
    }
    operands.wait(b, plan, at, slot);

    // The step.
    b.when_equal(at.k, 0, |b| tile::zero(b, plan, &acc));
    let buffer = |b: &mut FunctionBuilder, moved: Moved| Buffer::one_of(b, moved.buffers, slot);
    let (x, w) = (buffer(b, operands.x), buffer(b, operands.w));
    let mut scales = |moved: Moved, rows, from_abs_max| Scales {
        memref: moved.buffers,
        leading: vec![b.to_index(slot)],
        origin: None,
        rows,
        from_abs_max,
    };
    let w_scale = scales(operands.w_scale, plan.problem.quant_block.size(), false);
    let x_scale = operands.x_scale.map(|moved| scales(moved, plan.x_scale_rows(), quantizes(plan)));
    let x = tile::ready_x(&mut f, x, x_scale.as_ref(), codes);
    let tile = Tile { x, w, w_begins: 0, x_scale, w_scale };
    tile.accumulate(&mut f.b, plan, &acc);

    // Epilogue.
    f.b.when_equal(at.k, plan.grid.k - 1, |b| operands.write_out(b, plan, at, number, &acc));
    f.finish()
}

fn declare(f: &mut Frame<'_>, scale_memory: MemorySpace) -> Operands {
    let (plan, size, padded) = (f.plan, f.plan.tile, f.plan.padded);
    let x_type = x_element(plan);
    let out_type = float(plan.kernel_out());
    let (w_rows, k_blocks) = plan.w_scale_tile();
    let (x_rows, _) = plan.x_scale_tile();
    let scaled_x = plan.problem.x.granularity().is_some();

    let x = f.in_hbm("x", Operand::X, x_type, &[padded.m, padded.k]);
    let w = f.in_hbm("w_q", Operand::W, Float::F8E4M3FN, &[padded.n, padded.k]);
    let shape = [plan.grid.n, plan.grid.k, w_rows, k_blocks];
    let w_scale = f.in_hbm("w_scale", Operand::WScaleTiles, Float::F32, &shape);
    let shape = [plan.grid.m, plan.grid.k, x_rows, k_blocks];
    let x_scale = scaled_x.then(|| f.in_hbm(x_scale_name(plan), Operand::XScaleTiles, Float::F32, &shape));
    let out = f.out_in_hbm(out_type);

    let mut buffers =
        |name, rows, cols, element: Float, space| f.scratch(name, &[BUFFERS, rows, cols], element, space);
    let moved = |lane, hbm, buffers| Moved { lane, hbm, buffers };
    let vmem = MemorySpace::Vmem;
    let x = moved(Lane::X, x, buffers("x_x2", size.m, size.k, x_type, vmem));
    let w = moved(Lane::W, w, buffers("w_q_x2", size.n, size.k, Float::F8E4M3FN, vmem));
    let w_scale_x2 = buffers("w_scale_x2", w_rows, k_blocks, Float::F32, scale_memory);
    let w_scale = moved(Lane::WScale, w_scale, w_scale_x2);
    let x_scale = x_scale.map(|hbm| {
        let space = x_scale_memory(plan, scale_memory);
        moved(Lane::XScale, hbm, buffers("x_scale_x2", x_rows, k_blocks, Float::F32, space))
    });
    let out = moved(Lane::Out, out, buffers("out_x2", size.m, size.n, out_type, vmem));
    let semaphores = f.semaphores(&[BUFFERS, LANES]);
    Operands { x, w, w_scale, x_scale, out, semaphores }
}

/// The buffer of a step or tile: they take turns.
fn buffer_of(b: &mut FunctionBuilder, number: Value) -> Value {
    let buffers = b.i32(BUFFERS);
    b.remsi(number, buffers)
}

/// `outer * count + inner`.
fn linear(b: &mut FunctionBuilder, outer: Value, count: usize, inner: Value) -> Value {
    let count = b.i32(count);
    let product = b.muli(outer, count);
    b.addi(product, inner)
}

/// The step after this one; past the last, what is computed is not used.
fn next(b: &mut FunctionBuilder, plan: &TpuPlan, at: At) -> At {
    let (zero, one) = (b.i32(0), b.i32(1));
    let carry_at = |b: &mut FunctionBuilder, value: Value, count: usize| {
        let count = b.i32(count);
        b.cmpi(IntPredicate::Eq, value, count)
    };
    let k = b.addi(at.k, one);
    let carry = carry_at(b, k, plan.grid.k);
    let k = b.select(carry, zero, k);
    let n = b.addi(at.n, one);
    let n = b.select(carry, n, at.n);
    let carry = carry_at(b, n, plan.grid.n);
    let n_wrapped = b.select(carry, zero, n);
    let m = match plan.grid.m {
        1 => at.m,
        _ => {
            let m = b.addi(at.m, one);
            b.select(carry, m, at.m)
        }
    };
    At { m, n: n_wrapped, k }
}

impl Operands {
    /// Starts the copies of a step's operands.
    fn start(&self, b: &mut FunctionBuilder, plan: &TpuPlan, at: At, slot: Value) {
        self.each_copy(b, plan, at, slot, |b, name, copy| {
            b.located(format!("start {name}"), |b| b.start(copy));
        });
    }

    /// Waits for them.
    fn wait(&self, b: &mut FunctionBuilder, plan: &TpuPlan, at: At, slot: Value) {
        self.each_copy(b, plan, at, slot, |b, name, copy| {
            b.located(format!("wait {name}"), |b| b.wait(copy));
        });
    }

    fn each_copy(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        at: At,
        slot: Value,
        visit: impl Fn(&mut FunctionBuilder, &'static str, Copy),
    ) {
        let size = plan.tile;
        let x = |b: &mut FunctionBuilder| {
            let from = [(at.m, size.m), (at.k, size.k)];
            let copy = self.block(b, self.x, from, slot);
            visit(b, "x", copy);
        };
        // Codes that are kept are made of x in the first column of tiles.
        if plan.keeps_quantized_x {
            b.when_equal(at.n, 0, x);
        } else {
            x(b);
        }
        let copy = self.block(b, self.w, [(at.n, size.n), (at.k, size.k)], slot);
        visit(b, "w_q", copy);
        let copy = self.scales(b, self.w_scale, [at.n, at.k], slot);
        visit(b, "w_scale", copy);
        if let Some(x_scale) = self.x_scale {
            let copy = self.scales(b, x_scale, [at.m, at.k], slot);
            visit(b, "x_scale", copy);
        }
    }

    /// The copy of one block of a matrix; a place is a block's number and the extent of blocks.
    fn block(&self, b: &mut FunctionBuilder, moved: Moved, at: [(Value, usize); 2], slot: Value) -> Copy {
        let offsets = at.map(|(number, extent)| {
            let extent = b.i32(extent);
            b.muli(number, extent)
        });
        let shape = at.map(|(_, extent)| extent);
        Copy {
            source: b.slice_memref(moved.hbm, &offsets, &shape),
            target: buffer(b, moved.buffers, slot),
            semaphore: self.semaphore(b, moved.lane, slot),
        }
    }

    /// The copy of one tile's scales.
    fn scales(&self, b: &mut FunctionBuilder, moved: Moved, [row, k]: [Value; 2], slot: Value) -> Copy {
        let shape = b.ty(moved.hbm).shape()[2..].to_vec();
        let zero = b.i32(0);
        Copy {
            source: b.slice_memref(moved.hbm, &[row, k, zero, zero], &shape),
            target: buffer(b, moved.buffers, slot),
            semaphore: self.semaphore(b, moved.lane, slot),
        }
    }

    fn semaphore(&self, b: &mut FunctionBuilder, lane: Lane, slot: Value) -> Value {
        let lane = b.i32(lane as usize);
        b.slice_memref(self.semaphores, &[slot, lane], &[])
    }

    /// Puts a finished tile into its buffer, once that is free, and starts its copy; the last tile waits for all
    /// copies that are still under way.
    fn write_out(&self, b: &mut FunctionBuilder, plan: &TpuPlan, at: At, number: Value, acc: &Buffer) {
        let tiles = plan.grid.m * plan.grid.n;
        let (one, two) = (b.i32(1), b.i32(BUFFERS));
        let slot = buffer_of(b, number);
        b.name(slot, "out_slot");
        if tiles > BUFFERS {
            let busy = b.cmpi(IntPredicate::Sge, number, two);
            b.when(busy, |b| {
                let earlier = b.subi(number, two);
                self.wait_out(b, plan, earlier, slot);
            });
        }
        let out = Buffer::one_of(b, self.out.buffers, slot);
        tile::write_out(b, plan, acc, &out);
        let copy = self.out_copy(b, plan, [at.m, at.n], slot);
        b.located("start out", |b| b.start(copy));
        b.when_equal(number, tiles - 1, |b| {
            self.wait_out(b, plan, number, slot);
            if tiles > 1 {
                let earlier = b.subi(number, one);
                let other = b.subi(one, slot);
                self.wait_out(b, plan, earlier, other);
            }
        });
    }

    fn wait_out(&self, b: &mut FunctionBuilder, plan: &TpuPlan, number: Value, slot: Value) {
        let columns = b.i32(plan.grid.n);
        let (m, n) = (b.divsi(number, columns), b.remsi(number, columns));
        let copy = self.out_copy(b, plan, [m, n], slot);
        b.located("wait out", |b| b.wait(copy));
    }

    fn out_copy(&self, b: &mut FunctionBuilder, plan: &TpuPlan, [m, n]: [Value; 2], slot: Value) -> Copy {
        let copy = self.block(b, self.out, [(m, plan.tile.m), (n, plan.tile.n)], slot);
        Copy { source: copy.target, target: copy.source, ..copy }
    }
}

/// One of two buffers.
fn buffer(b: &mut FunctionBuilder, buffers: Value, slot: Value) -> Value {
    let shape = b.ty(buffers).shape()[1..].to_vec();
    let zero = b.i32(0);
    b.slice_memref(buffers, &[slot, zero, zero], &shape)
}

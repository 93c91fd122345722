//! A strip kernel for few rows, where bringing in the weights is all the work. Everything is in device memory and
//! is copied by hand: all copies that have room are started at once, a piece of weights is waited for when its
//! turn comes, and a piece that was used makes room for the next one.

use octile_core::plan::tpu::{Ring, TpuPlan};
use octile_mosaic::{
    Float, FunctionBuilder, MemorySpace, Value,
    build::{Copy, IntPredicate},
};

use crate::{
    stablehlo::float,
    tpu::{
        Kernel,
        frame::{Frame, Operand},
        scale::{Scales, x_scale_memory, x_scale_name},
        tile::{self, Buffer, Tile, quantizes, x_element},
    },
};

/// Semaphores; those of the ring follow.
enum Lane {
    X,
    WScale,
    XScale,
    Out,
    Ring,
}

/// An array in device memory, and its place on the chip.
#[derive(Clone, Copy)]
struct Moved {
    hbm: Value,
    chip: Value,
}

struct Kept {
    ring: Ring,
    x: Moved,
    w: Moved,
    w_scale: Moved,
    x_scale: Option<Moved>,
    out: Moved,
    semaphores: Value,
}

pub(super) fn kernel(plan: &TpuPlan, ring: Ring) -> Kernel {
    let mut f = Frame::new(plan, true);
    let kept = declare(&mut f, ring);
    let codes = tile::codes(&mut f);
    let per_step = plan.tile.n / ring.columns;
    let pieces = plan.grid.n * per_step;
    let scales =
        |memref, rows, from_abs_max| Scales { memref, leading: Vec::new(), origin: None, rows, from_abs_max };
    let x_rows = plan.x_scale_rows();
    let x_scale = kept.x_scale.map(|moved| scales(moved.chip, x_rows, quantizes(plan)));

    // Prologue: the first step starts every copy that there is room for.
    let n = f.n;
    f.b.when_equal(n, 0, |b| kept.start_all(b, pieces));
    let x = tile::ready_x(&mut f, Buffer::whole(kept.x.chip), x_scale.as_ref(), codes);

    // The step: one piece after another.
    let b = &mut f.b;
    let first = b.i32(per_step);
    let first = b.muli(n, first);
    let (slots, blocks) = (b.i32(ring.slots), b.i32(plan.w_scale_tile().0));
    let first_block = b.muli(n, blocks);
    let zero = b.i32(0);
    let w_scale = Scales {
        origin: Some((first_block, zero)),
        ..scales(kept.w_scale.chip, plan.problem.quant_block.size(), false)
    };
    for number in 0..per_step {
        let offset = b.i32(number);
        let piece = b.addi(first, offset);
        let slot = b.remsi(piece, slots);
        let copy = kept.piece(b, piece, slot);
        b.located("wait w_q", |b| b.wait(copy));
        let tile = Tile {
            x: x.clone(),
            w: Buffer::one_of(b, kept.w.chip, slot),
            w_begins: number * ring.columns,
            x_scale: x_scale.clone(),
            w_scale: w_scale.clone(),
        };
        for part in tile.sum(b, plan, 0, tile.w_begins) {
            let result = b.to_float(part.value, float(plan.kernel_out()));
            kept.store(b, plan, n, part.at.1, result);
        }
        let copy = kept.out(b, piece);
        b.located("start out", |b| b.start(copy));
        if ring.slots < pieces {
            let (ahead, pieces) = (b.addi(piece, slots), b.i32(pieces));
            let more = b.cmpi(IntPredicate::Slt, ahead, pieces);
            b.when(more, |b| {
                let copy = kept.piece(b, ahead, slot);
                b.located("start w_q", |b| b.start(copy));
            });
        }
    }

    // Epilogue: the last step waits for every piece of the result.
    b.when_equal(n, plan.grid.n - 1, |b| {
        let (from, to) = (b.i32(0), b.i32(pieces));
        b.for_each("piece", from, to, |b, piece| {
            let copy = kept.out(b, piece);
            b.located("wait out", |b| b.wait(copy));
        });
    });
    f.finish()
}

fn declare(f: &mut Frame<'_>, ring: Ring) -> Kept {
    let (plan, padded) = (f.plan, f.plan.padded);
    let (x_type, out_type) = (x_element(plan), float(plan.kernel_out()));
    let (w_rows, k_blocks) = plan.w_scale_tile();
    let w_shape = [plan.grid.n * w_rows, k_blocks];
    let x_shape = [plan.x_scale_tile().0, k_blocks];
    let has_x_scale = plan.problem.x.granularity().is_some();

    let x = f.in_hbm("x", Operand::X, x_type, &[padded.m, padded.k]);
    let w = f.in_hbm("w_q", Operand::W, Float::F8E4M3FN, &[padded.n, padded.k]);
    let w_scale = f.in_hbm("w_scale", Operand::WScale, Float::F32, &w_shape);
    let x_scale = has_x_scale.then(|| f.in_hbm(x_scale_name(plan), Operand::XScale, Float::F32, &x_shape));
    let out = f.out_in_hbm(out_type);

    let mut place = |name, hbm, shape: &[usize], element: Float, space| Moved {
        hbm,
        chip: f.scratch(name, shape, element, space),
    };
    let (vmem, smem) = (MemorySpace::Vmem, MemorySpace::Smem);
    let x_memory = x_scale_memory(plan, smem);
    let pieces = [ring.slots, ring.columns, padded.k];
    Kept {
        ring,
        x: place("x_kept", x, &[padded.m, padded.k], x_type, vmem),
        w: place("w_ring", w, &pieces, Float::F8E4M3FN, vmem),
        w_scale: place("w_scale_kept", w_scale, &w_shape, Float::F32, smem),
        x_scale: x_scale.map(|hbm| place("x_scale_kept", hbm, &x_shape, Float::F32, x_memory)),
        out: place("out_kept", out, &[padded.m, padded.n], out_type, vmem),
        semaphores: f.semaphores(&[plan.semaphores]),
    }
}

impl Kept {
    fn semaphore(&self, b: &mut FunctionBuilder, lane: Lane) -> Value {
        let lane = b.i32(lane as usize);
        b.slice_memref(self.semaphores, &[lane], &[])
    }

    /// The copy of a whole array.
    fn whole(&self, b: &mut FunctionBuilder, moved: Moved, lane: Lane) -> Copy {
        Copy { source: moved.hbm, target: moved.chip, semaphore: self.semaphore(b, lane) }
    }

    /// The copy of one piece of weights into its slot.
    fn piece(&self, b: &mut FunctionBuilder, piece: Value, slot: Value) -> Copy {
        let (columns, k) = (self.ring.columns, b.ty(self.w.hbm).shape()[1]);
        let (extent, zero, lane) = (b.i32(columns), b.i32(0), b.i32(Lane::Ring as usize));
        let row = b.muli(piece, extent);
        let lane = b.addi(slot, lane);
        Copy {
            source: b.slice_memref(self.w.hbm, &[row, zero], &[columns, k]),
            target: b.slice_memref(self.w.chip, &[slot, zero, zero], &[columns, k]),
            semaphore: b.slice_memref(self.semaphores, &[lane], &[]),
        }
    }

    /// Starts everything and waits for what every piece needs. The weights start in a loop so that the compiler
    /// cannot put them in front of the small arrays, which everyone waits for.
    fn start_all(&self, b: &mut FunctionBuilder, pieces: usize) {
        let mut small = vec![
            ("x", self.whole(b, self.x, Lane::X)),
            ("w_scale", self.whole(b, self.w_scale, Lane::WScale)),
        ];
        if let Some(x_scale) = self.x_scale {
            small.push(("x_scale", self.whole(b, x_scale, Lane::XScale)));
        }
        for &(name, copy) in &small {
            b.located(format!("start {name}"), |b| b.start(copy));
        }
        let (from, to) = (b.i32(0), b.i32(self.ring.slots.min(pieces)));
        b.for_each("piece", from, to, |b, piece| {
            let copy = self.piece(b, piece, piece);
            b.located("start w_q", |b| b.start(copy));
        });
        for (name, copy) in small {
            b.located(format!("wait {name}"), |b| b.wait(copy));
        }
    }

    /// Puts a part of a step's result into place.
    fn store(&self, b: &mut FunctionBuilder, plan: &TpuPlan, n: Value, col: usize, result: Value) {
        let (step, col) = (b.i32(plan.tile.n), b.i32(col));
        let first = b.muli(n, step);
        let col = b.addi(first, col);
        let col = b.multiple_of(col, 128);
        let indices = [b.index(0), b.to_index(col)];
        b.store(result, self.out.chip, &indices);
    }

    /// The copy of a piece of the result.
    fn out(&self, b: &mut FunctionBuilder, piece: Value) -> Copy {
        let shape = [b.ty(self.out.hbm).shape()[0], self.ring.columns];
        let (columns, zero) = (b.i32(self.ring.columns), b.i32(0));
        let col = b.muli(piece, columns);
        Copy {
            source: b.slice_memref(self.out.chip, &[zero, col], &shape),
            target: b.slice_memref(self.out.hbm, &[zero, col], &shape),
            semaphore: self.semaphore(b, Lane::Out),
        }
    }
}

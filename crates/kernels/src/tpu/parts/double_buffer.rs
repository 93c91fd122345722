//! Double buffering by hand, for `dma` and `smem`: operands in HBM, two buffers for each on the chip, and a
//! DMA semaphore per buffer and operand.

use octile_core::plan::{
    BufferId,
    tpu::{DOUBLE_BUFFERED, TpuPlan},
};
use octile_mosaic::{
    FunctionBuilder, MemorySpace, Type, Value,
    build::{Copy, IntPredicate},
};

use super::{
    frame::{Frame, Operand},
    tile::{self, Buffer},
};

/// Semaphores of one buffer, by operand.
#[derive(Clone, Copy)]
enum Lane {
    X = 0,
    W = 1,
    WScale = 2,
    XScale = 3,
    Out = 4,
}

/// Grid indices of a step.
#[derive(Clone, Copy)]
pub(crate) struct GridIndex {
    pub(crate) m: Value,
    pub(crate) n: Value,
    pub(crate) k: Value,
}

/// The grid step being computed.
pub(crate) struct Step {
    pub(crate) at: GridIndex,
    /// Number of the step.
    pub(crate) number: Value,
    /// Which of its two buffers every operand is in.
    pub(crate) slot: Value,
    /// Number of the tile.
    tile: Value,
    one: Value,
}

/// The grid step after the current one.
pub(crate) struct NextStep {
    /// Whether there is one.
    pub(crate) exists: Value,
    pub(crate) at: GridIndex,
    pub(crate) slot: Value,
}

impl Step {
    pub(crate) fn current(f: &mut Frame<'_>) -> Self {
        let (plan, at) = (f.plan, GridIndex { m: f.m, n: f.n, k: f.k });
        let b = &mut f.b;
        let tile = linear(b, at.m, plan.grid.n, at.n);
        b.name(tile, "tile");
        let number = linear(b, tile, plan.grid.k, at.k);
        b.name(number, "step");
        let one = b.i32(1);
        let slot = slot_of(b, number);
        b.name(slot, "slot");
        Self { at, number, slot, tile, one }
    }

    /// The step after this one. After the last step its indices are not used.
    pub(crate) fn next(&self, b: &mut FunctionBuilder, plan: &TpuPlan) -> NextStep {
        let slot = b.subi(self.one, self.slot);
        b.name(slot, "next_slot");
        let at = next_index(b, plan, self.at);
        let (after, steps) = (b.addi(self.number, self.one), b.i32(plan.steps()));
        NextStep { exists: b.cmpi(IntPredicate::Slt, after, steps), at, slot }
    }
}

/// `outer * count + inner`.
fn linear(b: &mut FunctionBuilder, outer: Value, count: usize, inner: Value) -> Value {
    let count = b.i32(count);
    let product = b.muli(outer, count);
    b.addi(product, inner)
}

/// The buffer of a step or tile: they alternate.
fn slot_of(b: &mut FunctionBuilder, number: Value) -> Value {
    let buffers = b.i32(DOUBLE_BUFFERED);
    b.remsi(number, buffers)
}

/// Increments a grid index, K fastest, M slowest.
fn next_index(b: &mut FunctionBuilder, plan: &TpuPlan, at: GridIndex) -> GridIndex {
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
    GridIndex { m, n: n_wrapped, k }
}

/// One operand: the whole of it in HBM, and its two buffers on the chip.
#[derive(Clone, Copy)]
pub(crate) struct OperandBuffers {
    lane: Lane,
    hbm: Value,
    buffers: Value,
}

impl OperandBuffers {
    /// One of the two buffers, to load from and store to.
    pub(crate) fn at(&self, b: &mut FunctionBuilder, slot: Value) -> Buffer {
        Buffer::one_of(b, self.buffers, slot)
    }

    /// Both buffers, which the plan has placed in VMEM.
    pub(crate) fn in_vmem(&self, b: &FunctionBuilder) -> Value {
        self.within(b, MemorySpace::Vmem)
    }

    /// Both buffers, which the plan has placed in SMEM.
    pub(crate) fn in_smem(&self, b: &FunctionBuilder) -> Value {
        self.within(b, MemorySpace::Smem)
    }

    fn within(&self, b: &FunctionBuilder, space: MemorySpace) -> Value {
        let ty = b.ty(self.buffers);
        assert!(
            matches!(ty, Type::MemRef(memref) if memref.space == Some(space)),
            "{ty} is not in {space:?}"
        );
        self.buffers
    }

    /// One of the two buffers, as a DMA addresses it.
    fn target(&self, b: &mut FunctionBuilder, slot: Value) -> Value {
        let shape = b.ty(self.buffers).shape()[1..].to_vec();
        let zero = b.i32(0);
        b.slice_memref(self.buffers, &[slot, zero, zero], &shape)
    }
}

/// All operands and their semaphores.
pub(crate) struct DoubleBuffered {
    pub(crate) x: OperandBuffers,
    pub(crate) w: OperandBuffers,
    pub(crate) w_scale: OperandBuffers,
    pub(crate) x_scale: Option<OperandBuffers>,
    out: OperandBuffers,
    semaphores: Value,
}

impl DoubleBuffered {
    pub(crate) fn declare(f: &mut Frame<'_>) -> Self {
        let (plan, padded, grid) = (f.plan, f.plan.padded, f.plan.grid);
        let (w_rows, k_blocks) = plan.w_scale_tile();
        let (x_rows, _) = plan.x_scale_tile();
        let x_scale_id = plan.x_scale().map(|buffer| buffer.id);

        let x = f.in_hbm(Operand::X, BufferId::X, &[padded.m, padded.k]);
        let w = f.in_hbm(Operand::W, BufferId::WQ, &[padded.n, padded.k]);
        let w_scale = f.in_hbm(Operand::WScaleTiles, BufferId::WScale, &[grid.n, grid.k, w_rows, k_blocks]);
        let x_scale =
            x_scale_id.map(|id| f.in_hbm(Operand::XScaleTiles, id, &[grid.m, grid.k, x_rows, k_blocks]));
        let out = f.out_in_hbm();

        let mut buffers = |lane, hbm, name, id| {
            let buffers = f.scratch_copies(name, id);
            OperandBuffers { lane, hbm, buffers }
        };
        Self {
            x: buffers(Lane::X, x, "x_x2", BufferId::X),
            w: buffers(Lane::W, w, "w_q_x2", BufferId::WQ),
            w_scale: buffers(Lane::WScale, w_scale, "w_scale_x2", BufferId::WScale),
            x_scale: x_scale.zip(x_scale_id).map(|(hbm, id)| buffers(Lane::XScale, hbm, "x_scale_x2", id)),
            out: buffers(Lane::Out, out, "out_x2", BufferId::Out),
            semaphores: f.semaphores(&[DOUBLE_BUFFERED, plan.semaphores / DOUBLE_BUFFERED]),
        }
    }

    /// Starts the DMAs of a step's operands.
    pub(crate) fn start(&self, b: &mut FunctionBuilder, plan: &TpuPlan, at: GridIndex, slot: Value) {
        self.each_copy(b, plan, at, slot, |b, name, copy| {
            b.located(format!("start {name}"), |b| b.start(copy));
        });
    }

    /// Waits for the DMAs of a step's operands.
    pub(crate) fn wait(&self, b: &mut FunctionBuilder, plan: &TpuPlan, at: GridIndex, slot: Value) {
        self.each_copy(b, plan, at, slot, |b, name, copy| {
            b.located(format!("wait {name}"), |b| b.wait(copy));
        });
    }

    fn each_copy(
        &self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        at: GridIndex,
        slot: Value,
        visit: impl Fn(&mut FunctionBuilder, &'static str, Copy),
    ) {
        let size = plan.tile;
        let x = |b: &mut FunctionBuilder| {
            let copy = self.block(b, self.x, [(at.m, size.m), (at.k, size.k)], slot);
            visit(b, "x", copy);
        };
        // Quantized activations that stay in VMEM are made of x in the first column of tiles.
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

    /// The DMA of one block of a matrix, given the block's index and extent along each dimension.
    fn block(
        &self,
        b: &mut FunctionBuilder,
        operand: OperandBuffers,
        at: [(Value, usize); 2],
        slot: Value,
    ) -> Copy {
        let offsets = at.map(|(index, extent)| {
            let extent = b.i32(extent);
            b.muli(index, extent)
        });
        let shape = at.map(|(_, extent)| extent);
        Copy {
            source: b.slice_memref(operand.hbm, &offsets, &shape),
            target: operand.target(b, slot),
            semaphore: self.semaphore(b, operand.lane, slot),
        }
    }

    /// The DMA of one tile's scales.
    fn scales(
        &self,
        b: &mut FunctionBuilder,
        operand: OperandBuffers,
        [row, k]: [Value; 2],
        slot: Value,
    ) -> Copy {
        let shape = b.ty(operand.hbm).shape()[2..].to_vec();
        let zero = b.i32(0);
        Copy {
            source: b.slice_memref(operand.hbm, &[row, k, zero, zero], &shape),
            target: operand.target(b, slot),
            semaphore: self.semaphore(b, operand.lane, slot),
        }
    }

    fn semaphore(&self, b: &mut FunctionBuilder, lane: Lane, slot: Value) -> Value {
        let lane = b.i32(lane as usize);
        b.slice_memref(self.semaphores, &[slot, lane], &[])
    }

    /// Writes a finished tile to its buffer, once the store before the last has left it, and starts its
    /// store. The last tile waits for all stores in flight.
    pub(crate) fn store(&self, b: &mut FunctionBuilder, plan: &TpuPlan, step: &Step, acc: &Buffer) {
        let (at, number) = (step.at, step.tile);
        let tiles = plan.grid.m * plan.grid.n;
        let (one, two) = (b.i32(1), b.i32(DOUBLE_BUFFERED));
        let slot = slot_of(b, number);
        b.name(slot, "out_slot");
        if tiles > DOUBLE_BUFFERED {
            let busy = b.cmpi(IntPredicate::Sge, number, two);
            b.when(busy, |b| {
                let earlier = b.subi(number, two);
                self.wait_store(b, plan, earlier, slot);
            });
        }
        let out = self.out.at(b, slot);
        tile::write_out(b, plan, acc, &out);
        let copy = self.out_copy(b, plan, [at.m, at.n], slot);
        b.located("start out", |b| b.start(copy));
        b.when_equal(number, tiles - 1, |b| {
            self.wait_store(b, plan, number, slot);
            if tiles > 1 {
                let earlier = b.subi(number, one);
                let other = b.subi(one, slot);
                self.wait_store(b, plan, earlier, other);
            }
        });
    }

    fn wait_store(&self, b: &mut FunctionBuilder, plan: &TpuPlan, number: Value, slot: Value) {
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

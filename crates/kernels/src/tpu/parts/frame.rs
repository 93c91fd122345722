//! The frame of a kernel: its arguments, declared from the plan's memory map in Mosaic's order, and its
//! attributes.

use octile_core::plan::{self, BufferId, PlannedBuffer, tpu::DOUBLE_BUFFERED, tpu::TpuPlan};
use octile_mosaic::{
    Attr, Attributes, CoreType, DimensionSemantics, Function, FunctionBuilder, MemorySpace, Module, Type,
    Value, Visibility, build::IntPredicate,
};

use crate::{
    stablehlo::element,
    tpu::{KernelModule, kernel_name},
};

/// What the module around a kernel passes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// Activations, in the extents that the plan gives.
    X,
    /// Weight codes, likewise.
    W,
    /// Weight scales, one row per block of rows.
    WScale,
    /// Activation scales (or largest magnitudes), one row per block of rows.
    XScale,
    /// Activation scales, one column per row of x.
    XScaleColumns,
    /// Weight scales, regrouped into one small matrix per tile.
    WScaleTiles,
    /// Activation scales (or largest magnitudes), regrouped into one small matrix per tile.
    XScaleTiles,
}

/// Which block of an operand a grid step sees, along one dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Along {
    /// The grid index along M.
    M,
    /// The grid index along N.
    N,
    /// The grid index along K.
    K,
    /// As `K` in the first column of tiles; later columns reuse what was quantized there and load nothing.
    KOnce,
    /// Always block 0.
    First,
}

/// In which order grid steps may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GridOrder {
    /// Tiles are independent; only the K steps of one tile are ordered.
    AnyTile,
    /// Every step relies on the one before it: it has started this step's DMAs.
    Sequential,
}

/// A kernel under construction. Arguments must be declared in the order prefetched, operands, scratch.
pub(crate) struct Frame<'p> {
    pub(crate) plan: &'p TpuPlan,
    pub(crate) b: FunctionBuilder,
    /// Grid indices along M, N and K.
    pub(crate) m: Value,
    pub(crate) n: Value,
    pub(crate) k: Value,
    grid: Vec<(usize, DimensionSemantics)>,
    prefetched: Vec<Type>,
    windows: Vec<Attr>,
    transforms: Vec<Function>,
    operands: Vec<Operand>,
    scratch: usize,
}

impl<'p> Frame<'p> {
    /// Starts a kernel on the grid (m, n, k).
    pub(crate) fn new(plan: &'p TpuPlan, order: GridOrder) -> Self {
        let mut b = FunctionBuilder::new(kernel_name(plan), Visibility::Public);
        let mut index = |name| b.argument(name, Type::I32);
        let (m, n, k) = (index("m"), index("n"), index("k"));
        let free = match order {
            GridOrder::Sequential => DimensionSemantics::Arbitrary,
            GridOrder::AnyTile => DimensionSemantics::Parallel,
        };
        let along_n = match plan.keeps_quantized_x {
            true => DimensionSemantics::Arbitrary,
            false => free,
        };
        let grid =
            vec![(plan.grid.m, free), (plan.grid.n, along_n), (plan.grid.k, DimensionSemantics::Arbitrary)];
        Self {
            plan,
            b,
            m,
            n,
            k,
            grid,
            prefetched: Vec::new(),
            windows: Vec::new(),
            transforms: Vec::new(),
            operands: Vec::new(),
            scratch: 0,
        }
    }

    /// The planned buffer with this id.
    fn planned(&self, id: BufferId) -> &'p PlannedBuffer {
        let Some(buffer) = self.plan.memory.get(id) else { panic!("the plan has no buffer {id}") };
        buffer
    }

    /// An array that is copied to SMEM before the first step.
    pub(crate) fn prefetched(&mut self, operand: Operand, id: BufferId) -> Value {
        let ty = single(self.planned(id));
        self.prefetched.push(ty.clone());
        self.operands.push(operand);
        self.b.argument(id.name(), ty)
    }

    /// An operand that the compiler pipelines: every step finds its block in VMEM.
    pub(crate) fn window(&mut self, operand: Operand, id: BufferId, along: &[Along]) -> Value {
        self.operands.push(operand);
        self.pipelined(id, along)
    }

    /// The result, which the compiler stores from the block that every step finds in VMEM.
    pub(crate) fn out_window(&mut self) -> Value {
        self.pipelined(BufferId::Out, &[Along::M, Along::N])
    }

    fn pipelined(&mut self, id: BufferId, along: &[Along]) -> Value {
        let buffer = self.planned(id);
        assert_eq!(buffer.copies, DOUBLE_BUFFERED, "the compiler double-buffers {id}");
        // Regrouped scales have a block of one tile in their leading dimensions.
        let leading = vec![1; along.len() - buffer.shape.len()];
        let block = [leading, buffer.shape.clone()].concat();
        let transform = format!("{id}_block");
        self.windows.push(
            Attributes::new()
                .with("transform_indices", Attr::Symbol(transform.clone()))
                .with("window_bounds", Attr::extents(&block))
                .into(),
        );
        let function = self.transform(transform, along);
        self.transforms.push(function);
        self.b.argument(id.name(), memref(&block, buffer))
    }

    /// The function that maps grid indices to a block.
    fn transform(&self, name: String, along: &[Along]) -> Function {
        let mut b = FunctionBuilder::new(name, Visibility::Public);
        let [m, n, k] = ["m", "n", "k"].map(|name| b.argument(name, Type::I32));
        for (i, ty) in self.prefetched.iter().enumerate() {
            b.argument(format!("prefetched{i}"), ty.clone());
        }
        let mut block = |along: &Along| match along {
            Along::M => m,
            Along::N => n,
            Along::K => k,
            Along::First => b.i32(0),
            Along::KOnce => {
                let (zero, last) = (b.i32(0), b.i32(self.plan.grid.k - 1));
                let first = b.cmpi(IntPredicate::Eq, n, zero);
                b.select(first, k, last)
            }
        };
        let blocks: Vec<Value> = along.iter().map(&mut block).collect();
        b.finish(&blocks, Attributes::new())
    }

    /// An operand that stays in HBM: the kernel copies what it needs.
    pub(crate) fn in_hbm(&mut self, operand: Operand, id: BufferId, shape: &[usize]) -> Value {
        self.operands.push(operand);
        self.unmoved(id, shape)
    }

    /// The result in HBM: the kernel stores its tiles.
    pub(crate) fn out_in_hbm(&mut self) -> Value {
        let given = self.plan.given();
        self.unmoved(BufferId::Out, &[given.m, given.n])
    }

    fn unmoved(&mut self, id: BufferId, shape: &[usize]) -> Value {
        self.windows.push(Attributes::new().into());
        let element = element(self.planned(id).element);
        self.b.argument(id.name(), Type::memref(shape, element, MemorySpace::Hbm))
    }

    /// The only copy of a planned buffer.
    pub(crate) fn scratch(&mut self, name: &'static str, id: BufferId) -> Value {
        let ty = single(self.planned(id));
        self.declare_scratch(name, ty)
    }

    /// All copies of a planned buffer, as the leading dimension of one array.
    pub(crate) fn scratch_copies(&mut self, name: &'static str, id: BufferId) -> Value {
        let buffer = self.planned(id);
        let shape = [&[buffer.copies], &buffer.shape[..]].concat();
        self.declare_scratch(name, memref(&shape, buffer))
    }

    fn declare_scratch(&mut self, name: &'static str, ty: Type) -> Value {
        self.scratch += 1;
        self.b.argument(name, ty)
    }

    /// The plan's DMA semaphores, in an array of this shape.
    pub(crate) fn semaphores(&mut self, shape: &[usize]) -> Value {
        assert_eq!(shape.iter().product::<usize>(), self.plan.semaphores, "all planned semaphores");
        self.declare_scratch("semaphores", Type::memref(shape, Type::DmaSemaphore, MemorySpace::Semaphore))
    }

    /// Finishes the kernel.
    pub(crate) fn finish(self) -> KernelModule {
        let bounds: Vec<usize> = self.grid.iter().map(|&(steps, _)| steps).collect();
        let semantics = self.grid.iter().map(|&(_, s)| Attr::DimensionSemantics(s));
        let attributes = Attributes::new()
            .with("dimension_semantics", Attr::Array(semantics.collect()))
            .with("iteration_bounds", Attr::extents(&bounds))
            .with("scalar_prefetch", Attr::i64(self.prefetched.len()))
            .with("scratch_operands", Attr::i64(self.scratch))
            .with("tpu.core_type", Attr::CoreType(CoreType::TensorCore))
            .with("window_params", Attr::Array(self.windows));
        let mut functions = vec![self.b.finish(&[], attributes)];
        functions.extend(self.transforms);
        let module = Module {
            name: None,
            attributes: Attributes::new().with("stable_mosaic.version", Attr::i64(15)),
            functions,
        };
        KernelModule { module, operands: self.operands }
    }
}

/// The type of a buffer that has one copy.
fn single(buffer: &PlannedBuffer) -> Type {
    assert_eq!(buffer.copies, 1, "{} has one copy", buffer.id);
    memref(&buffer.shape, buffer)
}

/// The type of an array with a planned buffer's elements, in its memory.
fn memref(shape: &[usize], buffer: &PlannedBuffer) -> Type {
    let space = match buffer.space {
        plan::MemorySpace::Vmem => MemorySpace::Vmem,
        plan::MemorySpace::Smem => MemorySpace::Smem,
        other => panic!("a TPU has no {other}"),
    };
    Type::memref(shape, element(buffer.element), space)
}

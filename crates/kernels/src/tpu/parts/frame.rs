//! The frame of every kernel: its arguments in the order that Mosaic wants, how blocks of them are brought in,
//! and the attributes that say so.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::{
    Attr, Attributes, CoreType, DimensionSemantics, Float, Function, FunctionBuilder, MemorySpace, Module,
    Type, Value, Visibility, build::IntPredicate,
};

use super::{Kernel, kernel_name};

/// What the module around a kernel passes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// Activations, padded to whole tiles.
    X,
    /// Weight codes, padded to whole tiles.
    W,
    /// Scales of w, one row per block of rows.
    WScale,
    /// Scales (or largest magnitudes) of x, one row per block of rows.
    XScale,
    /// Scales of w, cut into one small matrix per tile.
    WScaleTiles,
    /// Scales (or largest magnitudes) of x, cut into one small matrix per tile.
    XScaleTiles,
}

/// Which block of an operand a grid step sees, along one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along {
    /// The block of the step's row of tiles.
    M,
    /// The block of the step's column of tiles.
    N,
    /// The block of the step's piece of K.
    K,
    /// As `K` in the first column of tiles; then nothing new, because what was made of it is kept.
    KOnce,
    /// Always the first.
    First,
}

/// A kernel under construction. Arguments must be declared in the order prefetched, operands, scratch.
pub(super) struct Frame<'p> {
    pub(super) plan: &'p TpuPlan,
    pub(super) b: FunctionBuilder,
    /// Grid indices along M, N and K.
    pub(super) m: Value,
    pub(super) n: Value,
    pub(super) k: Value,
    grid: Vec<(usize, DimensionSemantics)>,
    prefetched: Vec<Type>,
    windows: Vec<Attr>,
    transforms: Vec<Function>,
    operands: Vec<Operand>,
    scratch: usize,
}

impl<'p> Frame<'p> {
    /// A kernel on the grid (m, n, k). In an `ordered` one a step relies on the step before it, whichever tile
    /// that belonged to; else only the steps of one tile must follow each other.
    pub(super) fn new(plan: &'p TpuPlan, ordered: bool) -> Self {
        let mut b = FunctionBuilder::new(kernel_name(plan), Visibility::Public);
        let mut index = |name| b.argument(name, Type::I32);
        let (m, n, k) = (index("m"), index("n"), index("k"));
        // What one step leaves for the next forbids any other order.
        let free = match ordered {
            true => DimensionSemantics::Arbitrary,
            false => DimensionSemantics::Parallel,
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

    /// An array of f32 that is in scalar memory before the first step.
    pub(super) fn prefetched(&mut self, name: &'static str, operand: Operand, shape: [usize; 2]) -> Value {
        let ty = Type::memref(shape, Float::F32, MemorySpace::Smem);
        self.prefetched.push(ty.clone());
        self.operands.push(operand);
        self.b.argument(name, ty)
    }

    /// An operand of which every step finds one block in vector memory: the compiler moves it.
    pub(super) fn window(
        &mut self,
        name: &'static str,
        operand: Operand,
        element: Float,
        block: &[usize],
        along: &[Along],
    ) -> Value {
        self.operands.push(operand);
        self.pipelined(name, element, block, along)
    }

    /// The result, of which every step finds one block in vector memory.
    pub(super) fn out_window(&mut self, element: Float) -> Value {
        let tile = self.plan.tile;
        self.pipelined("out", element, &[tile.m, tile.n], &[Along::M, Along::N])
    }

    fn pipelined(&mut self, name: &'static str, element: Float, block: &[usize], along: &[Along]) -> Value {
        let transform = format!("{name}_block");
        self.windows.push(
            Attributes::new()
                .with("transform_indices", Attr::Symbol(transform.clone()))
                .with("window_bounds", Attr::extents(block))
                .into(),
        );
        let function = self.transform(transform, along);
        self.transforms.push(function);
        self.b.argument(name, Type::memref(block, element, MemorySpace::Vmem))
    }

    /// The function that names a step's block.
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

    /// An operand that stays in device memory: the kernel moves what it needs.
    pub(super) fn in_hbm(
        &mut self,
        name: &'static str,
        operand: Operand,
        element: Float,
        shape: &[usize],
    ) -> Value {
        self.operands.push(operand);
        self.unmoved(name, element, shape)
    }

    /// The result in device memory: the kernel moves what it has made.
    pub(super) fn out_in_hbm(&mut self, element: Float) -> Value {
        let padded = self.plan.padded;
        self.unmoved("out", element, &[padded.m, padded.n])
    }

    fn unmoved(&mut self, name: &'static str, element: Float, shape: &[usize]) -> Value {
        self.windows.push(Attributes::new().into());
        self.b.argument(name, Type::memref(shape, element, MemorySpace::Hbm))
    }

    /// A buffer of the kernel's own.
    pub(super) fn scratch(
        &mut self,
        name: &'static str,
        shape: &[usize],
        element: impl Into<Type>,
        space: MemorySpace,
    ) -> Value {
        self.scratch += 1;
        self.b.argument(name, Type::memref(shape, element, space))
    }

    /// Semaphores that copies signal.
    pub(super) fn semaphores(&mut self, shape: &[usize]) -> Value {
        self.scratch("semaphores", shape, Type::DmaSemaphore, MemorySpace::Semaphore)
    }

    /// The finished kernel.
    pub(super) fn finish(self) -> Kernel {
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
        Kernel { module, operands: self.operands }
    }
}

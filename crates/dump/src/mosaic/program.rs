//! The operations of a kernel that matter to its DMAs, picked out once: a grid runs them many times.

use octile_mosaic::{
    Attr, Function, MemorySpace, Op, Region, Type, Value,
    interpret::{OpKind, ScalarOp, op_kind},
};

/// An operation that matters, with its regions.
pub(super) struct KernelStep<'m> {
    pub op: &'m Op,
    pub action: Action,
    pub blocks: Vec<KernelBlock<'m>>,
    /// Whether it, or an operation inside it, starts a DMA, waits for one or multiplies.
    pub acts: bool,
    /// Whether it, or an operation inside it, loads or stores.
    pub touches: bool,
}

/// The operations of a region that matter.
pub(super) struct KernelBlock<'m> {
    pub arguments: &'m [Value],
    pub steps: Vec<KernelStep<'m>>,
    /// The values that the region yields.
    pub yields: &'m [Value],
}

/// What is done about an operation when the kernel is followed.
pub(super) enum Action {
    Scalar(ScalarOp),
    Slice,
    Alias,
    StartDma,
    WaitDma,
    Matmul,
    Access(MemoryAccess),
    Allocate,
    Copy,
    Scope,
    /// An operation that may do anything to the memory that it is given, or that has regions of unknown
    /// meaning.
    Opaque,
    If,
    For,
    While,
}

/// A load or a store.
pub(super) struct MemoryAccess {
    pub writes: bool,
    pub coverage: Coverage,
}

/// Which elements of its vector a load or store accesses.
pub(super) enum Coverage {
    Dense,
    /// Those that a mask picks.
    Masked,
    /// Every one, with these strides along the last dimensions.
    Strided(Vec<i64>),
    /// Those that attributes pick in a way that is not modelled.
    Unknown,
}

impl<'m> KernelBlock<'m> {
    pub(super) fn new(region: &'m Region, function: &'m Function) -> Self {
        let steps = region.ops.iter().filter_map(|op| KernelStep::new(op, function)).collect();
        let last = region.ops.last();
        Self { arguments: &region.arguments, steps, yields: last.map_or(&[], |op| &op.operands) }
    }
}

impl<'m> KernelStep<'m> {
    /// `None` for operations that only compute vectors.
    fn new(op: &'m Op, function: &'m Function) -> Option<Self> {
        let action = Action::new(op, function)?;
        let blocks: Vec<_> = op.regions.iter().map(|region| KernelBlock::new(region, function)).collect();
        let any = |does: fn(&Self) -> bool| blocks.iter().flat_map(|block| &block.steps).any(does);
        let opaque = matches!(action, Action::Opaque);
        let given = |memory: fn(&Type) -> bool| opaque && op.operands.iter().any(|&o| memory(function.ty(o)));
        // A called function may do anything with its arguments.
        let calls = op_kind(&op.name) == Some(OpKind::Call) && given(is_memory);
        let signals = given(is_semaphore) || calls;
        let acts = matches!(action, Action::StartDma | Action::WaitDma | Action::Matmul)
            || any(|step| step.acts)
            || signals;
        let touches = matches!(action, Action::Access(_) | Action::Copy)
            || any(|step| step.touches)
            || given(is_memory);
        let scalar = |&result: &Value| function.ty(result).shape().is_empty();
        let gives = op.results.iter().any(scalar)
            || matches!(action, Action::Slice | Action::Alias | Action::Allocate);
        (acts || touches || gives).then_some(Self { op, action, blocks, acts, touches })
    }
}

impl Action {
    /// By the kind of the operation in the interpreter's table. `None` for what only computes.
    fn new(op: &Op, function: &Function) -> Option<Self> {
        let access = |writes| Self::Access(MemoryAccess { writes, coverage: Coverage::new(op) });
        let is_given_memory = || op.operands.iter().any(|&operand| is_memory(function.ty(operand)));
        Some(match op_kind(&op.name) {
            Some(OpKind::Slice) => Self::Slice,
            Some(OpKind::Alias) => Self::Alias,
            Some(OpKind::Allocate) => Self::Allocate,
            Some(OpKind::StartDma) => Self::StartDma,
            Some(OpKind::WaitDma) => Self::WaitDma,
            Some(OpKind::Matmul | OpKind::Accumulate) => Self::Matmul,
            Some(OpKind::Copy) => Self::Copy,
            Some(OpKind::Load) => access(false),
            Some(OpKind::Store) => access(true),
            Some(OpKind::Scope) => Self::Scope,
            Some(OpKind::If) => Self::If,
            Some(OpKind::For) => Self::For,
            Some(OpKind::While) => Self::While,
            Some(OpKind::Compute) if op.regions.is_empty() => Self::Scalar(ScalarOp::new(function, op)?),
            // A view that is not followed: accesses through it count as unresolved.
            Some(OpKind::Reinterpret | OpKind::Yield) => return None,
            _ if !op.regions.is_empty() || is_given_memory() => Self::Opaque,
            _ => return None,
        })
    }
}

impl Coverage {
    fn new(op: &Op) -> Self {
        // Operands after the indices are masks.
        let masked = match op.attributes.get("operandSegmentSizes") {
            Some(Attr::I32s(segments)) => segments.last().is_some_and(|mask| *mask > 0),
            _ => false,
        };
        let masked = masked || matches!(&*op.name, "vector.maskedload" | "vector.maskedstore");
        let strides = match op.attributes.get("strides") {
            None => &[],
            Some(Attr::I32s(strides)) => &strides[..],
            Some(_) => return Self::Unknown,
        };
        match () {
            () if matches!(&*op.name, "tpu.load" | "tpu.store") => Self::of_sublanes(op),
            () if strides.iter().all(|&stride| stride == 1) && masked => Self::Masked,
            () if strides.iter().all(|&stride| stride == 1) => Self::Dense,
            () if strides.iter().all(|&stride| stride > 0) && !masked => {
                Self::Strided(strides.iter().copied().map(i64::from).collect())
            }
            () => Self::Unknown,
        }
    }

    /// `tpu.load` and `tpu.store` pick sublanes with attributes of their own.
    fn of_sublanes(op: &Op) -> Self {
        let contiguous = match op.attributes.get("sublane_stride") {
            None => true,
            Some(stride) => matches!(stride, Attr::Integer(1, _)),
        };
        // `array<i1: true, false>`
        match op.attributes.get("sublane_mask").map(Attr::to_string) {
            Some(mask) if contiguous && mask.contains("true") && !mask.contains("false") => Self::Dense,
            Some(_) if contiguous => Self::Masked,
            _ => Self::Unknown,
        }
    }
}

fn is_memory(ty: &Type) -> bool {
    matches!(ty, Type::MemRef(_))
}

fn is_semaphore(ty: &Type) -> bool {
    matches!(ty, Type::MemRef(memref) if memref.space == Some(MemorySpace::Semaphore))
}

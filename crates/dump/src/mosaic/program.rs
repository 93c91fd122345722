//! What of a kernel decides about its copies, picked out once: a grid has many steps.

use octile_mosaic::{Attr, Function, MemorySpace, Op, Region, Type, Value};

use super::kernel::constant;

/// An operation that matters, with the blocks inside of it.
pub struct Step<'m> {
    pub op: &'m Op,
    pub kind: Kind,
    pub blocks: Vec<Block<'m>>,
    /// Whether it starts copies, waits for them or multiplies.
    pub acts: bool,
    /// Whether it loads or stores.
    pub touches: bool,
}

/// The operations of a region that matter.
pub struct Block<'m> {
    pub arguments: &'m [Value],
    pub steps: Vec<Step<'m>>,
    /// What the region gives to the operation around it.
    pub yields: &'m [Value],
}

/// What an operation does.
pub enum Kind {
    Number(Compute),
    Slice,
    Squeeze,
    Start,
    Wait,
    Multiply,
    Access(Access),
    /// Memory of its own.
    Allocate,
    /// `memref.copy`: done when it is over.
    Copy,
    /// A region that runs once.
    Inline,
    /// Something else that is given memory, or has regions.
    Opaque,
    If,
    For,
    While,
}

/// How an operation touches memory.
pub struct Access {
    pub writes: bool,
    pub reach: Reach,
}

/// Which elements of its vector an access touches.
pub enum Reach {
    /// Every one.
    Dense,
    /// Those that a mask picks.
    Masked,
    /// Every one, so far apart along the last dimensions.
    Strided(Vec<i64>),
    /// Those that attributes pick in a way that is not followed.
    Anywhere,
}

/// How a number comes from others.
pub enum Compute {
    Constant(i64),
    Same,
    Binary(fn(i64, i64) -> Option<i64>),
    Compare(fn(i64, i64) -> bool),
    Select,
}

impl Compute {
    /// The number; nothing where an operand is not known.
    pub fn of(&self, operands: &[Option<i64>]) -> Option<i64> {
        let operand = |index: usize| operands.get(index).copied().flatten();
        match self {
            Self::Constant(value) => Some(*value),
            Self::Same => operand(0),
            Self::Binary(compute) => compute(operand(0)?, operand(1)?),
            Self::Compare(compare) => Some(i64::from(compare(operand(0)?, operand(1)?))),
            Self::Select => operand(if operand(0)? != 0 { 1 } else { 2 }),
        }
    }
}

impl<'m> Block<'m> {
    /// Picks out of a region what matters.
    pub fn of(region: &'m Region, function: &'m Function) -> Self {
        let steps = region.ops.iter().filter_map(|op| Step::of(op, function)).collect();
        let last = region.ops.last();
        Self { arguments: &region.arguments, steps, yields: last.map_or(&[], |op| &op.operands) }
    }
}

impl<'m> Step<'m> {
    fn of(op: &'m Op, function: &'m Function) -> Option<Self> {
        let kind = Kind::of(op, function)?;
        let blocks: Vec<_> = op.regions.iter().map(|region| Block::of(region, function)).collect();
        let any = |does: fn(&Self) -> bool| blocks.iter().flat_map(|block| &block.steps).any(does);
        let opaque = matches!(kind, Kind::Opaque);
        let given = |memory: fn(&Type) -> bool| opaque && op.operands.iter().any(|&o| memory(function.ty(o)));
        // A function that is called does what it likes with all that it is given.
        let signals = given(is_semaphore) || (op.name == "func.call" && given(is_memory));
        let acts =
            matches!(kind, Kind::Start | Kind::Wait | Kind::Multiply) || any(|step| step.acts) || signals;
        let touches =
            matches!(kind, Kind::Access(_) | Kind::Copy) || any(|step| step.touches) || given(is_memory);
        // What gives only vectors, or nothing, and does not act is left out.
        let scalar = |&result: &Value| function.ty(result).shape().is_empty();
        let gives =
            op.results.iter().any(scalar) || matches!(kind, Kind::Slice | Kind::Squeeze | Kind::Allocate);
        (acts || touches || gives).then_some(Self { op, kind, blocks, acts, touches })
    }
}

impl Kind {
    /// Nothing for what only computes.
    fn of(op: &Op, function: &Function) -> Option<Self> {
        let access = |writes| Self::Access(Access { writes, reach: Reach::of(op) });
        Some(match &*op.name {
            "tpu.memref_slice" => Self::Slice,
            "tpu.memref_squeeze" | "memref.cast" | "tpu.erase_memref_layout" | "tpu.assume_layout" => {
                Self::Squeeze
            }
            // A view that is not followed: what is done to it is not either.
            "memref.subview"
            | "memref.reinterpret_cast"
            | "tpu.memref_reshape"
            | "tpu.memref_bitcast"
            | "tpu.reinterpret_cast"
            | "memref.dim" => return None,
            "memref.alloc" | "memref.alloca" | "tpu.sem_alloc" => Self::Allocate,
            "tpu.enqueue_dma" => Self::Start,
            "tpu.wait_dma2" | "tpu.wait_dma" => Self::Wait,
            "tpu.matmul" => Self::Multiply,
            "memref.copy" => Self::Copy,
            "vector.load" | "memref.load" | "tpu.vector_load" | "tpu.load" | "tpu.strided_load"
            | "vector.maskedload" => access(false),
            "vector.store" | "memref.store" | "tpu.vector_store" | "tpu.store" | "tpu.strided_store"
            | "vector.maskedstore" => access(true),
            "tpu.region" => Self::Inline,
            "scf.if" => Self::If,
            "scf.for" => Self::For,
            "scf.while" => Self::While,
            name => match compute(name, op) {
                Some(compute) => Self::Number(compute),
                None if !op.regions.is_empty() => Self::Opaque,
                None if op.operands.iter().any(|&operand| is_memory(function.ty(operand))) => Self::Opaque,
                None => return None,
            },
        })
    }
}

impl Reach {
    fn of(op: &Op) -> Self {
        // Operands behind the indices are masks.
        let masked = match op.attributes.get("operandSegmentSizes") {
            Some(Attr::I32s(segments)) => segments.last().is_some_and(|mask| *mask > 0),
            _ => false,
        };
        let masked = masked || matches!(&*op.name, "vector.maskedload" | "vector.maskedstore");
        let strides = match op.attributes.get("strides") {
            None => &[],
            Some(Attr::I32s(strides)) => &strides[..],
            Some(_) => return Self::Anywhere,
        };
        match () {
            // Which sublanes these touch, and how far apart, is in attributes of their own.
            () if matches!(&*op.name, "tpu.load" | "tpu.store") => Self::sublanes(op),
            () if strides.iter().all(|&stride| stride == 1) && masked => Self::Masked,
            () if strides.iter().all(|&stride| stride == 1) => Self::Dense,
            () if strides.iter().all(|&stride| stride > 0) && !masked => {
                Self::Strided(strides.iter().copied().map(i64::from).collect())
            }
            () => Self::Anywhere,
        }
    }

    fn sublanes(op: &Op) -> Self {
        let together = match op.attributes.get("sublane_stride") {
            None => true,
            Some(stride) => matches!(stride, Attr::Integer(1, _)),
        };
        // `array<i1: true, false>`
        match op.attributes.get("sublane_mask").map(Attr::to_string) {
            Some(mask) if together && mask.contains("true") && !mask.contains("false") => Self::Dense,
            Some(_) if together => Self::Masked,
            _ => Self::Anywhere,
        }
    }
}

fn is_memory(ty: &Type) -> bool {
    matches!(ty, Type::MemRef(_))
}

fn is_semaphore(ty: &Type) -> bool {
    matches!(ty, Type::MemRef(memref) if memref.space == Some(MemorySpace::Semaphore))
}

fn compute(name: &str, op: &Op) -> Option<Compute> {
    Some(match name {
        "arith.constant" => Compute::Constant(constant(op)?),
        "arith.index_cast" | "arith.index_castui" | "arith.extui" | "arith.extsi" | "arith.trunci" => {
            Compute::Same
        }
        "tpu.assume_multiple" => Compute::Same,
        "arith.select" => Compute::Select,
        "arith.cmpi" => match op.attributes.get("predicate")? {
            Attr::Integer(predicate, _) => Compute::Compare(comparison(*predicate)?),
            _ => return None,
        },
        "arith.addi" => Compute::Binary(i64::checked_add),
        "arith.subi" => Compute::Binary(i64::checked_sub),
        "arith.muli" => Compute::Binary(i64::checked_mul),
        "arith.divsi" | "arith.divui" => Compute::Binary(i64::checked_div),
        "arith.remsi" | "arith.remui" => Compute::Binary(i64::checked_rem),
        "arith.floordivsi" => Compute::Binary(|a, b| a.checked_div_euclid(b).filter(|_| b > 0)),
        "arith.ceildivsi" => Compute::Binary(|a, b| {
            a.checked_add(b.checked_sub(1)?)?.checked_div(b).filter(|_| a >= 0 && b > 0)
        }),
        "arith.minsi" | "arith.minui" => Compute::Binary(|a, b| Some(a.min(b))),
        "arith.maxsi" | "arith.maxui" => Compute::Binary(|a, b| Some(a.max(b))),
        "arith.andi" => Compute::Binary(|a, b| Some(a & b)),
        "arith.ori" => Compute::Binary(|a, b| Some(a | b)),
        "arith.xori" => Compute::Binary(|a, b| Some(a ^ b)),
        "arith.shli" => Compute::Binary(|a, b| a.checked_shl(u32::try_from(b).ok()?)),
        "arith.shrsi" | "arith.shrui" => Compute::Binary(|a, b| a.checked_shr(u32::try_from(b).ok()?)),
        _ => return None,
    })
}

/// In MLIR's order. Numbers here are sizes and positions, so that unsigned and signed are the same.
fn comparison(predicate: i64) -> Option<fn(i64, i64) -> bool> {
    Some(match predicate {
        0 => |a, b| a == b,
        1 => |a, b| a != b,
        2 | 6 => |a, b| a < b,
        3 | 7 => |a, b| a <= b,
        4 | 8 => |a, b| a > b,
        5 | 9 => |a, b| a >= b,
        _ => return None,
    })
}

//! What of a kernel decides about its copies, picked out once: a grid has many steps.

use octile_mosaic::{Attr, Function, Op, Region, Value};

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
    If,
    For,
    While,
}

/// How an operation touches memory.
#[derive(Clone, Copy)]
pub struct Access {
    pub writes: bool,
    /// Whether it touches every element of its vector, as opposed to some that a stride or a mask picks.
    pub dense: bool,
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
        let kind = Kind::of(op)?;
        let blocks: Vec<_> = op.regions.iter().map(|region| Block::of(region, function)).collect();
        let any = |does: fn(&Self) -> bool| blocks.iter().flat_map(|block| &block.steps).any(does);
        let acts = matches!(kind, Kind::Start | Kind::Wait | Kind::Multiply) || any(|step| step.acts);
        let touches = matches!(kind, Kind::Access(_)) || any(|step| step.touches);
        // What gives only vectors, or nothing, and does not act is left out.
        let scalar = |&result: &Value| function.ty(result).shape().is_empty();
        let gives = op.results.iter().any(scalar) || matches!(kind, Kind::Slice | Kind::Squeeze);
        (acts || touches || gives).then_some(Self { op, kind, blocks, acts, touches })
    }
}

impl Kind {
    fn of(op: &Op) -> Option<Self> {
        Some(match &*op.name {
            "tpu.memref_slice" => Self::Slice,
            "tpu.memref_squeeze" | "memref.cast" | "tpu.erase_memref_layout" | "tpu.assume_layout" => {
                Self::Squeeze
            }
            "tpu.enqueue_dma" => Self::Start,
            "tpu.wait_dma2" | "tpu.wait_dma" => Self::Wait,
            "tpu.matmul" => Self::Multiply,
            "vector.load" | "memref.load" | "tpu.vector_load" => {
                Self::Access(Access { writes: false, dense: op.name != "tpu.vector_load" || !is_masked(op) })
            }
            "tpu.load" | "tpu.strided_load" | "vector.maskedload" => {
                Self::Access(Access { writes: false, dense: false })
            }
            "vector.store" | "memref.store" | "tpu.vector_store" => {
                Self::Access(Access { writes: true, dense: op.name != "tpu.vector_store" || !is_masked(op) })
            }
            "tpu.store" | "tpu.strided_store" | "vector.maskedstore" => {
                Self::Access(Access { writes: true, dense: false })
            }
            "scf.if" => Self::If,
            "scf.for" => Self::For,
            "scf.while" => Self::While,
            name => Self::Number(compute(name, op)?),
        })
    }
}

/// Whether some lanes or rows are left out: `strides`, or operands behind the indices.
fn is_masked(op: &Op) -> bool {
    let strided = matches!(op.attributes.get("strides"), Some(Attr::I32s(strides)) if !strides.is_empty());
    let segments = match op.attributes.get("operandSegmentSizes") {
        Some(Attr::I32s(segments)) => segments.last().is_some_and(|mask| *mask > 0),
        _ => false,
    };
    strided || segments
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

//! Instructions of independent lanes, and shuffles.

use half::{bf16, f16};
use octile_core::E4m3;

use super::program::{FloatOp, IntegerOp, Op, OtherLane, Pair, Relation, UnaryOp, Value, WideSource, Word};
use super::warp::{LANES, Warp, lanes};

/// Tags the address of a tensor map; the low bits are the index of the parameter.
const MAP_TAG: u64 = 0xfeed << 48;

/// The parameter whose address a register holds.
pub(super) fn map_index(address: u64) -> Option<usize> {
    (address & MAP_TAG == MAP_TAG).then_some((address & !MAP_TAG) as usize)
}

/// Executes an instruction in which lanes do not interact.
pub(super) fn execute(warp: &mut Warp, active: u32, op: &Op) {
    match *op {
        Op::Compare(relation, to, a, b) => {
            let holds =
                lanes(active).filter(|&lane| compare(relation, warp.value(a, lane), warp.value(b, lane)));
            let mask = holds.fold(0, |mask, lane| mask | 1 << lane);
            return warp.set_predicate(to, active, mask);
        }
        Op::Elect(to) => return warp.set_predicate(to, active, active & active.wrapping_neg()),
        Op::Both(to, a, b) => {
            return warp.set_predicate(to, active, warp.holds(a, active) & warp.holds(b, active));
        }
        _ => {}
    }
    for lane in lanes(active) {
        let value = |value: Value| warp.value(value, lane);
        let float = |value: Value| warp.float(value, lane);
        let (to, result) = match *op {
            Op::Integer(op, to, a, b) => (to, integer(op, value(a), value(b))),
            Op::MultiplyAdd(to, [a, b, c]) => (to, value(a).wrapping_mul(value(b)).wrapping_add(value(c))),
            Op::Select(to, [yes, no], predicate) => {
                (to, value(if warp.holds(predicate, 1 << lane) != 0 { yes } else { no }))
            }
            Op::Move(to, from) => (to, value(from)),
            Op::Join(to, [low, high]) => (to, value(low) & 0xffff | value(high) << 16),
            Op::Float(op, to, a, b) => (to, self::float(op, float(a), float(b)).to_bits()),
            Op::Fma(to, [a, b, c]) => (to, float(a).mul_add(float(b), float(c)).to_bits()),
            Op::Unary(op, to, a) => (to, unary(op, value(a))),
            Op::Pack(pair, to, [high, low]) => (to, pack(pair, float(high), float(low))),
            Op::MaxMagnitudes(pair, to, [a, b]) => (to, max_magnitudes(pair, value(a), value(b))),
            Op::Split([low, high], from) => {
                let from = value(from);
                warp.set(low, lane, from & 0xffff);
                (high, from >> 16)
            }
            Op::MultiplyAddWide(to, [a, b], c) => {
                let product = u64::from(value(a)) * u64::from(value(b));
                let sum = product.wrapping_add(warp.wide(c, lane));
                warp.set_wide(to, lane, sum);
                continue;
            }
            Op::AddWide(to, a, b) => {
                let sum = warp.wide(a, lane).wrapping_add(b);
                warp.set_wide(to, lane, sum);
                continue;
            }
            Op::MoveWide(to, from) => {
                let moved = match from {
                    WideSource::Register(from) => warp.wide(from, lane),
                    WideSource::Halves(low, high) => u64::from(value(low)) | u64::from(value(high)) << 32,
                    WideSource::Map(parameter) => MAP_TAG | parameter as u64,
                };
                warp.set_wide(to, lane, moved);
                continue;
            }
            _ => unreachable!("lanes interact in {op:?}"),
        };
        warp.set(to, lane, result);
    }
}

fn integer(op: IntegerOp, a: u32, b: u32) -> u32 {
    match op {
        IntegerOp::Add => a.wrapping_add(b),
        IntegerOp::Sub => a.wrapping_sub(b),
        IntegerOp::Mul => a.wrapping_mul(b),
        IntegerOp::MulHigh => ((u64::from(a) * u64::from(b)) >> 32) as u32,
        // Division by zero gives what a GPU gives.
        IntegerOp::Div => a.checked_div(b).unwrap_or(u32::MAX),
        IntegerOp::Rem => a.checked_rem(b).unwrap_or(a),
        IntegerOp::Min => a.min(b),
        IntegerOp::And => a & b,
        IntegerOp::Or => a | b,
        IntegerOp::Xor => a ^ b,
        // Shift amounts are clamped to the register width.
        IntegerOp::Shl => a.checked_shl(b).unwrap_or(0),
        IntegerOp::Shr => a.checked_shr(b).unwrap_or(0),
    }
}

fn compare(relation: Relation, a: u32, b: u32) -> bool {
    match relation {
        Relation::Eq => a == b,
        Relation::Ne => a != b,
        Relation::Lt => a < b,
        Relation::Ge => a >= b,
        Relation::EqFloat => f32::from_bits(a) == f32::from_bits(b),
        Relation::LtFloat => f32::from_bits(a) < f32::from_bits(b),
    }
}

fn float(op: FloatOp, a: f32, b: f32) -> f32 {
    match op {
        FloatOp::Add => a + b,
        FloatOp::Mul => a * b,
        FloatOp::Div => a / b,
        FloatOp::Max => a.max(b),
    }
}

fn unary(op: UnaryOp, value: u32) -> u32 {
    let float = f32::from_bits(value);
    match op {
        UnaryOp::Abs => float.abs().to_bits(),
        UnaryOp::Negate => (-float).to_bits(),
        UnaryOp::Reciprocal => flushed(1.0 / flushed(float)).to_bits(),
        UnaryOp::WidenF16 => f16::from_bits(value as u16).to_f32().to_bits(),
    }
}

/// Flushes subnormals to zero.
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

fn pack(pair: Pair, high: f32, low: f32) -> u32 {
    let [high, low] = [high, low].map(|value| match pair {
        Pair::Bf16 => u32::from(bf16::from_f32(value).to_bits()),
        Pair::F16 => u32::from(f16::from_f32(value).to_bits()),
        Pair::E4m3 => {
            let finite = if value.is_nan() { value } else { value.clamp(-E4m3::MAX, E4m3::MAX) };
            u32::from(E4m3::from_f32(finite).to_bits())
        }
    });
    let bits = if matches!(pair, Pair::E4m3) { 8 } else { 16 };
    high << bits | low
}

/// `max.xorsign.abs` of two pairs.
fn max_magnitudes(pair: Pair, a: u32, b: u32) -> u32 {
    let half = |shift: u32| {
        let [a, b] = [a, b].map(|pair| (pair >> shift) as u16);
        let widen = |bits: u16| match pair {
            Pair::Bf16 => bf16::from_bits(bits).to_f32().abs(),
            _ => f16::from_bits(bits).to_f32().abs(),
        };
        let takes_b = widen(a).is_nan() || widen(b) > widen(a);
        let magnitude = if takes_b { b } else { a } & 0x7fff;
        u32::from(magnitude | (a ^ b) & 0x8000) << shift
    };
    half(0) | half(16)
}

/// Gives every lane the value of another.
pub(super) fn shuffle(warp: &mut Warp, to: Word, value: Value, other: OtherLane) {
    let values: [u32; LANES] = std::array::from_fn(|lane| warp.value(value, lane));
    for lane in 0..LANES {
        let from = match other {
            OtherLane::Xor(mask) => lane ^ (mask as usize % LANES),
            OtherLane::Index(index) => index as usize % LANES,
        };
        warp.set(to, lane, values[from]);
    }
}

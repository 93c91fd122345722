//! Scalar integer arithmetic, shared by the interpreter and by analyses that run a kernel without data.

use super::definition;
use crate::{
    attribute::Attr,
    interpret::element::Element,
    ir::{Function, Op},
    types::Type,
};

/// A unary operation at a bit width.
pub(super) type Unary = fn(u32, i64) -> i64;
/// A binary operation at a bit width; `None` on division by zero.
pub(super) type Binary = fn(u32, i64, i64) -> Option<i64>;
/// A comparison at a bit width.
pub(super) type Predicate = fn(u32, i64, i64) -> bool;

/// How an operation computes a scalar integer from others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Constant,
    Unary(Unary),
    Binary(Binary),
    Compare,
    Convert { signed: bool },
    Identity,
    Select,
}

/// The rule of an operation, where it has one.
pub(super) fn rule(op: &Op) -> Option<Rule> {
    definition(&op.name)?.rule
}

/// An operation on scalar integers, bound to its types: it can be evaluated without running the kernel.
#[derive(Clone, Copy, Debug)]
pub struct ScalarOp(Bound);

#[derive(Clone, Copy, Debug)]
enum Bound {
    Constant(i64),
    Unary(Unary, u32),
    Binary(Binary, u32),
    Compare(Predicate, u32),
    Convert { signed: bool, from: u32, to: u32 },
    Identity,
    Select,
}

impl ScalarOp {
    /// Binds an operation of `function` to its types; `None` if it does not compute one integer from integers.
    pub fn new(function: &Function, op: &Op) -> Option<Self> {
        let [result] = op.results[..] else { return None };
        let to = scalar_bits(function.ty(result))?;
        let from = op.operands.first().map(|&operand| scalar_bits(function.ty(operand)));
        Some(Self(match rule(op)? {
            Rule::Constant => match op.attributes.get("value")? {
                Attr::Integer(value, _) => Bound::Constant(wrap(to, *value)),
                Attr::Bool(value) => Bound::Constant((*value).into()),
                _ => return None,
            },
            Rule::Unary(f) => Bound::Unary(f, to),
            Rule::Binary(_) if is_signed_on_booleans(op, to) => return None,
            Rule::Binary(f) => Bound::Binary(f, to),
            Rule::Compare => match op.attributes.get("predicate")? {
                Attr::Integer(number, _) => {
                    Bound::Compare(*PREDICATES.get(usize::try_from(*number).ok()?)?, from??)
                }
                _ => return None,
            },
            Rule::Convert { signed } => Bound::Convert { signed, from: from??, to },
            Rule::Identity => Bound::Identity,
            Rule::Select => Bound::Select,
        }))
    }

    /// Evaluates the operation. `None` if it depends on an unknown operand, or divides by zero.
    pub fn evaluate(&self, operands: &[Option<i64>]) -> Option<i64> {
        let operand = |index: usize| operands.get(index).copied().flatten();
        match self.0 {
            Bound::Constant(value) => Some(value),
            Bound::Unary(f, bits) => Some(wrap(bits, f(bits, operand(0)?))),
            Bound::Binary(f, bits) => Some(wrap(bits, f(bits, operand(0)?, operand(1)?)?)),
            Bound::Compare(holds, bits) => Some(holds(bits, operand(0)?, operand(1)?).into()),
            Bound::Convert { signed, from, to } => Some(wrap(to, extend(signed, from, operand(0)?))),
            Bound::Identity => operand(0),
            Bound::Select => operand(if operand(0)? != 0 { 1 } else { 2 }),
        }
    }
}

/// Bit width of a scalar integer; `None` for any other type.
fn scalar_bits(ty: &Type) -> Option<u32> {
    match ty {
        Type::Index => Some(32),
        Type::Integer(bits) => Element::of(ty).map(|_| *bits),
        _ => None,
    }
}

/// Sign-sensitive operations; for `i1` the sign is its only bit.
const SIGNED: [&str; 7] = [
    "arith.divsi",
    "arith.remsi",
    "arith.floordivsi",
    "arith.ceildivsi",
    "arith.shrsi",
    "arith.maxsi",
    "arith.minsi",
];

/// Returns whether this is a signed operation on booleans.
pub(super) fn is_signed_on_booleans(op: &Op, bits: u32) -> bool {
    bits == 1 && SIGNED.contains(&op.name.as_ref())
}

pub(super) fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

pub(super) fn ceil_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) == (b < 0) { quotient + 1 } else { quotient }
}

/// Zero-extends.
pub(super) fn unsigned(bits: u32, value: i64) -> u64 {
    value as u64 & (u64::MAX >> (64 - bits))
}

/// A shift by at least the bit width gives zero.
pub(super) fn shift(bits: u32, by: i64, shift: impl Fn(u32) -> i64) -> i64 {
    u32::try_from(unsigned(bits, by)).ok().filter(|by| *by < bits).map_or(0, shift)
}

/// Truncates to the lowest bits. True is 1.
pub(super) fn wrap(bits: u32, value: i64) -> i64 {
    match bits {
        1 => value & 1,
        64.. => value,
        bits => value << (64 - bits) >> (64 - bits),
    }
}

/// Sign- or zero-extends. True is stored as 1 and sign-extends to -1.
pub(super) fn extend(signed: bool, bits: u32, value: i64) -> i64 {
    match (signed, bits) {
        (true, 1) => -value,
        (true, _) | (false, 64) => value,
        (false, bits) => unsigned(bits, value) as i64,
    }
}

/// Comparison predicates, in MLIR's order.
pub(super) const PREDICATES: [Predicate; 10] = [
    |_, a, b| a == b,
    |_, a, b| a != b,
    |n, a, b| extend(true, n, a) < extend(true, n, b),
    |n, a, b| extend(true, n, a) <= extend(true, n, b),
    |n, a, b| extend(true, n, a) > extend(true, n, b),
    |n, a, b| extend(true, n, a) >= extend(true, n, b),
    |n, a, b| unsigned(n, a) < unsigned(n, b),
    |n, a, b| unsigned(n, a) <= unsigned(n, b),
    |n, a, b| unsigned(n, a) > unsigned(n, b),
    |n, a, b| unsigned(n, a) >= unsigned(n, b),
];

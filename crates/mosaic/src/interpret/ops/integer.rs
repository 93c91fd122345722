//! Integer arithmetic and comparisons on scalars and vectors.

use std::cell::Cell;

use super::{
    Definition, pure,
    scalar::{
        Binary, PREDICATES, Rule, Unary, ceil_div, floor_div, is_signed_on_booleans, rule, shift, unsigned,
        wrap,
    },
};
use crate::{
    attribute::Attr,
    interpret::{
        finding::Trouble,
        machine::Stop,
        program::{Compiler, Made},
        value::{Data, Value, zip_integers},
    },
    ir::Op,
    types::Type,
};

/// Overflow flags: undefined results are modelled as wrapping.
pub(super) const OVERFLOW: &[&str] = &["overflowFlags", "overflow"];

const fn binary(name: &'static str, attributes: &'static [&'static str], f: Binary) -> Definition {
    pure(name, attributes, make_binary).rule(Rule::Binary(f))
}

const fn unary(name: &'static str, attributes: &'static [&'static str], f: Unary) -> Definition {
    pure(name, attributes, make_unary).rule(Rule::Unary(f))
}

pub(super) const OPS: &[Definition] = &[
    binary("arith.addi", OVERFLOW, |_, a, b| Some(a.wrapping_add(b))),
    binary("arith.subi", OVERFLOW, |_, a, b| Some(a.wrapping_sub(b))),
    binary("arith.muli", OVERFLOW, |_, a, b| Some(a.wrapping_mul(b))),
    binary("arith.divsi", &[], |_, a, b| (b != 0).then(|| a.wrapping_div(b))),
    binary("arith.remsi", &[], |_, a, b| (b != 0).then(|| a.wrapping_rem(b))),
    binary("arith.floordivsi", &[], |_, a, b| (b != 0).then(|| floor_div(a, b))),
    binary("arith.ceildivsi", &[], |_, a, b| (b != 0).then(|| ceil_div(a, b))),
    binary("arith.ceildivui", &[], |n, a, b| {
        (b != 0).then(|| unsigned(n, a).div_ceil(unsigned(n, b)) as i64)
    }),
    binary("arith.divui", &[], |n, a, b| (b != 0).then(|| (unsigned(n, a) / unsigned(n, b)) as i64)),
    binary("arith.remui", &[], |n, a, b| (b != 0).then(|| (unsigned(n, a) % unsigned(n, b)) as i64)),
    binary("arith.andi", &[], |_, a, b| Some(a & b)),
    binary("arith.ori", &[], |_, a, b| Some(a | b)),
    binary("arith.xori", &[], |_, a, b| Some(a ^ b)),
    binary("arith.shli", OVERFLOW, |n, a, b| Some(shift(n, b, |by| a << by))),
    binary("arith.shrsi", &[], |n, a, b| Some(a >> unsigned(n, b).min(u64::from(n) - 1))),
    binary("arith.shrui", &[], |n, a, b| Some(shift(n, b, |by| (unsigned(n, a) >> by) as i64))),
    binary("arith.maxsi", &[], |_, a, b| Some(a.max(b))),
    binary("arith.minsi", &[], |_, a, b| Some(a.min(b))),
    binary("arith.maxui", &[], |n, a, b| Some(if unsigned(n, a) > unsigned(n, b) { a } else { b })),
    binary("arith.minui", &[], |n, a, b| Some(if unsigned(n, a) < unsigned(n, b) { a } else { b })),
    unary("math.absi", &[], |_, a| a.wrapping_abs()),
    unary("math.ctpop", &[], |n, a| unsigned(n, a).count_ones().into()),
    unary("math.ctlz", &[], |n, a| i64::from(unsigned(n, a).leading_zeros()) - 64 + i64::from(n)),
    unary("math.cttz", &[], |n, a| unsigned(n, a).trailing_zeros().min(n).into()),
    pure("tpu.assume_multiple", &["multiple"], assume_multiple).rule(Rule::Identity),
    pure("arith.cmpi", &["predicate"], compare).rule(Rule::Compare),
];

/// Bit width of a scalar or vector element.
pub(super) fn bits(c: &Compiler<'_>, ty: &Type) -> Made<u32> {
    c.integer(ty)?;
    Ok(match ty.element() {
        Type::Integer(bits) => *bits,
        _ => 32,
    })
}

pub(super) fn is_scalar(ty: &Type) -> bool {
    !matches!(ty, Type::Vector(..) | Type::Tensor(..))
}

/// Checks that all operands and the result share one type.
pub(super) fn one_type<'a>(c: &Compiler<'a>, op: &Op, operands: usize) -> Made<&'a Type> {
    c.arity(op, operands, 1)?;
    let ty = c.ty(op.results[0]);
    match op.operands.iter().find(|&&operand| c.ty(operand) != ty) {
        Some(&other) => {
            Err(format!("operands and result must have one type, got {} and {ty}", c.ty(other)).into())
        }
        None => {
            c.shape(ty)?;
            Ok(ty)
        }
    }
}

fn make_binary(c: &mut Compiler<'_>, op: &Op) -> Made {
    let Some(Rule::Binary(f)) = rule(op) else { return Err("this takes two integers".into()) };
    let ty = one_type(c, op, 2)?;
    let bits = bits(c, ty)?;
    if is_signed_on_booleans(op, bits) {
        return Err(format!("signed operation on booleans ({ty})").into());
    }
    if is_scalar(ty) {
        return Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let (a, b) = (m.integer(step, 0), m.integer(step, 1));
            let result = f(bits, a, b).ok_or_else(|| divides_by_zero(step.place))?;
            m.set(step, Value::Integer(wrap(bits, result)));
            Ok(())
        }));
    }
    let elements: usize = c.shape(ty)?.iter().product();
    Ok(Box::new(move |m, step| {
        let (a, b) = (m.vector(step, 0), m.vector(step, 1));
        m.clock.vector(elements, step.line(), &step.name);
        let undefined = Cell::new(false);
        let data = zip_integers(a, b, |a, b| match f(bits, a.into(), b.into()) {
            Some(result) => wrap(bits, result) as i32,
            None => {
                undefined.set(true);
                0
            }
        });
        if undefined.get() {
            return Err(divides_by_zero(step.place));
        }
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn divides_by_zero(place: Option<crate::ir::Place>) -> Stop {
    Stop::Fault(place, "integer division by zero".to_owned())
}

fn make_unary(c: &mut Compiler<'_>, op: &Op) -> Made {
    let Some(Rule::Unary(f)) = rule(op) else { return Err("this takes one integer".into()) };
    let ty = one_type(c, op, 1)?;
    let bits = bits(c, ty)?;
    if is_scalar(ty) {
        return Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let value = wrap(bits, f(bits, m.integer(step, 0)));
            m.set(step, Value::Integer(value));
            Ok(())
        }));
    }
    let elements: usize = c.shape(ty)?.iter().product();
    Ok(Box::new(move |m, step| {
        let a = m.vector(step, 0);
        m.clock.vector(elements, step.line(), &step.name);
        let data = zip_integers(a, Data::Integer(0), |a, _| wrap(bits, f(bits, a.into())) as i32);
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

/// Identity; the kernel promises the multiple, and the compiler relies on it.
fn assume_multiple(c: &mut Compiler<'_>, op: &Op) -> Made {
    let ty = one_type(c, op, 1)?;
    c.scalar_integer(ty)?;
    let multiple = c.integer_attribute(op, "multiple")?;
    if multiple <= 0 {
        return Err(format!("invalid multiple {multiple}").into());
    }
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let value = m.integer(step, 0);
        if value % multiple != 0 {
            let message = format!("{value} is not a multiple of {multiple}, as tpu.assume_multiple claims");
            let trouble = Trouble::AssertionFailed { message, site: m.core_site(step) };
            m.findings.add(trouble);
            return Err(Stop::Halted);
        }
        m.set(step, Value::Integer(value));
        Ok(())
    }))
}

fn compare(c: &mut Compiler<'_>, op: &Op) -> Made {
    let ty = compared_type(c, op)?;
    let bits = bits(c, ty)?;
    let predicate = predicate(c, op, &PREDICATES)?;
    if is_scalar(ty) {
        return Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let holds = predicate(bits, m.integer(step, 0), m.integer(step, 1));
            m.set(step, Value::Integer(holds.into()));
            Ok(())
        }));
    }
    let elements: usize = c.shape(ty)?.iter().product();
    Ok(Box::new(move |m, step| {
        let (a, b) = (m.vector(step, 0), m.vector(step, 1));
        m.clock.vector(elements, step.line(), &step.name);
        m.set(step, Value::Vector(zip_integers(a, b, |a, b| predicate(bits, a.into(), b.into()).into())));
        Ok(())
    }))
}

/// Checks for two operands of one type and a boolean result of the same shape.
pub(super) fn compared_type<'a>(c: &Compiler<'a>, op: &Op) -> Made<&'a Type> {
    c.arity(op, 2, 1)?;
    let (ty, other, result) = (c.ty(op.operands[0]), c.ty(op.operands[1]), c.ty(op.results[0]));
    c.shape(ty)?;
    match ty == other && *result == ty.with_element(Type::I1) {
        true => Ok(ty),
        false => Err(format!("cannot compare {ty} with {other} into {result}").into()),
    }
}

pub(super) fn predicate<T: Copy>(c: &Compiler<'_>, op: &Op, predicates: &[T]) -> Made<T> {
    let number = match c.attribute(op, "predicate")? {
        Attr::Integer(number, _) => usize::try_from(*number).ok(),
        _ => None,
    };
    let predicate = number.and_then(|number| predicates.get(number));
    predicate.copied().ok_or_else(|| "attribute 'predicate' is not a comparison predicate".into())
}

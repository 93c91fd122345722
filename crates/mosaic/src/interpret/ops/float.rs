//! Float arithmetic, functions and comparisons on scalars and vectors. Results of 16-bit and 8-bit operations
//! are rounded to their type.

use std::cmp::Ordering;

use super::{
    Definition,
    integer::{compared_type, is_scalar, one_type, predicate},
    pure,
    scalar::Rule,
};
use crate::{
    interpret::{
        element::round_to,
        program::{Compiler, Made},
        value::{Data, Value, map_floats, zip_floats},
    },
    ir::Op,
    types::{Float, Type},
};

pub(super) const OPS: &[Definition] = &[
    pure("arith.addf", FASTMATH, |c, op| binary(c, op, |a, b| a + b)),
    pure("arith.subf", FASTMATH, |c, op| binary(c, op, |a, b| a - b)),
    pure("arith.mulf", FASTMATH, |c, op| binary(c, op, |a, b| a * b)),
    pure("arith.divf", FASTMATH, |c, op| binary(c, op, |a, b| a / b)),
    pure("arith.remf", FASTMATH, |c, op| binary(c, op, |a, b| a % b)),
    pure("arith.maximumf", FASTMATH, |c, op| binary(c, op, maximum)),
    pure("arith.minimumf", FASTMATH, |c, op| binary(c, op, minimum)),
    pure("arith.maxnumf", FASTMATH, |c, op| binary(c, op, f32::max)),
    pure("arith.minnumf", FASTMATH, |c, op| binary(c, op, f32::min)),
    pure("math.powf", FASTMATH, |c, op| binary(c, op, f32::powf)),
    pure("math.atan2", FASTMATH, |c, op| binary(c, op, f32::atan2)),
    pure("math.copysign", FASTMATH, |c, op| binary(c, op, f32::copysign)),
    pure("arith.negf", FASTMATH, |c, op| unary(c, op, |a| -a)),
    pure("math.absf", FASTMATH, |c, op| unary(c, op, f32::abs)),
    pure("math.exp", FASTMATH, |c, op| unary(c, op, f32::exp)),
    pure("math.exp2", FASTMATH, |c, op| unary(c, op, f32::exp2)),
    pure("math.expm1", FASTMATH, |c, op| unary(c, op, f32::exp_m1)),
    pure("math.log", FASTMATH, |c, op| unary(c, op, f32::ln)),
    pure("math.log2", FASTMATH, |c, op| unary(c, op, f32::log2)),
    pure("math.log1p", FASTMATH, |c, op| unary(c, op, f32::ln_1p)),
    pure("math.sqrt", FASTMATH, |c, op| unary(c, op, f32::sqrt)),
    pure("math.rsqrt", FASTMATH, |c, op| unary(c, op, |a| 1.0 / a.sqrt())),
    pure("math.tanh", FASTMATH, |c, op| unary(c, op, f32::tanh)),
    pure("math.sin", FASTMATH, |c, op| unary(c, op, f32::sin)),
    pure("math.cos", FASTMATH, |c, op| unary(c, op, f32::cos)),
    pure("math.tan", FASTMATH, |c, op| unary(c, op, f32::tan)),
    pure("math.asin", FASTMATH, |c, op| unary(c, op, f32::asin)),
    pure("math.acos", FASTMATH, |c, op| unary(c, op, f32::acos)),
    pure("math.atan", FASTMATH, |c, op| unary(c, op, f32::atan)),
    pure("math.sinh", FASTMATH, |c, op| unary(c, op, f32::sinh)),
    pure("math.cosh", FASTMATH, |c, op| unary(c, op, f32::cosh)),
    pure("math.asinh", FASTMATH, |c, op| unary(c, op, f32::asinh)),
    pure("math.acosh", FASTMATH, |c, op| unary(c, op, f32::acosh)),
    pure("math.atanh", FASTMATH, |c, op| unary(c, op, f32::atanh)),
    pure("math.erf", FASTMATH, |c, op| unary(c, op, libm::erff)),
    pure("math.erfc", FASTMATH, |c, op| unary(c, op, libm::erfcf)),
    pure("math.cbrt", FASTMATH, |c, op| unary(c, op, f32::cbrt)),
    pure("math.log10", FASTMATH, |c, op| unary(c, op, f32::log10)),
    pure("math.trunc", FASTMATH, |c, op| unary(c, op, f32::trunc)),
    pure("math.isfinite", FASTMATH, |c, op| classify(c, op, f32::is_finite)),
    pure("math.isinf", FASTMATH, |c, op| classify(c, op, f32::is_infinite)),
    pure("math.isnan", FASTMATH, |c, op| classify(c, op, f32::is_nan)),
    pure("math.isnormal", FASTMATH, |c, op| classify(c, op, f32::is_normal)),
    pure("math.clampf", FASTMATH, clamp),
    pure("math.floor", FASTMATH, |c, op| unary(c, op, f32::floor)),
    pure("math.ceil", FASTMATH, |c, op| unary(c, op, f32::ceil)),
    pure("math.round", FASTMATH, |c, op| unary(c, op, f32::round)),
    pure("math.roundeven", FASTMATH, |c, op| unary(c, op, f32::round_ties_even)),
    pure("tpu.reciprocal", &["approx", "full_range"], reciprocal),
    pure("math.fma", FASTMATH, fma),
    pure("vector.fma", &[], fma),
    pure("tpu.weird", &[], |c, op| classify(c, op, |value| !value.is_finite())),
    pure("arith.cmpf", &["predicate", "fastmath"], compare),
    pure("arith.select", &[], select).rule(Rule::Select),
];

/// Fast-math flags permit inexact results; the exact one is always among them.
const FASTMATH: &[&str] = &["fastmath"];

/// Maximum; NaN if either is NaN.
pub(super) fn maximum(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Minimum; NaN if either is NaN.
pub(super) fn minimum(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

fn binary(c: &mut Compiler<'_>, op: &Op, f: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Made {
    let ty = one_type(c, op, 2)?;
    let float = c.float(ty)?;
    if is_scalar(ty) {
        return Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let value = match (m.value(step, 0), m.value(step, 1)) {
                (Value::Float(a), Value::Float(b)) => round_to(float, f(*a, *b)),
                other => unreachable!("two floats, not {other:?}"),
            };
            m.set(step, Value::Float(value));
            Ok(())
        }));
    }
    let elements: usize = c.shape(ty)?.iter().product();
    Ok(Box::new(move |m, step| {
        let (a, b) = (m.vector(step, 0), m.vector(step, 1));
        m.clock.vector(elements, step.line(), &step.name);
        let data = match float {
            Float::F32 => zip_floats(a, b, f),
            float => zip_floats(a, b, |a, b| round_to(float, f(a, b))),
        };
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn unary(c: &mut Compiler<'_>, op: &Op, f: impl Fn(f32) -> f32 + Copy + Send + Sync + 'static) -> Made {
    let ty = one_type(c, op, 1)?;
    let float = c.float(ty)?;
    if is_scalar(ty) {
        return Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let value = match m.value(step, 0) {
                Value::Float(a) => round_to(float, f(*a)),
                other => unreachable!("a float, not {other:?}"),
            };
            m.set(step, Value::Float(value));
            Ok(())
        }));
    }
    let elements: usize = c.shape(ty)?.iter().product();
    Ok(Box::new(move |m, step| {
        let a = m.vector(step, 0);
        m.clock.vector(elements, step.line(), &step.name);
        m.set(step, Value::Vector(map_floats(a, |a| round_to(float, f(a)))));
        Ok(())
    }))
}

/// `approx` is chip-specific: computed exactly here, with a note.
fn reciprocal(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.flag(op, "full_range")?;
    if c.flag(op, "approx")? {
        c.note(op, "the chip approximates this reciprocal; this result is exact");
    }
    unary(c, op, |a| 1.0 / a)
}

/// Tests each float.
fn classify(c: &mut Compiler<'_>, op: &Op, holds: fn(f32) -> bool) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    c.float(from)?;
    if *to != from.with_element(Type::I1) {
        return Err(format!("cannot compute {to} from {from}").into());
    }
    let scalar = is_scalar(from);
    let elements: usize = c.shape(from)?.iter().product();
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let value = match m.vector(step, 0) {
            Data::Float(value) if scalar => Value::Integer(holds(value).into()),
            Data::Float(value) => Value::Vector(Data::Integer(holds(value).into())),
            data => {
                let data = data.to_floats(elements);
                Value::Vector(Data::integers(data.iter().map(|&value| holds(value).into()).collect()))
            }
        };
        m.set(step, value);
        Ok(())
    }))
}

/// Operands: value, lower bound, upper bound.
fn clamp(c: &mut Compiler<'_>, op: &Op) -> Made {
    ternary(c, op, |value, low, high| minimum(maximum(value, low), high))
}

fn fma(c: &mut Compiler<'_>, op: &Op) -> Made {
    ternary(c, op, f32::mul_add)
}

fn ternary(c: &mut Compiler<'_>, op: &Op, f: fn(f32, f32, f32) -> f32) -> Made {
    let ty = one_type(c, op, 3)?;
    let (float, scalar) = (c.float(ty)?, is_scalar(ty));
    let elements: usize = c.shape(ty)?.iter().product();
    Ok(Box::new(move |m, step| {
        let [a, b, c] = [0, 1, 2].map(|i| m.vector(step, i).to_floats(elements));
        m.clock.vector(elements, step.line(), &step.name);
        let values = a.iter().zip(b.iter()).zip(c.iter());
        let data: Vec<f32> = values.map(|((a, b), c)| round_to(float, f(*a, *b, *c))).collect();
        m.set(step, if scalar { Value::Float(data[0]) } else { Value::Vector(Data::floats(data)) });
        Ok(())
    }))
}

/// Ordering relations of two floats, one bit each.
fn relation(a: f32, b: f32) -> u8 {
    match a.partial_cmp(&b) {
        Some(Ordering::Equal) => 1,
        Some(Ordering::Greater) => 2,
        Some(Ordering::Less) => 4,
        None => 8,
    }
}

/// Comparison predicates in MLIR's order, as the sets of relations in which they hold.
const PREDICATES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 8, 15];

fn compare(c: &mut Compiler<'_>, op: &Op) -> Made {
    let ty = compared_type(c, op)?;
    c.float(ty)?;
    let holds_in = predicate(c, op, &PREDICATES)?;
    let predicate = move |a: f32, b: f32| holds_in & relation(a, b) != 0;
    if is_scalar(ty) {
        return Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let holds = match (m.value(step, 0), m.value(step, 1)) {
                (Value::Float(a), Value::Float(b)) => predicate(*a, *b),
                other => unreachable!("two floats, not {other:?}"),
            };
            m.set(step, Value::Integer(holds.into()));
            Ok(())
        }));
    }
    let elements: usize = c.shape(ty)?.iter().product();
    Ok(Box::new(move |m, step| {
        let (a, b) = (m.vector(step, 0), m.vector(step, 1));
        m.clock.vector(elements, step.line(), &step.name);
        let data = match (a, b) {
            (Data::Float(a), Data::Float(b)) => Data::Integer(predicate(a, b).into()),
            (a, b) => {
                let (a, b) = (a.to_floats(elements), b.to_floats(elements));
                Data::integers(a.iter().zip(b.iter()).map(|(&a, &b)| predicate(a, b).into()).collect())
            }
        };
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

/// One condition for all elements, or one per element.
fn select(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 3, 1)?;
    let [condition, yes, no] = [0, 1, 2].map(|i| c.ty(op.operands[i]));
    let result = c.ty(op.results[0]);
    let shaped = is_scalar(condition) || condition.shape() == yes.shape();
    if yes != no || yes != result || !shaped || condition.element() != &Type::I1 {
        return Err(format!("condition {condition} cannot select between {yes} and {no}").into());
    }
    if is_scalar(condition) {
        return Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let chosen = if m.integer(step, 0) != 0 { 1 } else { 2 };
            let value = m.take(step, chosen);
            m.set(step, value);
            Ok(())
        }));
    }
    let elements: usize = c.shape(result)?.iter().product();
    let is_float = c.float(result).is_ok();
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let (condition, yes, no) = (m.vector(step, 0), m.vector(step, 1), m.vector(step, 2));
        let data = match condition {
            Data::Integer(0) => no,
            Data::Integer(_) => yes,
            condition if is_float => {
                let condition = condition.to_integers(elements);
                let (yes, no) = (yes.to_floats(elements), no.to_floats(elements));
                let choose =
                    |(condition, (yes, no)): (&i32, (&f32, &f32))| if *condition != 0 { *yes } else { *no };
                Data::floats(condition.iter().zip(yes.iter().zip(no.iter())).map(choose).collect())
            }
            condition => {
                let condition = condition.to_integers(elements);
                let (yes, no) = (yes.to_integers(elements), no.to_integers(elements));
                let choose =
                    |(condition, (yes, no)): (&i32, (&i32, &i32))| if *condition != 0 { *yes } else { *no };
                Data::integers(condition.iter().zip(yes.iter().zip(no.iter())).map(choose).collect())
            }
        };
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

//! Constants, and conversions between types.

use super::{
    Definition,
    integer::{OVERFLOW, bits, is_scalar},
    pure,
    scalar::{Rule, extend, rule, wrap},
};
use crate::{
    attribute::Attr,
    interpret::{
        ask::not_modelled,
        element::{Element, read_floats, read_integers, round_to, truncate_to, write_floats, write_integers},
        program::{Compiler, Made},
        value::{Data, Value, map_floats, zip_integers},
    },
    ir::Op,
    types::Type,
};

pub(super) const OPS: &[Definition] = &[
    pure("arith.constant", &["value"], constant).rule(Rule::Constant),
    pure("arith.extf", &["fastmath"], to_float),
    pure("arith.truncf", &["roundingmode", "fastmath"], to_float),
    pure("tpu.extf", &[], to_float),
    pure("tpu.truncf", &["rounding_mode"], to_float),
    to_integer("arith.extui", &["nneg", "nonNeg"], false),
    to_integer("arith.extsi", &[], true),
    to_integer("arith.trunci", OVERFLOW, true),
    to_integer("arith.index_cast", &[], true),
    to_integer("arith.index_castui", &["nneg", "nonNeg"], false),
    pure("arith.sitofp", &[], |c, op| integer_to_float(c, op, true)),
    pure("arith.uitofp", &["nneg", "nonNeg"], |c, op| integer_to_float(c, op, false)),
    pure("tpu.sitofp", &["rounding_mode"], |c, op| integer_to_float(c, op, true)),
    pure("tpu.uitofp", &["rounding_mode"], |c, op| integer_to_float(c, op, false)),
    pure("arith.fptosi", &[], |c, op| float_to_integer(c, op, true)),
    pure("arith.fptoui", &[], |c, op| float_to_integer(c, op, false)),
    pure("tpu.fptosi", &["rounding_mode"], |c, op| float_to_integer(c, op, true)),
    pure("tpu.fptoui", &["rounding_mode"], |c, op| float_to_integer(c, op, false)),
    pure("arith.bitcast", &[], bitcast),
    pure("vector.bitcast", &[], bitcast),
    pure("tpu.bitcast", &[], bitcast),
];

const fn to_integer(name: &'static str, attributes: &'static [&'static str], signed: bool) -> Definition {
    pure(name, attributes, make_to_integer).rule(Rule::Convert { signed })
}

/// Value of a constant of type `ty`.
pub(super) fn constant_value(c: &Compiler<'_>, attr: &Attr, ty: &Type) -> Made<Value> {
    let element = c.element(ty)?;
    let scalar = |attr: &Attr| match (attr, element) {
        (Attr::Integer(value, _), Element::Integer(_)) => Ok(Value::Integer(wrap(bits(c, ty)?, *value))),
        (Attr::Bool(value), Element::Integer(_)) => Ok(Value::Integer((*value).into())),
        (Attr::Float(value, _), Element::Float(float)) => Ok(Value::Float(round_to(float, *value as f32))),
        (other, _) => Err(format!("{other} is not a constant of type {ty}").into()),
    };
    let elements: usize = c.shape(ty)?.iter().product();
    match attr {
        Attr::Splat(value, of) if of == ty => Ok(Value::Vector(match scalar(value)? {
            Value::Float(value) => Data::Float(value),
            Value::Integer(value) => Data::Integer(value as i32),
            _ => return Err("this constant is not a number".into()),
        })),
        Attr::Dense(values, of) if of == ty && values.len() == elements => {
            let values = values.iter().map(scalar).collect::<Made<Vec<Value>>>()?;
            Ok(Value::Vector(match element {
                Element::Float(_) => Data::floats(values.iter().map(number_float).collect()),
                Element::Integer(_) => Data::integers(values.iter().map(number_integer).collect()),
            }))
        }
        attr if is_scalar(ty) => scalar(attr),
        other => Err(format!("{other} is not a constant of type {ty}").into()),
    }
}

fn number_float(value: &Value) -> f32 {
    if let Value::Float(value) = value { *value } else { f32::NAN }
}

fn number_integer(value: &Value) -> i32 {
    if let Value::Integer(value) = value { *value as i32 } else { 0 }
}

fn constant(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let value = constant_value(c, c.attribute(op, "value")?, c.result(op, 0)?)?;
    Ok(Box::new(move |m, step| {
        m.set(step, value.clone());
        Ok(())
    }))
}

/// Checks for one operand and one result of the same shape.
fn converted<'a>(c: &Compiler<'a>, op: &Op) -> Made<(&'a Type, &'a Type)> {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.ty(op.operands[0]), c.ty(op.results[0]));
    c.shape(from)?;
    match from.shape() == to.shape() && is_scalar(from) == is_scalar(to) {
        true => Ok((from, to)),
        false => Err(format!("{from} cannot be converted to {to}").into()),
    }
}

/// Rounding mode of a conversion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    ToZero,
    ToNearestEven,
}

/// Rounding mode of a `tpu` dialect operation; mandatory there.
fn rounding(c: &Compiler<'_>, op: &Op) -> Made<Rounding> {
    match c.word(op, "rounding_mode", &["towards_zero", "to_nearest_even"])? {
        Some(0) => Ok(Rounding::ToZero),
        Some(_) => Ok(Rounding::ToNearestEven),
        None => Err("the attribute 'rounding_mode' is missing".into()),
    }
}

fn to_float(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (from, to) = converted(c, op)?;
    let (narrow, float) = (c.float(from)?, c.float(to)?);
    let rounding = match op.name.as_ref() {
        "tpu.truncf" => rounding(c, op)?,
        // MLIR's names for the same modes.
        "arith.truncf" => {
            match c.word(op, "roundingmode", &["to_nearest_even", "downward", "upward", "toward_zero"])? {
                None | Some(0) => Rounding::ToNearestEven,
                Some(3) => Rounding::ToZero,
                Some(_) => return Err(not_modelled("roundingmode", c.attribute(op, "roundingmode")?)),
            }
        }
        _ => Rounding::ToNearestEven,
    };
    let elements: usize = from.shape().iter().product();
    let widens = narrow.bits() < float.bits();
    let round = match rounding {
        Rounding::ToNearestEven => round_to,
        Rounding::ToZero => truncate_to,
    };
    Ok(Box::new(move |m, step| {
        let value = match m.take(step, 0) {
            Value::Float(value) => Value::Float(round(float, value)),
            // Widening is exact.
            Value::Vector(data) if widens => Value::Vector(data),
            Value::Vector(data) if rounding == Rounding::ToNearestEven => {
                Value::Vector(map_floats(data, |value| round_to(float, value)))
            }
            Value::Vector(data) => Value::Vector(map_floats(data, |value| round(float, value))),
            other => unreachable!("floats, not {other:?}"),
        };
        m.clock.vector(elements, step.line(), &step.name);
        m.set(step, value);
        Ok(())
    }))
}

fn make_to_integer(c: &mut Compiler<'_>, op: &Op) -> Made {
    let Some(Rule::Convert { signed }) = rule(op) else { return Err("this converts integers".into()) };
    let (from, to) = converted(c, op)?;
    let (from_bits, to_bits) = (bits(c, from)?, bits(c, to)?);
    let elements: usize = from.shape().iter().product();
    let convert = move |value: i64| wrap(to_bits, extend(signed, from_bits, value));
    Ok(Box::new(move |m, step| {
        let value = match m.take(step, 0) {
            Value::Integer(value) => {
                m.clock.scalar();
                Value::Integer(convert(value))
            }
            Value::Vector(data) => {
                m.clock.vector(elements, step.line(), &step.name);
                Value::Vector(zip_integers(data, Data::Integer(0), |value, _| convert(value.into()) as i32))
            }
            other => unreachable!("integers, not {other:?}"),
        };
        m.set(step, value);
        Ok(())
    }))
}

fn integer_to_float(c: &mut Compiler<'_>, op: &Op, signed: bool) -> Made {
    let (from, to) = converted(c, op)?;
    let (from_bits, float) = (bits(c, from)?, c.float(to)?);
    if op.name.starts_with("tpu.") && rounding(c, op)? == Rounding::ToZero {
        return Err(not_modelled("rounding_mode", c.attribute(op, "rounding_mode")?));
    }
    let elements: usize = from.shape().iter().product();
    let convert = move |value: i64| round_to(float, extend(signed, from_bits, value) as f32);
    Ok(Box::new(move |m, step| {
        let value = match m.take(step, 0) {
            Value::Integer(value) => Value::Float(convert(value)),
            Value::Vector(Data::Integer(value)) => Value::Vector(Data::Float(convert(value.into()))),
            Value::Vector(data) => {
                let integers = data.to_integers(elements);
                Value::Vector(Data::floats(integers.iter().map(|&value| convert(value.into())).collect()))
            }
            other => unreachable!("integers, not {other:?}"),
        };
        m.clock.vector(elements, step.line(), &step.name);
        m.set(step, value);
        Ok(())
    }))
}

/// Rounds towards zero, or to nearest if requested; saturates.
fn float_to_integer(c: &mut Compiler<'_>, op: &Op, signed: bool) -> Made {
    let (from, to) = converted(c, op)?;
    c.float(from)?;
    let to_bits = bits(c, to)?;
    let elements: usize = from.shape().iter().product();
    let round: fn(f64) -> f64 =
        match op.name.starts_with("tpu.") && rounding(c, op)? == Rounding::ToNearestEven {
            true => f64::round_ties_even,
            false => f64::trunc,
        };
    let convert = move |value: f32| {
        let (low, high) = match signed {
            true => (-(2f64.powi(to_bits as i32 - 1)), 2f64.powi(to_bits as i32 - 1) - 1.0),
            false => (0.0, 2f64.powi(to_bits as i32) - 1.0),
        };
        wrap(to_bits, round(f64::from(value)).clamp(low, high) as i64)
    };
    Ok(Box::new(move |m, step| {
        let value = match m.take(step, 0) {
            Value::Float(value) => Value::Integer(convert(value)),
            Value::Vector(Data::Float(value)) => Value::Vector(Data::Integer(convert(value) as i32)),
            Value::Vector(data) => {
                let floats = data.to_floats(elements);
                Value::Vector(Data::integers(floats.iter().map(|&value| convert(value) as i32).collect()))
            }
            other => unreachable!("floats, not {other:?}"),
        };
        m.clock.vector(elements, step.line(), &step.name);
        m.set(step, value);
        Ok(())
    }))
}

/// Bitcast. If the element size changes, elements sharing a 32-bit word are neighbours along the
/// second-to-last dimension, as in a register.
fn bitcast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.ty(op.operands[0]), c.ty(op.results[0]));
    let (from_element, to_element) = (c.element(from)?, c.element(to)?);
    let (from_shape, to_shape) = (c.shape(from)?, c.shape(to)?);
    let (small, large) =
        (from_element.bytes().min(to_element.bytes()), from_element.bytes().max(to_element.bytes()));
    let packing = large / small;
    let total = |shape: &[usize], element: Element| shape.iter().product::<usize>() * element.bytes();
    if total(&from_shape, from_element) != total(&to_shape, to_element) {
        return Err(format!("{from} and {to} differ in size").into());
    }
    let rows_change = packing > 1 && op.name == "tpu.bitcast";
    // Elements packed into one word are neighbours along this dimension.
    let changes = if op.name == "tpu.bitcast" { 2 } else { 1 };
    let others = |shape: &[usize]| {
        let mut shape = shape.to_vec();
        shape.len().checked_sub(changes).filter(|_| packing > 1).map(|dimension| shape.remove(dimension));
        shape
    };
    let whole = [from, to].iter().all(|ty| !matches!(ty.element(), Type::Integer(1 | 2 | 4 | 64)));
    let shaped =
        from_shape.len() == to_shape.len() && from_shape.len() >= if packing > 1 { changes } else { 0 };
    if !whole || !shaped || others(&from_shape) != others(&to_shape) || is_scalar(from) != is_scalar(to) {
        return Err(format!("{from} cannot be cast to {to}").into());
    }
    if op.name == "arith.bitcast" && packing > 1 {
        return Err(format!("{from} cannot be cast to {to}: the elements differ in size").into());
    }
    let columns = *from_shape.last().unwrap_or(&1);
    let elements: usize = from_shape.iter().product();
    let scalar = is_scalar(from);
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let mut bytes = vec![0; elements * from_element.bytes()];
        let data = m.vector(step, 0);
        match from_element {
            Element::Float(float) => write_floats(float, &data.to_floats(elements), &mut bytes),
            Element::Integer(size) => write_integers(size, &data.to_integers(elements), &mut bytes),
        }
        if rows_change {
            bytes = match from_element.bytes() < to_element.bytes() {
                true => interleave(&bytes, packing, columns, small),
                false => separate(&bytes, packing, columns, small),
            };
        }
        let data = match to_element {
            Element::Float(float) => {
                let mut values = Vec::new();
                read_floats(float, &bytes, &mut values);
                Data::floats(values)
            }
            Element::Integer(size) => {
                let mut values = Vec::new();
                read_integers(size, &bytes, &mut values);
                Data::integers(values)
            }
        };
        let value = match (scalar, &data) {
            (true, Data::Floats(values)) => Value::Float(values[0]),
            (true, Data::Integers(values)) => Value::Integer(values[0].into()),
            _ => Value::Vector(data),
        };
        m.set(step, value);
        Ok(())
    }))
}

/// Interleaves groups of `packing` rows element by element.
fn interleave(bytes: &[u8], packing: usize, columns: usize, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for group in bytes.chunks(packing * columns * size) {
        for column in 0..columns {
            for row in 0..packing {
                out.extend_from_slice(&group[(row * columns + column) * size..][..size]);
            }
        }
    }
    out
}

/// Reverses [`interleave`].
fn separate(bytes: &[u8], packing: usize, columns: usize, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for group in bytes.chunks(packing * columns * size) {
        for row in 0..packing {
            for column in 0..columns {
                out.extend_from_slice(&group[(column * packing + row) * size..][..size]);
            }
        }
    }
    out
}

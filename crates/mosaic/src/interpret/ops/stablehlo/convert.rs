//! Comparisons, choices and conversions.

use super::{
    Definition, array_op,
    elementwise::{entry, less, maximum, minimum},
    pure, same_types, tensor_of,
};
use crate::{
    attribute::Attr,
    interpret::{
        array::{
            Array, Dtype, map_floats, map_integers, write_booleans, write_floats_of as write_floats,
            write_integers,
        },
        ask::not_modelled,
        program::{Compiler, Made, Refusal},
    },
    ir::Op,
    types::Float,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    entry("stablehlo.select", select),
    entry("stablehlo.clamp", clamp),
    entry("stablehlo.convert", convert),
    entry("stablehlo.bitcast_convert", bitcast),
    pure("stablehlo.compare", &["comparison_direction", "compare_type"], compare),
    pure("stablehlo.reduce_precision", &["format", "exponent_bits", "mantissa_bits"], reduce_precision),
];

/// Rounds to a format with fewer exponent and mantissa bits.
fn reduce_precision(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (dtype, shape) = same_types(c, op, 1)?;
    let (exponent, mantissa) = match op.attributes.get("format") {
        Some(Attr::String(text)) => {
            let (exponent, mantissa) =
                text.trim_start_matches('e').split_once('m').ok_or("'format' is not eXmY")?;
            let number = |text: &str| text.parse::<i64>().map_err(|_| Refusal::from("'format' is not eXmY"));
            (number(exponent)?, number(mantissa)?)
        }
        _ => (c.integer_attribute(op, "exponent_bits")?, c.integer_attribute(op, "mantissa_bits")?),
    };
    let to = match (exponent, mantissa) {
        (8, 7) => Dtype::Float(Float::Bf16),
        (5, 10) => Dtype::Float(Float::F16),
        (5, 2) => Dtype::Float(Float::F8E5M2),
        (8, 23) => Dtype::Float(Float::F32),
        _ => {
            return Err(Refusal::NotModelled(format!("a format of e{exponent}m{mantissa} is not supported")));
        }
    };
    array_op(1, move |arrays| {
        let [a] = arrays else { unreachable!("one operand") };
        map_floats([a], &shape, dtype, |[a]| to.round(a), write_floats)
    })
}

/// Whether a comparison holds for two values in this order.
type Holds = fn(std::cmp::Ordering) -> bool;

/// Comparison directions.
const DIRECTIONS: [(&str, Holds); 6] = [
    ("EQ", std::cmp::Ordering::is_eq),
    ("NE", std::cmp::Ordering::is_ne),
    ("LT", std::cmp::Ordering::is_lt),
    ("LE", std::cmp::Ordering::is_le),
    ("GT", std::cmp::Ordering::is_gt),
    ("GE", std::cmp::Ordering::is_ge),
];

/// The last word of `#stablehlo<comparison_direction EQ>`.
pub(super) fn enum_word(attr: &Attr) -> String {
    let text = match attr {
        Attr::String(text) | Attr::Other(text) => text.as_str(),
        _ => "",
    };
    text.trim_end_matches('>').rsplit([' ', '<']).next().unwrap_or_default().to_owned()
}

fn compare(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (dtype, shape) = tensor_of(c, c.operand(op, 0)?)?;
    let result = tensor_of(c, c.result(op, 0)?)?;
    if c.operand(op, 0)? != c.operand(op, 1)? || result != (Dtype::Bool, shape.clone()) {
        return Err("it takes two operands of one type and gives booleans of their shape".into());
    }
    let direction = c.attribute(op, "comparison_direction")?;
    let word = enum_word(direction);
    let Some((_, holds)) = DIRECTIONS.into_iter().find(|(name, _)| *name == word) else {
        return Err(format!("comparison_direction = {direction} is not a direction").into());
    };
    let total = match op.attributes.get("compare_type").map(enum_word).as_deref() {
        None | Some("NOTYPE" | "FLOAT" | "SIGNED" | "UNSIGNED") => false,
        Some("TOTALORDER") => true,
        Some(_) => return Err(not_modelled("compare_type", c.attribute(op, "compare_type")?)),
    };
    if dtype.is_float() {
        let unordered = word == "NE";
        return array_op(2, move |arrays| {
            let [a, b] = arrays else { unreachable!("two operands") };
            let compare = |[a, b]: [f64; 2]| match total {
                true => holds(a.total_cmp(&b)),
                false => a.partial_cmp(&b).map_or(unordered, holds),
            };
            map_floats([a, b], &shape, Dtype::Bool, compare, write_booleans)
        });
    }
    let signed = dtype.integer().1;
    array_op(2, move |arrays| {
        let [a, b] = arrays else { unreachable!("two operands") };
        let compare = |[a, b]: [i64; 2]| holds(if signed { a.cmp(&b) } else { (a as u64).cmp(&(b as u64)) });
        map_integers([a, b], &shape, Dtype::Bool, compare, write_booleans)
    })
}

/// Chooses elements, or the whole of one operand.
fn select(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 3, 1)?;
    let (condition, choosing) = tensor_of(c, c.operand(op, 0)?)?;
    let (dtype, shape) = tensor_of(c, c.result(op, 0)?)?;
    let alike = (1..3).all(|i| c.operand(op, i).ok() == c.result(op, 0).ok());
    if condition != Dtype::Bool || !alike || !(choosing.is_empty() || choosing == shape) {
        return Err("it takes booleans and two operands of the type of the result".into());
    }
    array_op(3, move |arrays| {
        let [condition, yes, no] = arrays else { unreachable!("three operands") };
        if condition.elements() == 1 || condition.is_splat() {
            return if condition.integer(0) != 0 { yes.clone() } else { no.clone() };
        }
        let chosen = condition.all_integers();
        let mut bytes = Vec::with_capacity(chosen.len() * dtype.bytes());
        for (i, &condition) in chosen.iter().enumerate() {
            bytes.extend_from_slice(if condition != 0 { yes } else { no }.element_bytes(i));
        }
        Array::new(dtype, &shape, bytes)
    })
}

fn clamp(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 3, 1)?;
    let (dtype, shape) = tensor_of(c, c.result(op, 0)?)?;
    for i in [0, 2] {
        let (bound, extents) = tensor_of(c, c.operand(op, i)?)?;
        if bound != dtype || !(extents.is_empty() || extents == shape) {
            return Err("the bounds are scalars or have the type of the operand".into());
        }
    }
    if c.operand(op, 1)? != c.result(op, 0)? {
        return Err("the result has the type of the operand".into());
    }
    array_op(3, move |arrays| {
        let [low, value, high] = arrays else { unreachable!("three operands") };
        let (all, shape) = ([low, value, high], &shape[..]);
        match dtype.is_float() {
            true => map_floats(all, shape, dtype, |[l, v, h]| minimum(maximum(l, v), h), write_floats),
            false => {
                let limit = |[low, value, high]: [i64; 3]| match () {
                    () if less(dtype, value, low) => low,
                    () if less(dtype, high, value) => high,
                    () => value,
                };
                map_integers(all, shape, dtype, limit, write_integers)
            }
        }
    })
}

/// Converts numbers; floats become integers by rounding to zero, within the range of the type.
fn convert(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let ((from, shape), (to, result)) = (tensor_of(c, c.operand(op, 0)?)?, tensor_of(c, c.result(op, 0)?)?);
    if shape != result {
        return Err(format!("{shape:?} is not converted to {result:?}").into());
    }
    array_op(1, move |arrays| {
        let [a] = arrays else { unreachable!("one operand") };
        let shape = &shape[..];
        match (from.is_float(), to.is_float()) {
            _ if from == to => a.clone(),
            (true, true) => map_floats([a], shape, to, |[a]| a, write_floats),
            (true, false) => map_floats([a], shape, to, |[a]| float_to_integer(to, a), write_integers),
            (false, true) => map_integers([a], shape, to, |[a]| integer_to_float(from, a), write_floats),
            (false, false) if to == Dtype::Bool => {
                map_integers([a], shape, to, |[a]| (a != 0).into(), write_integers)
            }
            (false, false) => map_integers([a], shape, to, |[a]| a, write_integers),
        }
    })
}

fn float_to_integer(to: Dtype, value: f64) -> i64 {
    match to.integer() {
        (1, _) => (value != 0.0).into(),
        (64, false) => value as u64 as i64,
        (bits, true) => {
            let (low, high) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
            (value as i64).clamp(low, high)
        }
        (bits, false) => (value as u64).min((1 << bits) - 1) as i64,
    }
}

fn integer_to_float(from: Dtype, value: i64) -> f64 {
    if from.integer() == (64, false) { value as u64 as f64 } else { value as f64 }
}

/// Reinterprets bits; elements of another size change the last dimension.
fn bitcast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let ((from, shape), (to, result)) = (tensor_of(c, c.operand(op, 0)?)?, tensor_of(c, c.result(op, 0)?)?);
    let (small, large) = (from.bytes().min(to.bytes()), from.bytes().max(to.bytes()));
    let (few, many) = if from.bytes() >= to.bytes() { (&shape, &result) } else { (&result, &shape) };
    let mut split = few.clone();
    if large > small {
        split.push(large / small);
    }
    let whole = [from, to].iter().all(|dtype| dtype.is_float() || dtype.integer().0 >= 8);
    if split != *many || !whole {
        return Err(format!("{shape:?} of {from} cannot be reinterpreted as {result:?} of {to}").into());
    }
    array_op(1, move |arrays| {
        let [a] = arrays else { unreachable!("one operand") };
        a.cast(to, &result)
    })
}

//! Reductions and scans along dimensions.

use super::{
    Definition,
    float::{maximum, minimum},
    integer::{bits, is_scalar},
    pure,
    reshape::{around, axis, strides},
    scalar::wrap,
};
use crate::{
    attribute::Attr,
    interpret::{
        ask::inner_word,
        element::round_to,
        places::Places,
        program::{Compiler, Made, Refusal},
        value::{Data, Value},
    },
    ir::Op,
};

pub(super) const OPS: &[Definition] = &[
    pure("vector.multi_reduction", &["kind", "reduction_dims"], multi_reduction),
    pure("vector.reduction", &["kind", "fastmath"], reduction),
    pure("tpu.all_reduce", &["dim", "kind"], all_reduce),
    pure("tpu.reduce_index", &["axis", "kind"], reduce_index),
];

type FloatFold = fn(f32, f32) -> f32;
type IntegerFold = fn(i32, i32) -> i32;

/// The kind inside `#vector.kind<add>`.
fn kind(c: &Compiler<'_>, op: &Op) -> Made<String> {
    Ok(match c.attribute(op, "kind")? {
        Attr::Other(text) | Attr::String(text) => inner_word(text).to_owned(),
        other => other.to_string(),
    })
}

fn float_fold(kind: &str) -> Made<FloatFold> {
    Ok(match kind {
        "add" | "sum" => |a, b| a + b,
        "mul" => |a, b| a * b,
        "maximumf" | "max" => maximum,
        "minimumf" | "min" => minimum,
        "maxnumf" => f32::max,
        "minnumf" => f32::min,
        other => return Err(unknown(other)),
    })
}

fn integer_fold(kind: &str) -> Made<IntegerFold> {
    Ok(match kind {
        "add" | "sum" => i32::wrapping_add,
        "mul" => i32::wrapping_mul,
        "maxsi" | "max" => i32::max,
        "minsi" | "min" => i32::min,
        "and" => |a, b| a & b,
        "or" => |a, b| a | b,
        "xor" => |a, b| a ^ b,
        other => return Err(unknown(other)),
    })
}

fn unknown(kind: &str) -> Refusal {
    format!("the reduction '{kind}' is not supported").into()
}

/// Reduces `source` along the dimensions of `plan` into `out`, which holds the initial values.
fn fold<T: Copy>(source: &[T], plan: &Plan, out: &mut [T], f: impl Fn(T, T) -> T) {
    let (starts, places) = (plan.starts.list(), plan.places.list());
    for (out, &start) in out.iter_mut().zip(&starts) {
        *out = places.iter().fold(*out, |all, &place| f(all, source[start + place]));
    }
}

/// Positions of the elements of each result.
struct Plan {
    starts: Places,
    places: Places,
}

impl Plan {
    fn new(shape: &[usize], dimensions: &[usize]) -> Self {
        let full = strides(shape);
        let pick = |reduced: bool| -> (Vec<usize>, Vec<usize>) {
            let wanted = (0..shape.len()).filter(|i| dimensions.contains(i) == reduced);
            wanted.map(|i| (shape[i], full[i])).unzip()
        };
        let ((kept, kept_strides), (gone, gone_strides)) = (pick(false), pick(true));
        Self { starts: Places::new(&kept, &kept_strides, 0), places: Places::new(&gone, &gone_strides, 0) }
    }
}

fn multi_reduction(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let shape = c.vector_shape(c.operand(op, 0)?)?;
    let dimensions = c.dimensions_attribute(op, "reduction_dims", shape.len())?;
    reduce_to(c, op, &shape, &dimensions)
}

/// All elements of a 1-D vector.
fn reduction(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, op.operands.len().clamp(1, 2), 1)?;
    let shape = c.vector_shape(c.operand(op, 0)?)?;
    reduce_to(c, op, &shape, &(0..shape.len()).collect::<Vec<_>>())
}

fn reduce_to(c: &Compiler<'_>, op: &Op, shape: &[usize], dimensions: &[usize]) -> Made {
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let has_initial = op.operands.len() > 1;
    let plan = Plan::new(shape, dimensions);
    let (elements, results) = (shape.iter().product(), plan.starts.len());
    if results != c.shape(to)?.iter().product::<usize>() || from.element() != to.element() {
        return Err(format!("reducing {from} along {dimensions:?} does not give {to}").into());
    }
    if has_initial && c.operand(op, 1)? != to {
        return Err(format!("the initial value is not of type {to}").into());
    }
    let (kind, scalar) = (kind(c, op)?, is_scalar(to));
    let value = move |data: Data| match (&data, scalar) {
        (Data::Floats(values), true) => Value::Float(values[0]),
        (Data::Integers(values), true) => Value::Integer(values[0].into()),
        _ => Value::Vector(data),
    };
    if let Ok(float) = c.float(from) {
        let f = float_fold(&kind)?;
        let neutral = neutral_float(&kind);
        return Ok(Box::new(move |m, step| {
            m.clock.vector(elements, step.line(), &step.name);
            let source = m.vector(step, 0).to_floats(elements);
            let initial = if has_initial { m.vector(step, 1) } else { Data::Float(neutral) };
            let mut out = initial.to_floats(results).to_vec();
            fold(&source, &plan, &mut out, |a, b| round_to(float, f(a, b)));
            m.set(step, value(Data::floats(out)));
            Ok(())
        }));
    }
    let bits = bits(c, from)?;
    let f = integer_fold(&kind)?;
    if bits == 1 && !matches!(kind.as_str(), "and" | "or" | "xor" | "add" | "mul") {
        return Err(format!("reduction '{kind}' is not defined on booleans ({from})").into());
    }
    if !has_initial {
        return Err("a reduction of integers without an initial value is not supported".into());
    }
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let source = m.vector(step, 0).to_integers(elements);
        let mut out = m.vector(step, 1).to_integers(results).to_vec();
        fold(&source, &plan, &mut out, |a, b| wrap(bits, f(a, b).into()) as i32);
        m.set(step, value(Data::integers(out)));
        Ok(())
    }))
}

fn neutral_float(kind: &str) -> f32 {
    match kind {
        "mul" => 1.0,
        "maximumf" | "max" | "maxnumf" => f32::NEG_INFINITY,
        "minimumf" | "min" | "minnumf" => f32::INFINITY,
        _ => 0.0,
    }
}

/// Replaces every element by the reduction of its line along one dimension.
fn all_reduce(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let ty = c.operand(op, 0)?;
    let shape = c.vector_shape(ty)?;
    let float = c.float(ty)?;
    let dimension = axis(c, op, "dim", shape.len())?;
    let kind = kind(c, op)?;
    let (f, neutral) = (float_fold(&kind)?, neutral_float(&kind));
    if c.result(op, 0)? != ty {
        return Err("the result has the type of the operand".into());
    }
    let (outer, extent, inner) = around(&shape, dimension);
    let elements = outer * extent * inner;
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let source = m.vector(step, 0).to_floats(elements);
        let mut out = vec![0.0; elements];
        for line in 0..outer * inner {
            let place = |i: usize| ((line / inner) * extent + i) * inner + line % inner;
            let all = (0..extent).fold(neutral, |all, i| round_to(float, f(all, source[place(i)])));
            (0..extent).for_each(|i| out[place(i)] = all);
        }
        m.set(step, Value::Vector(Data::floats(out)));
        Ok(())
    }))
}

/// Index of the largest or smallest element; the first of equals.
fn reduce_index(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let shape = c.vector_shape(from)?;
    c.float(from)?;
    c.integer(to)?;
    let dimension = axis(c, op, "axis", shape.len())?;
    let better: fn(f32, f32) -> bool = match kind(c, op)?.as_str() {
        "arg_max" => |new, best| new > best,
        "arg_min" => |new, best| new < best,
        other => return Err(unknown(other)),
    };
    let (outer, extent, inner) = around(&shape, dimension);
    if outer * inner != c.vector_shape(to)?.iter().product::<usize>() || extent == 0 {
        return Err(format!("{from} along {dimension} does not give {to}").into());
    }
    let elements = outer * extent * inner;
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let source = m.vector(step, 0).to_floats(elements);
        let best = |line: usize| {
            let at = |i: usize| source[((line / inner) * extent + i) * inner + line % inner];
            (1..extent).fold(0, |best, i| if better(at(i), at(best)) { i } else { best }) as i32
        };
        m.set(step, Value::Vector(Data::integers((0..outer * inner).map(best).collect())));
        Ok(())
    }))
}

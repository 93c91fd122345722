//! Moving elements about: shapes, slices, broadcasts, transposes, rotations.

use super::{Maker, integer::is_scalar};
use crate::{
    interpret::{
        program::{Compiler, Made},
        value::{Data, Value},
        view::row_major,
    },
    ir::Op,
};

pub(super) const OPS: &[(&str, Maker)] = &[
    ("vector.shape_cast", shape_cast),
    ("tpu.reshape", shape_cast),
    ("tpu.relayout", shape_cast),
    ("tpu.mask_cast", shape_cast),
    ("vector.broadcast", broadcast),
    ("vector.extract", extract),
    ("vector.extract_strided_slice", slice),
    ("vector.transpose", transpose),
    ("tpu.transpose", transpose),
    ("tpu.concatenate", concatenate),
    ("tpu.repeat", repeat),
    ("tpu.rotate", |c, op| rotate(c, op, false)),
    ("tpu.dynamic_rotate", |c, op| rotate(c, op, true)),
    ("tpu.dynamic_gather", gather),
    ("tpu.iota", iota),
];

/// For every element of a result of shape `shape`, in order, the place in the source that the strides say, from
/// `start` on.
pub(super) fn strided(shape: &[usize], strides: &[usize], start: usize) -> Vec<usize> {
    let mut places = vec![start];
    for (&extent, &stride) in shape.iter().zip(strides) {
        places =
            places.iter().flat_map(|&place| (0..extent).map(move |index| place + index * stride)).collect();
    }
    places
}

pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    row_major(shape, 1).iter().map(|dim| dim.stride).collect()
}

/// An operation whose result only takes elements from its first operand, from places known beforehand.
fn picks(elements: usize, places: Vec<usize>, scalar: bool) -> Made {
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let data = m.vector(step, 0).gather(places.iter().copied());
        m.set(step, if scalar { first(&data) } else { Value::Vector(data) });
        Ok(())
    }))
}

fn first(data: &Data) -> Value {
    match data {
        Data::Floats(values) => Value::Float(values[0]),
        Data::Float(value) => Value::Float(*value),
        Data::Integers(values) => Value::Integer(values[0].into()),
        Data::Integer(value) => Value::Integer((*value).into()),
    }
}

fn shape_cast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let count = |shape: Vec<usize>| shape.iter().product::<usize>();
    if count(c.vector_shape(from)?) != count(c.vector_shape(to)?) || is_scalar(from) || is_scalar(to) {
        return Err(format!("{from} and {to} do not have the same number of elements").into());
    }
    Ok(Box::new(|m, step| {
        let value = m.take(step, 0);
        m.set(step, value);
        Ok(())
    }))
}

/// A scalar everywhere, or a vector whose missing and unit dimensions are repeated.
fn broadcast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.shape(from)?, c.vector_shape(to)?);
    let elements: usize = shape.iter().product();
    let fits = source.len() <= shape.len()
        && source.iter().rev().zip(shape.iter().rev()).all(|(from, to)| from == to || *from == 1);
    if !fits || from.element() != to.element() || is_scalar(to) {
        return Err(format!("{from} cannot be broadcast to {to}").into());
    }
    if source.iter().product::<usize>() == 1 {
        return Ok(Box::new(move |m, step| {
            // The cost of one equal vector is that of the operations which use it.
            let data = match first(&m.vector(step, 0)) {
                Value::Float(value) => Data::Float(value),
                Value::Integer(value) => Data::Integer(value as i32),
                other => unreachable!("a number, not {other:?}"),
            };
            m.set(step, Value::Vector(data));
            Ok(())
        }));
    }
    let missing = shape.len() - source.len();
    let repeated =
        strides(&source).into_iter().zip(&source).map(|(stride, &from)| if from == 1 { 0 } else { stride });
    let steps: Vec<usize> = std::iter::repeat_n(0, missing).chain(repeated).collect();
    picks(elements, strided(&shape, &steps, 0), false)
}

fn extract(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.shape(to)?);
    let position = c.integers_attribute(op, "static_position")?;
    let inside = position.len() <= source.len()
        && position.iter().zip(&source).all(|(&index, &extent)| index >= 0 && (index as usize) < extent);
    if !inside || source[position.len()..] != shape[..] {
        return Err(format!("{from} has no {to} at {position:?}").into());
    }
    let strides = strides(&source);
    let start = position.iter().zip(&strides).map(|(&index, stride)| index as usize * stride).sum();
    let elements = shape.iter().product();
    picks(elements, strided(&shape, &strides[position.len()..], start), is_scalar(to))
}

fn slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.vector_shape(to)?);
    let (offsets, steps) = (c.integers_attribute(op, "offsets")?, c.integers_attribute(op, "strides")?);
    let fits = |dimension: usize| {
        let (offset, step) = (*offsets.get(dimension).unwrap_or(&0), *steps.get(dimension).unwrap_or(&1));
        let last = offset + (shape[dimension] as i64 - 1) * step;
        offset >= 0 && step >= 1 && last < source[dimension] as i64
    };
    if source.len() != shape.len() || !(0..shape.len()).all(fits) {
        return Err(format!("{from} has no {to} at {offsets:?}").into());
    }
    let full = strides(&source);
    let start = full.iter().zip(&offsets).map(|(stride, &offset)| stride * offset as usize).sum();
    let steps: Vec<usize> =
        full.iter().enumerate().map(|(i, stride)| stride * *steps.get(i).unwrap_or(&1) as usize).collect();
    picks(shape.iter().product(), strided(&shape, &steps, start), false)
}

fn transpose(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.vector_shape(to)?);
    let permutation = c.dimensions_attribute(op, "permutation", source.len())?;
    if permutation.iter().map(|&dimension| source[dimension]).ne(shape.iter().copied()) {
        return Err(format!("{from} transposed by {permutation:?} is not {to}").into());
    }
    let full = strides(&source);
    let steps: Vec<usize> = permutation.iter().map(|&dimension| full[dimension]).collect();
    picks(shape.iter().product(), strided(&shape, &steps, 0), false)
}

/// The extents before, at and after a dimension, as three numbers.
pub(super) fn around(shape: &[usize], dimension: usize) -> (usize, usize, usize) {
    (shape[..dimension].iter().product(), shape[dimension], shape[dimension + 1..].iter().product())
}

fn concatenate(c: &mut Compiler<'_>, op: &Op) -> Made {
    let to = c.result(op, 0)?;
    let shape = c.vector_shape(to)?;
    let dimension = dimension(c, op, shape.len())?;
    let (outer, _, _) = around(&shape, dimension);
    let mut chunks = Vec::new();
    let mut extent = 0;
    for number in 0..op.operands.len() {
        let from = c.operand(op, number)?;
        let source = c.vector_shape(from)?;
        let alike = source.len() == shape.len()
            && (0..shape.len()).all(|i| i == dimension || source[i] == shape[i])
            && from.element() == to.element();
        if !alike {
            return Err(format!("{from} is no part of {to}").into());
        }
        extent += source[dimension];
        chunks.push(source[dimension..].iter().product::<usize>());
    }
    if extent != shape[dimension] {
        return Err(format!("the parts have {extent} elements along dimension {dimension} of {to}").into());
    }
    let is_float = c.float(to).is_ok();
    let elements: usize = shape.iter().product();
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let parts: Vec<Data> = (0..chunks.len()).map(|i| m.vector(step, i)).collect();
        let data = if is_float {
            let parts: Vec<_> =
                parts.iter().zip(&chunks).map(|(part, chunk)| part.to_floats(chunk * outer)).collect();
            Data::floats(joined(&parts.iter().map(|p| p.as_slice()).collect::<Vec<_>>(), &chunks, outer))
        } else {
            let parts: Vec<_> =
                parts.iter().zip(&chunks).map(|(part, chunk)| part.to_integers(chunk * outer)).collect();
            Data::integers(joined(&parts.iter().map(|p| p.as_slice()).collect::<Vec<_>>(), &chunks, outer))
        };
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn joined<T: Copy>(parts: &[&[T]], chunks: &[usize], outer: usize) -> Vec<T> {
    let piece =
        |i: usize| parts.iter().zip(chunks).flat_map(move |(part, &chunk)| part[i * chunk..][..chunk].iter());
    (0..outer).flat_map(piece).copied().collect()
}

fn dimension(c: &Compiler<'_>, op: &Op, rank: usize) -> Made<usize> {
    let dimension = c.integer_attribute(op, "dimension")?;
    let inside = usize::try_from(dimension).ok().filter(|&dimension| dimension < rank);
    inside.ok_or_else(|| format!("dimension {dimension} is not one of {rank}").into())
}

fn repeat(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (source, shape) = (c.vector_shape(c.operand(op, 0)?)?, c.vector_shape(c.result(op, 0)?)?);
    let dimension = dimension(c, op, source.len())?;
    let (outer, extent, inner) = around(&source, dimension);
    let times = shape.get(dimension).map_or(0, |to| to / extent.max(1));
    if source.len() != shape.len() || outer * extent * inner * times != shape.iter().product::<usize>() {
        return Err("the result is no repetition of the operand".into());
    }
    let row = |o: usize| (0..times).flat_map(move |_| o * extent * inner..(o + 1) * extent * inner);
    picks(shape.iter().product(), (0..outer).flat_map(row).collect(), false)
}

/// Element i goes to place i + amount, around the end.
fn rotate(c: &mut Compiler<'_>, op: &Op, dynamic: bool) -> Made {
    c.arity(op, if dynamic { 2 } else { 1 }, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    if from != to {
        return Err(format!("a rotation of {from} is not {to}").into());
    }
    let shape = c.vector_shape(from)?;
    let dimension = dimension(c, op, shape.len())?;
    let fixed = if dynamic {
        c.scalar_integer(c.operand(op, 1)?)?;
        0
    } else {
        c.integer_attribute(op, "amount")?
    };
    if op.attributes.get("stride").is_some() {
        return Err("a rotation with a stride is not supported".into());
    }
    let (outer, extent, inner) = around(&shape, dimension);
    let elements = outer * extent * inner;
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let amount = if dynamic { m.integer(step, 1) } else { fixed };
        let back = extent - amount.rem_euclid(extent.max(1) as i64) as usize;
        let from = |place: usize| {
            let (o, rest) = (place / (extent * inner), place % (extent * inner));
            let (index, i) = (rest / inner, rest % inner);
            (o * extent + (index + back) % extent) * inner + i
        };
        let data = m.vector(step, 0).gather((0..elements).map(from));
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn iota(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let ty = c.result(op, 0)?;
    c.integer(ty)?;
    let shape = c.vector_shape(ty)?;
    let dimensions = match op.attributes.get("dimensions") {
        Some(_) => c.dimensions_attribute(op, "dimensions", shape.len())?,
        None => vec![dimension(c, op, shape.len())?],
    };
    let full = strides(&shape);
    let elements: usize = shape.iter().product();
    let value = |place: usize| {
        dimensions.iter().fold(0, |all, &d| all * shape[d] + place / full[d] % shape[d]) as i32
    };
    let data = Data::integers((0..elements).map(value).collect());
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        m.set(step, Value::Vector(data.clone()));
        Ok(())
    }))
}

/// Each element comes from the place along one dimension that its index says, around the end.
fn gather(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (from, indices, to) = (c.operand(op, 0)?, c.operand(op, 1)?, c.result(op, 0)?);
    c.integer(indices)?;
    let shape = c.vector_shape(from)?;
    let dimension = match c.dimensions_attribute(op, "dimensions", shape.len())?[..] {
        [dimension] => dimension,
        _ => return Err("only a gather along one dimension is supported".into()),
    };
    if from != to || indices.shape() != shape || shape[dimension] == 0 {
        return Err(format!("{from} is not gathered into {to} by {indices}").into());
    }
    let (outer, extent, inner) = around(&shape, dimension);
    let elements = outer * extent * inner;
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let (data, indices) = (m.vector(step, 0), m.vector(step, 1).to_integers(elements));
        let from = |place: usize| {
            let index = indices[place].rem_euclid(extent as i32) as usize;
            (place / (extent * inner) * extent + index) * inner + place % inner
        };
        m.set(step, Value::Vector(data.gather((0..elements).map(from))));
        Ok(())
    }))
}

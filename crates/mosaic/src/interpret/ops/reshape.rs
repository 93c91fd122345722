//! Data movement: reshapes, slices, broadcasts, transposes, rotations.

use super::{
    Definition,
    integer::{bits, is_scalar},
    pure,
    scalar::wrap,
};
use crate::{
    interpret::{
        places::Places,
        program::{Compiler, Made},
        value::{Data, Value},
        view::row_major,
    },
    ir::Op,
};

pub(super) const OPS: &[Definition] = &[
    pure("vector.shape_cast", &[], shape_cast),
    pure("tpu.reshape", &[], shape_cast),
    pure("tpu.relayout", &[], shape_cast),
    pure("tpu.mask_cast", &[], shape_cast),
    pure("vector.broadcast", &[], broadcast),
    pure("vector.extract", &["static_position"], extract),
    pure("vector.extract_strided_slice", &["offsets", "sizes", "strides"], slice),
    pure("vector.transpose", &["permutation"], transpose),
    pure("tpu.transpose", &["permutation"], transpose),
    pure("tpu.concatenate", &["dimension"], concatenate),
    pure("tpu.repeat", &["dimension", "times"], repeat),
    pure("tpu.rotate", &["amount", "dimension", "stride", "stride_dimension"], |c, op| rotate(c, op, false)),
    pure("tpu.dynamic_rotate", &["dimension", "stride", "stride_dimension"], |c, op| rotate(c, op, true)),
    pure("tpu.iota", &["dimensions", "dimension"], iota),
];

pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    row_major(shape, 1).iter().map(|dim| dim.stride).collect()
}

/// An operation whose result gathers elements of its first operand from static positions.
fn picks(elements: usize, places: Places, scalar: bool) -> Made {
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let data = places.gather(&m.vector(step, 0));
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
    if count(c.vector_shape(from)?) != count(c.vector_shape(to)?) || from.element() != to.element() {
        return Err(format!("{from} and {to} do not have the same elements").into());
    }
    Ok(Box::new(|m, step| {
        let value = m.take(step, 0);
        m.set(step, value);
        Ok(())
    }))
}

/// Broadcasts a scalar, or repeats missing and unit dimensions of a vector.
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
            // A splat costs nothing until it is used.
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
    picks(elements, Places::new(&shape, &steps, 0), false)
}

fn extract(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.shape(to)?);
    let position = c.integers_attribute(op, "static_position")?;
    let inside = position.len() <= source.len()
        && position.iter().zip(&source).all(|(&index, &extent)| index >= 0 && (index as usize) < extent);
    if !inside || source[position.len()..] != shape[..] || from.element() != to.element() {
        return Err(format!("{from} has no {to} at {position:?}").into());
    }
    let strides = strides(&source);
    let start = position.iter().zip(&strides).map(|(&index, stride)| index as usize * stride).sum();
    let elements = shape.iter().product();
    picks(elements, Places::new(&shape, &strides[position.len()..], start), is_scalar(to))
}

fn slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.vector_shape(to)?);
    let (offsets, steps) = (c.integers_attribute(op, "offsets")?, c.integers_attribute(op, "strides")?);
    let sizes = match op.attributes.get("sizes") {
        Some(_) => c.integers_attribute(op, "sizes")?,
        None => Vec::new(),
    };
    let fits = |dimension: usize| {
        let (offset, step) = (*offsets.get(dimension).unwrap_or(&0), *steps.get(dimension).unwrap_or(&1));
        let size = shape[dimension] as i64;
        let span = (size - 1).checked_mul(step).and_then(|span| span.checked_add(offset));
        let sized = sizes.get(dimension).is_none_or(|&told| told == size);
        let begins = offset >= 0 && offset <= source[dimension] as i64;
        begins && step >= 1 && sized && span.is_some_and(|last| last < source[dimension] as i64)
    };
    let listed = [&offsets, &steps, &sizes].iter().all(|list| list.len() <= source.len());
    if source.len() != shape.len() || !listed || !(0..shape.len()).all(fits) || from.element() != to.element()
    {
        return Err(format!("{from} has no {to} at {offsets:?}").into());
    }
    let full = strides(&source);
    let start = full.iter().zip(&offsets).map(|(stride, &offset)| stride * offset as usize).sum();
    // The stride of a unit dimension is irrelevant.
    let step = |i: usize| if shape[i] > 1 { *steps.get(i).unwrap_or(&1) as usize } else { 1 };
    let steps: Vec<usize> = full.iter().enumerate().map(|(i, stride)| stride * step(i)).collect();
    picks(shape.iter().product(), Places::new(&shape, &steps, start), false)
}

fn transpose(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.vector_shape(to)?);
    let permutation = c.dimensions_attribute(op, "permutation", source.len())?;
    let permuted = permutation.iter().map(|&dimension| source[dimension]).eq(shape.iter().copied());
    if !permuted || !all_different(&permutation) || from.element() != to.element() {
        return Err(format!("{from} transposed by {permutation:?} is not {to}").into());
    }
    let full = strides(&source);
    let steps: Vec<usize> = permutation.iter().map(|&dimension| full[dimension]).collect();
    picks(shape.iter().product(), Places::new(&shape, &steps, 0), false)
}

pub(super) fn all_different(dimensions: &[usize]) -> bool {
    let mut sorted = dimensions.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Extents before, at and after a dimension, each flattened.
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
        return Err(format!("the operands sum to {extent} along dimension {dimension} of {to}").into());
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
    axis(c, op, "dimension", rank)
}

/// Dimension named by an attribute.
pub(super) fn axis(c: &Compiler<'_>, op: &Op, name: &str, rank: usize) -> Made<usize> {
    let axis = c.integer_attribute(op, name)?;
    let inside = usize::try_from(axis).ok().filter(|&axis| axis < rank);
    inside.ok_or_else(|| format!("dimension {axis} is outside rank {rank}").into())
}

fn repeat(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.vector_shape(to)?);
    let dimension = dimension(c, op, source.len())?;
    let times = usize::try_from(c.integer_attribute(op, "times")?).unwrap_or(0);
    let repeated = |(i, &extent): (usize, &usize)| extent.checked_mul(if i == dimension { times } else { 1 });
    let fits = source.iter().enumerate().map(repeated).eq(shape.iter().map(|&extent| Some(extent)));
    if !fits || from.element() != to.element() {
        return Err(format!("{to} is not {from} repeated {times} times").into());
    }
    let (outer, extent, inner) = around(&source, dimension);
    let places = Places::new(&[outer, times, extent * inner], &[extent * inner, 0, 1], 0);
    picks(shape.iter().product(), places, false)
}

/// Rotates element i to i + amount, wrapping around. With a stride, the amount grows by it along another
/// dimension.
fn rotate(c: &mut Compiler<'_>, op: &Op, dynamic: bool) -> Made {
    c.arity(op, if dynamic { 2 } else { 1 }, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    if from != to {
        return Err(format!("rotating {from} does not give {to}").into());
    }
    let shape = c.vector_shape(from)?;
    let along = dimension(c, op, shape.len())?;
    let fixed = if dynamic {
        c.scalar_integer(c.operand(op, 1)?)?;
        0
    } else {
        c.integer_attribute(op, "amount")?
    };
    let stride = match op.attributes.get("stride") {
        Some(_) => c.integer_attribute(op, "stride")?,
        None => 0,
    };
    let stride_dimension = match op.attributes.get("stride_dimension") {
        Some(_) => axis(c, op, "stride_dimension", shape.len())?,
        None if stride == 0 => along,
        None => return Err("a rotation with 'stride' needs 'stride_dimension'".into()),
    };
    let full = strides(&shape);
    let elements: usize = shape.iter().product();
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let amount = if dynamic { m.integer(step, 1) } else { fixed };
        let extent = shape[along] as i64;
        let from = |place: usize| {
            let index = |dimension: usize| (place / full[dimension] % shape[dimension]) as i64;
            let by = amount.wrapping_add(stride.wrapping_mul(index(stride_dimension))).rem_euclid(extent);
            let source = (index(along) - by).rem_euclid(extent);
            place - index(along) as usize * full[along] + source as usize * full[along]
        };
        let data = m.vector(step, 0).gather((0..elements).map(from));
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn iota(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let ty = c.result(op, 0)?;
    let bits = bits(c, ty)?;
    let shape = c.vector_shape(ty)?;
    let dimensions = match op.attributes.get("dimensions") {
        Some(_) => c.dimensions_attribute(op, "dimensions", shape.len())?,
        None => vec![dimension(c, op, shape.len())?],
    };
    if !all_different(&dimensions) {
        return Err(format!("{dimensions:?} names a dimension twice").into());
    }
    // Counts up by one along the last of the dimensions.
    let counts = strides(&dimensions.iter().map(|&dimension| shape[dimension]).collect::<Vec<_>>());
    let mut steps = vec![0; shape.len()];
    dimensions.iter().zip(counts).for_each(|(&dimension, count)| steps[dimension] = count);
    let places = Places::new(&shape, &steps, 0);
    let elements = places.len();
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let mut values = Vec::with_capacity(elements);
        places.for_each(|place| values.push(wrap(bits, place as i64) as i32));
        m.set(step, Value::Vector(Data::integers(values)));
        Ok(())
    }))
}

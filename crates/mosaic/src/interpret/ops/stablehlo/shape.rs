//! Constants, layouts and slices.

use super::{Definition, array_op, pure, same_elements, tensor_of};
use crate::{
    attribute::Attr,
    interpret::{
        array::{Array, Dtype},
        machine::{Machine, Stop},
        ops::reshape::{all_different, strides},
        program::{Compiler, Made, Refusal, Step},
        value::Value,
    },
    ir::Op,
    types::Type,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    pure("stablehlo.constant", &["value"], constant),
    pure("stablehlo.iota", &["iota_dimension"], iota),
    pure("stablehlo.reshape", &[], reshape),
    pure("stablehlo.transpose", &["permutation"], transpose),
    pure("stablehlo.broadcast_in_dim", &["broadcast_dimensions"], broadcast),
    pure("stablehlo.slice", &["start_indices", "limit_indices", "strides"], slice),
    pure("stablehlo.reverse", &["dimensions"], reverse),
    pure("stablehlo.pad", &["edge_padding_low", "edge_padding_high", "interior_padding"], pad),
    pure("stablehlo.concatenate", &["dimension"], concatenate),
    pure("stablehlo.dynamic_slice", &["slice_sizes"], dynamic_slice),
    pure("stablehlo.dynamic_update_slice", &[], dynamic_update_slice),
];

fn constant(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let ty = c.result(op, 0)?;
    let value = constant_array(c, c.attribute(op, "value")?, ty)?;
    Ok(Box::new(move |m, step| {
        m.set(step, Value::Array(value.clone()));
        Ok(())
    }))
}

fn constant_array(c: &Compiler<'_>, attr: &Attr, ty: &Type) -> Made<Array> {
    let (dtype, shape) = tensor_of(c, ty)?;
    let elements: usize = shape.iter().product();
    let mut bytes = Vec::new();
    match attr {
        Attr::Splat(value, of) if of == ty => number(dtype, value, &mut bytes)?,
        Attr::Dense(values, of) if of == ty && values.len() == elements => {
            values.iter().try_for_each(|value| number(dtype, value, &mut bytes))?;
        }
        Attr::Other(text) => bytes = blob(text, dtype, elements)?,
        other => return Err(format!("{other:.80} is not a constant of type {ty}").into()),
    }
    Ok(Array::new(dtype, &shape, bytes))
}

/// Appends one number of a constant.
fn number(dtype: Dtype, attr: &Attr, bytes: &mut Vec<u8>) -> Made<()> {
    match attr {
        Attr::Integer(value, _) if !dtype.is_float() => dtype.write_integers([*value].into_iter(), bytes),
        Attr::Bool(value) if !dtype.is_float() => dtype.write_integers([(*value).into()].into_iter(), bytes),
        Attr::Float(value, _) if dtype.is_float() => dtype.write_floats([*value].into_iter(), bytes),
        other => return Err(format!("{other:.80} is not a number of type {dtype}").into()),
    }
    Ok(())
}

/// Bytes of `dense<"0x0102...">`, which may hold one element for all.
///
/// Older versions of MLIR pack eight booleans in a byte.
fn blob(text: &str, dtype: Dtype, elements: usize) -> Made<Vec<u8>> {
    let bad = || Refusal::from(format!("'{text:.40}...' does not hold {elements} elements of {dtype}"));
    let digits = text.split_once("\"0x").and_then(|(_, rest)| rest.split_once('"')).ok_or_else(bad)?.0;
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return Err(bad()) };
    let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> = pairs.iter().map(|&[a, b]| Some(digit(a)? << 4 | digit(b)?)).collect();
    let bytes = bytes.ok_or_else(bad)?;
    if dtype == Dtype::Bool {
        return match bytes.len() {
            len if len == elements => Ok(bytes.into_iter().map(|byte| byte & 1).collect()),
            len if len == elements.div_ceil(8) => {
                Ok((0..elements).map(|i| bytes[i / 8] >> (i % 8) & 1).collect())
            }
            1 => Ok(vec![bytes[0] & 1]),
            _ => Err(bad()),
        };
    }
    match bytes.len() == elements * dtype.bytes() || bytes.len() == dtype.bytes() {
        true => Ok(bytes),
        false => Err(bad()),
    }
}

fn iota(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let (dtype, shape) = tensor_of(c, c.result(op, 0)?)?;
    let dimension = c.integer_attribute(op, "iota_dimension")?;
    let Some(dimension) = usize::try_from(dimension).ok().filter(|&d| d < shape.len()) else {
        return Err(format!("dimension {dimension} is outside rank {}", shape.len()).into());
    };
    let inner: usize = shape[dimension + 1..].iter().product();
    let extent = shape[dimension];
    array_op(0, move |_| {
        let elements: usize = shape.iter().product();
        let index = |i: usize| i / inner % extent;
        match dtype.is_float() {
            true => Array::floats(dtype, &shape, (0..elements).map(|i| index(i) as f64)),
            false => Array::integers(dtype, &shape, (0..elements).map(|i| index(i) as i64)),
        }
    })
}

fn reshape(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (_, from, to) = same_elements(c, op)?;
    if from.iter().product::<usize>() != to.iter().product::<usize>() {
        return Err("the shapes do not have the same number of elements".into());
    }
    array_op(1, move |arrays| arrays[0].reshaped(&to))
}

/// Source offset of each index along each dimension of a result; offsets of all dimensions add up.
type Tables = Vec<Vec<usize>>;

/// Gathers a result from these places of an array.
pub(super) fn pick(from: &Array, tables: &Tables, shape: &[usize]) -> Array {
    if from.is_splat() {
        return from.reshaped(shape);
    }
    let (bytes, size) = (from.all_bytes(), from.dtype.bytes());
    let mut out = Vec::with_capacity(shape.iter().product::<usize>() * size);
    for_each_row(tables, |start, row| {
        let is_run = row.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
        match row.first() {
            Some(&first) if is_run => {
                out.extend_from_slice(&bytes[(start + first) * size..][..row.len() * size]);
            }
            _ => row
                .iter()
                .for_each(|&offset| out.extend_from_slice(&bytes[(start + offset) * size..][..size])),
        }
    });
    Array::new(from.dtype, shape, out)
}

/// Visits the rows of a result: the offset of the outer dimensions, and the table of the last one.
fn for_each_row(tables: &Tables, mut visit: impl FnMut(usize, &[usize])) {
    let Some((row, outer)) = tables.split_last() else { return visit(0, &[0]) };
    if tables.iter().any(Vec::is_empty) {
        return;
    }
    let mut index = vec![0; outer.len()];
    loop {
        visit(index.iter().zip(outer).map(|(&i, table)| table[i]).sum(), row);
        let Some(dimension) = (0..outer.len()).rev().find(|&d| index[d] + 1 < outer[d].len()) else { return };
        index[dimension] += 1;
        index[dimension + 1..].fill(0);
    }
}

/// Tables of a strided walk: extent, first offset and stride of each dimension.
fn strided(dims: impl Iterator<Item = (usize, usize, usize)>) -> Tables {
    dims.map(|(extent, first, stride)| (0..extent).map(|i| first + i * stride).collect()).collect()
}

fn picking(tables: Tables, shape: Vec<usize>) -> Made {
    array_op(1, move |arrays| pick(&arrays[0], &tables, &shape))
}

fn transpose(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (_, from, to) = same_elements(c, op)?;
    let order = c.dimensions_attribute(op, "permutation", from.len())?;
    if order.iter().map(|&dimension| from[dimension]).ne(to.iter().copied()) || !all_different(&order) {
        return Err(format!("transposing {from:?} by {order:?} does not give {to:?}").into());
    }
    let full = strides(&from);
    picking(strided(order.iter().map(|&dimension| (from[dimension], 0, full[dimension]))), to)
}

fn broadcast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (_, from, to) = same_elements(c, op)?;
    let dimensions = c.dimensions_attribute(op, "broadcast_dimensions", to.len())?;
    let fits = dimensions.len() == from.len()
        && all_different(&dimensions)
        && dimensions.iter().zip(&from).all(|(&dimension, &extent)| extent == to[dimension] || extent == 1);
    if !fits {
        return Err(format!("{from:?} cannot be broadcast to {to:?} by {dimensions:?}").into());
    }
    if from.iter().product::<usize>() == 1 {
        // One element stands for all.
        return array_op(1, move |arrays| arrays[0].reshaped(&to));
    }
    let full = strides(&from);
    let mut steps = vec![0; to.len()];
    for (i, &dimension) in dimensions.iter().enumerate() {
        steps[dimension] = if from[i] == 1 { 0 } else { full[i] };
    }
    picking(strided(to.iter().zip(steps).map(|(&extent, step)| (extent, 0, step))), to.clone())
}

fn slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (_, from, to) = same_elements(c, op)?;
    let list = |name| c.integers_attribute(op, name);
    let (starts, limits, by) = (list("start_indices")?, list("limit_indices")?, list("strides")?);
    let fits = [&starts, &limits, &by].iter().all(|list| list.len() == from.len())
        && to.len() == from.len()
        && (0..from.len()).all(|i| {
            let inside = 0 <= starts[i] && starts[i] <= limits[i] && limits[i] <= from[i] as i64 && by[i] > 0;
            // The sum cannot overflow for bounds inside, except with a stride beyond all of them.
            inside
                && by[i] <= i64::from(u32::MAX)
                && (limits[i] - starts[i] + by[i] - 1) / by[i] == to[i] as i64
        });
    if !fits {
        return Err(format!("slicing {from:?} from {starts:?} to {limits:?} does not give {to:?}").into());
    }
    let full = strides(&from);
    let dims = (0..to.len()).map(|i| (to[i], starts[i] as usize * full[i], by[i] as usize * full[i]));
    picking(strided(dims), to.clone())
}

fn reverse(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (_, from, to) = same_elements(c, op)?;
    let dimensions = c.dimensions_attribute(op, "dimensions", from.len())?;
    if from != to {
        return Err(format!("reversing {from:?} does not give {to:?}").into());
    }
    let full = strides(&from);
    let mut tables = strided((0..from.len()).map(|i| (from[i], 0, full[i])));
    dimensions.iter().for_each(|&dimension| tables[dimension].reverse());
    picking(tables, to)
}

/// Checks that an operand is a scalar of the result's element type.
pub(super) fn one_value(c: &Compiler<'_>, op: &Op, operand: usize) -> Made<()> {
    let (value, result) = (tensor_of(c, c.operand(op, operand)?)?, tensor_of(c, c.result(op, 0)?)?);
    match value.0 == result.0 && value.1.is_empty() {
        true => Ok(()),
        false => Err(format!("operand {operand} is not a scalar of {}", result.0).into()),
    }
}

fn pad(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (dtype, from, to) = same_elements(c, op)?;
    one_value(c, op, 1)?;
    let list = |name| c.integers_attribute(op, name);
    let (low, high, interior) =
        (list("edge_padding_low")?, list("edge_padding_high")?, list("interior_padding")?);
    let fits = [&low, &high, &interior].iter().all(|list| list.len() == from.len())
        && to.len() == from.len()
        && (0..from.len()).all(|i| padded(from[i], low[i], high[i], interior[i]) == Some(to[i]));
    if !fits {
        return Err(format!("padding {from:?} by {low:?} and {high:?} does not give {to:?}").into());
    }
    // Where each index goes; negative padding leaves elements out.
    let full = strides(&to);
    let target = |i: usize, index: usize| {
        let place = index as i64 * (interior[i] + 1) + low[i];
        usize::try_from(place).ok().filter(|&place| place < to[i]).map(|place| place * full[i])
    };
    let tables: Vec<Vec<Option<usize>>> =
        (0..from.len()).map(|i| (0..from[i]).map(|index| target(i, index)).collect()).collect();
    array_op(2, move |arrays| {
        let [from, fill] = arrays else { unreachable!("two operands") };
        let size = dtype.bytes();
        let mut out = fill.element_bytes(0).repeat(to.iter().product());
        let mut index = vec![0usize; tables.len()];
        for element in 0..from.elements() {
            let place: Option<usize> = index.iter().zip(&tables).map(|(&i, table)| table[i]).sum();
            if let Some(place) = place {
                out[place * size..][..size].copy_from_slice(from.element_bytes(element));
            }
            for (index, table) in index.iter_mut().zip(&tables).rev() {
                *index += 1;
                if *index < table.len() {
                    break;
                }
                *index = 0;
            }
        }
        Array::new(dtype, &to, out)
    })
}

/// Extent after padding.
fn padded(extent: usize, low: i64, high: i64, interior: i64) -> Option<usize> {
    let extent = i64::try_from(extent).ok()?;
    let between = extent.saturating_sub(1).max(0).checked_mul(interior).filter(|_| interior >= 0)?;
    let all = extent.checked_add(between)?.checked_add(low)?.checked_add(high)?;
    usize::try_from(all).ok()
}

fn concatenate(c: &mut Compiler<'_>, op: &Op) -> Made {
    let count = op.operands.len();
    let (dtype, to) = tensor_of(c, c.result(op, 0)?)?;
    let dimension = c.integer_attribute(op, "dimension")?;
    let Some(dimension) = usize::try_from(dimension).ok().filter(|&d| d < to.len()) else {
        return Err(format!("dimension {dimension} is outside rank {}", to.len()).into());
    };
    let mut joined = 0usize;
    for i in 0..count {
        let (element, mut shape) = tensor_of(c, c.operand(op, i)?)?;
        let extent = shape.get(dimension).copied().unwrap_or_default();
        joined = joined.saturating_add(extent);
        if shape.len() == to.len() {
            shape[dimension] = to[dimension];
        }
        if element != dtype || shape != to {
            return Err(format!("operand {i} cannot be joined along dimension {dimension}").into());
        }
    }
    if joined != to[dimension] {
        return Err(format!("the operands have {joined} indices along dimension {dimension}").into());
    }
    array_op(count, move |arrays| {
        let inner: usize = to[dimension + 1..].iter().product::<usize>() * dtype.bytes();
        let outer: usize = to[..dimension].iter().product();
        let pieces: Vec<_> = arrays.iter().map(|a| (a.all_bytes(), a.shape[dimension] * inner)).collect();
        let mut out = Vec::with_capacity(to.iter().product::<usize>() * dtype.bytes());
        for row in 0..outer {
            for (bytes, len) in &pieces {
                out.extend_from_slice(&bytes[row * len..][..*len]);
            }
        }
        Array::new(dtype, &to, out)
    })
}

/// First index of a slice in each dimension, moved so that the slice lies inside.
fn clamped_starts(
    m: &mut Machine<'_>,
    step: &Step,
    first: usize,
    from: &[usize],
    size: &[usize],
) -> Result<Vec<usize>, Stop> {
    let mut starts = Vec::with_capacity(from.len());
    for (i, (&extent, &size)) in from.iter().zip(size).enumerate() {
        let start = m.array(step, first + i)?.integer(0);
        starts.push(usize::try_from(start).unwrap_or(0).min(extent - size));
    }
    Ok(starts)
}

/// Checks one scalar integer per dimension, from operand `first`.
fn start_operands(c: &Compiler<'_>, op: &Op, first: usize, rank: usize) -> Made<()> {
    c.arity(op, first + rank, 1)?;
    for i in first..first + rank {
        let (dtype, shape) = tensor_of(c, c.operand(op, i)?)?;
        if dtype.is_float() || !shape.is_empty() {
            return Err(format!("operand {i} is not one integer").into());
        }
    }
    Ok(())
}

fn dynamic_slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (_, from, to) = same_elements(c, op)?;
    start_operands(c, op, 1, from.len())?;
    if from.len() != to.len() || from.iter().zip(&to).any(|(from, to)| to > from) {
        return Err(format!("a slice of {from:?} cannot have the shape {to:?}").into());
    }
    let full = strides(&from);
    Ok(Box::new(move |m, step| {
        let starts = clamped_starts(m, step, 1, &from, &to)?;
        let array = m.array(step, 0)?;
        let tables = strided((0..to.len()).map(|i| (to[i], starts[i] * full[i], full[i])));
        m.charge(array.elements());
        m.set(step, Value::Array(pick(&array, &tables, &to)));
        Ok(())
    }))
}

fn dynamic_update_slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (dtype, from, to) = same_elements(c, op)?;
    let (element, size) = tensor_of(c, c.operand(op, 1)?)?;
    start_operands(c, op, 2, from.len())?;
    let inside = size.len() == from.len() && size.iter().zip(&from).all(|(size, from)| size <= from);
    if from != to || element != dtype || !inside {
        return Err(format!("{size:?} cannot replace a part of {from:?}").into());
    }
    let full = strides(&from);
    Ok(Box::new(move |m, step| {
        let starts = clamped_starts(m, step, 2, &from, &size)?;
        let (array, update) = (m.array(step, 0)?, m.array(step, 1)?);
        m.charge(array.elements());
        let (mut bytes, new, unit) = (array.all_bytes().to_vec(), update.all_bytes(), dtype.bytes());
        let tables = strided((0..size.len()).map(|i| (size[i], starts[i] * full[i], full[i])));
        let mut read = 0;
        for_each_row(&tables, |start, row| {
            let Some(&first) = row.first() else { return };
            let len = row.len() * unit;
            bytes[(start + first) * unit..][..len].copy_from_slice(&new[read..][..len]);
            read += len;
        });
        m.set(step, Value::Array(Array::new(dtype, &from, bytes)));
        Ok(())
    }))
}

//! Sorting, and the largest elements.

use std::cmp::Ordering;

use super::{Definition, pure, reduce::Body, tensor_of};
use crate::{
    interpret::{
        array::{Array, Dtype},
        machine::{Machine, Stop},
        ops::reshape::strides,
        program::{Compiler, Made},
        value::Value,
    },
    ir::Op,
    types::Type,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    pure("stablehlo.sort", &["dimension", "is_stable"], sort).any_results().regions(1),
    pure("chlo.top_k", &["k", "is_stable"], top_k).results(2),
];

/// Sorts lines of several tensors by a comparison of their elements; equal elements keep their order.
fn sort(c: &mut Compiler<'_>, op: &Op) -> Made {
    let count = op.results.len();
    c.arity(op, count, count)?;
    if count == 0 {
        return Err("it sorts nothing".into());
    }
    let (_, shape) = tensor_of(c, c.operand(op, 0)?)?;
    let mut scalars = Vec::new();
    for i in 0..count {
        let ty = c.operand(op, i)?;
        let (_, extents) = tensor_of(c, ty)?;
        if extents != shape || ty != c.result(op, i)? {
            return Err("operands have one shape, and results have their types".into());
        }
        let scalar = Type::tensor([], ty.element().clone());
        scalars.extend([scalar.clone(), scalar]);
    }
    let rank = shape.len() as i64;
    let dimension = match op.attributes.get("dimension") {
        Some(_) => c.integer_attribute(op, "dimension")?,
        None => -1,
    };
    let wrapped = if dimension < 0 { dimension.saturating_add(rank) } else { dimension };
    let Some(dimension) = usize::try_from(wrapped).ok().filter(|&d| d < shape.len()) else {
        return Err(format!("dimension {dimension} is outside rank {rank}").into());
    };
    let body = Body::new(c, &op.regions[0], &scalars, &[Type::tensor([], Type::I1)])?;
    let (extent, stride) = (shape[dimension], strides(&shape)[dimension]);
    Ok(Box::new(move |m, step| {
        let arrays = (0..count).map(|i| m.array(step, i)).collect::<Result<Vec<_>, _>>()?;
        let elements = arrays[0].elements();
        let mut sorted: Vec<usize> = (0..elements).collect();
        for start in (0..elements).filter(|i| i / stride % extent == 0) {
            let line: Vec<usize> = (0..extent).map(|i| start + i * stride).collect();
            let line = merge_sort(m, &body, &arrays, line)?;
            for (i, from) in line.into_iter().enumerate() {
                sorted[start + i * stride] = from;
            }
        }
        for (array, &slot) in arrays.iter().zip(&step.results) {
            let bytes = sorted.iter().flat_map(|&from| array.element_bytes(from).iter().copied()).collect();
            m.frame[slot as usize] = Value::Array(Array::new(array.dtype, &array.shape, bytes));
        }
        Ok(())
    }))
}

/// A stable sort whose comparison may fail.
fn merge_sort(
    m: &mut Machine<'_>,
    body: &Body,
    arrays: &[Array],
    line: Vec<usize>,
) -> Result<Vec<usize>, Stop> {
    let mut line = line;
    let mut width = 1;
    while width < line.len() {
        let mut next = Vec::with_capacity(line.len());
        for pair in line.chunks(2 * width) {
            let (mut a, mut b) = pair.split_at(width.min(pair.len()));
            while let (Some((&first, more_a)), Some((&second, more_b))) = (a.split_first(), b.split_first()) {
                let operands = arrays.iter().flat_map(|array| [array.element(second), array.element(first)]);
                let swaps = body.run(m, operands)?.first().is_some_and(|less| less.integer(0) != 0);
                if swaps {
                    next.push(second);
                    b = more_b;
                } else {
                    next.push(first);
                    a = more_a;
                }
            }
            next.extend_from_slice(a);
            next.extend_from_slice(b);
        }
        line = next;
        width *= 2;
    }
    Ok(line)
}

/// The `k` largest elements of each line of the last dimension, and their indices.
fn top_k(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 2)?;
    let (dtype, shape) = tensor_of(c, c.operand(op, 0)?)?;
    let (values, result) = tensor_of(c, c.result(op, 0)?)?;
    let (indices, index_shape) = tensor_of(c, c.result(op, 1)?)?;
    let k = usize::try_from(c.integer_attribute(op, "k")?).unwrap_or(usize::MAX);
    let Some((&extent, outer)) = shape.split_last() else { return Err("it takes at least a vector".into()) };
    let mut expected = outer.to_vec();
    expected.push(k);
    if k > extent || values != dtype || indices.is_float() || result != expected || index_shape != expected {
        return Err(format!("the {k} largest of {shape:?} do not have the shape {result:?}").into());
    }
    Ok(Box::new(move |m, step| {
        let array = m.array(step, 0)?;
        m.charge(array.elements() * 16);
        let order = ordering(&array, dtype);
        let mut picked = Vec::with_capacity(result.iter().product());
        for start in (0..array.elements()).step_by(extent.max(1)) {
            let mut line: Vec<usize> = (start..start + extent).collect();
            line.sort_by(|&a, &b| order(b, a));
            picked.extend(line.into_iter().take(k));
        }
        let bytes = picked.iter().flat_map(|&from| array.element_bytes(from).iter().copied()).collect();
        m.frame[step.results[0] as usize] = Value::Array(Array::new(dtype, &result, bytes));
        let places = picked.iter().map(|&from| (from % extent) as i64);
        m.frame[step.results[1] as usize] = Value::Array(Array::integers(indices, &result, places));
        Ok(())
    }))
}

fn ordering(array: &Array, dtype: Dtype) -> Box<dyn Fn(usize, usize) -> Ordering> {
    if dtype.is_float() {
        let values = array.all_floats();
        return Box::new(move |a, b| values[a].total_cmp(&values[b]));
    }
    let (values, signed) = (array.all_integers(), dtype.integer().1);
    Box::new(move |a, b| match signed {
        true => values[a].cmp(&values[b]),
        false => (values[a] as u64).cmp(&(values[b] as u64)),
    })
}

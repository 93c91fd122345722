//! Matmuls of the program around a kernel.

use super::{Definition, convert::enum_word, index::Numbers, pure, tensor_of};
use crate::{
    attribute::{Attr, DotDimensions},
    interpret::{
        array::{Array, Dtype},
        ask::not_modelled,
        ops::{
            matmul::{Precision, Product},
            reshape::strides,
        },
        places::Places,
        program::{Compiler, Made, Refusal},
        value::{Data, Value},
    },
    ir::Op,
    limits::PRODUCTS_PER_OPERATION,
    types::Type,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    pure("stablehlo.dot_general", &["dot_dimension_numbers", "precision_config", "algorithm"], dot_general),
    pure("stablehlo.dot", &["precision_config"], dot),
];

/// Precision requested for both operands of a matmul.
fn precision(op: &Op) -> Made<Precision> {
    let Some(config) = op.attributes.get("precision_config") else { return Ok(Precision::Bf16) };
    let Attr::Array(items) = config else { return Err(not_modelled("precision_config", config)) };
    let word = |item: &Attr| match enum_word(item).as_str() {
        "DEFAULT" => Ok(Precision::Bf16),
        "HIGH" => Ok(Precision::Bf16x3),
        "HIGHEST" => Ok(Precision::F32),
        _ => Err(not_modelled("precision_config", config)),
    };
    match items.iter().map(word).collect::<Made<Vec<_>>>()?[..] {
        [] => Ok(Precision::Bf16),
        [lhs, rhs] if lhs == rhs => Ok(lhs),
        _ => Err(not_modelled("precision_config", config)),
    }
}

/// Dimensions that are not used otherwise.
fn kept(ty: &Type, used: [&[usize]; 2]) -> Vec<usize> {
    (0..ty.shape().len()).filter(|d| !used.iter().any(|used| used.contains(d))).collect()
}

fn dot_general(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (lhs, rhs) = (c.operand(op, 0)?, c.operand(op, 1)?);
    let attr = c.attribute(op, "dot_dimension_numbers")?;
    let bad = || Refusal::from(format!("'dot_dimension_numbers' cannot be read: {attr:.120}"));
    let text = attr.to_string();
    let mut numbers = Numbers::read(&text, "dot").ok_or_else(bad)?;
    let [lhs_batch, rhs_batch, lhs_contracting, rhs_contracting] = [
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ]
    .map(|name| numbers.list(name));
    if !numbers.is_empty() {
        return Err(bad());
    }
    let dimensions = DotDimensions {
        lhs_kept: kept(lhs, [&lhs_contracting, &lhs_batch]),
        rhs_kept: kept(rhs, [&rhs_contracting, &rhs_batch]),
        lhs_contracting,
        rhs_contracting,
        lhs_batch,
        rhs_batch,
    };
    product(c, op, &dimensions)
}

/// Contracts the last dimension of the left operand with the first of the right one.
fn dot(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (lhs, rhs) = (c.operand(op, 0)?, c.operand(op, 1)?);
    let Some(last) = lhs.shape().len().checked_sub(1) else {
        return Err("it takes vectors or matrices".into());
    };
    let dimensions = DotDimensions {
        lhs_kept: (0..last).collect(),
        rhs_kept: (1..rhs.shape().len()).collect(),
        lhs_contracting: vec![last],
        rhs_contracting: vec![0],
        lhs_batch: Vec::new(),
        rhs_batch: Vec::new(),
    };
    product(c, op, &dimensions)
}

fn product(c: &mut Compiler<'_>, op: &Op, dimensions: &DotDimensions) -> Made {
    let (lhs, rhs, ty) = (c.ty(op.operands[0]), c.ty(op.operands[1]), c.ty(op.results[0]));
    let ((left, lhs_shape), (right, rhs_shape)) = (tensor_of(c, lhs)?, tensor_of(c, rhs)?);
    let (dtype, shape) = tensor_of(c, ty)?;
    let product = Product::new(&lhs_shape, &rhs_shape, dimensions)?;
    if shape != product.shape {
        return Err(format!("the matmul of {lhs} and {rhs} does not give {ty}").into());
    }
    let floats = [left, right].map(|dtype| matches!(dtype, Dtype::Float(_)));
    if floats == [true, true] && matches!(dtype, Dtype::Float(_)) {
        let precision = precision(op)?.of_operands([lhs, rhs]);
        if let Some(note) = precision.note() {
            c.note(op, note);
        }
        return Ok(Box::new(move |m, step| {
            let (lhs, rhs) = (m.array(step, 0)?, m.array(step, 1)?);
            let data = |array: &Array| Data::floats(array.all_floats().iter().map(|&v| v as f32).collect());
            let mut out = vec![0.0; shape.iter().product()];
            m.count_operations(product.products() / PRODUCTS_PER_OPERATION);
            precision.add_product(&product, m.options.engine, [data(&lhs), data(&rhs)], &mut out);
            m.set(step, Value::Array(Array::floats(dtype, &shape, out.into_iter().map(f64::from))));
            Ok(())
        }));
    }
    if dtype.is_float() != left.is_float() || dtype.is_float() != right.is_float() {
        return Err(Refusal::NotModelled(format!(
            "a matmul of {left} and {right} to {dtype} is not supported"
        )));
    }
    let (lhs_places, rhs_places) = (
        ordered(&lhs_shape, [&dimensions.lhs_batch, &dimensions.lhs_kept, &dimensions.lhs_contracting]),
        ordered(&rhs_shape, [&dimensions.rhs_batch, &dimensions.rhs_kept, &dimensions.rhs_contracting]),
    );
    Ok(Box::new(move |m, step| {
        let (lhs, rhs) = (m.array(step, 0)?, m.array(step, 1)?);
        m.count_operations(product.products() / 8);
        m.check_budget(step)?;
        let places = [lhs_places.list(), rhs_places.list()];
        let result = match dtype.is_float() {
            true => {
                let values =
                    sums(&product, [lhs.all_floats(), rhs.all_floats()], places, 0.0, |s, a, b| s + a * b);
                Array::floats(dtype, &shape, values.into_iter())
            }
            false => {
                let add = |s: i64, a: i64, b: i64| s.wrapping_add(a.wrapping_mul(b));
                let values = sums(&product, [lhs.all_integers(), rhs.all_integers()], places, 0, add);
                Array::integers(dtype, &shape, values.into_iter())
            }
        };
        m.set(step, Value::Array(result));
        Ok(())
    }))
}

/// Places of an operand in the order batch, non-contracting, contracting.
fn ordered(shape: &[usize], dims: [&Vec<usize>; 3]) -> Places {
    let full = strides(shape);
    let order: Vec<usize> = dims.into_iter().flatten().copied().collect();
    let (shape, steps): (Vec<_>, Vec<_>) = order.iter().map(|&d| (shape[d], full[d])).unzip();
    Places::new(&shape, &steps, 0)
}

/// Sums of products, one per element of the result.
fn sums<T: Copy>(
    product: &Product,
    [lhs, rhs]: [Vec<T>; 2],
    [lhs_places, rhs_places]: [Vec<usize>; 2],
    zero: T,
    add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let Product { batch, m, n, k, .. } = *product;
    let mut sums = Vec::with_capacity(batch * m * n);
    for b in 0..batch {
        for row in 0..m {
            for column in 0..n {
                let (left, right) = (&lhs_places[(b * m + row) * k..], &rhs_places[(b * n + column) * k..]);
                let pairs = left.iter().zip(right).take(k);
                sums.push(pairs.fold(zero, |sum, (&l, &r)| add(sum, lhs[l], rhs[r])));
            }
        }
    }
    sums
}

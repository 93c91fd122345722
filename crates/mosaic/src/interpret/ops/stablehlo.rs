//! StableHLO operations around a kernel: padding, scales, layouts, and the call itself.

use std::rc::Rc;

use super::{
    Definition, effect,
    float::{maximum, minimum},
    integer::is_scalar,
    matmul::{Precision, Product},
    pure,
    reshape::{all_different, strides},
};
use crate::{
    attribute::{Attr, DotDimensions},
    interpret::{
        ask::not_modelled,
        element::{Element, round_to},
        embedded::{KernelCall, is_kernel_call},
        kernel::Kernel,
        machine::Stop,
        naming::{ALLOCATION_NAMES, ARGUMENT_NAMES},
        places::Places,
        program::{Compiler, Made},
        tensor::Tensor,
        value::{Data, Value, map_floats, zip_floats},
    },
    ir::{Op, Region},
    limits::PRODUCTS_PER_OPERATION,
    types::Type,
};

pub(super) const OPS: &[Definition] = &[
    pure("stablehlo.constant", &["value"], constant),
    pure("stablehlo.convert", &[], convert),
    pure("stablehlo.reshape", &[], reshape),
    pure("stablehlo.transpose", &["permutation"], transpose),
    pure("stablehlo.broadcast_in_dim", &["broadcast_dimensions"], broadcast),
    pure("stablehlo.slice", &["start_indices", "limit_indices", "strides"], slice),
    pure("stablehlo.pad", &["edge_padding_low", "edge_padding_high", "interior_padding"], pad),
    pure("stablehlo.add", &[], |c, op| binary(c, op, |a, b| a + b)),
    pure("stablehlo.subtract", &[], |c, op| binary(c, op, |a, b| a - b)),
    pure("stablehlo.multiply", &[], |c, op| binary(c, op, |a, b| a * b)),
    pure("stablehlo.divide", &[], |c, op| binary(c, op, |a, b| a / b)),
    pure("stablehlo.maximum", &[], |c, op| binary(c, op, maximum)),
    pure("stablehlo.minimum", &[], |c, op| binary(c, op, minimum)),
    pure("stablehlo.abs", &[], abs),
    pure("stablehlo.reduce", &["dimensions"], reduce).regions(1),
    pure("stablehlo.dot_general", &["dot_dimension_numbers", "precision_config"], dot),
    effect("stablehlo.custom_call", CALL_ATTRIBUTES, custom_call).any_results(),
];

/// Call attributes. Layouts do not affect values.
const CALL_ATTRIBUTES: &[&str] = &[
    "call_target_name",
    "backend_config",
    "kernel_name",
    ARGUMENT_NAMES,
    ALLOCATION_NAMES,
    "operand_layouts",
    "result_layouts",
    "api_version",
    "mhlo.frontend_attributes",
    "called_computations",
    "output_operand_aliases",
    "has_side_effect",
];

/// Shapes of the first operand and the result, which must have one element type.
fn shapes(c: &Compiler<'_>, op: &Op) -> Made<(Vec<usize>, Vec<usize>)> {
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    c.element(from)?;
    match from.element() == to.element() && !is_scalar(from) && !is_scalar(to) {
        true => Ok((c.vector_shape(from)?, c.vector_shape(to)?)),
        false => Err(format!("{from} cannot become {to}").into()),
    }
}

fn constant(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let ty = c.result(op, 0)?;
    let value = super::convert::constant_value(c, c.attribute(op, "value")?, ty)?;
    Ok(Box::new(move |m, step| {
        m.set(step, value.clone());
        Ok(())
    }))
}

fn convert(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (narrow, float) = (c.float(from)?, c.float(to)?);
    if from.shape() != to.shape() {
        return Err(format!("{from} is not converted to {to}").into());
    }
    let exact = narrow.bits() < float.bits();
    c.vector_shape(from)?;
    c.vector_shape(to)?;
    Ok(Box::new(move |m, step| {
        let data = m.vector(step, 0);
        let data = if exact { data } else { map_floats(data, |value| round_to(float, value)) };
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn reshape(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = shapes(c, op)?;
    if from.iter().product::<usize>() != to.iter().product::<usize>() {
        return Err("the shapes do not have the same number of elements".into());
    }
    Ok(Box::new(|m, step| {
        let value = m.take(step, 0);
        m.set(step, value);
        Ok(())
    }))
}

/// Gathers the result from these positions of the operand.
fn picks(places: Places) -> Made {
    Ok(Box::new(move |m, step| {
        let data = places.gather(&m.vector(step, 0));
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn transpose(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = shapes(c, op)?;
    let order = c.dimensions_attribute(op, "permutation", from.len())?;
    if order.iter().map(|&dimension| from[dimension]).ne(to.iter().copied()) || !all_different(&order) {
        return Err(format!("transposing {from:?} by {order:?} does not give {to:?}").into());
    }
    let full = strides(&from);
    picks(Places::new(&to, &order.iter().map(|&dimension| full[dimension]).collect::<Vec<_>>(), 0))
}

fn broadcast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = shapes(c, op)?;
    let dimensions = c.dimensions_attribute(op, "broadcast_dimensions", to.len())?;
    let fits = dimensions.len() == from.len()
        && all_different(&dimensions)
        && dimensions.iter().zip(&from).all(|(&dimension, &extent)| extent == to[dimension] || extent == 1);
    if !fits {
        return Err(format!("{from:?} cannot be broadcast to {to:?} by {dimensions:?}").into());
    }
    if from.iter().product::<usize>() == 1 {
        return Ok(Box::new(|m, step| {
            let data = match m.vector(step, 0) {
                Data::Floats(values) => Data::Float(values[0]),
                Data::Integers(values) => Data::Integer(values[0]),
                splat => splat,
            };
            m.set(step, Value::Vector(data));
            Ok(())
        }));
    }
    let full = strides(&from);
    let mut steps = vec![0; to.len()];
    for (i, &dimension) in dimensions.iter().enumerate() {
        steps[dimension] = if from[i] == 1 { 0 } else { full[i] };
    }
    picks(Places::new(&to, &steps, 0))
}

fn slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = shapes(c, op)?;
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
    let start = full.iter().zip(&starts).map(|(stride, &start)| stride * start as usize).sum();
    let steps: Vec<usize> = full.iter().zip(&by).map(|(stride, &by)| stride * by as usize).collect();
    picks(Places::new(&to, &steps, start))
}

/// The scalar that fills padding.
fn one_value(c: &Compiler<'_>, op: &Op) -> Made<()> {
    let (value, result) = (c.operand(op, 1)?, c.result(op, 0)?);
    match value.element() == result.element() && c.vector_shape(value)?.is_empty() {
        true => Ok(()),
        false => Err(format!("{value} is not a scalar of the element type of {result}").into()),
    }
}

fn pad(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (from, to) = shapes(c, op)?;
    c.float(c.result(op, 0)?)?;
    one_value(c, op)?;
    let list = |name| c.integers_attribute(op, name);
    let (low, high, interior) =
        (list("edge_padding_low")?, list("edge_padding_high")?, list("interior_padding")?);
    let fits = [&low, &high, &interior].iter().all(|list| list.len() == from.len())
        && to.len() == from.len()
        && (0..from.len()).all(|i| {
            let inside = low[i] >= 0 && high[i] >= 0 && interior[i] == 0;
            let padded = (low[i] as usize).saturating_add(from[i]).saturating_add(high[i] as usize);
            inside && padded == to[i]
        });
    if !fits {
        return Err(format!(
            "padding {from:?} by {low:?} and {high:?} does not give {to:?}; interior padding is not supported"
        )
        .into());
    }
    let full = strides(&to);
    let start = full.iter().zip(&low).map(|(stride, &low)| stride * low as usize).sum();
    let places = Places::new(&from, &full, start);
    let (count, elements) = (to.iter().product(), from.iter().product());
    Ok(Box::new(move |m, step| {
        let (data, fill) = (m.vector(step, 0).to_floats(elements), m.vector(step, 1).to_floats(1));
        let mut padded = vec![fill[0]; count];
        let mut values = data.iter();
        places.for_each(|place| padded[place] = values.next().copied().unwrap_or(fill[0]));
        m.set(step, Value::Vector(Data::floats(padded)));
        Ok(())
    }))
}

fn binary(c: &mut Compiler<'_>, op: &Op, f: impl Fn(f32, f32) -> f32 + Copy + 'static) -> Made {
    let ty = super::integer::one_type(c, op, 2)?;
    c.vector_shape(ty)?;
    let float = c.float(ty)?;
    Ok(Box::new(move |m, step| {
        let (a, b) = (m.vector(step, 0), m.vector(step, 1));
        m.set(step, Value::Vector(zip_floats(a, b, |a, b| round_to(float, f(a, b)))));
        Ok(())
    }))
}

fn abs(c: &mut Compiler<'_>, op: &Op) -> Made {
    let ty = super::integer::one_type(c, op, 1)?;
    c.vector_shape(ty)?;
    c.float(ty)?;
    Ok(Box::new(|m, step| {
        let data = m.vector(step, 0);
        m.set(step, Value::Vector(map_floats(data, f32::abs)));
        Ok(())
    }))
}

/// Reduces along dimensions by the operation in its region.
fn reduce(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (from, to) = shapes(c, op)?;
    let float = c.float(c.result(op, 0)?)?;
    one_value(c, op)?;
    let dimensions = c.dimensions_attribute(op, "dimensions", from.len())?;
    let fold: fn(f32, f32) -> f32 = match folding(&op.regions[0]) {
        Some("stablehlo.maximum") => maximum,
        Some("stablehlo.minimum") => minimum,
        Some("stablehlo.add") => |a, b| a + b,
        Some("stablehlo.multiply") => |a, b| a * b,
        _ => {
            return Err(
                "only a reduction by one add, multiply, maximum or minimum of the block's two arguments is \
                        supported"
                    .into(),
            );
        }
    };
    let full = strides(&from);
    let pick = |gone: bool| -> (Vec<usize>, Vec<usize>) {
        (0..from.len()).filter(|i| dimensions.contains(i) == gone).map(|i| (from[i], full[i])).unzip()
    };
    let ((kept, kept_strides), (gone, gone_strides)) = (pick(false), pick(true));
    if kept != to {
        return Err(format!("reducing {from:?} along {dimensions:?} does not give {to:?}").into());
    }
    let starts = Places::new(&kept, &kept_strides, 0);
    let places = Places::new(&gone, &gone_strides, 0);
    let elements = from.iter().product();
    Ok(Box::new(move |m, step| {
        let (data, initial) = (m.vector(step, 0).to_floats(elements), m.vector(step, 1).to_floats(1)[0]);
        let (starts, places) = (starts.list(), places.list());
        let folded = starts.iter().map(|start| {
            places.iter().fold(initial, |all, place| round_to(float, fold(all, data[start + place])))
        });
        let folded = Data::floats(folded.collect());
        m.set(step, Value::Vector(folded));
        Ok(())
    }))
}

/// The binary operation that a region applies to its two arguments and returns, if it does nothing else.
fn folding(region: &Region) -> Option<&str> {
    let [fold, last] = &region.ops[..] else { return None };
    let bare = |op: &Op| op.attributes.is_empty() && op.regions.is_empty();
    let (arguments, operands) = (&region.arguments[..], &fold.operands[..]);
    let of_arguments = arguments.len() == 2
        && operands.len() == 2
        && arguments.iter().all(|argument| operands.contains(argument));
    let returned = last.name == "stablehlo.return"
        && fold.results.len() == 1
        && last.operands == fold.results
        && last.results.is_empty();
    (of_arguments && returned && bare(fold) && bare(last)).then_some(fold.name.as_ref())
}

/// The lists of `#stablehlo.dot<name = [1, 2], ...>` in the order of `names`, if it holds nothing else.
fn dimension_lists<const N: usize>(text: &str, names: [&str; N]) -> Option<[Vec<usize>; N]> {
    let mut lists = [const { None }; N];
    let mut rest = text.strip_prefix("#stablehlo.dot<")?.strip_suffix('>')?.trim();
    while !rest.is_empty() {
        let (name, tail) = rest.split_once('=')?;
        let (list, tail) = tail.trim_start().strip_prefix('[')?.split_once(']')?;
        let numbers = list.split(',').map(str::trim).filter(|number| !number.is_empty());
        let numbers: Option<Vec<usize>> = numbers.map(|number| number.parse().ok()).collect();
        let place = names.iter().position(|known| *known == name.trim())?;
        if lists[place].replace(numbers?).is_some() {
            return None;
        }
        let tail = tail.trim_start();
        rest = if tail.is_empty() { tail } else { tail.strip_prefix(',')?.trim_start() };
    }
    Some(lists.map(Option::unwrap_or_default))
}

/// Precision requested for both operands of a matmul.
fn precision(op: &Op) -> Made<Precision> {
    let Some(config) = op.attributes.get("precision_config") else { return Ok(Precision::Bf16) };
    let Attr::Array(items) = config else { return Err(not_modelled("precision_config", config)) };
    let word = |item: &Attr| match item.to_string().trim_end_matches('>').rsplit([' ', '<']).next() {
        Some("DEFAULT") => Ok(Precision::Bf16),
        Some("HIGH") => Ok(Precision::Bf16x3),
        Some("HIGHEST") => Ok(Precision::F32),
        _ => Err(not_modelled("precision_config", config)),
    };
    match items.iter().map(word).collect::<Made<Vec<_>>>()?[..] {
        [] => Ok(Precision::Bf16),
        [lhs, rhs] if lhs == rhs => Ok(lhs),
        _ => Err(not_modelled("precision_config", config)),
    }
}

fn dot(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (lhs, rhs, result) = (c.ty(op.operands[0]), c.ty(op.operands[1]), c.ty(op.results[0]));
    let float = c.float(result)?;
    c.float(lhs)?;
    c.float(rhs)?;
    let precision = precision(op)?.of_operands([lhs, rhs]);
    if let Some(note) = precision.note() {
        c.note(op, note);
    }
    let numbers = c.attribute(op, "dot_dimension_numbers")?;
    let names = [
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ];
    let [lhs_batch, rhs_batch, lhs_contracting, rhs_contracting] =
        dimension_lists(&numbers.to_string(), names)
            .ok_or_else(|| not_modelled("dot_dimension_numbers", numbers))?;
    let kept = |ty: &Type, used: [&[usize]; 2]| -> Vec<usize> {
        (0..ty.shape().len()).filter(|d| !used.iter().any(|used| used.contains(d))).collect()
    };
    let dot = DotDimensions {
        lhs_kept: kept(lhs, [&lhs_contracting, &lhs_batch]),
        rhs_kept: kept(rhs, [&rhs_contracting, &rhs_batch]),
        lhs_contracting,
        rhs_contracting,
        lhs_batch,
        rhs_batch,
    };
    let product = Product::new(&c.vector_shape(lhs)?, &c.vector_shape(rhs)?, &dot)?;
    let results = product.batch * product.m * product.n;
    if c.vector_shape(result)? != product.shape {
        return Err(format!("the matmul of {lhs} and {rhs} does not give {result}").into());
    }
    Ok(Box::new(move |m, step| {
        let (lhs, rhs) = (m.vector(step, 0), m.vector(step, 1));
        let mut out = vec![0.0; results];
        m.count_operations(product.products() / PRODUCTS_PER_OPERATION);
        precision.add_product(&product, m.options.engine, [lhs, rhs], &mut out);
        m.set(step, Value::Vector(map_floats(Data::floats(out), |value| round_to(float, value))));
        Ok(())
    }))
}

/// Runs the kernel in the call's configuration.
fn custom_call(c: &mut Compiler<'_>, op: &Op) -> Made {
    if !is_kernel_call(op) {
        let target = c.attribute(op, "call_target_name")?;
        return Err(format!("the call target is {target}; only tpu_custom_call is supported").into());
    }
    let empty = |attr: &Attr| matches!(attr, Attr::Array(items) if items.is_empty());
    if let Some(attr) = op.attributes.get("called_computations").filter(|attr| !empty(attr)) {
        return Err(not_modelled("called_computations", attr));
    }
    let call = KernelCall::of(op)?;
    let (kernel, name) = (Kernel::new(&call.module)?, Rc::<str>::from(c.kernel_name(op)));
    let aliases = call.aliases;
    let types = |values: &[crate::ir::Value]| -> Made<Vec<(Element, Vec<usize>)>> {
        values.iter().map(|&value| Ok((c.element(c.ty(value))?, c.vector_shape(c.ty(value))?))).collect()
    };
    let (operands, results) = (types(&op.operands)?, types(&op.results)?);
    Ok(Box::new(move |m, step| {
        let tensor = |(i, (element, shape)): (usize, &(Element, Vec<usize>))| match m.value(step, i) {
            Value::Vector(data) => Tensor::from_data(*element, shape, data),
            other => unreachable!("a tensor, not {other:?}"),
        };
        let inputs: Vec<Tensor> = operands.iter().enumerate().map(tensor).collect();
        let shapes = results.iter().map(|(_, shape)| shape.clone()).collect();
        let max_operations = m.options.max_operations.saturating_sub(m.operations());
        let options = crate::interpret::Options {
            output_shapes: Some(shapes),
            aliases: aliases.clone(),
            max_operations,
            max_bytes: Some(m.budget.bytes_left()),
            ..m.options.clone()
        };
        let ran = kernel.run(&inputs, &options, &mut m.link);
        let outcome = ran.map_err(|error| Stop::Fault(None, error.to_string()))?;
        m.count_operations(outcome.operations);
        if !outcome.completed {
            m.kernels.push((name.clone(), outcome));
            return Err(Stop::Halted);
        }
        let typed = outcome.outputs.iter().map(|output| (output.element, output.shape.clone()));
        if typed.ne(results.iter().cloned()) {
            return Err(Stop::Fault(step.place, "the kernel's results are not those of the call".to_owned()));
        }
        for (&slot, output) in step.results.iter().zip(&outcome.outputs) {
            m.frame[slot as usize] = Value::Vector(output.to_data());
        }
        m.kernels.push((name.clone(), outcome));
        Ok(())
    }))
}

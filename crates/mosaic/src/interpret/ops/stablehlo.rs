//! The operations of the module around a kernel: padding, scales, layouts, and the call itself.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    Maker,
    float::{maximum, minimum},
    integer::is_scalar,
    matmul::Product,
    reshape::{strided, strides},
};
use crate::{
    attribute::{Attr, DotDimensions},
    interpret::{
        element::{Element, round_to},
        kernel::Kernel,
        machine::Stop,
        program::{Compiler, Made},
        tensor::Tensor,
        value::{Data, Value, map_floats, zip_floats},
    },
    ir::Op,
    parse::parse,
    types::Type,
};

pub(super) const OPS: &[(&str, Maker)] = &[
    ("stablehlo.constant", constant),
    ("stablehlo.convert", convert),
    ("stablehlo.reshape", reshape),
    ("stablehlo.transpose", transpose),
    ("stablehlo.broadcast_in_dim", broadcast),
    ("stablehlo.slice", slice),
    ("stablehlo.pad", pad),
    ("stablehlo.add", |c, op| binary(c, op, |a, b| a + b)),
    ("stablehlo.subtract", |c, op| binary(c, op, |a, b| a - b)),
    ("stablehlo.multiply", |c, op| binary(c, op, |a, b| a * b)),
    ("stablehlo.divide", |c, op| binary(c, op, |a, b| a / b)),
    ("stablehlo.maximum", |c, op| binary(c, op, maximum)),
    ("stablehlo.minimum", |c, op| binary(c, op, minimum)),
    ("stablehlo.abs", abs),
    ("stablehlo.reduce", reduce),
    ("stablehlo.dot_general", dot),
    ("stablehlo.custom_call", custom_call),
];

/// Shapes of the first operand and of the result, which hold the same.
fn shapes(c: &Compiler<'_>, op: &Op) -> Made<(Vec<usize>, Vec<usize>)> {
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    c.element(from)?;
    match from.element() == to.element() && !is_scalar(from) && !is_scalar(to) {
        true => Ok((c.vector_shape(from)?, c.vector_shape(to)?)),
        false => Err(format!("{from} does not become {to}").into()),
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

/// The result takes its elements from these places of the operand.
fn picks(places: Vec<usize>) -> Made {
    Ok(Box::new(move |m, step| {
        let data = m.vector(step, 0).gather(places.iter().copied());
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn transpose(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = shapes(c, op)?;
    let order = c.dimensions_attribute(op, "permutation", from.len())?;
    if order.iter().map(|&dimension| from[dimension]).ne(to.iter().copied()) {
        return Err(format!("{from:?} in the order {order:?} is not {to:?}").into());
    }
    let full = strides(&from);
    picks(strided(&to, &order.iter().map(|&dimension| full[dimension]).collect::<Vec<_>>(), 0))
}

fn broadcast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = shapes(c, op)?;
    let dimensions = c.dimensions_attribute(op, "broadcast_dimensions", to.len())?;
    let fits = dimensions.len() == from.len()
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
    picks(strided(&to, &steps, 0))
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
            inside && (limits[i] - starts[i] + by[i] - 1) / by[i] == to[i] as i64
        });
    if !fits {
        return Err(format!("{from:?} has no part {to:?} from {starts:?} to {limits:?}").into());
    }
    let full = strides(&from);
    let start = full.iter().zip(&starts).map(|(stride, &start)| stride * start as usize).sum();
    let steps: Vec<usize> = full.iter().zip(&by).map(|(stride, &by)| stride * by as usize).collect();
    picks(strided(&to, &steps, start))
}

fn pad(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (from, to) = shapes(c, op)?;
    c.float(c.result(op, 0)?)?;
    let list = |name| c.integers_attribute(op, name);
    let (low, high, interior) =
        (list("edge_padding_low")?, list("edge_padding_high")?, list("interior_padding")?);
    let fits = [&low, &high, &interior].iter().all(|list| list.len() == from.len())
        && to.len() == from.len()
        && (0..from.len()).all(|i| {
            let inside = low[i] >= 0 && high[i] >= 0 && interior[i] == 0;
            inside && low[i] as usize + from[i] + high[i] as usize == to[i]
        });
    if !fits {
        return Err(
            format!("{from:?} padded by {low:?} and {high:?} is not {to:?}, or it is padded inside").into()
        );
    }
    let full = strides(&to);
    let start = full.iter().zip(&low).map(|(stride, &low)| stride * low as usize).sum();
    let places = strided(&from, &full, start);
    let (count, elements) = (to.iter().product(), from.iter().product());
    Ok(Box::new(move |m, step| {
        let (data, fill) = (m.vector(step, 0).to_floats(elements), m.vector(step, 1).to_floats(1));
        let mut padded = vec![fill[0]; count];
        places.iter().zip(data.iter()).for_each(|(&place, &value)| padded[place] = value);
        m.set(step, Value::Vector(Data::floats(padded)));
        Ok(())
    }))
}

fn binary(c: &mut Compiler<'_>, op: &Op, f: impl Fn(f32, f32) -> f32 + Copy + 'static) -> Made {
    let ty = super::integer::one_type(c, op, 2)?;
    let float = c.float(ty)?;
    Ok(Box::new(move |m, step| {
        let (a, b) = (m.vector(step, 0), m.vector(step, 1));
        m.set(step, Value::Vector(zip_floats(a, b, |a, b| round_to(float, f(a, b)))));
        Ok(())
    }))
}

fn abs(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.float(super::integer::one_type(c, op, 1)?)?;
    Ok(Box::new(|m, step| {
        let data = m.vector(step, 0);
        m.set(step, Value::Vector(map_floats(data, f32::abs)));
        Ok(())
    }))
}

/// Folds along dimensions by the one operation in its region.
fn reduce(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (from, to) = shapes(c, op)?;
    let float = c.float(c.result(op, 0)?)?;
    let dimensions = c.dimensions_attribute(op, "dimensions", from.len())?;
    let folds = op.regions.first().and_then(|region| region.ops.first()).map(|op| op.name.as_ref());
    let fold: fn(f32, f32) -> f32 = match (folds, op.regions.first().map_or(0, |region| region.ops.len())) {
        (Some("stablehlo.maximum"), 2) => maximum,
        (Some("stablehlo.minimum"), 2) => minimum,
        (Some("stablehlo.add"), 2) => |a, b| a + b,
        (Some("stablehlo.multiply"), 2) => |a, b| a * b,
        _ => return Err("only a reduction by one add, multiply, maximum or minimum is supported".into()),
    };
    let full = strides(&from);
    let pick = |gone: bool| -> (Vec<usize>, Vec<usize>) {
        (0..from.len()).filter(|i| dimensions.contains(i) == gone).map(|i| (from[i], full[i])).unzip()
    };
    let ((kept, kept_strides), (gone, gone_strides)) = (pick(false), pick(true));
    if kept != to {
        return Err(format!("{from:?} along {dimensions:?} does not give {to:?}").into());
    }
    let starts = strided(&kept, &kept_strides, 0);
    let places = strided(&gone, &gone_strides, 0);
    let elements = from.iter().product();
    Ok(Box::new(move |m, step| {
        let (data, initial) = (m.vector(step, 0).to_floats(elements), m.vector(step, 1).to_floats(1)[0]);
        let folded = starts.iter().map(|start| {
            places.iter().fold(initial, |all, place| round_to(float, fold(all, data[start + place])))
        });
        let folded = Data::floats(folded.collect());
        m.set(step, Value::Vector(folded));
        Ok(())
    }))
}

/// The numbers of `name = [1, 2]` in an attribute that is kept as text.
fn dimensions_in(text: &str, name: &str) -> Vec<usize> {
    let list = text.split_once(&format!("{name} = [")).and_then(|(_, rest)| rest.split_once(']'));
    let numbers = list.map_or("", |(list, _)| list).split(',');
    numbers.filter_map(|number| number.trim().parse().ok()).collect()
}

fn dot(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (lhs, rhs, result) = (c.operand(op, 0)?, c.operand(op, 1)?, c.result(op, 0)?);
    let float = c.float(result)?;
    c.float(lhs)?;
    c.float(rhs)?;
    let text = c.attribute(op, "dot_dimension_numbers")?.to_string();
    let list = |name: &str| dimensions_in(&text, name);
    let (lhs_contracting, lhs_batch) = (list("lhs_contracting_dimensions"), list("lhs_batching_dimensions"));
    let (rhs_contracting, rhs_batch) = (list("rhs_contracting_dimensions"), list("rhs_batching_dimensions"));
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
    if results != c.vector_shape(result)?.iter().product::<usize>() {
        return Err(format!("the product of {lhs} and {rhs} is not {result}").into());
    }
    Ok(Box::new(move |m, step| {
        let (lhs, rhs) = (m.vector(step, 0), m.vector(step, 1));
        let mut out = vec![0.0; results];
        product.add_floats(m.options.engine, &lhs, &rhs, &mut out);
        m.set(step, Value::Vector(map_floats(Data::floats(out), |value| round_to(float, value))));
        Ok(())
    }))
}

/// Runs the kernel whose text is in the call's configuration.
fn custom_call(c: &mut Compiler<'_>, op: &Op) -> Made {
    match c.attribute(op, "call_target_name")? {
        Attr::String(target) if target == "tpu_custom_call" => {}
        other => return Err(format!("the call target is {other}; only tpu_custom_call is supported").into()),
    }
    let Attr::String(configuration) = c.attribute(op, "backend_config")? else {
        return Err("the attribute 'backend_config' is no text".into());
    };
    let text = kernel_text(configuration)?;
    let module = parse(&text).map_err(|error| format!("the kernel in the call's configuration: {error}"))?;
    let kernel = Kernel::new(&module)?;
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
        let options = crate::interpret::Options { output_shapes: Some(shapes), ..m.options.clone() };
        let outcome = kernel.run(&inputs, &options).map_err(|error| Stop::Fault(None, error.to_string()))?;
        let typed = outcome.outputs.iter().map(|output| (output.element, output.shape.clone()));
        if typed.ne(results.iter().cloned()) {
            return Err(Stop::Fault(step.place, "the kernel's results are not those of the call".to_owned()));
        }
        for (&slot, output) in step.results.iter().zip(&outcome.outputs) {
            m.frame[slot as usize] = Value::Vector(output.to_data());
        }
        m.kernels.push(outcome);
        Ok(())
    }))
}

/// The text of the kernel that a call runs.
pub(in crate::interpret) fn embedded_text(op: &Op) -> Option<String> {
    match op.attributes.get("backend_config") {
        Some(Attr::String(configuration)) => kernel_text(configuration).ok(),
        _ => None,
    }
}

/// The text of the kernel in a call's configuration.
fn kernel_text(configuration: &str) -> Made<String> {
    let json: serde_json::Value =
        serde_json::from_str(configuration).map_err(|error| format!("backend_config is no JSON: {error}"))?;
    let config = &json["custom_call_config"];
    let Some(body) = config["body"].as_str() else {
        return Err("backend_config has no custom_call_config.body".into());
    };
    let bytes = STANDARD.decode(body).map_err(|error| format!("the kernel's body is no base64: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "the kernel's body is bytecode; only text is supported".into())
}

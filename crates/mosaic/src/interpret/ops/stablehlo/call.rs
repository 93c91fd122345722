//! Custom calls: kernels, and annotations that change nothing.

use std::sync::Arc;

use super::{Definition, array_op, effect, same_types, tensor_of};
use crate::{
    attribute::Attr,
    interpret::{
        array::{Array, Dtype},
        ask::not_modelled,
        element::Element,
        embedded::{KernelCall, call_target, is_kernel_call},
        kernel::Kernel,
        machine::{Machine, Stop},
        naming::{ALLOCATION_NAMES, ARGUMENT_NAMES},
        program::{Compiler, Made, Refusal, Step, Unrunnable},
        tensor::Tensor,
        value::Value,
    },
    ir::Op,
};

pub(in crate::interpret) const OPS: &[Definition] =
    &[effect("stablehlo.custom_call", ATTRIBUTES, custom_call).any_results()];

/// Call attributes. Layouts do not affect values.
const ATTRIBUTES: &[&str] = &[
    "call_target_name",
    "backend_config",
    "kernel_name",
    ARGUMENT_NAMES,
    ALLOCATION_NAMES,
    "operand_layouts",
    "result_layouts",
    "api_version",
    "mhlo.frontend_attributes",
    "mhlo.sharding",
    "sdy.sharding",
    "called_computations",
    "output_operand_aliases",
    "has_side_effect",
];

/// Targets that give their operand back: they tell the compiler about sharding, layout or memory.
const ANNOTATIONS: [&str; 12] = [
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    "LayoutConstraint",
    "annotate_device_placement",
    "MoveToDevice",
    "MoveToHost",
    "PinToDevice",
    "PinToVmem",
];

fn custom_call(c: &mut Compiler<'_>, op: &Op) -> Made {
    match call_target(op) {
        _ if is_kernel_call(op) => kernel_call(c, op),
        Some(target) if ANNOTATIONS.contains(&target) => match same_types(c, op, 1) {
            Ok(_) => array_op(1, |arrays| arrays[0].clone()),
            Err(_) => Err(Refusal::NotModelled(format!(
                "'{target}' divides a tensor among devices in an older way: lower it again with \
                 jax.config.update(\"jax_use_shardy_partitioner\", True)"
            ))),
        },
        Some("AllocateBuffer") => {
            c.arity(op, 0, 1)?;
            let (dtype, shape) = tensor_of(c, c.result(op, 0)?)?;
            // Nothing has written it: NaN, as memory is before a kernel runs.
            let poison = if dtype == Dtype::Bool { 1 } else { Element::POISON };
            array_op(0, move |_| Array::new(dtype, &shape, vec![poison; dtype.bytes()]))
        }
        Some(target) => {
            let message = format!("the call target is \"{target:.80}\"; only tpu_custom_call is supported");
            Err(Refusal::NotModelled(message))
        }
        None => Err("attribute 'call_target_name' is not a string".into()),
    }
}

/// Runs the kernel in the call's configuration.
fn kernel_call(c: &mut Compiler<'_>, op: &Op) -> Made {
    let empty = |attr: &Attr| matches!(attr, Attr::Array(items) if items.is_empty());
    if let Some(attr) = op.attributes.get("called_computations").filter(|attr| !empty(attr)) {
        return Err(not_modelled("called_computations", attr));
    }
    let call = KernelCall::of(op)?;
    let name = Arc::<str>::from(c.kernel_name(op));
    let kernel = Kernel::new(&call.module)
        .map_err(|why| Unrunnable::InKernel { name: name.to_string(), why: Box::new(why) })?;
    let aliases = call.aliases;
    let vmem_limit = call.vmem_limit.and_then(|bytes| usize::try_from(bytes).ok());
    let elements = |values: &[crate::ir::Value]| -> Made<Vec<(Element, Vec<usize>)>> {
        values.iter().map(|&value| Ok((c.element(c.ty(value))?, tensor_of(c, c.ty(value))?.1))).collect()
    };
    let (operands, results) = (elements(&op.operands)?, elements(&op.results)?);
    let types: Vec<_> = op.results.iter().map(|&value| c.ty(value).clone()).collect();
    Ok(Box::new(move |m, step| {
        let inputs = inputs(m, step, &name, &operands)?;
        let shapes = results.iter().map(|(_, shape)| shape.clone()).collect();
        let max_operations = m.options.max_operations.saturating_sub(m.operations());
        let options = crate::interpret::Options {
            output_shapes: Some(shapes),
            aliases: aliases.clone(),
            max_operations,
            vmem_blocks: vmem_limit.or(m.options.vmem_default),
            max_bytes: Some(m.budget.bytes_left()),
            ..m.options.clone()
        };
        let ran = kernel.run(&inputs, &options, &mut m.link);
        let outcome = ran.map_err(|error| in_kernel(&name, error.to_string()))?;
        m.count_operations(outcome.operations);
        if !outcome.completed {
            m.kernels.push((name.clone(), outcome));
            return Err(Stop::Halted);
        }
        let typed = outcome.outputs.iter().map(|output| (output.element, output.shape.clone()));
        if typed.ne(results.iter().cloned()) {
            return Err(Stop::Fault(step.place, "the kernel's results are not those of the call".to_owned()));
        }
        for ((&slot, output), ty) in step.results.iter().zip(&outcome.outputs).zip(&types) {
            let array = Array::of_tensor(output, ty);
            m.frame[slot as usize] = array.map_or(Value::Unset, Value::Array);
        }
        m.kernels.push((name.clone(), outcome));
        Ok(())
    }))
}

/// Operands of a kernel; all must have been computed.
fn inputs(
    m: &mut Machine<'_>,
    step: &Step,
    name: &str,
    operands: &[(Element, Vec<usize>)],
) -> Result<Vec<Tensor>, Stop> {
    let input = |(i, (element, _)): (usize, &(Element, Vec<usize>))| match m.array(step, i) {
        Ok(array) => Ok(array.into_tensor(*element)),
        Err(Stop::Missing(why)) => Err(Stop::Unrunnable(Unrunnable::Kernel(format!(
            "{why}, and the kernel '{name}' needs its result"
        )))),
        Err(stop) => Err(stop),
    };
    operands.iter().enumerate().map(input).collect()
}

/// An error inside a kernel, whose positions are those of the kernel's text.
fn in_kernel(name: &str, message: String) -> Stop {
    Stop::Fault(None, format!("in the kernel '{name}': {message}"))
}

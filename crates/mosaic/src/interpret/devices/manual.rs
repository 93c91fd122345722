//! `sdy.manual_computation`, to which `shard_map` is lowered: its body runs on every device of a mesh.

use std::collections::HashSet;

use super::{
    run::{Parts, merged, on_all},
    sharding::Sharding,
};
use crate::{
    attribute::Attr,
    interpret::{
        Options, Outcome, Tensor,
        array::Array,
        element::Element,
        embedded::is_kernel_call,
        finding::Note,
        host::HostProgram,
        machine::{Machine, Stop},
        program::{Compiler, Made, Refusal, Step},
        value::Value,
    },
    ir::{Function, Module, Op, Region, Value as IrValue, Visibility},
    types::Type,
};

/// Name of the function that a device runs.
const BODY: &str = "main";

/// A computation on every device of a mesh.
struct Manual {
    /// The body as `@main`, with the functions that it may call.
    program: HostProgram,
    operands: Vec<(Sharding, Element, Vec<usize>)>,
    results: Vec<(Sharding, Element, Vec<usize>)>,
    result_types: Vec<Type>,
    devices: usize,
}

/// Compiles the operation.
pub(in crate::interpret) fn manual_computation(c: &mut Compiler<'_>, op: &Op) -> Made {
    let Some(module) = c.module else {
        // Only checked, not run.
        c.block(&op.regions[0])?;
        return Ok(Box::new(|_, step| {
            Err(Stop::Fault(step.place, "the computation is not part of a module".to_owned()))
        }));
    };
    let typed = |values: &[IrValue], name: &str| -> Made<Vec<(Sharding, Element, Vec<usize>)>> {
        let shardings = Sharding::list(module, c.attribute(op, name)?).map_err(Refusal::NotModelled)?;
        if shardings.len() != values.len() {
            return Err(format!("{name} has {} entries for {} values", shardings.len(), values.len()).into());
        }
        let one = |(sharding, &value): (Sharding, &IrValue)| {
            let ty = c.ty(value);
            match Element::of(ty).filter(|_| matches!(ty, Type::Tensor(..))) {
                Some(element) => Ok((sharding, element, c.extents(ty)?)),
                None => Err(Refusal::NotModelled(format!("values of type {ty} cannot be divided"))),
            }
        };
        shardings.into_iter().zip(values).map(one).collect()
    };
    let operands = typed(&op.operands, "in_shardings")?;
    let results = typed(&op.results, "out_shardings")?;
    let body = &op.regions[0];
    let returned: Vec<IrValue> = body.ops.last().map(|last| last.operands.clone()).unwrap_or_default();
    check_parts(c, &operands, &body.arguments)?;
    check_parts(c, &results, &returned)?;
    let mut meshes = operands.iter().chain(&results).map(|(sharding, ..)| &sharding.mesh);
    let Some(mesh) = meshes.next().cloned() else { return Err("it has no operands and no results".into()) };
    if meshes.any(|other| *other != mesh) {
        return Err("its operands and results are on different meshes".into());
    }
    // Compiled once for all devices.
    let program = HostProgram::new(&outlined(c, module, body, &returned)?)?;
    let result_types = op.results.iter().map(|&value| c.ty(value).clone()).collect();
    let manual = Manual { program, operands, results, result_types, devices: mesh.devices() };
    Ok(Box::new(move |m, step| run(m, step, &manual)))
}

/// Checks that the parts of the whole tensors are what the body takes or returns.
fn check_parts(c: &Compiler<'_>, wholes: &[(Sharding, Element, Vec<usize>)], parts: &[IrValue]) -> Made<()> {
    if wholes.len() != parts.len() {
        return Err(format!("its body has {} values for {}", parts.len(), wholes.len()).into());
    }
    for ((sharding, element, shape), &part) in wholes.iter().zip(parts) {
        let ty = c.ty(part);
        let fits = sharding.local_shape(shape).is_some_and(|local| local == ty.shape());
        if !fits || Element::of(ty) != Some(*element) || !matches!(ty, Type::Tensor(..)) {
            return Err(format!("a device's part of shape {shape:?} is not {ty}").into());
        }
    }
    Ok(())
}

/// The body as a function of its own, beside the others that it may call.
fn outlined(c: &Compiler<'_>, module: &Module, body: &Region, returned: &[IrValue]) -> Made<Module> {
    let mut own: HashSet<IrValue> = HashSet::new();
    defined(body, &mut own);
    let mut foreign = false;
    used(body, &mut |value| foreign |= !own.contains(&value));
    if foreign {
        let message = "its body uses values from outside, which is not supported".to_owned();
        return Err(Refusal::NotModelled(message));
    }
    let function = Function {
        name: BODY.to_owned(),
        visibility: Visibility::Public,
        results: returned.iter().map(|&value| c.ty(value).clone()).collect(),
        attributes: Default::default(),
        body: named(c, body),
        values: c.values().to_vec(),
    };
    let mut functions = vec![function];
    let mut next = 0;
    while let Some(function) = functions.get(next) {
        let mut callees = Vec::new();
        function.walk(&mut |op| {
            if let Some(Attr::Symbol(callee)) = op.attributes.get("callee") {
                callees.push(callee.clone());
            }
        });
        for callee in callees {
            if functions.iter().all(|known| known.name != callee) {
                let missing = || format!("the module has no function @{callee}");
                let found = module.function(&callee).ok_or_else(missing)?;
                functions.push(Function { body: named(c, &found.body), ..found.clone() });
            }
        }
        next += 1;
    }
    Ok(Module { name: module.name.clone(), attributes: module.attributes.clone(), functions })
}

/// A region whose kernel calls have the names that are unique in the whole module.
fn named(c: &Compiler<'_>, region: &Region) -> Region {
    let op = |op: &Op| {
        let mut copy = op.clone();
        copy.regions = op.regions.iter().map(|region| named(c, region)).collect();
        if is_kernel_call(op) {
            let name = Attr::String(c.kernel_name(op));
            copy.attributes = copy.attributes.without(&["kernel_name"]).with("kernel_name", name);
        }
        copy
    };
    Region { arguments: region.arguments.clone(), ops: region.ops.iter().map(op).collect() }
}

fn defined(region: &Region, values: &mut HashSet<IrValue>) {
    values.extend(&region.arguments);
    for op in &region.ops {
        values.extend(&op.results);
        op.regions.iter().for_each(|region| defined(region, values));
    }
}

fn used(region: &Region, visit: &mut impl FnMut(IrValue)) {
    for op in &region.ops {
        op.operands.iter().for_each(|&value| visit(value));
        op.regions.iter().for_each(|region| used(region, visit));
    }
}

fn run(m: &mut Machine<'_>, step: &Step, manual: &Manual) -> Result<(), Stop> {
    if m.link.is_some() {
        return Err(Stop::Fault(
            step.place,
            "a computation on a mesh inside another is not supported".to_owned(),
        ));
    }
    let fault = |message: String| Stop::Fault(step.place, message);
    let whole = |(number, (_, element, _)): (usize, &(Sharding, Element, Vec<usize>))| {
        m.array(step, number).map(|array| array.into_tensor(*element))
    };
    let wholes: Vec<Tensor> = manual.operands.iter().enumerate().map(whole).collect::<Result<_, _>>()?;
    let part = |device: usize| {
        let each = manual.operands.iter().zip(&wholes);
        each.map(move |((sharding, ..), whole)| {
            let local = sharding.local_shape(&whole.shape).unwrap_or_default();
            sharding.part(device, whole, &local)
        })
    };
    let parts: Parts = (0..manual.devices).map(|device| part(device).collect()).collect();
    let options = Options {
        output_shapes: None,
        devices: 1,
        max_operations: m.options.max_operations.saturating_sub(m.operations()),
        max_bytes: Some(m.budget.bytes_left()),
        ..m.options.clone()
    };
    let outcomes =
        on_all(&parts, &options, |operands, options, link| manual.program.run(operands, options, Some(link)));
    let outcomes = outcomes.map_err(|error| fault(error.to_string()))?;
    let returned = outcomes.iter().all(|outcome| outcome.outputs.len() == manual.results.len());
    let mut notes = Vec::new();
    if returned {
        for (number, &slot) in step.results.iter().enumerate() {
            let result = joined(manual, &outcomes, number, step, &mut notes);
            let array = Array::of_tensor(&result, &manual.result_types[number]);
            m.frame[slot as usize] = array.map_or(Value::Unset, Value::Array);
        }
    }
    let mut outcome = merged(outcomes);
    outcome.notes.append(&mut notes);
    m.count_operations(outcome.operations);
    let completed = outcome.completed && returned;
    m.kernels.push((step.name.as_ref().into(), outcome));
    if completed { Ok(()) } else { Err(Stop::Halted) }
}

/// A result, put together from the parts of all devices. What should be the same on several devices is taken
/// from the first of them.
fn joined(
    manual: &Manual,
    outcomes: &[Outcome],
    number: usize,
    step: &Step,
    notes: &mut Vec<Note>,
) -> Tensor {
    let (sharding, element, shape) = &manual.results[number];
    let elements: usize = shape.iter().product();
    let mut whole = vec![0; elements * element.bytes()];
    let mut written = vec![false; elements];
    let put = |(device, outcome): (usize, &Outcome)| {
        sharding.put(device, &outcome.outputs[number], shape, &mut whole, &mut written).then_some(device)
    };
    let differing: Vec<usize> = outcomes.iter().enumerate().filter_map(put).collect();
    if let Some(device) = differing.first() {
        let message = format!(
            "result {number} should be the same on several devices, but differs on device {device}; that of \
             the first device is taken"
        );
        notes.push(Note { line: step.line(), op: step.name.to_string(), message });
    }
    Tensor { element: *element, shape: shape.clone(), bytes: whole.into() }
}

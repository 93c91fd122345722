//! Runs the surrounding module: `@main` on tensors, and the kernels that it calls.

use super::{
    KernelRun, Options, Outcome, SimulateError, Tensor,
    devices::Link,
    element::Element,
    machine::{Machine, Stop},
    program::{Program, Unrunnable},
    value::Value,
};
use crate::{
    ir::{Function, Module},
    types::Type,
};

/// Finds the function that takes tensors, if the module has one.
pub(super) fn entry(module: &Module) -> Option<&Function> {
    let takes_tensors = |function: &&Function| {
        let mut types =
            function.body.arguments.iter().map(|&value| function.ty(value)).chain(&function.results);
        types.any(|ty| matches!(ty, Type::Tensor(..)))
    };
    module.function("main").filter(takes_tensors).or_else(|| module.functions.iter().find(takes_tensors))
}

/// Runs `entry` on `inputs`.
pub(super) fn run(
    module: &Module,
    entry: &Function,
    inputs: &[Tensor],
    options: &Options<'_>,
    link: Option<Link>,
) -> Result<Outcome, SimulateError> {
    let program = Program::new(module)?;
    let code = program.function(&entry.name)?.clone();
    check(entry, &code.argument_types, inputs)?;
    let mut machine = Machine::new(&program, options, inputs);
    machine.link = link;
    let arguments = inputs.iter().map(|tensor| Value::Vector(tensor.to_data()));
    let results = match machine.call(&code, arguments) {
        Ok(results) => results,
        Err(Stop::Halted) => return Ok(summary(machine, Vec::new(), false)),
        Err(stop) => return Err(stop.into()),
    };
    let output = |(value, ty): (&Value, &Type)| match (value, Element::of(ty)) {
        (Value::Vector(data), Some(element)) => Ok(Tensor::from_data(element, ty.shape(), data)),
        _ => {
            Err(Unrunnable::Kernel(format!("@{} returns {ty}, which is not a tensor of numbers", entry.name)))
        }
    };
    let outputs = results.iter().zip(&code.results).map(output).collect::<Result<Vec<_>, _>>()?;
    Ok(summary(machine, outputs, true))
}

/// Findings, notes and timeline of the kernels that ran.
fn summary(machine: Machine<'_>, outputs: Vec<Tensor>, returned: bool) -> Outcome {
    let operations = machine.operations();
    let Machine { kernels, clock, program, findings: own, .. } = machine;
    let mut timeline = clock.finish(0);
    let (mut findings, mut notes, mut runs) = (Vec::new(), program.notes.clone(), Vec::new());
    let mut prints = Vec::new();
    for (name, kernel) in kernels {
        findings.extend(kernel.findings.iter().cloned());
        notes.extend(kernel.notes.iter().cloned());
        prints.extend(kernel.prints.iter().cloned());
        let run = KernelRun::of(&name, &kernel, timeline.figures.cycles);
        timeline.append(kernel.timeline);
        runs.push(run);
    }
    findings.extend(own.located(&program.sources));
    let completed = returned && runs.iter().all(|run| run.completed);
    Outcome { outputs, findings, completed, timeline, operations, notes, prints, kernels: runs }
}

fn check(entry: &Function, types: &[Type], inputs: &[Tensor]) -> Result<(), SimulateError> {
    if types.len() != inputs.len() {
        let (name, takes, given) = (&entry.name, types.len(), inputs.len());
        return Err(SimulateError::Operands(format!(
            "@{name} takes {takes} operands, but {given} were given"
        )));
    }
    for (number, (ty, tensor)) in types.iter().zip(inputs).enumerate() {
        let fits = Element::of(ty) == Some(tensor.element) && ty.shape() == tensor.shape && tensor.is_sound();
        if !fits || !matches!(ty, Type::Tensor(..)) {
            return Err(SimulateError::Operands(format!(
                "operand {number} of @{} is {ty}, but the tensor given for it is {} of shape {:?}",
                entry.name, tensor.element, tensor.shape
            )));
        }
    }
    Ok(())
}

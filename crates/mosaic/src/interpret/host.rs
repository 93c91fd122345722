//! Runs the surrounding module: `@main` on tensors, and the kernels that it calls.

use std::sync::Arc;

use super::{
    KernelRun, Options, Outcome, SimulateError, Tensor,
    array::Array,
    devices::Link,
    element::Element,
    finding::Note,
    machine::{Machine, Stop},
    program::{Code, Program, Unrunnable},
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

/// A compiled module: the program around kernels.
pub(super) struct HostProgram {
    program: Program,
    code: Arc<Code>,
    /// Name of the function that runs.
    name: String,
}

impl HostProgram {
    /// Compiles a module; its `@main`, or else the first function that takes tensors, will run.
    pub(super) fn new(module: &Module) -> Result<Self, Unrunnable> {
        let missing = || Unrunnable::Kernel("the module has no function that takes tensors".to_owned());
        let entry = entry(module).ok_or_else(missing)?;
        let program = Program::around(module)?;
        let code = program.function(&entry.name)?.clone();
        Ok(Self { program, code, name: entry.name.clone() })
    }

    /// Ranks of the operands and results, in order.
    pub(super) fn operand_ranks(&self) -> Vec<usize> {
        let types = self.code.argument_types.iter().chain(&self.code.results);
        types.map(|ty| ty.shape().len()).collect()
    }

    /// Runs it on `inputs`; `link` connects the device to others.
    pub(super) fn run(
        &self,
        inputs: &[Tensor],
        options: &Options<'_>,
        link: Option<Link>,
    ) -> Result<Outcome, SimulateError> {
        let (program, code) = (&self.program, &self.code);
        check(&self.name, &code.argument_types, inputs)?;
        let mut machine = Machine::new(program, options, inputs);
        machine.link = link;
        let arguments = inputs
            .iter()
            .zip(&code.argument_types)
            .map(|(tensor, ty)| Array::of_tensor(tensor, ty).map_or(Value::Unset, Value::Array));
        let results = match machine.call(code, arguments) {
            Ok(results) => results,
            Err(Stop::Halted) => return Ok(summary(machine, Vec::new(), false)),
            Err(stop) => return Err(stop.into()),
        };
        let (mut outputs, mut missing) = (Vec::new(), Vec::new());
        for (number, (value, ty)) in results.into_iter().zip(&code.results).enumerate() {
            match output(value, ty) {
                Ok(tensor) => outputs.push(tensor),
                // The kernels were run, so their findings still matter.
                Err(why) if !machine.kernels.is_empty() => {
                    missing.push(note(number, &why));
                    outputs.push(unknown(ty));
                }
                Err(why) => return Err(why.into()),
            }
        }
        let mut outcome = summary(machine, outputs, true);
        outcome.notes.append(&mut missing);
        Ok(outcome)
    }
}

/// A result of the program.
fn output(value: Value, ty: &Type) -> Result<Tensor, Unrunnable> {
    match (value, Element::of(ty)) {
        (Value::Array(array), Some(element)) => Ok(array.into_tensor(element)),
        (Value::Missing(why), _) => Err(Unrunnable::clone(&why)),
        _ => Err(Unrunnable::Kernel(format!("a result of type {ty} is not a tensor that can be returned"))),
    }
}

/// Stands for a result that could not be computed: it has no bytes.
fn unknown(ty: &Type) -> Tensor {
    let element = Element::of(ty).unwrap_or(Element::Integer(1));
    Tensor { element, shape: ty.shape().to_vec(), bytes: Default::default() }
}

fn note(result: usize, why: &Unrunnable) -> Note {
    let (line, op) = match why {
        Unrunnable::NotModelled { name, place, .. } => (place.map(|place| place.line), name.clone()),
        _ => (None, "func.return".to_owned()),
    };
    Note { line, op, message: format!("result {result} is unknown: {why}") }
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
        let start = timeline.figures.cycles;
        match kernel.kernels.is_empty() {
            true => runs.push(KernelRun::of(&name, &kernel, start)),
            // What several devices ran.
            false => runs
                .extend(kernel.kernels.into_iter().map(|run| KernelRun { start: start + run.start, ..run })),
        }
        timeline.append(kernel.timeline);
    }
    findings.extend(own.located(&program.sources));
    let completed = returned && runs.iter().all(|run| run.completed);
    Outcome { outputs, findings, completed, timeline, operations, notes, prints, kernels: runs }
}

fn check(name: &str, types: &[Type], inputs: &[Tensor]) -> Result<(), SimulateError> {
    if types.len() != inputs.len() {
        let (takes, given) = (types.len(), inputs.len());
        return Err(SimulateError::Operands(format!(
            "@{name} takes {takes} operands, but {given} were given"
        )));
    }
    for (number, (ty, tensor)) in types.iter().zip(inputs).enumerate() {
        let fits = Element::of(ty) == Some(tensor.element) && ty.shape() == tensor.shape && tensor.is_sound();
        if !fits || !matches!(ty, Type::Tensor(..)) {
            return Err(SimulateError::Operands(format!(
                "operand {number} of @{name} is {ty}, but the tensor given for it is {} of shape {:?}",
                tensor.element, tensor.shape
            )));
        }
    }
    Ok(())
}

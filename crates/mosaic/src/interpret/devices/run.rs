//! Runs the same program on several devices, one thread each.

use std::thread;

use super::Link;
use crate::{
    interpret::{Executable, KernelRun, Note, Options, Outcome, SimulateError, Tensor, finding::Findings},
    limits::{DEFAULT_BYTES, MAX_DEVICES},
};

/// Stack of a device's thread, as large as that of a main thread.
const STACK: usize = 8 << 20;

/// Operands of each device.
pub(super) type Parts = Vec<Vec<Tensor>>;

/// Runs a module on several devices. A second schedule is tried if the first shows nothing.
pub(crate) fn simulate(
    executable: &Executable,
    inputs: &[Tensor],
    options: &Options<'_>,
) -> Result<Outcome, SimulateError> {
    let devices = options.devices;
    let ranks = executable.operand_ranks();
    let parts = split(inputs, &ranks, devices)?;
    let own = |shape: &[usize], rank: Option<&usize>| match shape.split_first() {
        Some((&first, rest)) if first == devices && rank == Some(&rest.len()) => rest.to_vec(),
        _ => shape.to_vec(),
    };
    let results = ranks.get(inputs.len()..).unwrap_or_default();
    let shapes = options.output_shapes.as_ref().map(|shapes| {
        shapes.iter().enumerate().map(|(number, shape)| own(shape, results.get(number))).collect()
    });
    let options = Options { output_shapes: shapes, devices: 1, ..options.clone() };
    let outcomes =
        on_all(&parts, &options, |operands, options, link| executable.run(operands, options, Some(link)))?;
    Ok(stack(outcomes))
}

/// Operands of each device: parts of those that have one more dimension than expected, copies of the others.
fn split(inputs: &[Tensor], ranks: &[usize], devices: usize) -> Result<Parts, SimulateError> {
    let part = |device: usize, (number, tensor): (usize, &Tensor)| {
        let Some(&rank) = ranks.get(number) else { return Ok(tensor.clone()) };
        if tensor.shape.len() != rank + 1 {
            return Ok(tensor.clone());
        }
        if tensor.shape.first() != Some(&devices) || !tensor.is_sound() {
            return Err(SimulateError::Operands(format!(
                "operand {number} has shape {:?}: its first extent must be the number of devices, {devices}",
                tensor.shape
            )));
        }
        let bytes = tensor.bytes.len() / devices;
        let bytes = tensor.bytes[device * bytes..][..bytes].to_vec();
        Ok(Tensor { element: tensor.element, shape: tensor.shape[1..].to_vec(), bytes: bytes.into() })
    };
    (0..devices).map(|device| inputs.iter().enumerate().map(|input| part(device, input)).collect()).collect()
}

/// Memory budget of one device.
///
/// The default budget is that of one run for up to eight devices, and shared by more.
fn bytes_per_device(options: &Options<'_>, operands: &[Tensor], devices: usize) -> usize {
    const FULL: usize = 8;
    match options.max_bytes {
        Some(bytes) => bytes / devices,
        None => options.bytes_for(operands) - DEFAULT_BYTES + DEFAULT_BYTES / devices.div_ceil(FULL),
    }
}

/// Runs `device` for each part of the operands; returns the outcomes in the order of the devices.
///
/// Findings do not depend on the schedule where vector clocks decide. Whether two DMAs can be in flight on
/// one semaphore does; so a run without findings is repeated with the devices in the opposite order.
pub(super) fn on_all<F>(
    parts: &Parts,
    options: &Options<'_>,
    device: F,
) -> Result<Vec<Outcome>, SimulateError>
where
    F: Fn(&[Tensor], &Options<'_>, Link) -> Result<Outcome, SimulateError> + Sync,
{
    let devices = parts.len();
    if devices > MAX_DEVICES {
        let message = format!("{devices} devices are too many: at most {MAX_DEVICES} are simulated");
        return Err(SimulateError::Operands(message));
    }
    let largest = parts.iter().map(|part| bytes_per_device(options, part, devices)).max();
    let options = Options { max_bytes: largest, ..options.clone() };
    let outcomes = in_order(parts, &options, false, &device)?;
    let clean = outcomes.iter().all(|outcome| outcome.completed && outcome.findings.is_empty());
    if !clean || !options.races || devices == 1 {
        return Ok(outcomes);
    }
    let opposite = in_order(parts, &options, true, &device)?;
    let clean = opposite.iter().all(|outcome| outcome.completed && outcome.findings.is_empty());
    Ok(if clean { outcomes } else { opposite })
}

/// Runs the devices once, in ascending or descending order.
fn in_order<F>(
    parts: &Parts,
    options: &Options<'_>,
    descending: bool,
    device: &F,
) -> Result<Vec<Outcome>, SimulateError>
where
    F: Fn(&[Tensor], &Options<'_>, Link) -> Result<Outcome, SimulateError> + Sync,
{
    let outcomes: Vec<Result<Outcome, SimulateError>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (mut link, operands) in Link::all(parts.len(), descending).into_iter().zip(parts) {
            threads.push(thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
                link.begin();
                device(operands, options, link)
            }));
        }
        let join = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => {
                Err(SimulateError::Operands(format!("cannot start a thread for a device: {error}")))
            }
        };
        threads.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect()
}

/// Joins the outcomes of all devices, with their results stacked along a new leading dimension.
fn stack(outcomes: Vec<Outcome>) -> Outcome {
    let results = outcomes.iter().map(|outcome| outcome.outputs.len()).min().unwrap_or(0);
    let stacked = |number: usize| {
        let first = &outcomes[0].outputs[number];
        let shape = [outcomes.len()].into_iter().chain(first.shape.iter().copied()).collect();
        let bytes = outcomes.iter().flat_map(|outcome| outcome.outputs[number].bytes.iter().copied());
        Tensor { element: first.element, shape, bytes: bytes.collect::<Vec<u8>>().into() }
    };
    let outputs: Vec<Tensor> = (0..results).map(stacked).collect();
    Outcome { outputs, ..merged(outcomes) }
}

/// Joins the outcomes of all devices: findings merged, and the timeline of the slowest device.
pub(super) fn merged(outcomes: Vec<Outcome>) -> Outcome {
    let mut findings = Findings::default();
    let completed = outcomes.iter().all(|outcome| outcome.completed);
    let operations = outcomes.iter().fold(0, |all: u64, outcome| all.saturating_add(outcome.operations));
    outcomes.iter().for_each(|outcome| findings.merge(outcome.findings.clone()));
    let kernels = merged_kernels(&outcomes);
    let notes = distinct(outcomes.iter().flat_map(|outcome| &outcome.notes));
    let slowest = outcomes.into_iter().max_by(|a, b| {
        let cycles = |outcome: &Outcome| outcome.timeline.figures.cycles;
        cycles(a).total_cmp(&cycles(b))
    });
    let Some(slowest) = slowest else { unreachable!("there is at least one device") };
    Outcome { findings: findings.0, completed, operations, notes, kernels, ..slowest }
}

/// Each note once.
fn distinct<'n>(notes: impl Iterator<Item = &'n Note>) -> Vec<Note> {
    let mut all = Vec::new();
    for note in notes {
        if !all.contains(note) {
            all.push(note.clone());
        }
    }
    all
}

/// The runs of each kernel on all devices as one.
fn merged_kernels(outcomes: &[Outcome]) -> Vec<KernelRun> {
    let Some((first, others)) = outcomes.split_first() else { return Vec::new() };
    let mut kernels = first.kernels.clone();
    for (number, kernel) in kernels.iter_mut().enumerate() {
        let mut findings = Findings(std::mem::take(&mut kernel.findings));
        for run in others.iter().filter_map(|outcome| outcome.kernels.get(number)) {
            findings.merge(run.findings.clone());
            kernel.completed &= run.completed;
            kernel.operations = kernel.operations.saturating_add(run.operations);
        }
        kernel.findings = findings.0;
        let runs = outcomes.iter().filter_map(|outcome| outcome.kernels.get(number));
        kernel.notes = distinct(runs.flat_map(|run| &run.notes));
    }
    kernels
}

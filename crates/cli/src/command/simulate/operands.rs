//! Operands of a run: from a file, random for a known problem, or random for the module's signature.

use std::path::Path;

use anyhow::Result;
use octile_core::{plan::tpu::TpuPlan, sample::Operands};
use octile_harness::backend::tensor_arguments;
use octile_mosaic::{
    Module,
    interpret::{
        Element, EmbeddedKernel, OperandSpec, Outcome, Signature, SimulateError, Tensor, Trouble,
        embedded_kernels,
    },
};

use super::{Expected, MODULE, OPERANDS, matching, random, spelled, tensors::TensorFile};
use crate::{
    args::SimulateArgs,
    command::{
        analyze::manifest::{Manifest, Plan},
        work::require_memory,
    },
    input,
    print::shown,
    tensor_file,
};

/// Operands and where they come from.
pub(super) struct ChosenOperands {
    /// Names, in argument order.
    pub names: Vec<String>,
    /// Where they come from.
    pub source: OperandSource,
    /// What the user should know about the choice.
    pub notes: Vec<String>,
}

/// Where operands come from.
pub(super) enum OperandSource {
    /// A tensor file.
    File(Vec<Tensor>),
    /// Random, for the problem of a manifest.
    Problem(Vec<Tensor>, u64),
    /// Random, for the signature of the module.
    Random(Signature, u64),
}

impl ChosenOperands {
    /// Bytes of the operands that were read or made.
    pub(super) fn bytes(&self) -> usize {
        match &self.source {
            OperandSource::File(tensors) | OperandSource::Problem(tensors, _) => {
                tensors.iter().fold(0usize, |all, tensor| all.saturating_add(tensor.bytes.len()))
            }
            OperandSource::Random(..) => 0,
        }
    }

    /// For errors: what the run was on, and how to change that.
    pub(super) fn described(&self) -> String {
        let names = self.names.join(", ");
        match self.source {
            OperandSource::File(_) => format!(" on operands {names}; choose others with --operands"),
            OperandSource::Problem(..) | OperandSource::Random(..) => format!(" on random operands {names}"),
        }
    }

    /// Seed of random operands.
    pub(super) fn seed(&self) -> Option<u64> {
        match self.source {
            OperandSource::File(_) => None,
            OperandSource::Problem(_, seed) | OperandSource::Random(_, seed) => Some(seed),
        }
    }

    /// Runs a simulation on the operands; also returns what random operands may have caused.
    pub(super) fn run(
        &self,
        simulate: impl Fn(&[Tensor]) -> Result<Outcome>,
    ) -> Result<(Outcome, Vec<String>)> {
        match &self.source {
            OperandSource::File(tensors) | OperandSource::Problem(tensors, _) => {
                Ok((simulate(tensors)?, self.notes.clone()))
            }
            OperandSource::Random(signature, seed) => run_random(signature, *seed, simulate),
        }
    }
}

/// Runs on random operands. Integers may be indices: while an access is out of bounds, smaller ones are
/// tried.
fn run_random(
    signature: &Signature,
    seed: u64,
    simulate: impl Fn(&[Tensor]) -> Result<Outcome>,
) -> Result<(Outcome, Vec<String>)> {
    let bounds: &[u64] = if random::has_integers(signature) { &random::INTEGERS_BELOW } else { &[1] };
    let is_outside = |outcome: &Outcome| {
        outcome.findings.iter().any(|finding| matches!(finding.trouble, Trouble::OutOfBounds { .. }))
    };
    let mut last = None;
    for &below in bounds {
        let outcome = simulate(&random::operands(signature, seed, below)?);
        let is_final = outcome.as_ref().is_ok_and(|outcome| !is_outside(outcome));
        last = Some((outcome, below));
        if is_final {
            break;
        }
    }
    let (outcome, below) = last.expect("there is at least one bound");
    let outcome = outcome?;
    let mut notes = Vec::new();
    if bounds.len() > 1 && below < bounds[0] && !is_outside(&outcome) {
        notes.push(format!(
            "random integers below {} made an access out of bounds, so all are below {below} here; pass real \
             indices with --tensors FILE",
            bounds[0]
        ));
    } else if bounds.len() > 1 && outcome.findings.iter().any(|finding| may_be_random(&finding.trouble)) {
        notes.push(
            "the integer operands are random, which may cause findings; pass real ones with --tensors FILE"
                .to_owned(),
        );
    }
    notes.extend(not_numbers(&outcome));
    Ok((outcome, notes))
}

/// Notes results with NaN, which random operands do not hold: nothing else may tell that undefined elements
/// of a ragged block have reached a result.
fn not_numbers(outcome: &Outcome) -> Vec<String> {
    let note = |(number, result): (usize, &Tensor)| {
        let is_float = matches!(result.element, Element::Float(_));
        let values = if is_float { result.to_f32() } else { Vec::new() };
        let count = values.iter().filter(|value| value.is_nan()).count();
        (count > 0).then(|| {
            format!(
                "result {number} holds NaN in {count} of {} elements, though no operand does: check the arithmetic, \
                 and whether a ragged last block is masked",
                values.len()
            )
        })
    };
    let is_whole = outcome.completed && outcome.findings.is_empty();
    outcome.outputs.iter().enumerate().filter(|_| is_whole).filter_map(note).collect()
}

/// Whether a wrong index or size can cause such a finding in a correct kernel.
fn may_be_random(trouble: &Trouble) -> bool {
    matches!(
        trouble,
        Trouble::OutOfBounds { .. }
            | Trouble::OutputNotWritten { .. }
            | Trouble::ReadOfUnwritten { .. }
            | Trouble::OutOfOperations { .. }
            | Trouble::AssertionFailed { .. }
            | Trouble::Deadlock { .. }
    )
}

/// Returns the plan of a `stablehlo.mlir` that has a manifest beside it and runs on random operands: those of
/// the problem.
pub(super) fn written_plan(args: &SimulateArgs) -> Result<Option<Box<TpuPlan>>> {
    let module = &args.kernel;
    let is_module = args.tensors.is_none() && module.file_name().is_some_and(|name| name == MODULE);
    let folder = module.parent().filter(|_| is_module);
    Ok(match folder.map(Manifest::of).transpose()?.flatten().and_then(|manifest| manifest.plan) {
        Some(Plan::Tpu(plan)) => Some(plan),
        Some(Plan::Gpu(_)) | None => None,
    })
}

/// Chooses the operands, and reads the expected results.
pub(super) fn choose(
    args: &SimulateArgs,
    plan: Option<&TpuPlan>,
    signature: impl Fn() -> Result<Signature, SimulateError>,
) -> Result<(ChosenOperands, Vec<Expected>)> {
    match (&args.tensors, plan) {
        (Some(path), _) => from_file(args, path, &signature()?),
        (None, Some(plan)) => {
            args.require_no_tensor_options()?;
            Ok((of_problem(plan, args.seed.unwrap_or(OPERANDS))?, Vec::new()))
        }
        (None, None) => {
            args.require_no_tensor_options()?;
            let signature = signature()?;
            let described = |spec: &OperandSpec| {
                let name = spec.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
                format!("{name}{}", spelled(spec.element, &spec.shape))
            };
            let names = signature.operands.iter().map(described).collect();
            let source = OperandSource::Random(signature, args.seed.unwrap_or(OPERANDS));
            Ok((ChosenOperands { names, source, notes: Vec::new() }, Vec::new()))
        }
    }
}

/// Random operands of our own kernels, whose block scales must fit their codes.
fn of_problem(plan: &TpuPlan, seed: u64) -> Result<ChosenOperands> {
    require_memory([&plan.problem])?;
    let tensors = tensor_arguments(&Operands::random(plan.problem, seed));
    let names = ["x", "w_q", "w_scale", "x_scale"].map(str::to_owned);
    let names = names.into_iter().take(tensors.len()).collect();
    Ok(ChosenOperands { names, source: OperandSource::Problem(tensors, seed), notes: Vec::new() })
}

/// Operands that fit the module's only kernel, not the function around it: the kernel then runs alone.
pub(super) fn of_one_kernel(
    args: &SimulateArgs,
    module: &Module,
) -> Option<(ChosenOperands, Vec<Expected>, Option<EmbeddedKernel>)> {
    let path = args.tensors.as_deref().filter(|path| !input::is_stream(path))?;
    let kernel = match <[EmbeddedKernel; 1]>::try_from(embedded_kernels(module).ok()?) {
        Ok([kernel]) => kernel,
        Err(_) => return None,
    };
    let (mut operands, expected) = from_file(args, path, &Signature::of_call(&kernel).ok()?).ok()?;
    operands.notes.push(format!(
        "the tensors fit the kernel {}, not the function around it: the kernel runs alone",
        kernel.name
    ));
    Some((operands, expected, Some(kernel)))
}

fn from_file(
    args: &SimulateArgs,
    path: &Path,
    signature: &Signature,
) -> Result<(ChosenOperands, Vec<Expected>)> {
    let name = shown(path);
    let bytes = tensor_file::bytes(path)?;
    let file = TensorFile::new(&name, &tensor_file::tensors(path, &bytes)?);
    let names = match args.operands.as_slice() {
        [] => matching::match_operands(&name, &file.candidates(&args.expect), signature)?,
        names => names.to_vec(),
    };
    let wanted = signature.operands.iter().map(|spec| Some(spec.element)).chain(std::iter::repeat(None));
    let tensors = names.iter().zip(wanted).map(|(name, element)| file.operand(name, element));
    let source = OperandSource::File(tensors.collect::<Result<_>>()?);
    let expected = args.expect.iter().map(|name| file.expected(name)).collect::<Result<_>>()?;
    Ok((ChosenOperands { names, source, notes: Vec::new() }, expected))
}

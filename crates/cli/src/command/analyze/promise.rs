//! Which checks a version must pass, and why others are waived.

use octile_core::{
    Strategy,
    device::{hopper::HopperGpu, tpu::TpuChip},
    plan::{Exemption, Expectations},
};
use octile_dump::{
    checks::CheckId,
    facts::{Copy, Facts, FileKind, Level, Matmul},
};
use serde::Serialize;

use super::manifest::{Manifest, Plan};
use crate::args::ChipChoice;

/// How the strategy of a version is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// From the command line.
    Told,
    /// From the plan in the manifest.
    Manifest,
    /// From the name of the folder or file.
    Name,
    /// Not at all: only the checks that all strategies share are required.
    Unknown,
    /// There is none, because Octile did not generate the kernel: only what holds of every kernel is
    /// required.
    Foreign,
}

/// A check of the strategy that this kernel need not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Waiver {
    /// The check.
    pub check: CheckId,
    /// Why it is waived.
    pub because: &'static str,
}

/// The checks that a version must pass.
#[derive(Debug, Clone, Serialize)]
pub struct Promise {
    /// How the strategy is known.
    pub known: Known,
    /// The strategy, if it is known.
    pub strategy: Option<Strategy>,
    /// The TPU chip, if it is known.
    pub chip: Option<&'static TpuChip>,
    /// Whether it is a GPU kernel.
    pub gpu: bool,
    /// Name of the GPU, if it is known.
    pub gpu_name: Option<&'static str>,
    /// Whether there is a plan, which then says what is waived.
    #[serde(skip)]
    planned: bool,
    /// What the plan, or the chip alone, lets one expect.
    #[serde(skip)]
    expectations: Expectations,
    /// Required checks.
    pub required: Vec<CheckId>,
    /// Waived checks of the strategy.
    pub waived: Vec<Waiver>,
    /// Where command line, manifest and name disagree, as a sentence without a full stop.
    pub contradiction: Option<String>,
    /// Whether the command line contradicts the manifest.
    pub told_otherwise: bool,
}

/// What the command line says about the dumps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told {
    /// The strategy.
    pub strategy: Option<Strategy>,
    /// The chip.
    pub chip: Option<ChipChoice>,
}

impl Promise {
    /// Of a version with this name and manifest, of a kernel that Octile generated or a foreign one.
    /// [`Promise::settle`] completes it once the files are read.
    pub fn new(told: Told, manifest: Option<&Manifest>, name: &str, foreign: bool) -> Self {
        let plan = manifest.and_then(|manifest| manifest.plan.as_ref());
        let planned = plan.map(Plan::strategy);
        let named: Vec<Strategy> = words(name).filter_map(|word| word.parse().ok()).collect();
        let (known, strategy) = match (told.strategy, planned, named.first().copied()) {
            (Some(strategy), ..) => (Known::Told, Some(strategy)),
            _ if foreign => (Known::Foreign, None),
            (_, Some(strategy), _) => (Known::Manifest, Some(strategy)),
            (_, _, Some(strategy)) => (Known::Name, Some(strategy)),
            _ => (Known::Unknown, None),
        };
        let compiled_for = manifest.and_then(|manifest| Some(manifest.kernel.as_ref()?.chip));
        let chip = match (told.chip, plan) {
            (Some(ChipChoice::Tpu(chip)), _) => Some(chip),
            (_, Some(Plan::Tpu(plan))) => Some(plan.chip),
            (_, Some(Plan::Gpu(_))) | (Some(ChipChoice::Gpu(_)), None) => None,
            (None, None) if compiled_for.is_some() => compiled_for,
            // v4 is a chip, but also the alias of a strategy.
            (None, None) => {
                words(name).filter(|word| *word != "v4").find_map(|word| TpuChip::named(word).ok())
            }
        };
        let gpu_name = match told.chip {
            Some(ChipChoice::Gpu(HopperGpu { name, .. })) => Some(name),
            Some(ChipChoice::Tpu(_)) => None,
            None => manifest.and_then(|manifest| manifest.gpu).map(|gpu| gpu.name),
        };
        // A plan exempts its own kernel, not that of another strategy.
        let is_own = planned == strategy;
        let expectations = match (plan, chip) {
            (Some(Plan::Tpu(plan)), Some(chip)) if is_own => plan.expectations(chip),
            (Some(Plan::Tpu(plan)), Some(chip)) => Expectations::of_problem(&plan.problem, chip),
            (None, Some(chip)) => Expectations::of_chip(chip),
            _ => Expectations::default(),
        };
        let other_chip = plan.and_then(|plan| other_chip(told.chip, plan));
        let told_otherwise =
            told.strategy.is_some_and(|_| planned.is_some() && !is_own) || other_chip.is_some();
        let contradiction = planned.and_then(|planned| contradiction(told.strategy, planned, &named));
        Self {
            known,
            strategy,
            chip,
            gpu: matches!(plan, Some(Plan::Gpu(_))),
            gpu_name,
            planned: plan.is_some(),
            expectations,
            required: Vec::new(),
            waived: Vec::new(),
            contradiction: contradiction.or(other_chip),
            told_otherwise,
        }
    }

    /// Settles the required checks: those of the strategy, less those that are waived.
    pub fn settle(&mut self, facts: &Facts) {
        let is_gpu = |kind: FileKind| matches!(kind, FileKind::Ptx | FileKind::Sass | FileKind::Assembler);
        self.gpu |= !facts.files.is_empty() && facts.files.iter().all(|file| is_gpu(file.kind));
        // GPU kernels have fewer checks, so the command line alone does not make a kernel one.
        if let Some(gpu) = self.gpu_name.take_if(|_| !self.gpu) {
            let says = format!("ignoring --chip {gpu}: these are not GPU dumps");
            self.contradiction.get_or_insert(says);
        }
        if let Some(chip) = self.chip.take_if(|_| self.gpu) {
            let says = format!("ignoring chip {}: these are GPU dumps", chip.name);
            self.contradiction.get_or_insert(says);
        }
        let asked = match (self.gpu, self.strategy) {
            (false, None) if self.known == Known::Foreign => &CheckId::REQUIRED_OF_ANY_TPU_KERNEL,
            (true, strategy) => CheckId::required_on_gpu(strategy.unwrap_or(Strategy::Auto)),
            (false, strategy) => CheckId::required(strategy.unwrap_or(Strategy::Auto)),
        };
        let emulates = !self.gpu && is_emulated(facts);
        let exemptions = match !self.planned && dequantizes(self.strategy, facts) {
            true => vec![Exemption::Dequantized],
            false => self.expectations.exemptions.clone(),
        };
        let applies = |exemption: &Exemption| *exemption != Exemption::EmulatedFp8 || emulates;
        self.waived = exemptions.into_iter().filter(applies).map(Waiver::from).collect();
        if copies_once(self.expectations.blocks, facts) {
            let because = "each core loads one block, so there is nothing to double-buffer";
            self.waived.push(Waiver { check: CheckId::DoubleBuffered, because });
        }
        self.waived.retain(|waiver| asked.contains(&waiver.check));
        let waived = |check: &CheckId| self.waived.iter().any(|waiver| waiver.check == *check);
        self.required = asked.iter().copied().filter(|check| !waived(check)).collect();
    }
}

/// Splits a name into words. Names that Octile writes are in lower case.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

impl From<Exemption> for Waiver {
    fn from(exemption: Exemption) -> Self {
        let check = match exemption {
            Exemption::Dequantized | Exemption::EmulatedFp8 | Exemption::Unquantized => CheckId::NativeFp8,
            Exemption::F32Activations => CheckId::NoF32Matmul,
            Exemption::ScalesPerRow => CheckId::ScalesStaged,
        };
        Self { check, because: exemption.reason() }
    }
}

/// Whether every matmul of the listing, if there is one, shows fp8 operands that the compiler widened.
fn is_emulated(facts: &Facts) -> bool {
    facts.matmuls.iter().filter(|matmul| matmul.level == Level::Llo).all(|matmul| matmul.emulated)
}

/// Whether no core loads a second block. One block may come in parts, each to its own place.
fn copies_once(blocks: Option<usize>, facts: &Facts) -> bool {
    let cores = facts.cores.unwrap_or(1);
    let mut inbound = facts.copies.iter().filter(|copy| copy.level == Level::Llo && copy.inbound);
    blocks.is_some_and(|blocks| blocks <= cores) && inbound.all(Copy::fills_each_place_once)
}

/// Whether a kernel is the dequantizing variant. Only `strip` has one, and the kernel's own Mosaic text shows
/// it.
fn dequantizes(strategy: Option<Strategy>, facts: &Facts) -> bool {
    let mut own = facts.matmuls.iter().filter(|matmul| matmul.level == Level::Mosaic).peekable();
    let is_bf16 = |matmul: &Matmul| matmul.lhs == "bf16" && matmul.rhs == "bf16";
    strategy == Some(Strategy::Strip) && own.peek().is_some() && own.all(is_bf16)
}

/// Describes a chip on the command line that contradicts the plan.
fn other_chip(told: Option<ChipChoice>, plan: &Plan) -> Option<String> {
    let told_name = match told? {
        ChipChoice::Tpu(chip) => chip.name,
        ChipChoice::Gpu(gpu) => gpu.name,
    };
    match (told?, plan) {
        (ChipChoice::Gpu(_), Plan::Gpu(_)) => None,
        (ChipChoice::Tpu(chip), Plan::Tpu(plan)) if chip == plan.chip => None,
        (_, Plan::Tpu(plan)) => {
            let planned = plan.chip.name;
            Some(format!("the manifest plans a kernel for {planned}, but --chip says {told_name}"))
        }
        (_, Plan::Gpu(_)) => Some(format!("the manifest plans a GPU kernel, but --chip says {told_name}")),
    }
}

/// Describes a strategy on the command line or in the name that contradicts the plan.
fn contradiction(told: Option<Strategy>, planned: Strategy, named: &[Strategy]) -> Option<String> {
    let planned_is = planned.version();
    match (told, named.first()) {
        (Some(told), _) if told != planned => Some(format!(
            "the manifest plans {planned_is}, but --strategy says {}: checking as the latter",
            told.version()
        )),
        (None, Some(first)) if !named.contains(&planned) => Some(format!(
            "the name says {}, but the manifest plans {planned_is}: checking as the latter",
            first.version()
        )),
        _ => None,
    }
}

//! Which checks a version must pass, and why others are waived.

use octile_core::{
    ActivationKind, FloatKind, Strategy,
    device::tpu::{Fp8Support, TpuChip},
};
use octile_dump::{
    checks::CheckId,
    facts::{Facts, FileKind, Level, Matmul},
};
use serde::Serialize;

use super::manifest::{Arithmetic, Manifest, Plan, Region, TpuPlan};
use crate::args::ChipChoice;

/// How a version is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// From the command line.
    Told,
    /// From the plan in the manifest.
    Manifest,
    /// From the name of the folder or file.
    Name,
    /// Not at all: only what every version promises is required.
    Unknown,
}

/// A check that the strategy asks for and this kernel does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Waiver {
    /// The check.
    pub check: CheckId,
    /// Why not.
    pub because: &'static str,
}

/// What a version promises.
#[derive(Debug, Clone, Serialize)]
pub struct Promise {
    /// How the version is known.
    pub known: Known,
    /// The version, where it is known.
    pub strategy: Option<Strategy>,
    /// The chip, where it is known.
    #[serde(serialize_with = "chip_name")]
    pub chip: Option<&'static TpuChip>,
    /// Whether it is a GPU kernel.
    pub gpu: bool,
    /// Which GPU, where it is known.
    pub gpu_name: Option<String>,
    /// Whether there is a plan, which then says what is waived.
    #[serde(skip)]
    planned: bool,
    /// Blocks that a TPU kernel goes through, where there is a plan.
    #[serde(skip)]
    blocks: Option<usize>,
    /// The checks it must pass.
    pub required: Vec<CheckId>,
    /// The ones that its strategy asks for and it need not pass.
    pub waived: Vec<Waiver>,
    /// Where what is said about the version disagrees, as a sentence without a full stop.
    pub contradiction: Option<String>,
    /// Whether what was told is not what the manifest says.
    pub told_otherwise: bool,
}

fn chip_name<S: serde::Serializer>(chip: &Option<&'static TpuChip>, to: S) -> Result<S::Ok, S::Error> {
    chip.map(|chip| chip.name).serialize(to)
}

/// What the user says about the dumps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told {
    /// The version.
    pub strategy: Option<Strategy>,
    /// The chip.
    pub chip: Option<ChipChoice>,
}

impl Promise {
    /// Of a version with this name and manifest. Its checks are not settled before its files are read.
    pub fn new(told: Told, manifest: Option<&Manifest>, name: &str) -> Self {
        let plan = manifest.map(|manifest| &manifest.plan);
        let planned = plan.map(Plan::strategy);
        let named: Vec<Strategy> = words(name).filter_map(|word| word.parse().ok()).collect();
        let (known, strategy) = match (told.strategy, planned, named.first().copied()) {
            (Some(strategy), ..) => (Known::Told, Some(strategy)),
            (_, Some(strategy), _) => (Known::Manifest, Some(strategy)),
            (_, _, Some(strategy)) => (Known::Name, Some(strategy)),
            _ => (Known::Unknown, None),
        };
        let chip = match (told.chip, plan) {
            (Some(ChipChoice::Tpu(chip)), _) => Some(chip),
            (_, Some(Plan::Gpu(_))) => None,
            (_, Some(Plan::Tpu(plan))) => TpuChip::named(&plan.chip.name).ok(),
            (Some(ChipChoice::Gpu(_)), None) => None,
            // Of the names of chips, v4 is also that of a version.
            (None, None) => {
                words(name).filter(|word| *word != "v4").find_map(|word| TpuChip::named(word).ok())
            }
        };
        let gpu_name = match told.chip {
            Some(ChipChoice::Gpu(gpu)) => Some(gpu.name.to_owned()),
            Some(ChipChoice::Tpu(_)) => None,
            None => manifest.and_then(|manifest| Some(manifest.gpu.as_ref()?.name.clone())),
        };
        // A plan excuses the kernel that it is for, and not another one that is expected in its place.
        let is_own = planned == strategy;
        let waived = match plan {
            Some(Plan::Tpu(plan)) if is_own => waived_by_plan(plan, chip),
            Some(Plan::Tpu(plan)) => waived_by_problem(plan, chip),
            Some(Plan::Gpu(_)) => Vec::new(),
            None => waived_by_chip(chip).into_iter().collect(),
        };
        let gpu = matches!(plan, Some(Plan::Gpu(_)));
        let blocks = match plan {
            Some(Plan::Tpu(plan)) if is_own => Some(blocks(plan)),
            _ => None,
        };
        let other_chip = plan.and_then(|plan| other_chip(told.chip, plan));
        let told_otherwise =
            told.strategy.is_some_and(|_| planned.is_some() && !is_own) || other_chip.is_some();
        let contradiction = planned.and_then(|planned| contradiction(told.strategy, planned, &named));
        let contradiction = contradiction.or(other_chip);
        let (planned, required) = (plan.is_some(), Vec::new());
        Self {
            known,
            strategy,
            chip,
            gpu,
            gpu_name,
            planned,
            blocks,
            required,
            waived,
            contradiction,
            told_otherwise,
        }
    }

    /// Settles the checks: those of the strategy, or of a GPU kernel, less those that are waived.
    pub fn settle(&mut self, facts: &Facts) {
        let is_gpu = |kind: FileKind| matches!(kind, FileKind::Ptx | FileKind::Sass | FileKind::Assembler);
        self.gpu |= !facts.files.is_empty() && facts.files.iter().all(|file| is_gpu(file.kind));
        // Less is asked of a GPU kernel, so that a word alone makes no kernel one.
        if let Some(gpu) = self.gpu_name.take_if(|_| !self.gpu) {
            let says = format!("these are no dumps of a GPU kernel; {gpu}, as told, is left out of account");
            self.contradiction.get_or_insert(says);
        }
        if let Some(chip) = self.chip.take_if(|_| self.gpu) {
            let says = format!("these are dumps of a GPU kernel; {} is left out of account", chip.name);
            self.contradiction.get_or_insert(says);
        }
        let asked = match (self.gpu, self.strategy) {
            (true, strategy) => CheckId::required_on_gpu(strategy.unwrap_or(Strategy::Auto)),
            (false, strategy) => CheckId::required(strategy.unwrap_or(Strategy::Auto)),
        };
        let emulates = !self.gpu && is_emulated(facts);
        self.waived.retain(|waiver| *waiver != EMULATES || emulates);
        if !self.planned && dequantizes(self.strategy, facts) {
            self.waived = vec![DEQUANTIZES];
        }
        if copies_once(self.blocks, facts) {
            let because = "each core has one block to copy, so there is nothing to overlap";
            self.waived.push(Waiver { check: CheckId::DoubleBuffered, because });
        }
        self.waived.retain(|waiver| asked.contains(&waiver.check));
        let waived = |check: &CheckId| self.waived.iter().any(|waiver| waiver.check == *check);
        self.required = asked.iter().copied().filter(|check| !waived(check)).collect();
    }
}

/// The words of a name, in lower case as they are in all names that Octile writes.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

const DEQUANTIZES: Waiver = Waiver {
    check: CheckId::NativeFp8,
    because: "this variant scales its operands first and multiplies them as bf16",
};

const EMULATES: Waiver = Waiver {
    check: CheckId::NativeFp8,
    because: "this chip has no matrix units for 8-bit floats, and the compiler widens them",
};

fn waived_by_chip(chip: Option<&TpuChip>) -> Option<Waiver> {
    chip.is_some_and(|chip| chip.fp8 != Fp8Support::Native).then_some(EMULATES)
}

/// Whether the listing, where there is one, shows 8-bit floats that the compiler widened, and nothing else.
fn is_emulated(facts: &Facts) -> bool {
    facts.matmuls.iter().filter(|matmul| matmul.level == Level::Llo).all(|matmul| matmul.emulated)
}

/// Blocks of the longest sequence that is copied piece by piece.
fn blocks(plan: &TpuPlan) -> usize {
    match &plan.ring {
        Some(ring) => plan.problem.n.div_ceil(ring.columns.max(1)),
        None => plan.grid.m.saturating_mul(plan.grid.n).saturating_mul(plan.grid.k),
    }
}

/// Whether no core has a second block to copy.
fn copies_once(blocks: Option<usize>, facts: &Facts) -> bool {
    let cores = facts.cores.unwrap_or(1);
    let mut inbound = facts.copies.iter().filter(|copy| copy.level == Level::Llo && copy.inbound);
    blocks.is_some_and(|blocks| blocks <= cores) && inbound.all(|copy| copy.starts <= 1)
}

/// Whether a kernel is the variant that multiplies bf16: of all versions only the last has one, and no compiler makes
/// it out of another, so that it shows in the kernel's own text.
fn dequantizes(strategy: Option<Strategy>, facts: &Facts) -> bool {
    let mut own = facts.matmuls.iter().filter(|matmul| matmul.level == Level::Mosaic).peekable();
    let is_bf16 = |matmul: &Matmul| matmul.lhs == "bf16" && matmul.rhs == "bf16";
    strategy == Some(Strategy::Strip) && own.peek().is_some() && own.all(is_bf16)
}

/// That another chip is told than the one that a manifest names.
fn other_chip(told: Option<ChipChoice>, plan: &Plan) -> Option<String> {
    let told_name = match told? {
        ChipChoice::Tpu(chip) => chip.name,
        ChipChoice::Gpu(gpu) => gpu.name,
    };
    match (told?, plan) {
        (ChipChoice::Gpu(_), Plan::Gpu(_)) => None,
        (ChipChoice::Tpu(chip), Plan::Tpu(plan)) if chip.name == plan.chip.name => None,
        (_, Plan::Tpu(plan)) => {
            let planned = &plan.chip.name;
            Some(format!("the manifest says that this is for {planned}, and not for {told_name}, as told"))
        }
        (_, Plan::Gpu(_)) => {
            Some(format!("the manifest says that this is for a GPU, and not for {told_name}, as told"))
        }
    }
}

/// What is said against the version that a manifest names.
fn contradiction(told: Option<Strategy>, planned: Strategy, named: &[Strategy]) -> Option<String> {
    let planned_is = planned.version();
    match (told, named.first()) {
        (Some(told), _) if told != planned => Some(format!(
            "the manifest says that this is {planned_is}; it is judged as {}, as told",
            told.version()
        )),
        (None, Some(first)) if !named.contains(&planned) => Some(format!(
            "the name says {}, and the manifest that this is {planned_is}, as which it is judged",
            first.version()
        )),
        _ => None,
    }
}

/// What no kernel for this problem on this chip can do, whatever its strategy.
fn waived_by_problem(plan: &TpuPlan, chip: Option<&TpuChip>) -> Vec<Waiver> {
    if plan.arithmetic != Arithmetic::Widened {
        return waived_by_chip(chip).into_iter().collect();
    }
    let because = "the activations are multiplied as they are, without quantization";
    let mut waived = vec![Waiver { check: CheckId::NativeFp8, because }];
    if matches!(&plan.problem.x, ActivationKind::Plain(kind) if *kind != FloatKind::Bf16) {
        let because = "the activations come in a type that the kernel multiplies as f32";
        waived.push(Waiver { check: CheckId::NoF32Matmul, because });
    }
    waived
}

fn waived_by_plan(plan: &TpuPlan, chip: Option<&TpuChip>) -> Vec<Waiver> {
    let mut waived = match plan.arithmetic {
        Arithmetic::Dequantized => vec![DEQUANTIZES],
        Arithmetic::Fp8 | Arithmetic::Widened => waived_by_problem(plan, chip),
    };
    // Activations that the kernel quantizes come with the largest magnitude that shares a scale.
    let is_scale = |region: &Region| ["x_scale", "x_abs_max"].contains(&region.name.as_str());
    if plan.memory.regions.iter().any(|region| is_scale(region) && region.space != "smem") {
        let because = "the plan keeps scales in VMEM: one per row of a block is a vector, not a scalar";
        waived.push(Waiver { check: CheckId::ScalesStaged, because });
    }
    waived
}

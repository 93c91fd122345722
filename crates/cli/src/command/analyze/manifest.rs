//! What of a version's `manifest.json` decides how its dumps are judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail};
use octile_core::{ActivationKind, FloatKind, QuantBlock, Strategy};
use octile_dump::facts::DumpTarget;
use serde::{
    Deserialize, Serialize,
    de::{Error, IgnoredAny},
};
use serde_json::{Value, error::Category};

use crate::{
    command::seal::{self, Seal},
    input,
    plain_path::PlainPath,
    print::shown,
    strict_json,
};

/// Its name.
pub const FILE_NAME: &str = "manifest.json";

/// The parts of a manifest that are read back.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some keys are only required to be there")]
pub struct Manifest {
    /// The plan that was compiled.
    pub plan: Plan,
    /// The GPU that a GPU kernel was planned for.
    pub gpu: Option<Chip>,
    /// The compiler's figures.
    pub figures: Figures,
    /// The kernels that prepare operands for this one, by the names of their folders.
    #[serde(default)]
    pub helpers: BTreeMap<String, HelperKernel>,
    /// The files beside it.
    pub files: Vec<File>,
    /// The strategy of the plan, once more.
    #[serde(skip_serializing)]
    strategy: Strategy,
    /// The name of a GPU kernel.
    #[serde(skip_serializing)]
    entry: Option<String>,
    // What no verdict depends on is named here so that unknown keys are noticed.
    #[serde(skip_serializing)]
    date: IgnoredAny,
    #[serde(skip_serializing)]
    version: IgnoredAny,
    #[serde(skip_serializing)]
    title: IgnoredAny,
    #[serde(skip_serializing)]
    compiler: IgnoredAny,
    #[serde(skip_serializing)]
    sha256: IgnoredAny,
}

/// A plan.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Plan {
    /// For a TPU kernel.
    Tpu(TpuPlan),
    /// For a GPU kernel.
    Gpu(GpuPlan),
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let plan = Value::deserialize(from)?;
        // Only a TPU's plan has its chip in it; what is wrong with a plan is then said about one of its kind.
        match plan.get("chip") {
            Some(_) => TpuPlan::deserialize(plan).map(Self::Tpu),
            None => GpuPlan::deserialize(plan).map(Self::Gpu),
        }
        .map_err(D::Error::custom)
    }
}

impl Plan {
    /// Its strategy.
    pub fn strategy(&self) -> Strategy {
        match self {
            Self::Tpu(plan) => plan.strategy,
            Self::Gpu(plan) => plan.strategy,
        }
    }

    /// The kind of device that it is for.
    pub fn target(&self) -> DumpTarget {
        match self {
            Self::Tpu(_) => DumpTarget::Tpu,
            Self::Gpu(_) => DumpTarget::Gpu,
        }
    }

    /// What is multiplied.
    pub fn problem(&self) -> &Problem {
        match self {
            Self::Tpu(plan) => &plan.problem,
            Self::Gpu(plan) => &plan.problem,
        }
    }

    /// Buffers.
    pub fn memory(&self) -> &Memory {
        match self {
            Self::Tpu(plan) => &plan.memory,
            Self::Gpu(plan) => &plan.memory,
        }
    }
}

/// A plan for a GPU kernel.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct GpuPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// Its strategy.
    pub strategy: Strategy,
    /// Places in shared memory that take turns.
    pub stages: usize,
    /// Products that the tensor cores add up by themselves.
    pub promote_every: Option<usize>,
    /// Which threads hand stages back.
    pub release: Option<Release>,
    /// Buffers in shared memory.
    pub memory: Memory,
}

/// Which threads hand stages back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Release {
    /// Every one, so that racecheck can follow.
    Thread,
    /// Some for others.
    #[serde(other)]
    Fewer,
}

/// A plan for a TPU kernel.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct TpuPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// On what.
    pub chip: Chip,
    /// Its strategy.
    pub strategy: Strategy,
    /// By its name.
    pub mode: String,
    /// What the matrix units multiply.
    pub arithmetic: Arithmetic,
    /// Blocks along each dimension.
    pub grid: Grid,
    /// Pieces of weights, where rows are few.
    pub ring: Option<Ring>,
    /// Buffers.
    pub memory: Memory,
}

/// Pieces of weights.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Ring {
    /// Outputs that one piece is for.
    pub columns: usize,
}

/// What is multiplied.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Problem {
    /// Rows of x.
    pub m: usize,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
    /// Side of a quantization block.
    pub quant_block: usize,
    /// Activations.
    pub x: ActivationKind,
    /// Results; what is judged does not depend on them.
    pub out: Option<FloatKind>,
}

impl Problem {
    /// Its shape, as `--shape` takes it.
    pub fn shape(&self) -> String {
        format!("{}x{}x{}:{}", self.m, self.n, self.k, self.quant_block)
    }

    /// The problem, if it is one and whole.
    pub fn checked(&self) -> Result<octile_core::Problem> {
        let Self { m, n, k, quant_block, x, out } = *self;
        let out =
            out.context("the manifest does not tell the type of the results: run `octile inspect` again")?;
        Ok(octile_core::Problem::new(m, n, k, QuantBlock::try_from(quant_block)?)?.with_x(x).with_out(out))
    }
}

/// What the matrix units multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// 8-bit codes.
    Fp8,
    /// Wider activations, and codes widened to them.
    Widened,
    /// Both operands scaled and rounded to bf16.
    Dequantized,
}

/// A chip.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Chip {
    /// Its name.
    pub name: String,
}

/// Blocks along each dimension.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Grid {
    /// Along the rows of x.
    pub m: usize,
    /// Along the outputs.
    pub n: usize,
    /// Along the inputs.
    pub k: usize,
}

/// Buffers.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Memory {
    /// In the order in which they are laid out.
    pub regions: Vec<Region>,
}

/// One buffer.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Region {
    /// What it holds.
    pub name: String,
    /// The name of its memory.
    pub space: String,
    /// How many copies of it take turns.
    pub buffers: usize,
    /// Bytes of one copy.
    pub bytes: u64,
}

/// Figures of a compilation.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Figures {
    /// Bytes of machine code.
    pub code_bytes: u64,
    /// The compiler's own estimates, where it makes any.
    #[serde(default)]
    pub profile: Profile,
    /// Bytes of shared memory that a GPU kernel asks for.
    pub shared_bytes: Option<u64>,
}

/// The compiler's own estimates.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Profile {
    /// Cycles by operation.
    pub estimated_cycles: BTreeMap<String, u64>,
}

/// A kernel that prepares operands.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct HelperKernel {
    /// Its figures.
    pub figures: Figures,
}

/// A file that was written along with the manifest.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some keys are only required to be there")]
pub struct File {
    /// Its name.
    pub name: PlainPath,
    /// How long it was.
    pub bytes: u64,
    /// What was in it.
    pub sha256: String,
    /// What it is, for readers.
    #[serde(skip_serializing)]
    role: String,
}

impl File {
    /// How the content differs from what was written, as the rest of a sentence about the file.
    pub fn change(&self, content: &[u8]) -> Option<String> {
        match () {
            () if content.len() as u64 != self.bytes => {
                Some(format!("has {} bytes instead of {}", content.len(), self.bytes))
            }
            () if seal::checksum(content) != self.sha256 => Some("was changed".to_owned()),
            () => None,
        }
    }
}

/// What is wrong with a text that is no JSON.
fn damage(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "it is cut off".to_owned(),
        Category::Syntax | Category::Io => "it is not JSON".to_owned(),
        Category::Data => error.to_string(),
    }
}

/// Refuses a manifest that is not as it was written.
fn require_intact(path: &Path, text: &str, value: &Value) -> Result<()> {
    let path = shown(path);
    match seal::examine(text) {
        Seal::Intact => Ok(()),
        Seal::Missing if value.get("crc32").is_some() => {
            bail!("{path} was written by an earlier version of octile: run `octile inspect` again")
        }
        Seal::Missing if value.get(seal::KEY).is_none() => bail!(
            "{path} has no seal (key `{}`): it was changed, or written by an earlier version of octile; run \
             `octile inspect` again",
            seal::KEY
        ),
        Seal::Missing | Seal::Broken => {
            bail!("{path} was changed since `octile inspect` wrote it: compile that version again")
        }
    }
}

/// Reads the manifest of a folder, whole and as it was written; `None` where it has none.
pub fn sealed_value(folder: &Path) -> Result<Option<Value>> {
    let path = folder.join(FILE_NAME);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let name = PlainPath::new(FILE_NAME).expect("a plain name");
    let bytes = input::read(&input::within(folder, &name)?, input::MANIFEST_BYTES)?;
    let read = || -> Result<(Value, String)> {
        let text = String::from_utf8(bytes).map_err(|_| anyhow!("it is not JSON"))?;
        let value = strict_json::parse(&text).map_err(|error| anyhow!(damage(&error)))?;
        Ok((value, text))
    };
    let (value, text) = read().with_context(|| unreadable(&path))?;
    require_intact(&path, &text, &value)?;
    Ok(Some(value))
}

fn unreadable(path: &Path) -> String {
    format!("cannot read {}: compile that version again with `octile inspect`", shown(path))
}

impl Manifest {
    /// The manifest of a folder, if it has one.
    pub fn of(folder: &Path) -> Result<Option<Self>> {
        let Some(value) = sealed_value(folder)? else { return Ok(None) };
        let manifest = Self::deserialize(value).map_err(anyhow::Error::from).and_then(Self::checked);
        manifest.map(Some).with_context(|| unreadable(&folder.join(FILE_NAME)))
    }

    /// Refuses what contradicts itself.
    fn checked(self) -> Result<Self> {
        let (strategy, planned) = (self.strategy, self.plan.strategy());
        if planned != strategy {
            bail!("`strategy` is {strategy}, but `plan.strategy` is {planned}");
        }
        let mut names = BTreeSet::new();
        match self.files.iter().find(|file| !names.insert(&file.name)) {
            Some(file) => bail!("it lists {} twice", file.name),
            None => Ok(self),
        }
    }

    /// What the compiler estimates for the kernel, as opposed to the operations around it.
    pub fn estimated_cycles(&self) -> Option<u64> {
        let estimates = self.figures.profile.estimated_cycles.iter();
        estimates.filter(|(name, _)| name.starts_with("octile_")).map(|(_, cycles)| *cycles).max()
    }
}

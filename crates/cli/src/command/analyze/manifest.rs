//! What of a version's `manifest.json` decides how its dumps are judged.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use octile_core::{ActivationKind, FloatKind, QuantBlock};
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use crate::command::seal;

/// Its name.
pub const FILE_NAME: &str = "manifest.json";

/// The parts of a manifest that are read back.
#[derive(Debug, Clone, Deserialize, Serialize)]
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
}

/// A plan.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Plan {
    /// For a TPU kernel.
    Tpu(TpuPlan),
    /// For a GPU kernel.
    Gpu(GpuPlan),
}

impl Plan {
    /// The name of its strategy.
    pub fn strategy(&self) -> &str {
        match self {
            Self::Tpu(plan) => &plan.strategy,
            Self::Gpu(plan) => &plan.strategy,
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
    /// By its name.
    pub strategy: String,
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
    /// By its name.
    pub strategy: String,
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
pub struct File {
    /// Its name.
    pub name: String,
    /// How long it was.
    pub bytes: u64,
    /// What was in it; manifests of earlier versions do not say.
    pub crc32: Option<u32>,
}

/// What is wrong with a manifest. How our values are laid out is of no use to a reader.
fn damage(category: Category) -> &'static str {
    match category {
        Category::Eof => "it is cut off",
        Category::Syntax | Category::Io => "it is not JSON",
        Category::Data => "parts of it are missing, or not as `octile inspect` writes them",
    }
}

/// Refuses a manifest that is not as it was written.
pub fn require_intact(path: &Path, text: &str) -> Result<()> {
    if seal::is_intact(text) {
        return Ok(());
    }
    bail!("{} was changed since `octile inspect` wrote it: compile that version again", path.display())
}

impl Manifest {
    /// The manifest of a folder, if it has one.
    pub fn of(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE_NAME);
        if !path.is_file() {
            return Ok(None);
        }
        let read = || -> Result<(Self, String)> {
            let text = String::from_utf8(fs::read(&path)?).map_err(|_| anyhow!(damage(Category::Syntax)))?;
            let manifest = serde_json::from_str(&text).map_err(|error| anyhow!(damage(error.classify())))?;
            Ok((manifest, text))
        };
        let what =
            || format!("cannot read {}: compile that version again with `octile inspect`", path.display());
        let (manifest, text) = read().with_context(what)?;
        require_intact(&path, &text)?;
        Ok(Some(manifest))
    }

    /// Files that are not there any more as they were written, one sentence each.
    pub fn broken_files(&self, folder: &Path) -> Vec<String> {
        let broken = |file: &File| {
            let path = folder.join(&file.name);
            let is_other = |now: &[u8]| file.crc32.is_some_and(|crc32| crc32 != crc32fast::hash(now));
            let left = match fs::read(&path) {
                Err(_) => "is missing".to_owned(),
                Ok(now) if now.len() as u64 != file.bytes => {
                    format!("has {} bytes instead of {}", now.len(), file.bytes)
                }
                Ok(now) if is_other(&now) => "was changed".to_owned(),
                Ok(_) => return None,
            };
            Some(format!("{} {left}, against its manifest: compile that version again", path.display()))
        };
        self.files.iter().filter_map(broken).collect()
    }

    /// The files of the kernels that prepare operands for this one, by their folders.
    pub fn helper_files(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut helpers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (folder, name) in self.files.iter().filter_map(|file| file.name.split_once('/')) {
            helpers.entry(folder).or_default().push(name);
        }
        helpers
    }

    /// What the compiler estimates for the kernel, as opposed to the operations around it.
    pub fn estimated_cycles(&self) -> Option<u64> {
        let estimates = self.figures.profile.estimated_cycles.iter();
        estimates.filter(|(name, _)| name.starts_with("octile_")).map(|(_, cycles)| *cycles).max()
    }
}

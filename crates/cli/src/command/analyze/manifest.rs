//! The manifest of a version: what `octile inspect` wrote about its plan, figures and files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail};
use octile_core::{
    Problem, Strategy,
    device::{hopper::HopperGpu, tpu::TpuChip},
    plan::{MemoryMap, hopper::HopperPlan, tpu::TpuPlan},
};
use octile_dump::facts::DumpTarget;
use octile_harness::record::Schema;
use serde::{
    Deserialize, Deserializer, Serialize,
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

/// Name of a manifest.
pub const FILE_NAME: &str = "manifest.json";

/// Schema of manifests. Version 2 holds a whole plan, which is rebuilt when it is read, or the name of a
/// kernel that Octile did not plan.
pub const SCHEMA: Schema = Schema { name: "octile-manifest", version: 2 };

/// A manifest that is intact and consistent.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some keys are only required to be there")]
pub struct Manifest {
    /// The plan that was compiled; `None` for a kernel that Octile did not plan.
    #[serde(default)]
    pub plan: Option<Plan>,
    /// The kernel that was compiled, where there is no plan.
    #[serde(default)]
    pub kernel: Option<ForeignKernel>,
    /// The GPU that a GPU kernel was planned for.
    #[serde(default, deserialize_with = "known_gpu")]
    pub gpu: Option<&'static HopperGpu>,
    /// The compiler's figures.
    pub figures: CompiledFigures,
    /// Kernels that prepare operands, by folder.
    #[serde(default)]
    pub helpers: BTreeMap<String, HelperKernel>,
    /// The files beside the manifest.
    pub files: Vec<ListedFile>,
    /// The strategy of the plan, for readers.
    #[serde(default, skip_serializing)]
    strategy: Option<Strategy>,
    /// The entry point of a GPU kernel.
    #[serde(skip_serializing)]
    entry: Option<String>,
    // Keys that nothing depends on are listed to detect unknown ones.
    #[serde(skip_serializing)]
    schema: IgnoredAny,
    #[serde(skip_serializing)]
    date: IgnoredAny,
    #[serde(skip_serializing)]
    version: IgnoredAny,
    #[serde(default, skip_serializing)]
    title: Option<IgnoredAny>,
    #[serde(skip_serializing)]
    compiler: IgnoredAny,
    #[serde(skip_serializing)]
    sha256: IgnoredAny,
}

/// Reads a GPU by name: the other facts about it are in the device table.
fn known_gpu<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'static HopperGpu>, D::Error> {
    let gpu = Value::deserialize(from)?;
    let name = gpu.as_str().or_else(|| gpu.get("name")?.as_str()).unwrap_or_default();
    HopperGpu::named(name).map(Some).map_err(D::Error::custom)
}

/// The plan of a kernel.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Plan {
    /// Of a TPU kernel.
    Tpu(Box<TpuPlan>),
    /// Of a GPU kernel.
    Gpu(Box<HopperPlan>),
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let plan = Value::deserialize(from)?;
        // Only TPU plans name their chip. An error is then about a plan of the right kind.
        match plan.get("chip") {
            Some(_) => serde_json::from_value(plan).map(Self::Tpu),
            None => serde_json::from_value(plan).map(Self::Gpu),
        }
        .map_err(D::Error::custom)
    }
}

impl Plan {
    /// Returns the strategy.
    pub fn strategy(&self) -> Strategy {
        match self {
            Self::Tpu(plan) => plan.strategy,
            Self::Gpu(plan) => plan.strategy,
        }
    }

    /// Returns the kind of device.
    pub fn target(&self) -> DumpTarget {
        match self {
            Self::Tpu(_) => DumpTarget::Tpu,
            Self::Gpu(_) => DumpTarget::Gpu,
        }
    }

    /// Returns the problem.
    pub fn problem(&self) -> &Problem {
        match self {
            Self::Tpu(plan) => &plan.problem,
            Self::Gpu(plan) => &plan.problem,
        }
    }

    /// Returns the memory map.
    pub fn memory(&self) -> &MemoryMap {
        match self {
            Self::Tpu(plan) => &plan.memory,
            Self::Gpu(plan) => &plan.memory,
        }
    }
}

/// A kernel of a module that Octile did not generate.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKernel {
    /// Its name in the module.
    pub name: String,
    /// The file that was compiled.
    pub source: String,
    /// Name of its custom call in the optimized HLO.
    pub operation: String,
    /// The chip it was compiled for.
    pub chip: &'static TpuChip,
}

/// Figures of a compilation, as far as verdicts depend on them.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct CompiledFigures {
    /// Bytes of machine code.
    pub code_bytes: u64,
    /// The compiler's estimates, if it makes any.
    #[serde(default)]
    pub profile: CycleEstimates,
    /// Bytes of shared memory of a GPU kernel.
    pub shared_bytes: Option<u64>,
}

/// The compiler's estimates.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct CycleEstimates {
    /// Cycles by operation.
    pub estimated_cycles: BTreeMap<String, u64>,
}

/// A kernel that prepares operands.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct HelperKernel {
    /// Its figures.
    pub figures: CompiledFigures,
}

/// A file that a manifest lists.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some keys are only required to be there")]
pub struct ListedFile {
    /// Path in the folder of the version.
    pub name: PlainPath,
    /// Length.
    pub bytes: u64,
    /// SHA-256 of its content.
    pub sha256: String,
    /// Description, for readers.
    #[serde(skip_serializing)]
    role: String,
}

impl ListedFile {
    /// Describes how the content differs from what was written, as the rest of a sentence about the file.
    pub fn change(&self, content: &[u8]) -> Option<String> {
        if content.len() as u64 != self.bytes {
            return Some(format!("has {} bytes instead of {}", content.len(), self.bytes));
        }
        (seal::checksum(content) != self.sha256).then(|| "was changed".to_owned())
    }
}

/// Describes a text that is not JSON.
fn damage(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "it is cut off".to_owned(),
        Category::Syntax | Category::Io => "it is not JSON".to_owned(),
        Category::Data => error.to_string(),
    }
}

/// Rejects a manifest that was changed.
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

/// Rejects a manifest of another version.
fn require_schema(path: &Path, value: &Value) -> Result<()> {
    let path = shown(path);
    match value.get("schema").map(|schema| schema.as_str().unwrap_or_default()) {
        Some(schema) if schema == SCHEMA.to_string() => Ok(()),
        Some(schema) => {
            bail!("{path} has schema {schema:?}, but this octile reads {SCHEMA}: run `octile inspect` again")
        }
        None => bail!("{path} was written by an earlier version of octile: run `octile inspect` again"),
    }
}

/// Reads the manifest of a folder and requires that it is unchanged; `None` if there is none.
fn sealed_value(folder: &Path) -> Result<Option<Value>> {
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
    require_schema(&path, &value)?;
    Ok(Some(value))
}

fn unreadable(path: &Path) -> String {
    format!("cannot read {}: compile that version again with `octile inspect`", shown(path))
}

impl Manifest {
    /// Reads the manifest of a folder, if it has one.
    pub fn of(folder: &Path) -> Result<Option<Self>> {
        let Some(value) = sealed_value(folder)? else { return Ok(None) };
        let manifest = Self::deserialize(value).map_err(anyhow::Error::from).and_then(Self::checked);
        manifest.map(Some).with_context(|| unreadable(&folder.join(FILE_NAME)))
    }

    /// Rejects a manifest that contradicts itself.
    fn checked(self) -> Result<Self> {
        match (&self.plan, &self.kernel) {
            (Some(_), None) if self.title.is_none() => bail!("missing field `title`"),
            (Some(_), None) if self.strategy.is_none() => bail!("missing field `strategy`"),
            (Some(_), None) | (None, Some(_)) => {}
            (None, None) => bail!("missing field `plan`"),
            (Some(_), Some(_)) => bail!("it has both `plan` and `kernel`"),
        }
        if let Some(Plan::Gpu(plan)) = &self.plan
            && self.gpu != Some(&plan.gpu)
        {
            bail!("`gpu` is not the GPU of the plan, {}", plan.gpu.name);
        }
        let planned = self.plan.as_ref().map(Plan::strategy);
        if planned != self.strategy {
            let name = |strategy: Option<Strategy>| strategy.map_or("missing".to_owned(), |s| s.to_string());
            bail!("`strategy` is {}, but `plan.strategy` is {}", name(self.strategy), name(planned));
        }
        let mut names = BTreeSet::new();
        match self.files.iter().find(|file| !names.insert(&file.name)) {
            Some(file) => bail!("it lists {} twice", file.name),
            None => Ok(self),
        }
    }

    /// Returns the problem that a planned kernel solves.
    pub fn problem(&self) -> Option<&Problem> {
        self.plan.as_ref().map(Plan::problem)
    }

    /// Returns the kind of device.
    pub fn target(&self) -> DumpTarget {
        self.plan.as_ref().map_or(DumpTarget::Tpu, Plan::target)
    }

    /// Returns the compiler's cycle estimate for the kernel, without the operations around it.
    pub fn estimated_cycles(&self) -> Option<u64> {
        let estimates = self.figures.profile.estimated_cycles.iter();
        let is_kernel = |name: &str| match &self.kernel {
            Some(kernel) => name == kernel.operation,
            None => name.starts_with("octile_"),
        };
        estimates.filter(|(name, _)| is_kernel(name)).map(|(_, cycles)| *cycles).max()
    }
}

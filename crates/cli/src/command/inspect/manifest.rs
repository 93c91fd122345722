//! Writes the manifest of a TPU version.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;
use octile_core::{Strategy, plan::tpu::TpuPlan};
use octile_harness::record::{Provenance, Schema};
use octile_runtime::pjrt::{
    MemoryStats, Value,
    compile::{Compiled, StaticProfile, Target},
};
use serde::Serialize;

use super::{
    collect::{RAW, ROLES, files_below},
    libtpu::TpuCompiler,
};
use crate::{
    command::{
        analyze::manifest::{ForeignKernel, SCHEMA},
        seal,
    },
    tools::FoundTool,
};

/// Placeholder for the compiler's dump folder, which is temporary.
pub(super) const PLACEHOLDER: &str = "DUMP";

/// Figures of one compilation.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Compile time in seconds.
    pub compile_seconds: f64,
    /// Bytes of machine code.
    pub code_bytes: i64,
    /// HBM of a run, in bytes.
    pub memory: MemoryStats,
    /// The compiler's cost analysis.
    pub cost: BTreeMap<String, Value>,
    /// The compiler's cycle estimate.
    pub profile: StaticProfile,
    /// Cycles counted in the kernel's listing.
    pub counted: Counted,
}

/// Cycles counted by executing the control flow of the kernel's LLO bundles, one per cycle.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Counted {
    /// The count.
    Cycles {
        /// Cycles with free waits for DMAs.
        cycles: u64,
        /// Cycles with DMAs at the rates of the device table.
        cycles_with_dmas: u64,
        /// Fraction of the cycles with free waits in which the MXUs are busy.
        mxu_share: f64,
    },
    /// The listing cannot be executed.
    NotCounted {
        /// Why.
        reason: String,
    },
}

impl Figures {
    pub(super) fn new(compiled: &Compiled, profile: StaticProfile, counted: Counted) -> Self {
        Self {
            compile_seconds: compiled.seconds,
            code_bytes: compiled.code_bytes,
            memory: compiled.memory,
            cost: compiled.cost.clone(),
            profile,
            counted,
        }
    }
}

/// A kernel that Octile planned.
#[derive(Debug, Serialize)]
pub(super) struct Planned<'a> {
    pub strategy: Strategy,
    pub title: &'static str,
    pub plan: &'a TpuPlan,
}

/// A kernel that Octile did not plan.
#[derive(Debug, Serialize)]
pub(super) struct Unplanned {
    pub kernel: ForeignKernel,
}

/// Content of the `manifest.json` of a TPU version, of a [`Planned`] or an [`Unplanned`] kernel.
#[derive(Debug, Serialize)]
pub(super) struct TpuManifest<'a, S> {
    schema: Schema,
    #[serde(flatten)]
    provenance: Provenance,
    #[serde(flatten)]
    subject: S,
    compiler: CompilerRecord<'a>,
    figures: &'a Figures,
    files: Vec<FileRecord>,
}

#[derive(Debug, Serialize)]
struct CompilerRecord<'a> {
    libtpu: &'a FoundTool,
    pjrt_api: String,
    platform_version: &'a str,
    target: &'a Target,
    device_kind: &'a str,
    flags: Vec<String>,
    fingerprint: Option<&'a str>,
}

/// A file of a version's folder.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FileRecord {
    name: String,
    role: &'static str,
    bytes: u64,
    /// Detects changes of the file.
    sha256: String,
}

impl FileRecord {
    /// Records files of a folder, given their names and roles.
    pub(super) fn all(roles: &[(&'static str, &'static str)], folder: &Path) -> Result<Vec<Self>> {
        let record = |&(name, role): &(&str, _)| {
            Ok(Self::new(name.to_owned(), role, &std::fs::read(folder.join(name))?))
        };
        roles.iter().map(record).collect()
    }

    /// Records the compiler's other dumps, if they are kept.
    fn raw(version: &Path) -> Result<Vec<Self>> {
        let folder = version.join(RAW);
        let files = if folder.is_dir() { files_below(&folder)? } else { Vec::new() };
        let record = |path: &PathBuf| {
            let name = path.strip_prefix(version)?.to_string_lossy().replace('\\', "/");
            Ok(Self::new(name, "raw dump", &std::fs::read(path)?))
        };
        files.iter().map(record).collect()
    }

    fn new(name: String, role: &'static str, content: &[u8]) -> Self {
        Self { name, role, bytes: content.len() as u64, sha256: seal::checksum(content) }
    }

    /// The same file, relative to the parent of its folder.
    pub(super) fn within(self, folder: &str) -> Self {
        Self { name: format!("{folder}/{}", self.name), ..self }
    }
}

impl<'a, S> TpuManifest<'a, S> {
    pub(super) fn new(
        subject: S,
        compiler: &'a TpuCompiler,
        flags: Vec<String>,
        compiled: &'a Compiled,
        figures: &'a Figures,
        folder: &Path,
    ) -> Result<Self> {
        let (major, minor) = compiled.pjrt_api;
        let roles: Vec<_> = ROLES.into_iter().filter(|(name, _)| folder.join(name).is_file()).collect();
        Ok(Self {
            schema: SCHEMA,
            provenance: Provenance::now(),
            subject,
            compiler: CompilerRecord {
                libtpu: &compiler.libtpu,
                pjrt_api: format!("{major}.{minor}"),
                platform_version: &compiled.platform_version,
                target: &compiler.target,
                device_kind: &compiled.device_kind,
                flags,
                fingerprint: compiled.fingerprint.as_deref(),
            },
            figures,
            files: [FileRecord::all(&roles, folder)?, FileRecord::raw(folder)?].concat(),
        })
    }
}

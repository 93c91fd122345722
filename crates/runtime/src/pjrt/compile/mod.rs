//! Ahead-of-time compilation in a child process.
//!
//! The TPU compiler ends its process on an unknown flag or an internal check, and reads most of its flags from the
//! environment once. So the compiling is done by a child: [`Compiler`] starts one with the right environment and
//! sends it a job as JSON, [`serve`] is what runs inside of it, and every finished module comes back as one line of
//! JSON. Whatever happens to the child, the results that it wrote before are kept.

mod child;
mod environment;
mod parent;
mod profile;
mod rejection;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{CompileOptions, MemoryStats, NamedValue, Value};

pub use child::serve;
pub use environment::DumpFlags;
pub use parent::{CompileError, Compiler};
pub use profile::{StaticProfile, TEMPORARY_PREFIX, static_profile};
pub use rejection::Rejection;

/// What to compile for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The plugin's name for it, for example `tpu7x:2x2x1`.
    pub topology: String,
    /// Options of the topology, for example `chips_per_host_bounds`.
    pub options: Vec<NamedValue>,
}

impl Target {
    /// A topology with its default options.
    pub fn named(topology: impl Into<String>) -> Self {
        Self { topology: topology.into(), options: Vec::new() }
    }
}

/// A program to compile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// What errors call it.
    pub name: String,
    /// StableHLO text.
    pub stablehlo: String,
    /// Options of this compilation.
    pub options: CompileOptions,
    /// Where to write the executable, for a runtime to load later.
    pub executable: Option<PathBuf>,
}

impl Module {
    /// A program with default options.
    pub fn new(name: impl Into<String>, stablehlo: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            stablehlo: stablehlo.into(),
            options: CompileOptions::default(),
            executable: None,
        }
    }
}

/// What the compiler says about a module that it compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// The version of the PJRT interface.
    pub pjrt_api: (i32, i32),
    /// The compiler's own version text.
    pub platform_version: String,
    /// The kind of device compiled for, for example `TPU7x`.
    pub device_kind: String,
    /// Hexadecimal digits that are equal for equal compilations.
    pub fingerprint: Option<String>,
    /// Bytes of machine code.
    pub code_bytes: i64,
    /// Device memory of a run.
    pub memory: MemoryStats,
    /// The compiler's cost figures: `flops`, `bytes accessed` and others.
    pub cost: BTreeMap<String, Value>,
    /// How long the compilation took.
    pub seconds: f64,
}

/// What a child is asked to do.
#[derive(Serialize, Deserialize)]
struct Job {
    plugin: PathBuf,
    target: Target,
    modules: Vec<Module>,
}

/// One line from a child: the outcome of the next module, or why there is none for any.
#[derive(Serialize, Deserialize)]
enum Reply {
    Compiled(Box<Compiled>),
    Rejected(Rejection),
    /// Plugin or topology are unusable.
    NotStarted(String),
}

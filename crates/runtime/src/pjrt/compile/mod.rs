//! Ahead-of-time compilation in a child process.
//!
//! The TPU compiler aborts on unknown flags and failed internal checks, and reads most flags from the
//! environment once. So a child process compiles: [`Compiler`] starts it with the right environment and sends
//! a request as JSON, [`serve`] runs inside it, and each finished module is one line of JSON. If the child
//! dies, earlier results are kept.

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
    /// Its name in the plugin, for example `tpu7x:2x2x1`.
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
    /// Its name in errors.
    pub name: String,
    /// StableHLO text.
    pub stablehlo: String,
    /// Options of this compilation.
    pub options: CompileOptions,
    /// Where to write the serialized executable.
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

/// What the compiler reports about a compiled module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// The version of the PJRT interface.
    pub pjrt_api: (i32, i32),
    /// The compiler's own version text.
    pub platform_version: String,
    /// The kind of device compiled for, for example `TPU7x`.
    pub device_kind: String,
    /// Fingerprint in hexadecimal: equal for equal compilations.
    pub fingerprint: Option<String>,
    /// Size of the machine code in bytes.
    pub code_bytes: i64,
    /// Device memory of a run.
    pub memory: MemoryStats,
    /// The compiler's cost figures: `flops`, `bytes accessed` and others.
    pub cost: BTreeMap<String, Value>,
    /// How long the compilation took.
    pub seconds: f64,
}

/// A request to a child.
#[derive(Serialize, Deserialize)]
struct CompileRequest {
    plugin: PathBuf,
    target: Target,
    modules: Vec<Module>,
}

/// One line from a child: the outcome of the next module, or an error that concerns all.
#[derive(Serialize, Deserialize)]
enum Reply {
    Compiled(Box<Compiled>),
    Rejected(Rejection),
    /// Plugin or topology are unusable.
    NotStarted(String),
}

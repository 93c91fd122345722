//! Tables of plans that were measured to be faster than the default ones.
//!
//! A table is text from a file that anyone may have written: whatever is wrong with it, a multiplication goes
//! on with its default plan. An entry holds choices, not plans: the plan is made from them here, and refused
//! where this version would not make it. It counts only for the device, the library and the kernels that it
//! was measured with. [`TunedTables`] looks entries up, in the user's table first, then in the shipped one.

mod tables;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use crate::{
    Problem,
    plan::{cpu::CpuChoice, hopper::TileConfig, tpu::Dims},
};

pub use tables::{TableOrigin, TunedTables, shipped};

/// Name of the format.
pub const SCHEMA: &str = "octile-tuned";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Longest text of a table.
pub const MOST_BYTES: u64 = 32 << 20;
/// Version of the library that makes the plans.
pub const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// Kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TunedTarget {
    /// A CPU.
    Cpu,
    /// A Hopper GPU.
    Gpu,
    /// A TPU.
    Tpu,
}

impl TunedTarget {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Gpu, Self::Tpu];

    /// Name of the file that holds its table.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu.json",
            Self::Gpu => "gpu.json",
            Self::Tpu => "tpu.json",
        }
    }
}

/// A device as a table names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedDevice {
    /// Kind.
    pub target: TunedTarget,
    /// Microarchitecture, GPU model or chip.
    pub name: String,
    /// Threads of a CPU, SMs of a GPU, cores of a chip.
    pub units: usize,
}

impl fmt::Display for TunedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, name, units } = self;
        let s = if *units == 1 { "" } else { "s" };
        match target {
            TunedTarget::Cpu => write!(f, "{name}, {units} thread{s}"),
            TunedTarget::Gpu => write!(f, "{name}, {units} SM{s}"),
            TunedTarget::Tpu => write!(f, "{name}"),
        }
    }
}

/// What an entry was measured with. One that differs makes it stale.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedWith {
    /// Version of the library.
    pub library: String,
    /// Hash of the kernels: of their source on a CPU, of the default and the chosen kernel elsewhere.
    pub kernels: String,
    /// Version of the driver or compiler below; empty on a CPU.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
}

impl TunedWith {
    /// This library with these kernels.
    pub fn new(kernels: impl Into<String>, driver: impl Into<String>) -> Self {
        Self { library: LIBRARY.to_owned(), kernels: kernels.into(), driver: driver.into() }
    }
}

/// The choices that a plan is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TunedChoice {
    /// On a CPU.
    Cpu(CpuChoice),
    /// On a GPU.
    Gpu(TileConfig),
    /// On a TPU: the tile of `strip`.
    Tpu(Dims),
}

impl TunedChoice {
    /// The kind of device that it is for.
    pub const fn target(&self) -> TunedTarget {
        match self {
            Self::Cpu(_) => TunedTarget::Cpu,
            Self::Gpu(_) => TunedTarget::Gpu,
            Self::Tpu(_) => TunedTarget::Tpu,
        }
    }

    /// The choice for a CPU.
    pub const fn cpu(self) -> Option<CpuChoice> {
        if let Self::Cpu(choice) = self { Some(choice) } else { None }
    }

    /// The tile for a GPU.
    pub const fn gpu(self) -> Option<TileConfig> {
        if let Self::Gpu(config) = self { Some(config) } else { None }
    }

    /// The tile for a TPU.
    pub const fn tpu(self) -> Option<Dims> {
        if let Self::Tpu(tile) = self { Some(tile) } else { None }
    }
}

impl fmt::Display for TunedChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(choice) => write!(f, "{choice}"),
            Self::Gpu(config) => write!(f, "{config}"),
            Self::Tpu(tile) => write!(f, "tile {}x{}x{}", tile.m, tile.n, tile.k),
        }
    }
}

/// Costs of the default plan and of the chosen one in one way of calling, taken in turns in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedSamples {
    /// How the kernel was called: `warm`, `cold`, `replay`, or `static` for counted cycles.
    pub call: String,
    /// `ms` or `cycles`.
    pub unit: String,
    /// Of the default plan.
    pub default: Vec<f64>,
    /// Of the chosen plan; empty where the default one is the fastest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<f64>,
}

/// What a search found for one problem on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedEntry {
    /// The device.
    pub device: TunedDevice,
    /// What it was measured with.
    pub with: TunedWith,
    /// The problem.
    pub problem: Problem,
    /// The choice that beat the default plan; `None` where none did by more than the noise.
    pub choice: Option<TunedChoice>,
    /// Speedup over the default plan: 1.1 is 10 % faster.
    pub speedup: f64,
    /// Candidates that were tried, the default one included.
    pub candidates: usize,
    /// When, in RFC 3339.
    pub date: String,
    /// The samples that decided.
    pub samples: Vec<TunedSamples>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedTable {
    schema: String,
    version: u32,
    /// What was found, in any order.
    pub entries: Vec<TunedEntry>,
}

/// The part that tells whether the rest can be read.
#[derive(Deserialize)]
struct Header {
    schema: Option<String>,
    version: Option<u32>,
}

/// Text that is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not JSON, or not of this form.
    #[error("it is not a table of tuned plans: {0}")]
    Damaged(String),
    /// Of another version.
    #[error("its format has version {found}, and this octile reads version {VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// An entry that no search writes.
    #[error("its entry for {problem} {reason}")]
    Entry {
        /// The problem.
        problem: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Default for TunedTable {
    fn default() -> Self {
        Self { schema: SCHEMA.to_owned(), version: VERSION, entries: Vec::new() }
    }
}

impl TunedTable {
    /// Reads a table.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let damaged = |error: serde_json::Error| TableError::Damaged(complaint(&error));
        let header: Header = serde_json::from_str(text).map_err(damaged)?;
        if header.schema.as_deref() != Some(SCHEMA) {
            return Err(TableError::Damaged(format!("its schema is not {SCHEMA}")));
        }
        if let Some(found) = header.version.filter(|found| *found != VERSION) {
            return Err(TableError::Version { found });
        }
        let table: Self = serde_json::from_str(text).map_err(damaged)?;
        match table.entries.iter().find_map(|entry| Some((entry, entry.defect()?))) {
            Some((entry, reason)) => Err(TableError::Entry { problem: entry.problem.to_string(), reason }),
            None => Ok(table),
        }
    }

    /// Adds entries, which replace older ones for the same problem and device.
    pub fn merge(&mut self, entries: Vec<TunedEntry>) {
        let mut at = HashMap::new();
        let all = std::mem::take(&mut self.entries).into_iter().chain(entries);
        for entry in all {
            match at.entry((entry.device.clone(), entry.problem)) {
                Entry::Vacant(place) => {
                    place.insert(self.entries.len());
                    self.entries.push(entry);
                }
                Entry::Occupied(place) => self.entries[*place.get()] = entry,
            }
        }
        // Reviewed files must not change their order, whatever the order of the searches was.
        let key = |entry: &TunedEntry| {
            let Problem { m, n, k, quant_block, x, out } = entry.problem;
            (entry.device.clone(), n, k, m, quant_block, x.to_string(), out.to_string())
        };
        self.entries.sort_by_cached_key(key);
    }

    /// The table as a file, one entry per line.
    pub fn to_text(&self) -> String {
        let entries: Vec<_> =
            self.entries.iter().map(|entry| serde_json::to_string(entry).unwrap_or_default()).collect();
        let Self { schema, version, .. } = self;
        let (open, close) = if entries.is_empty() { ("", "") } else { ("\n", "\n") };
        let entries = entries.join(",\n");
        format!("{{\"schema\":\"{schema}\",\"version\":{version},\"entries\":[{open}{entries}{close}]}}\n")
    }
}

/// What is wrong with JSON, without its text: anyone may have written it.
fn complaint(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "it ends in the middle".to_owned(),
        Category::Syntax | Category::Io => format!("line {} is not JSON", error.line()),
        Category::Data => format!("line {} has what does not belong in one", error.line().max(1)),
    }
}

impl TunedEntry {
    fn defect(&self) -> Option<&'static str> {
        if self.choice.is_some_and(|choice| choice.target() != self.device.target) {
            return Some("has a choice for another kind of device");
        }
        let is_time = |time: &f64| time.is_finite() && *time > 0.0;
        let mut times = self.samples.iter().flat_map(|samples| samples.default.iter().chain(&samples.tuned));
        if !times.all(is_time) {
            return Some("has samples that are no times");
        }
        match self.choice {
            Some(_) => self.choice_defect(),
            None if self.samples.iter().all(|samples| samples.default.is_empty()) => Some("has no samples"),
            None => (self.speedup != 1.0).then_some(UNFOUNDED),
        }
    }

    /// What a table claims must follow from its samples. A search keeps a choice only where it is faster in
    /// every way of calling.
    fn choice_defect(&self) -> Option<&'static str> {
        let is_measured = |samples: &TunedSamples| !samples.default.is_empty() && !samples.tuned.is_empty();
        let is_faster = |samples: &TunedSamples| median(&samples.tuned) < median(&samples.default);
        if self.samples.is_empty() || !self.samples.iter().all(is_measured) {
            return Some("has a choice without samples");
        }
        if !self.samples.iter().all(is_faster) {
            return Some("has a choice that is not faster than the default in every way of calling");
        }
        let score = |of: fn(&TunedSamples) -> &Vec<f64>| {
            let rounds = self.samples.iter().map(|samples| of(samples).len()).min().unwrap_or(0);
            let cost = |round: usize| self.samples.iter().map(|samples| of(samples)[round].ln()).sum::<f64>();
            median(&(0..rounds).map(cost).collect::<Vec<_>>()) / self.samples.len() as f64
        };
        let gain = score(|samples| &samples.default) - score(|samples| &samples.tuned);
        let is_followed = self.speedup >= 1.0 && (self.speedup.ln() - gain).abs() < ROUNDING;
        (!is_followed).then_some(UNFOUNDED)
    }
}

/// A speedup that is not one, or another than the samples give.
const UNFOUNDED: &str = "has a speedup that its samples do not give";
/// How far a speedup may be from that of its samples, as a logarithm.
const ROUNDING: f64 = 0.01;

/// Median, the mean of the middle two of an even number; infinite without samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::INFINITY,
        len => (sorted[(len - 1) / 2] + sorted[len / 2]) / 2.0,
    }
}

/// A 64-bit FNV-1a hash as 16 hexadecimal digits, to recognize kernels by.
pub fn kernel_hash(text: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests;

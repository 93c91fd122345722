//! Facts about one kernel from its dumps, each with the line that shows it.

mod conflict;
mod file;
mod gpu;
mod guide;
mod hlo;
mod llo;
mod memory;
mod mosaic;
pub(crate) mod role;

pub use conflict::Conflict;
pub(crate) use conflict::squeezed;
pub use file::{DumpTarget, FileKind, FileReport, Source};

use std::fmt;

use serde::Serialize;

use crate::{
    gpu::AssemblerReport,
    llo::{Cycles, SimOptions, SourceProfile},
    schedule::ScheduleAnalysis,
    source::{LineIndex, Place, excerpt},
};

/// Compiler stage of a fact. Later stages are closer to the code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A hand-written file in the notation of the guides.
    Guide,
    /// Mosaic: the input of the TPU compiler.
    Mosaic,
    /// Optimized HLO: the program around the kernel.
    Hlo,
    /// LLO: scheduled TPU bundles.
    Llo,
    /// PTX: the input of the GPU assembler.
    Ptx,
    /// SASS: GPU machine code.
    Sass,
}

impl Level {
    /// Every level, from machine code to source.
    pub const LATEST_FIRST: [Self; 6] =
        [Self::Sass, Self::Ptx, Self::Llo, Self::Hlo, Self::Mosaic, Self::Guide];
}

/// The line that proves a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Name of the file.
    pub file: String,
    /// Line and column.
    pub place: Place,
    /// The line, shortened.
    pub excerpt: String,
}

/// A memory space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Device memory.
    Hbm,
    /// Vector memory.
    Vmem,
    /// Scalar memory.
    Smem,
    /// Shared memory of a GPU.
    Shared,
    /// Another one, by name.
    Other(String),
    /// Not stated.
    Unstated,
}

impl Space {
    /// From the names of LLO and Mosaic.
    pub fn named(name: &str) -> Self {
        match name {
            "hbm" => Self::Hbm,
            "vmem" => Self::Vmem,
            "smem" => Self::Smem,
            "" | "any" => Self::Unstated,
            other => Self::Other(other.to_owned()),
        }
    }

    /// From the numbers of HLO layouts and the guides.
    pub fn numbered(number: u32) -> Self {
        match number {
            0 => Self::Hbm,
            1 => Self::Vmem,
            2 => Self::Smem,
            other => Self::Other(format!("S({other})")),
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hbm => "HBM",
            Self::Vmem => "VMEM",
            Self::Smem => "SMEM",
            Self::Shared => "shared memory",
            Self::Other(name) => name,
            Self::Unstated => "no stated memory",
        })
    }
}

/// Role of an array in the matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Activations, weights or outputs.
    Data,
    /// Scales of quantization blocks.
    Scale,
}

/// Matmuls of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Matmul {
    /// Compiler stage.
    pub level: Level,
    /// Element types of the operands, in the spelling of HLO.
    pub lhs: String,
    /// Element type of the right operand.
    pub rhs: String,
    /// Shapes of the operands, if stated.
    pub shapes: Option<[Vec<u64>; 2]>,
    /// Whether the compiler widens 8-bit operands because the chip has no fp8 units.
    pub emulated: bool,
    /// Occurrences in the text.
    pub count: usize,
    /// The first one.
    pub evidence: Evidence,
}

/// An operand of the kernel and its memory space when the kernel starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operand {
    /// Compiler stage.
    pub level: Level,
    /// Its position.
    pub index: usize,
    /// Its name in the text.
    pub name: String,
    /// Whether the kernel writes it.
    pub output: bool,
    /// Element type.
    pub element: String,
    /// Dimensions.
    pub dims: Vec<u64>,
    /// Memory space.
    pub space: Space,
    /// Its role.
    pub role: Role,
    /// The line.
    pub evidence: Evidence,
}

/// A buffer of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Buffer {
    /// Compiler stage.
    pub level: Level,
    /// Its name in the text.
    pub name: String,
    /// Element type.
    pub element: String,
    /// Dimensions.
    pub dims: Vec<u64>,
    /// Memory space.
    pub space: Space,
    /// Bytes, with padding where it is known.
    pub bytes: Option<u64>,
    /// Its role.
    pub role: Role,
    /// Whether copies write to it, as far as is known.
    pub copied_to: bool,
    /// The line.
    pub evidence: Evidence,
}

impl Buffer {
    /// Whether it is on-chip and of unknown size.
    pub(crate) fn is_unsized(&self) -> bool {
        self.bytes.is_none() && matches!(self.space, Space::Vmem | Space::Smem)
    }
}

/// Copies between two buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// Compiler stage.
    pub level: Level,
    /// Source memory space.
    pub from: Space,
    /// Destination memory space.
    pub to: Space,
    /// The operand it reads or writes, if known.
    pub operand: Option<usize>,
    /// Role of the data that it moves.
    pub role: Option<Role>,
    /// Whether it loads an input, as opposed to storing an output.
    pub inbound: bool,
    /// Number executed, or in the text where nothing was executed.
    pub starts: u64,
    /// Total bytes.
    pub bytes: Option<u64>,
    /// Number of buffer slots or pipeline stages in the destination.
    pub depth: Option<usize>,
    /// Whether one is in flight during a matmul.
    pub overlaps_multiply: Option<bool>,
    /// The line that reads a slot while a copy is still writing it.
    pub read_too_early: Option<Evidence>,
    /// The first one.
    pub evidence: Evidence,
}

impl Copy {
    /// Whether no copy overwrites what another one brought, so that none waits for a free slot.
    pub fn fills_each_place_once(&self) -> bool {
        self.starts <= self.depth.unwrap_or(1).max(1) as u64
    }
}

/// Balance of copy starts and waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Balance {
    /// Compiler stage.
    pub level: Level,
    /// Number of semaphores or copies checked.
    pub checked: usize,
    /// Mismatches, one sentence each.
    pub faults: Vec<String>,
    /// Whether the absence of faults proves balance, as after an execution.
    pub conclusive: bool,
    /// The line that shows it.
    pub evidence: Evidence,
}

/// A problem with the code of one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Compiler stage.
    pub level: Level,
    /// What is wrong, as a sentence without a full stop.
    pub says: String,
    /// The line.
    pub evidence: Evidence,
}

/// Register spills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spills {
    /// Stores and reloads in the text.
    pub instructions: usize,
    /// Stores and reloads executed, where cycles were counted.
    pub executed: Option<u64>,
    /// The most executed one, else the first one, else the listing.
    pub evidence: Evidence,
}

/// Origin of a memory figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Stated by the compiler, in HLO after code generation.
    Stated,
    /// Sum over the allocation table of a listing.
    Listed,
    /// Sum of the declared buffers, padded to tiles.
    Declared,
}

/// On-chip memory use of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Bytes used.
    pub used: u64,
    /// Limit in bytes, if stated.
    pub limit: Option<u64>,
    /// Origin of the figure.
    pub origin: Origin,
    /// The line.
    pub evidence: Evidence,
}

/// Launch bounds that a GPU kernel declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// Name of the kernel.
    pub entry: String,
    /// Target architecture, for example `sm_90a`.
    pub target: String,
    /// Maximum threads per CTA (`.maxntid`), if declared.
    pub threads: Option<u64>,
    /// Minimum CTAs per SM (`.minnctapersm`).
    pub blocks_per_sm: u64,
    /// The line.
    pub evidence: Evidence,
}

/// The report of `ptxas -v`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assembled {
    /// Its figures.
    #[serde(flatten)]
    pub report: AssemblerReport,
    /// The line about registers.
    pub registers_line: Evidence,
    /// The line about spills.
    pub spills_line: Evidence,
}

/// All facts from the dumps of one kernel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// The files that were read.
    pub files: Vec<FileReport>,
    /// Matmuls.
    pub matmuls: Vec<Matmul>,
    /// Operands.
    pub operands: Vec<Operand>,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Copies.
    pub copies: Vec<Copy>,
    /// Copy starts against waits.
    pub balances: Vec<Balance>,
    /// Data races with copies in flight.
    pub races: Vec<Fault>,
    /// Why the code of a level is invalid, so that it proves nothing.
    pub invalid: Vec<Fault>,
    /// Matmuls that are never executed.
    pub unexecuted: Vec<Fault>,
    /// Code of a level that could not be parsed: it proves nothing.
    pub unreadable: Vec<Fault>,
    /// Code of a level that was parsed but could not be executed.
    pub unfollowed: Vec<Fault>,
    /// Matmuls under an undecidable predicate, which prove nothing.
    pub conditional: Vec<Fault>,
    /// Why matmuls of a level cannot be told from other arithmetic.
    pub unaccounted: Vec<Fault>,
    /// Multiply-adds outside the tensor cores.
    pub scalar_products: Vec<Fault>,
    /// Why these files cannot all be of one kernel.
    pub conflicts: Vec<Conflict>,
    /// Register spills; `None` without a listing.
    pub spills: Option<Spills>,
    /// VMEM use.
    pub vmem: Option<MemoryUse>,
    /// VMEM limit of the kernel, if stated.
    pub vmem_limit: Option<u64>,
    /// SMEM use.
    pub smem: Option<MemoryUse>,
    /// Simulated cycles, if the listing could be executed.
    pub cycles: Option<Cycles>,
    /// Why it could not.
    pub cycles_error: Option<String>,
    /// Cycles per source line, if the listing names source lines.
    #[serde(skip)]
    pub source_profile: Option<SourceProfile>,
    /// Cores that share the kernel, if it was executed.
    pub cores: Option<usize>,
    /// The compiler's cycle estimate.
    pub estimated_cycles: Option<u64>,
    /// The report of `ptxas -v`.
    pub assembler: Option<Assembled>,
    /// Launch bounds, if there is PTX.
    pub launch: Option<Launch>,
    /// Dynamic shared memory of a GPU launch, in bytes. No dump states it; the caller may set it.
    pub shared_bytes: Option<u64>,
    /// The compiler's schedule analysis.
    pub schedule: Option<ScheduleAnalysis>,
    /// Code with matmuls, which must all be of one kernel.
    #[serde(skip)]
    code: Vec<conflict::Fingerprint>,
    /// The operands that Mosaic kernels declare.
    #[serde(skip)]
    declarations: Vec<conflict::Declaration>,
    /// Conflicts in the kernel calls of a program.
    #[serde(skip)]
    call_conflicts: Vec<String>,
    /// The only operation of the HLO whose kernel counts.
    #[serde(skip)]
    operation: Option<String>,
    /// Hashes of the Mosaic texts read: a custom call embeds the same text as the file beside it.
    #[serde(skip)]
    kernels: Vec<u64>,
    /// Bundle counts of complete listings, to check utilization tables against.
    #[serde(skip)]
    listing_lengths: Vec<usize>,
}

impl Facts {
    /// Reads all files of one kernel. [`Facts::conflicts`] reports files of different kernels. Cycles are
    /// those of the first listing with matmuls.
    pub fn gather(sources: &[Source<'_>]) -> Self {
        Self::gather_with(sources, &SimOptions::default())
    }

    /// [`Facts::gather`] with options for the simulation.
    pub fn gather_with(sources: &[Source<'_>], options: &SimOptions) -> Self {
        Self::default().read_all(sources, options)
    }

    /// Reads all files of the kernel that one operation of the HLO calls; the program around it may call
    /// other kernels.
    pub fn of_operation(sources: &[Source<'_>], options: &SimOptions, operation: &str) -> Self {
        Self { operation: Some(operation.to_owned()), ..Self::default() }.read_all(sources, options)
    }

    fn read_all(self, sources: &[Source<'_>], options: &SimOptions) -> Self {
        let mut facts = self;
        let mut order: Vec<_> = sources.iter().enumerate().collect();
        order.sort_by_key(|(_, source)| std::cmp::Reverse(file::rank(source)));
        let mut reports: Vec<_> = order
            .into_iter()
            .map(|(index, source)| (index, file::read(&mut facts, source, options)))
            .collect();
        reports.sort_by_key(|(index, _)| *index);
        facts.files = reports.into_iter().map(|(_, report)| report).collect();
        facts.conflicts = conflict::conflicts(&facts);
        memory::settle(&mut facts);
        facts
    }

    /// The items of the latest stage that has any.
    pub fn latest<'f, T: 'f>(items: &'f [T], level: impl Fn(&T) -> Level) -> Vec<&'f T> {
        let latest = items.iter().map(&level).max();
        items.iter().filter(|item| Some(level(item)) == latest).collect()
    }
}

/// Makes evidence from positions in one file.
pub(crate) struct Witness<'a> {
    file: &'a str,
    text: &'a str,
    lines: LineIndex,
}

impl<'a> Witness<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, lines: LineIndex::new(text) }
    }

    pub(crate) fn at(&self, offset: u32) -> Evidence {
        Evidence {
            file: self.file.to_owned(),
            place: self.lines.place(offset),
            excerpt: excerpt(self.text, offset),
        }
    }

    pub(crate) fn at_place(&self, place: Place) -> Evidence {
        self.at(self.lines.offset(place))
    }
}

//! Facts: what the dumps of one kernel say, each with the line that says it.

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
    llo::{Cycles, SimOptions},
    schedule::ScheduleAnalysis,
    source::{LineIndex, Place, excerpt},
};

/// Which stage of the compiler a fact is from. Later ones say more about what will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A hand-written file in the notation of the guides.
    Guide,
    /// The kernel as it was given to the compiler.
    Mosaic,
    /// The program around the kernel, optimized.
    Hlo,
    /// The scheduled instructions of a TPU.
    Llo,
    /// A GPU kernel as it was given to the assembler.
    Ptx,
    /// The instructions of a GPU.
    Sass,
}

impl Level {
    /// Every level, from what will run to what was asked for.
    pub const LATEST_FIRST: [Self; 6] =
        [Self::Sass, Self::Ptx, Self::Llo, Self::Hlo, Self::Mosaic, Self::Guide];
}

/// The line that proves a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file, as it was named.
    pub file: String,
    /// Line and column.
    pub place: Place,
    /// The line, shortened.
    pub excerpt: String,
}

/// A memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Device memory outside the core.
    Hbm,
    /// Vector memory.
    Vmem,
    /// Scalar memory.
    Smem,
    /// Shared memory of a GPU.
    Shared,
    /// Another one, by name.
    Other(String),
    /// The text does not say.
    Unstated,
}

impl Space {
    /// From the names that LLO and Mosaic use.
    pub fn named(name: &str) -> Self {
        match name {
            "hbm" => Self::Hbm,
            "vmem" => Self::Vmem,
            "smem" => Self::Smem,
            "" | "any" => Self::Unstated,
            other => Self::Other(other.to_owned()),
        }
    }

    /// From the numbers that HLO layouts and the guides use.
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

/// What an array is to the multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Activations, weights, results.
    Data,
    /// Scales of quantization blocks.
    Scale,
}

/// Multiplications of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Matmul {
    /// From where.
    pub level: Level,
    /// Element types of the operands, in the spelling of HLO.
    pub lhs: String,
    /// Element type of the right operand.
    pub rhs: String,
    /// Shapes of the operands, where the text says.
    pub shapes: Option<[Vec<u64>; 2]>,
    /// Whether the compiler widens 8-bit operands because the chip cannot multiply them.
    pub emulated: bool,
    /// How many times it is in the text.
    pub count: usize,
    /// The first one.
    pub evidence: Evidence,
}

/// An operand of the kernel, and where it lives when the kernel starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operand {
    /// From where.
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
    /// Where it lives.
    pub space: Space,
    /// What it is.
    pub role: Role,
    /// The line.
    pub evidence: Evidence,
}

/// A buffer of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Buffer {
    /// From where.
    pub level: Level,
    /// Its name in the text.
    pub name: String,
    /// Element type.
    pub element: String,
    /// Dimensions.
    pub dims: Vec<u64>,
    /// Where it lives.
    pub space: Space,
    /// Bytes, padding included where the text says, else without.
    pub bytes: Option<u64>,
    /// What it is for.
    pub role: Role,
    /// Whether copies write to it, where that is known.
    pub copied_to: bool,
    /// The line.
    pub evidence: Evidence,
}

impl Buffer {
    /// Whether it takes on-chip memory, and the text does not tell how much.
    pub(crate) fn is_unsized(&self) -> bool {
        self.bytes.is_none() && matches!(self.space, Space::Vmem | Space::Smem)
    }
}

/// Copies between two places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// From where.
    pub level: Level,
    /// The memory it reads.
    pub from: Space,
    /// The memory it writes.
    pub to: Space,
    /// The operand it reads or writes, where that is known.
    pub operand: Option<usize>,
    /// What it moves.
    pub role: Option<Role>,
    /// Whether the kernel reads it, as opposed to results.
    pub inbound: bool,
    /// How many are executed, or are in the text where nothing was executed.
    pub starts: u64,
    /// Bytes over all of them.
    pub bytes: Option<u64>,
    /// Places in the destination that take turns.
    pub depth: Option<usize>,
    /// Whether one is in flight while the matrix units multiply.
    pub overlaps_multiply: Option<bool>,
    /// The line that reads a place while one of them is on its way there.
    pub read_too_early: Option<Evidence>,
    /// The first one.
    pub evidence: Evidence,
}

/// Whether starts and waits of copies match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Balance {
    /// From where.
    pub level: Level,
    /// Semaphores or copies that were looked at.
    pub checked: usize,
    /// What does not match, as sentences.
    pub faults: Vec<String>,
    /// Whether a clean account proves balance, as an execution does.
    pub conclusive: bool,
    /// A line about it.
    pub evidence: Evidence,
}

/// Something that is wrong with the code of one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// From where.
    pub level: Level,
    /// What is wrong, as a sentence without a full stop.
    pub says: String,
    /// The line.
    pub evidence: Evidence,
}

/// Vector registers that did not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spills {
    /// Stores and reloads in the text.
    pub instructions: usize,
    /// Stores and reloads that are executed, where cycles were counted.
    pub executed: Option<u64>,
    /// The one that is executed most often, else the first one, else the listing.
    pub evidence: Evidence,
}

/// Where a figure about memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The compiler states it, in HLO that it wrote after code generation.
    Stated,
    /// The sum of the buffers in the table of a listing.
    Listed,
    /// The sum of the buffers that the kernel declares, padded to tiles.
    Declared,
}

/// On-chip memory of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Bytes it uses.
    pub used: u64,
    /// Bytes it may use, where the text says.
    pub limit: Option<u64>,
    /// How that is known.
    pub origin: Origin,
    /// The line.
    pub evidence: Evidence,
}

/// What the text of a GPU kernel declares about its launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// Name of the kernel.
    pub entry: String,
    /// The instruction set that it is for, for example `sm_90a`.
    pub target: String,
    /// The most threads that a block has, where it says.
    pub threads: Option<u64>,
    /// Blocks that a multiprocessor should hold at a time.
    pub blocks_per_sm: u64,
    /// The line.
    pub evidence: Evidence,
}

/// The assembler's account of a GPU kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assembled {
    /// The figures.
    #[serde(flatten)]
    pub report: AssemblerReport,
    /// The line about registers.
    pub registers_line: Evidence,
    /// The line about spills.
    pub spills_line: Evidence,
}

/// Everything that the dumps of one kernel say.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// The files that were read.
    pub files: Vec<FileReport>,
    /// Multiplications.
    pub matmuls: Vec<Matmul>,
    /// Operands.
    pub operands: Vec<Operand>,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Copies.
    pub copies: Vec<Copy>,
    /// Starts against waits.
    pub balances: Vec<Balance>,
    /// Accesses that have no order with a copy in flight there.
    pub races: Vec<Fault>,
    /// What makes the code of a level invalid: it proves nothing.
    pub invalid: Vec<Fault>,
    /// Multiplications in the text that are never executed.
    pub unexecuted: Vec<Fault>,
    /// Code of a level that could not be parsed: it proves nothing.
    pub unreadable: Vec<Fault>,
    /// Code of a level that was parsed but could not be executed.
    pub unfollowed: Vec<Fault>,
    /// Multiplications whose own predicate cannot be decided: they prove nothing.
    pub conditional: Vec<Fault>,
    /// Why the products of a level cannot be told from work of another kind.
    pub unaccounted: Vec<Fault>,
    /// Products that GPU code makes without tensor cores.
    pub scalar_products: Vec<Fault>,
    /// Why these files cannot all be of one kernel.
    pub conflicts: Vec<Conflict>,
    /// Registers that did not fit; absent where no listing was read.
    pub spills: Option<Spills>,
    /// Vector memory.
    pub vmem: Option<MemoryUse>,
    /// Vector memory that the kernel may use, where the text says.
    pub vmem_limit: Option<u64>,
    /// Scalar memory.
    pub smem: Option<MemoryUse>,
    /// Cycles, where they could be counted.
    pub cycles: Option<Cycles>,
    /// Why they could not.
    pub cycles_error: Option<String>,
    /// Cores that share the kernel, where they could.
    pub cores: Option<usize>,
    /// Cycles as the compiler estimates them.
    pub estimated_cycles: Option<u64>,
    /// The assembler's account of a GPU kernel.
    pub assembler: Option<Assembled>,
    /// How a GPU kernel is launched, where its text is among the files.
    pub launch: Option<Launch>,
    /// Bytes of shared memory that the launch of a GPU kernel asks for. No dump says: whoever gathers facts may know.
    pub shared_bytes: Option<u64>,
    /// The compiler's account of its schedule.
    pub schedule: Option<ScheduleAnalysis>,
    /// Code that multiplies, of which there must be one kernel.
    #[serde(skip)]
    code: Vec<conflict::Fingerprint>,
    /// The operands that Mosaic kernels declare.
    #[serde(skip)]
    declarations: Vec<conflict::Declaration>,
    /// What is wrong with the kernel calls of a program.
    #[serde(skip)]
    call_conflicts: Vec<String>,
    /// Kernels that were read: a call carries the same text as the file beside it.
    #[serde(skip)]
    kernels: Vec<u64>,
    /// Bundles of each whole listing, against which tables about them are held.
    #[serde(skip)]
    listing_lengths: Vec<usize>,
}

impl Facts {
    /// Reads every file and gathers what they say. They should be of one kernel; where they are not, [`Facts::conflicts`]
    /// says so. Of several listings, the first one that multiplies has its cycles counted.
    pub fn gather(sources: &[Source<'_>]) -> Self {
        Self::gather_with(sources, &SimOptions::default())
    }

    /// The same, with a say in how cycles are counted.
    pub fn gather_with(sources: &[Source<'_>], options: &SimOptions) -> Self {
        let mut facts = Self::default();
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

    /// The facts of the latest stage that says anything, out of those that `pick` gives.
    pub fn latest<'f, T: 'f>(items: &'f [T], level: impl Fn(&T) -> Level) -> Vec<&'f T> {
        let latest = items.iter().map(&level).max();
        items.iter().filter(|item| Some(level(item)) == latest).collect()
    }
}

/// Makes evidence out of places in one file.
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

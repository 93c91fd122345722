//! Detects the kind of a dump from its content.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use super::{Facts, conflict::kernels_defined, gpu, guide, hlo, llo, mosaic};
use crate::{
    gpu::{AssemblerReport, Language},
    hlo::Module,
    llo::{Listing, SimOptions},
    profile,
    schedule::ScheduleAnalysis,
    source::{Damage, Place},
    utilization::Utilization,
};

/// A dump file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Name in evidence.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Kind of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// LLO: scheduled bundles, one per cycle.
    LloPacked,
    /// LLO: final bundles, without empty ones.
    LloFinal,
    /// LLO before scheduling.
    LloUnscheduled,
    /// Functional unit utilization per bundle.
    Utilization,
    /// The compiler's schedule analysis.
    Schedule,
    /// The compiler's cycle estimate.
    Profile,
    /// An HLO program.
    Hlo,
    /// A Mosaic kernel.
    Mosaic,
    /// PTX.
    Ptx,
    /// SASS.
    Sass,
    /// The report of `ptxas -v`.
    Assembler,
    /// Hand-written, in the notation of the guides.
    Guide,
    /// An empty file.
    Empty,
    /// Not text.
    Binary,
    /// Text of an unknown format.
    Unknown,
}

/// Target of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpTarget {
    /// A TPU, or the program around its kernel.
    Tpu,
    /// An NVIDIA GPU.
    Gpu,
}

impl FileKind {
    /// Target of such a file; `None` if it is not a dump.
    pub fn target(self) -> Option<DumpTarget> {
        match self {
            Self::Ptx | Self::Sass | Self::Assembler => Some(DumpTarget::Gpu),
            Self::LloPacked | Self::LloFinal | Self::LloUnscheduled | Self::Utilization => {
                Some(DumpTarget::Tpu)
            }
            Self::Schedule | Self::Profile | Self::Hlo | Self::Mosaic | Self::Guide => Some(DumpTarget::Tpu),
            Self::Empty | Self::Binary | Self::Unknown => None,
        }
    }

    /// Detects the kind of a file without executing it.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Format::of(text).kind(text),
            _ => Self::Binary,
        }
    }

    /// Whether a file of this kind defines the kernel that multiplies. The dumps of one kernel hold one such
    /// file of each kind.
    fn describes_kernel(self, text: &str) -> bool {
        match self {
            Self::Mosaic | Self::Guide | Self::Ptx | Self::Sass | Self::Assembler => true,
            // The compiler also dumps listings of copies and of the program's prologue and epilogue.
            Self::LloPacked | Self::LloFinal => multiplies(text),
            Self::Hlo => text.contains("tpu_custom_call"),
            Self::LloUnscheduled | Self::Utilization | Self::Schedule | Self::Profile => false,
            Self::Empty | Self::Binary | Self::Unknown => false,
        }
    }
}

/// Result of reading a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: FileKind,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Hash of the text, where it defines a kernel.
    #[serde(skip)]
    pub(super) definition: Option<u64>,
    /// Number of kernels that it defines.
    #[serde(skip)]
    pub(super) kernels: usize,
}

/// Reading order: of several listings the first one counts, so the most detailed comes first.
pub(super) fn rank(source: &Source<'_>) -> u8 {
    let Ok(text) = std::str::from_utf8(source.bytes) else { return 0 };
    if !is_listing(text.trim_start()) {
        return 0;
    }
    let timed = memchr::memmem::find(source.bytes, b"/* entry bundle:").is_none();
    1 + 2 * u8::from(multiplies(text)) + u8::from(timed)
}

/// Whether a listing has matmuls.
fn multiplies(listing: &str) -> bool {
    memchr::memmem::find(listing.as_bytes(), b"vmatmul").is_some()
}

/// Reads a file into the facts.
pub(super) fn read(facts: &mut Facts, source: &Source<'_>, options: &SimOptions) -> FileReport {
    let name = source.name.to_owned();
    let text = std::str::from_utf8(source.bytes).ok().filter(|text| !text.contains('\0'));
    let Some(text) = text else {
        return FileReport { name, kind: FileKind::Binary, damage: Vec::new(), definition: None, kernels: 0 };
    };
    let (kind, damage) = read_text(facts, source.name, text, options);
    let definition = kind.describes_kernel(text).then(|| text_hash(text));
    FileReport { name, kind, damage, definition, kernels: kernels_defined(kind, text) }
}

/// Hash of a text, without white space at its ends.
pub(super) fn text_hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.trim().hash(&mut hasher);
    hasher.finish()
}

/// Format of a text, by its beginning.
#[derive(Clone, Copy)]
enum Format {
    /// A format with one kind.
    Plain(FileKind),
    /// HLO, or the notation of the guides.
    Program,
    /// An LLO listing of any pass.
    Listing,
    /// Possibly a fragment of HLO.
    Other,
}

impl Format {
    fn of(text: &str) -> Self {
        let head = text.trim_start();
        match () {
            () if head.is_empty() => Self::Plain(FileKind::Empty),
            () if is_report(head) => Self::Plain(FileKind::Unknown),
            () if head.starts_with("== CAPAC") => Self::Plain(FileKind::Utilization),
            () if head.starts_with("Schedule analysis:") => Self::Plain(FileKind::Schedule),
            () if head.starts_with("hlo_op_estimate") => Self::Plain(FileKind::Profile),
            () if head.starts_with("HloModule") => Self::Program,
            () if is_ptx(head) => Self::Plain(FileKind::Ptx),
            () if is_sass(text) => Self::Plain(FileKind::Sass),
            () if head.starts_with(AssemblerReport::HEAD) => Self::Plain(FileKind::Assembler),
            () if is_listing(head) => Self::Listing,
            () if is_mosaic(head) => Self::Plain(FileKind::Mosaic),
            () => Self::Other,
        }
    }

    /// Kind of a text of this format.
    fn kind(self, text: &str) -> FileKind {
        match self {
            Self::Plain(kind) => kind,
            Self::Program if guide::is_guide(&Module::parse(text)) => FileKind::Guide,
            Self::Program => FileKind::Hlo,
            Self::Listing => llo::kind(&Listing::parse(text)),
            Self::Other if Module::parse(text).instructions().next().is_some() => FileKind::Guide,
            Self::Other => FileKind::Unknown,
        }
    }
}

fn read_text(facts: &mut Facts, name: &str, text: &str, options: &SimOptions) -> (FileKind, Vec<Damage>) {
    match Format::of(text) {
        Format::Program => hlo::read(facts, name, text),
        Format::Listing => llo::read(facts, name, text, options),
        Format::Plain(FileKind::Mosaic) => mosaic::read(facts, name, text),
        Format::Plain(FileKind::Ptx) => gpu::read(facts, name, text, Language::Ptx),
        Format::Plain(FileKind::Sass) => gpu::read(facts, name, text, Language::Sass),
        Format::Plain(FileKind::Assembler) => gpu::read_report(facts, name, text),
        Format::Plain(FileKind::Utilization) => (FileKind::Utilization, table_damage(facts, text)),
        Format::Plain(FileKind::Schedule) => {
            let analysis = ScheduleAnalysis::parse(text);
            let damage = analysis.damage.clone();
            // The analysis of the kernel has as many bundles as its listing.
            let of_kernel =
                facts.cycles.as_ref().is_some_and(|cycles| cycles.code_bundles as u64 == analysis.total);
            if facts.schedule.is_none() || of_kernel {
                facts.schedule = Some(analysis);
            }
            (FileKind::Schedule, damage)
        }
        Format::Plain(FileKind::Profile) => {
            let estimates = profile::estimates(text).into_iter().map(|estimate| estimate.cycles);
            facts.estimated_cycles = facts.estimated_cycles.max(estimates.max());
            (FileKind::Profile, Vec::new())
        }
        Format::Plain(kind) => (kind, Vec::new()),
        Format::Other => {
            let module = Module::parse(text);
            match module.instructions().next() {
                Some(_) => guide::read(facts, name, &module),
                None => (FileKind::Unknown, Vec::new()),
            }
        }
    }
}

/// Whether a text is markup or JSON: reports quote dumps but are not dumps.
fn is_report(head: &str) -> bool {
    head.starts_with(['<', '{', '['])
}

/// Checks a utilization table: it has a row per bundle of its listing, which was read before.
fn table_damage(facts: &Facts, text: &str) -> Vec<Damage> {
    let table = Utilization::parse(text);
    let (rows, listings) = (table.rows().len(), &facts.listing_lengths);
    let mut damage = table.damage;
    if let Some(bundles) = listings.first().filter(|_| damage.is_empty() && !listings.contains(&rows)) {
        let line = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
        let what = format!("the table has {rows} rows, but the listing has {bundles} bundles");
        damage.push(Damage { place: Place { line, column: 1 }, what });
    }
    damage
}

/// Recognizes a module, possibly after aliases (`#loc = ...`, `!alias = ...`) and comments.
fn is_mosaic(head: &str) -> bool {
    let before =
        |line: &&str| line.trim().is_empty() || line.starts_with(['#', '!']) || line.starts_with("//");
    let first = head.lines().find(|line| !before(line));
    first.is_some_and(|line| line.starts_with("module")) && head.contains("func.func")
}

/// Whether a text begins like an LLO listing: with its key, first bundle or first region.
fn is_listing(head: &str) -> bool {
    let first = head.lines().find(|line| !line.trim().is_empty() && !line.starts_with("//"));
    let first = first.unwrap_or_default().trim_start();
    let bundle =
        first.split_once(':').is_some_and(|(number, rest)| number.trim() == "0" && rest.contains('{'));
    bundle
        || first.starts_with("= control target key")
        || first.starts_with("$region")
        || first.starts_with("#allocation")
}

/// Whether a text begins with a PTX version, after comments.
fn is_ptx(head: &str) -> bool {
    let mut lines = head.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.next().is_some_and(|line| line.starts_with(".version"))
}

/// Whether a text has code sections and numbered instructions.
fn is_sass(text: &str) -> bool {
    text.contains(".text.") && text.contains("/*0000*/")
}

//! Readers of octile-dump: compiler output.

use octile_dump::{
    checks::check,
    compare::{Dump, File, Structure, operations},
    facts::{Facts, FileKind, Source},
    gpu::Code,
    hlo::{KernelBody, Module, Shape},
    llo::{Args, Listing, SimOptions, simulate},
    profile,
    schedule::ScheduleAnalysis,
    utilization::Utilization,
};

use super::text;

/// Cycle limit: enough to reach every branch of a small listing.
const MAX_CYCLES: u64 = 20_000;

fn options() -> SimOptions {
    SimOptions { max_cycles: MAX_CYCLES, ..SimOptions::default() }
}

/// Any file of a dump folder, as read by `octile verify` and `octile compare`.
pub fn facts(bytes: &[u8]) -> bool {
    judge(bytes).is_some_and(|kind| kind.target().is_some())
}

/// Gathers facts, checks them, and compares the dump with itself.
fn judge(bytes: &[u8]) -> Option<FileKind> {
    let facts = Facts::gather_with(&[Source { name: "file", bytes }], &options());
    let _ = check(&facts, None);
    let text = text(bytes)?;
    let files = facts.files.iter().map(|file| File { name: "file", kind: file.kind, text }).collect();
    let dump = Dump { facts: &facts, files };
    assert_eq!(Structure::between(&dump, &dump).differences, [], "a dump does not differ from itself");
    facts.files.first().map(|file| file.kind)
}

/// HLO text. It must print unchanged, except for white space.
pub fn hlo(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let module = Module::parse(text);
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(squeeze(&module.print()), squeeze(text));
    let _ = (module.kernel_calls(), Shape::parse(text));
    judge(bytes) == Some(FileKind::Hlo)
}

/// LLO listings, parsed and executed.
pub fn llo(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let listing = Listing::parse(text);
    let _ = (operations(&listing, &listing), Args::parse(text), judge(bytes));
    simulate(&listing, &options()).is_ok()
}

/// Disassembled GPU code.
pub fn sass(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let _ = Code::parse_sass(text);
    judge(bytes) == Some(FileKind::Sass)
}

/// The compiler's tables: schedules, utilization, estimates.
pub fn tables(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let _ = (ScheduleAnalysis::parse(text), Utilization::parse(text), profile::estimates(text));
    matches!(judge(bytes), Some(FileKind::Schedule | FileKind::Utilization | FileKind::Profile))
}

/// The serialized kernel inside a custom call.
pub fn kernel_body(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    KernelBody::decode(text) != KernelBody::decode("")
}

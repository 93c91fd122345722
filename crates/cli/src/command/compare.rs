//! `octile compare`: benchmark records, or versions side by side.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use octile_dump::{
    compare::{Change, Dump, File, OperationChange, Row, Structure, changes, gpu_operations, operations},
    facts::FileKind,
    gpu::Code,
    llo::Listing,
};
use octile_harness::{
    compare::BenchComparison,
    record::{Schema, has_schema},
};
use serde::Serialize;

use super::{
    analyze::{TextFile, Version},
    bench::read_baseline,
};
use crate::{input, print::shown};

/// Compares two benchmark records; `None` where the inputs are dumps.
pub fn records(inputs: &[PathBuf]) -> Result<Option<BenchComparison>> {
    if !inputs.iter().any(|path| is_record(path)) {
        return Ok(None);
    }
    let (true, [before, after]) = (inputs.iter().all(|path| is_record(path)), inputs) else {
        bail!("cannot compare these inputs: give two benchmark records, or dumps only");
    };
    if [before, after].iter().all(|path| ["-", "/dev/stdin"].iter().any(|name| path.as_os_str() == *name)) {
        bail!("standard input can be named only once: give the other record as a file");
    }
    Ok(Some(BenchComparison::new(&read_baseline(before)?, &read_baseline(after)?)?))
}

/// Whether an input is meant as a benchmark record: a stream, a `.json` file, or a file with that schema.
fn is_record(path: &Path) -> bool {
    let has_record =
        || input::read(path, input::RECORD_BYTES).is_ok_and(|text| has_schema(&text, Schema::BENCH));
    input::is_stream(path)
        || path.is_file() && (path.extension().is_some_and(|extension| extension == "json") || has_record())
}

/// Versions side by side.
#[derive(Debug, Serialize)]
pub struct DumpComparison {
    /// One per version.
    pub columns: Vec<Column>,
    /// Differences between two versions, or between versions of the same name.
    pub differences: Vec<Difference>,
}

/// One version in the table.
#[derive(Debug, Serialize)]
pub struct Column {
    /// Facts from the dumps.
    #[serde(flatten)]
    pub row: Row,
    /// Shape of the problem, where a manifest has it.
    pub shape: Option<String>,
    /// Cycles relative to the roofline: 1 is the roofline.
    pub distance: Option<f64>,
    /// Bytes of machine code, where a manifest has them.
    pub code_bytes: Option<u64>,
    /// Bytes of shared memory of a GPU kernel, where a manifest has them.
    pub shared_bytes: Option<u64>,
    /// Whether it is a GPU kernel.
    pub gpu: bool,
    /// Problems with the files.
    pub troubles: Vec<String>,
}

/// Differences between two versions.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Path of the first version.
    pub before: PathBuf,
    /// Path of the second version.
    pub after: PathBuf,
    /// Checks whose verdict changed.
    pub checks: Vec<Change>,
    /// Differences in structure, part by part.
    #[serde(flatten)]
    pub structure: Structure,
    /// Operations whose count changed; `None` where a version has no listing.
    pub operations: Option<Vec<OperationChange>>,
}

impl Column {
    /// The column of a version.
    pub fn of(version: &Version) -> Self {
        Self {
            row: Row::of(&version.name, &version.facts, &version.findings),
            shape: version.manifest.as_ref().and_then(|manifest| Some(manifest.problem()?.to_string())),
            distance: version.roofline.map(|roofline| roofline.distance),
            code_bytes: version.manifest.as_ref().map(|manifest| manifest.figures.code_bytes),
            shared_bytes: version.manifest.as_ref().and_then(|manifest| manifest.figures.shared_bytes),
            gpu: version.promise.gpu,
            troubles: version.troubles.clone(),
        }
    }
}

/// Compares versions.
pub fn run(versions: &[Version]) -> DumpComparison {
    let mut columns: Vec<_> = versions.iter().map(Column::of).collect();
    for (column, name) in columns.iter_mut().zip(distinct_names(versions)) {
        column.row.name = name;
    }
    DumpComparison { columns, differences: pairs(versions).map(|(b, a)| Difference::between(b, a)).collect() }
}

/// Names of versions side by side: paths where names collide.
pub fn distinct_names(versions: &[Version]) -> Vec<String> {
    let alone = |version: &Version| versions.iter().filter(|other| other.name == version.name).count() == 1;
    let name = |version: &Version| match alone(version) {
        true => version.name.clone(),
        false => shown(&version.path),
    };
    versions.iter().map(name).collect()
}

/// The two versions, or, of more than two, those of the same name, as in two folders of versions.
fn pairs(versions: &[Version]) -> impl Iterator<Item = (&Version, &Version)> {
    let only = versions.len() == 2;
    versions.iter().enumerate().filter_map(move |(index, before)| {
        let mut later = versions[index + 1..].iter();
        Some((before, later.find(|after| only || after.name == before.name)?))
    })
}

impl Difference {
    /// Compares two versions.
    pub fn between(before: &Version, after: &Version) -> Self {
        Self {
            before: before.path.clone(),
            after: after.path.clone(),
            checks: changes(&before.findings, &after.findings),
            structure: Structure::between(&dump(before), &dump(after)),
            operations: code_changes(before, after),
        }
    }
}

fn dump<'v>(version: &'v Version) -> Dump<'v> {
    let file = |text: &'v TextFile| File { name: &text.name, kind: text.kind, text: &text.text };
    Dump { facts: &version.facts, files: version.texts.iter().map(file).collect() }
}

/// Compares the most informative kind of listing that both versions have.
fn code_changes(before: &Version, after: &Version) -> Option<Vec<OperationChange>> {
    let texts = |kind| Some((before.text(kind)?.text.as_str(), after.text(kind)?.text.as_str()));
    let listings = [FileKind::LloPacked, FileKind::LloFinal, FileKind::LloUnscheduled];
    let listings = listings.into_iter().find_map(texts);
    let llo = listings.map(|(before, after)| operations(&Listing::parse(before), &Listing::parse(after)));
    llo.or_else(|| {
        let (before, after) = texts(FileKind::Sass)?;
        Some(gpu_operations(&Code::parse_sass(before), &Code::parse_sass(after)))
    })
    .or_else(|| {
        let (before, after) = texts(FileKind::Ptx)?;
        Some(gpu_operations(&Code::parse_ptx(before), &Code::parse_ptx(after)))
    })
}

//! `octile analyze`: facts in the dumps of each version, and the checks that they prove.

mod compiler_dump;
mod contents;
mod find;
mod gate;
mod helper;
pub mod manifest;
mod promise;
pub mod source_view;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use octile_core::device::tpu::TpuChip;
use octile_dump::{
    checks::{self, Finding, check},
    facts::{Facts, FileKind, FileReport, Launch, Level},
    llo::{DmaModel, SimOptions},
    roofline::Roofline,
};
use serde::Serialize;

use crate::{Verdict, args::KnownArgs, input::Allowance, print::shown, python::PythonSources};
use contents::{Content, Contents, sources};
use find::Group;
pub use helper::Helper;
pub use manifest::Manifest;
pub use promise::{Known, Promise, Told, Waiver};
pub use source_view::SourceView;

/// Which dumps to read.
#[derive(Debug)]
pub struct AnalyzeRequest {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// Overrides from the command line.
    pub told: Told,
}

impl AnalyzeRequest {
    /// Converts the arguments.
    pub fn new(inputs: &[PathBuf], known: &KnownArgs) -> Self {
        let told = Told { strategy: known.strategy, chip: known.chip };
        Self { inputs: inputs.to_vec(), told }
    }
}

/// One version and the facts in its dumps.
#[derive(Debug, Serialize)]
pub struct Version {
    /// Its name.
    pub name: String,
    /// Its folder, or its only file.
    pub path: PathBuf,
    /// Its strategy and chip, and the checks that it must pass.
    pub promise: Promise,
    /// Its manifest.
    pub manifest: Option<Manifest>,
    /// Damaged, changed and contradictory files, one sentence each.
    pub troubles: Vec<String>,
    /// Facts from its files.
    pub facts: Facts,
    /// Verdicts on every check.
    pub findings: Vec<Finding>,
    /// Kernels that run before it to prepare operands.
    pub helpers: Vec<Helper>,
    /// Cycles per source line, where the listing names source lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceView>,
    /// Lower bound on its cycles.
    pub roofline: Option<Roofline>,
    /// Files of a compiler's dump folder that are not read.
    #[serde(skip_serializing_if = "is_zero")]
    pub ignored: usize,
    /// Its files, and those of its helpers.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// Its text files.
    #[serde(skip)]
    pub texts: Vec<TextFile>,
}

/// A text file.
#[derive(Debug)]
pub struct TextFile {
    /// Its name in evidence.
    pub name: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its content.
    pub text: String,
}

/// What `octile analyze` reports.
#[derive(Debug, Serialize)]
pub struct AnalyzeReport {
    /// The versions.
    pub versions: Vec<Version>,
}

impl AnalyzeReport {
    /// Reads the versions that the arguments name.
    pub fn new(inputs: &[PathBuf], known: &KnownArgs) -> Result<Self> {
        Ok(Self { versions: run(&AnalyzeRequest::new(inputs, known))? })
    }

    /// Fails if a file is damaged, changed or contradictory.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.versions.iter().all(|version| version.troubles.is_empty()))
    }
}

/// Reads every version.
pub fn run(request: &AnalyzeRequest) -> Result<Vec<Version>> {
    let mut allowance = Allowance::default();
    let groups = find::groups(&request.inputs, &mut allowance)?;
    groups.into_iter().map(|group| Version::read(group, request.told, &mut allowance)).collect()
}

impl Version {
    fn read(group: Group, told: Told, allowance: &mut Allowance) -> Result<Self> {
        let (manifest, unreadable) = match Manifest::of(&group.path) {
            Ok(manifest) => (manifest, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let operation =
            manifest.as_ref().and_then(|manifest| Some(manifest.kernel.as_ref()?.operation.clone()));
        let operation = operation.or_else(|| group.operation.clone());
        let mut promise = Promise::new(told, manifest.as_ref(), &group.name, operation.is_some());
        let Contents { own, helpers, troubles: changed } =
            Contents::read(&group, manifest.as_ref(), allowance)?;
        let options = sim_options(promise.chip);
        let mut facts = match &operation {
            Some(operation) => Facts::of_operation(&sources(&own), &options, operation),
            None => Facts::gather_with(&sources(&own), &options),
        };
        gate::require_one_kernel(&group.path, &facts, manifest.as_ref())?;
        if let Some(estimate) = manifest.as_ref().and_then(Manifest::estimated_cycles) {
            facts.estimated_cycles = Some(estimate);
        }
        facts.shared_bytes = manifest.as_ref().and_then(|manifest| manifest.figures.shared_bytes);
        promise.settle(&facts);
        let mut findings = judge(&facts, promise.chip);
        if promise.known == Known::Foreign {
            let has_matmul = facts.matmuls.iter().any(|matmul| matmul.level == Level::Llo);
            findings.retain(|finding| finding.check.is_meaningful_for_any_tpu_kernel(has_matmul));
            // Any kernel may do what cannot be followed; ours may not.
            let obscured = findings.iter_mut().filter(|finding| finding.verdict == checks::Verdict::Obscured);
            obscured.for_each(|finding| finding.verdict = checks::Verdict::NotObservable);
        }
        let mut files: Vec<_> = own.iter().map(|content| content.path.clone()).collect();
        let texts = texts(own, &facts);
        // An unreadable manifest fails its version; other versions are still read.
        let mut troubles: Vec<_> = unreadable.into_iter().chain(changed).collect();
        troubles.extend(facts.files.iter().flat_map(troubles_of));
        troubles.extend(gate::contradictions(&texts, &facts, manifest.as_ref()));
        let helpers = read_helpers(helpers, manifest.as_ref())?;
        troubles.extend(helpers.iter().flat_map(Helper::troubles));
        if troubles.is_empty() && !has_kernel(&facts) {
            troubles.push(no_kernel(&group, &facts));
        }
        let bandwidth = promise.chip.map(|chip| chip.rates.hbm_bytes_per_cycle());
        let roofline =
            facts.cycles.as_ref().zip(bandwidth).and_then(|(cycles, rate)| Roofline::of(cycles, rate));
        files.extend(helpers.iter().flat_map(|helper| helper.files.clone()));
        let Group { name, path, ignored, .. } = group;
        let source = SourceView::of(&facts, &PythonSources::new(&path.join(manifest::FILE_NAME), []));
        Ok(Self {
            source,
            ignored,
            name,
            path,
            promise,
            manifest,
            troubles,
            facts,
            findings,
            helpers,
            roofline,
            files,
            texts,
        })
    }

    /// Lists every file, including those that are not read.
    pub fn all_files(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.manifest.iter().flat_map(|manifest| &manifest.files);
        let named = named.map(|file| self.path.join(file.name.as_path()));
        self.files.iter().cloned().chain([self.path.join(manifest::FILE_NAME)]).chain(named)
    }

    /// Whether the version must pass the check of a finding.
    pub fn is_required(&self, finding: &Finding) -> bool {
        self.promise.required.contains(&finding.check)
    }

    /// Returns the first file of a kind.
    pub fn text(&self, kind: FileKind) -> Option<&TextFile> {
        self.texts.iter().find(|text| text.kind == kind)
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Models waits if the chip is known.
fn sim_options(chip: Option<&TpuChip>) -> SimOptions {
    let Some(chip) = chip else { return SimOptions::default() };
    let dma = DmaModel {
        bytes_per_cycle: chip.rates.hbm_bytes_per_cycle(),
        latency_cycles: chip.rates.copy_latency,
    };
    SimOptions { dma: Some(dma), ..SimOptions::of(chip) }
}

/// Evaluates every check; none if no file is a dump.
fn judge(facts: &Facts, chip: Option<&TpuChip>) -> Vec<Finding> {
    if facts.files.iter().any(is_dump) { check(facts, chip) } else { Vec::new() }
}

/// Whether a file is a compiler dump.
fn is_dump(file: &FileReport) -> bool {
    file.kind.target().is_some()
}

/// Explains why a file cannot be used.
fn troubles_of(file: &FileReport) -> Vec<String> {
    let name = &file.name;
    let again = "write it again with `octile inspect`";
    match file.kind {
        FileKind::Empty => vec![format!("{name} is empty: {again}")],
        FileKind::Binary => vec![format!("{name} is not text: pass a text dump instead")],
        FileKind::Unknown => {
            vec![format!("{name} is not a known kind of dump: pass HLO, Mosaic, LLO, PTX or SASS")]
        }
        // Only the buffers of unscheduled listings are read, so other lines do not count as damage.
        FileKind::LloUnscheduled => Vec::new(),
        _ => match file.damage.as_slice() {
            [] => Vec::new(),
            [damage] => vec![format!("{name} is damaged at {damage}: {again}")],
            [first, rest @ ..] => {
                vec![format!("{name} is damaged at {first} and {} more places: {again}", rest.len())]
            }
        },
    }
}

/// Reads the kernels that prepare operands.
fn read_helpers(helpers: BTreeMap<String, Vec<Content>>, manifest: Option<&Manifest>) -> Result<Vec<Helper>> {
    let figures = |name: &str| manifest.and_then(|manifest| Some(&manifest.helpers.get(name)?.figures));
    let read = |(name, contents): (String, _)| {
        let figures = figures(&name);
        Helper::read(name, contents, figures)
    };
    helpers.into_iter().map(read).collect()
}

/// Explains that the files contain no kernel to check.
fn no_kernel(group: &Group, facts: &Facts) -> String {
    let path = shown(&group.path);
    match &facts.launch {
        Some(Launch { entry, .. }) => {
            format!(
                "{entry} in {path} is not a matmul kernel: name the folder of the version that it belongs to"
            )
        }
        None => format!("no kernel in {path}: pass the dumps of a kernel"),
    }
}

/// Whether the files contain a kernel.
fn has_kernel(facts: &Facts) -> bool {
    let of_kernel = |level: Level| level != Level::Hlo;
    facts.matmuls.iter().any(|matmul| of_kernel(matmul.level))
        || facts.buffers.iter().any(|buffer| of_kernel(buffer.level))
        || !facts.operands.is_empty()
        || !facts.unreadable.is_empty()
}

fn texts(files: Vec<Content>, facts: &Facts) -> Vec<TextFile> {
    let kinds = facts.files.iter().map(|file| file.kind);
    let text = |(Content { name, bytes, .. }, kind)| {
        Some(TextFile { name, kind, text: String::from_utf8(bytes).ok()? })
    };
    files.into_iter().zip(kinds).filter_map(text).collect()
}

//! `octile analyze`: what the dumps of each version say, and which claims they prove.

mod contents;
mod find;
mod gate;
mod helper;
pub mod manifest;
mod promise;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use octile_core::device::tpu::TpuChip;
use octile_dump::{
    checks::{Finding, check},
    facts::{Facts, FileKind, FileReport, Launch, Level},
    llo::{DmaModel, SimOptions},
    roofline::Roofline,
};
use serde::Serialize;

use crate::{args::KnownArgs, input::Allowance, print::shown};
use contents::{Content, Contents, sources};
use find::Group;
pub use helper::Helper;
pub use manifest::Manifest;
pub use promise::{Known, Promise, Told, Waiver};

/// What to read.
#[derive(Debug)]
pub struct Job {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// What the user says about them.
    pub told: Told,
}

impl Job {
    /// The job that the arguments describe.
    pub fn new(inputs: &[PathBuf], known: &KnownArgs) -> Self {
        let told = Told { strategy: known.strategy, chip: known.chip };
        Self { inputs: inputs.to_vec(), told }
    }
}

/// One version and everything that its dumps say.
#[derive(Debug, Serialize)]
pub struct Version {
    /// What to call it.
    pub name: String,
    /// Its folder, or its only file.
    pub path: PathBuf,
    /// What it promises.
    pub promise: Promise,
    /// Its manifest, where it has one.
    pub manifest: Option<Manifest>,
    /// Files that cannot be relied on, one sentence each.
    pub troubles: Vec<String>,
    /// What the files say.
    pub facts: Facts,
    /// Which claims that proves.
    pub findings: Vec<Finding>,
    /// The kernels that run before its own, to prepare operands.
    pub helpers: Vec<Helper>,
    /// The least that its work could take.
    pub roofline: Option<Roofline>,
    /// Its files, and those of the kernels before its own.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// The files that are text, by name.
    #[serde(skip)]
    pub texts: Vec<Text>,
}

/// A file that is text.
#[derive(Debug)]
pub struct Text {
    /// Its name, as evidence has it.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Its content.
    pub text: String,
}

/// Reads every version.
pub fn run(job: &Job) -> Result<Vec<Version>> {
    let mut allowance = Allowance::default();
    let groups = find::groups(&job.inputs, &mut allowance)?;
    groups.into_iter().map(|group| Version::read(group, job.told, &mut allowance)).collect()
}

impl Version {
    fn read(group: Group, told: Told, allowance: &mut Allowance) -> Result<Self> {
        let (manifest, unreadable) = match Manifest::of(&group.path) {
            Ok(manifest) => (manifest, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let mut promise = Promise::new(told, manifest.as_ref(), &group.name);
        let Contents { own, helpers, troubles: changed } =
            Contents::read(&group, manifest.as_ref(), allowance)?;
        let mut facts = Facts::gather_with(&sources(&own), &sim_options(promise.chip));
        gate::require_one_kernel(&group.path, &facts, manifest.as_ref())?;
        if let Some(estimate) = manifest.as_ref().and_then(Manifest::estimated_cycles) {
            facts.estimated_cycles = Some(estimate);
        }
        facts.shared_bytes = manifest.as_ref().and_then(|manifest| manifest.figures.shared_bytes);
        promise.settle(&facts);
        let findings = judge(&facts, promise.chip);
        let mut files: Vec<_> = own.iter().map(|content| content.path.clone()).collect();
        let texts = texts(own, &facts);
        // One manifest that cannot be read is a finding about its version, and no reason to leave the others unread.
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
        let Group { name, path, .. } = group;
        Ok(Self { name, path, promise, manifest, troubles, facts, findings, helpers, roofline, files, texts })
    }

    /// Every file of it, those that are not read as well.
    pub fn all_files(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.manifest.iter().flat_map(|manifest| &manifest.files);
        let named = named.map(|file| self.path.join(file.name.as_path()));
        self.files.iter().cloned().chain([self.path.join(manifest::FILE_NAME)]).chain(named)
    }

    /// Whether the version must pass a check.
    pub fn is_required(&self, finding: &Finding) -> bool {
        self.promise.required.contains(&finding.check)
    }

    /// The text of the first file of a kind.
    pub fn text(&self, kind: FileKind) -> Option<&Text> {
        self.texts.iter().find(|text| text.kind == kind)
    }
}

/// Waits are modelled where the chip is known.
fn sim_options(chip: Option<&TpuChip>) -> SimOptions {
    let Some(chip) = chip else { return SimOptions::default() };
    let dma = DmaModel {
        bytes_per_cycle: chip.rates.hbm_bytes_per_cycle(),
        latency_cycles: chip.rates.copy_latency,
    };
    SimOptions { dma: Some(dma), ..SimOptions::of(chip) }
}

/// The verdicts on files; of such as are no dumps there is nothing more to say than that.
fn judge(facts: &Facts, chip: Option<&TpuChip>) -> Vec<Finding> {
    if facts.files.iter().any(is_dump) { check(facts, chip) } else { Vec::new() }
}

/// Whether a file is something that a compiler writes about a kernel.
fn is_dump(file: &FileReport) -> bool {
    file.kind.target().is_some()
}

/// Why a file cannot be relied on.
fn troubles_of(file: &FileReport) -> Vec<String> {
    let name = &file.name;
    let again = "write it again with `octile inspect`";
    match file.kind {
        FileKind::Empty => vec![format!("{name} is empty: {again}")],
        FileKind::Binary => vec![format!("{name} is not text: give the compiler's text dump instead")],
        FileKind::Unknown => {
            vec![format!("{name} is no dump that Octile knows: give HLO, Mosaic, LLO, PTX or SASS")]
        }
        // Listings before scheduling have more in them than bundles; only their buffers are read.
        FileKind::LloUnscheduled => Vec::new(),
        _ => match file.damage.as_slice() {
            [] => Vec::new(),
            [damage] => vec![format!("{name} is damaged at {damage}: {again}")],
            [first, rest @ ..] => {
                vec![format!("{name} is damaged at {first}, and in {} more places: {again}", rest.len())]
            }
        },
    }
}

/// The kernels that prepare operands, by folder.
fn read_helpers(helpers: BTreeMap<String, Vec<Content>>, manifest: Option<&Manifest>) -> Result<Vec<Helper>> {
    let figures = |name: &str| manifest.and_then(|manifest| Some(&manifest.helpers.get(name)?.figures));
    let read = |(name, contents): (String, _)| {
        let figures = figures(&name);
        Helper::read(name, contents, figures)
    };
    helpers.into_iter().map(read).collect()
}

/// That there is nothing to judge, and what to do.
fn no_kernel(group: &Group, facts: &Facts) -> String {
    let path = shown(&group.path);
    match &facts.launch {
        Some(Launch { entry, .. }) => {
            format!("{entry} in {path} multiplies nothing: name the folder of the version that it is part of")
        }
        None => format!("there is no kernel in {path}: give what the compiler wrote about one"),
    }
}

/// Whether the files are about a kernel at all, as opposed to a program without one.
fn has_kernel(facts: &Facts) -> bool {
    let of_kernel = |level: Level| level != Level::Hlo;
    facts.matmuls.iter().any(|matmul| of_kernel(matmul.level))
        || facts.buffers.iter().any(|buffer| of_kernel(buffer.level))
        || !facts.operands.is_empty()
        || !facts.unreadable.is_empty()
}

fn texts(files: Vec<Content>, facts: &Facts) -> Vec<Text> {
    let kinds = facts.files.iter().map(|file| file.kind);
    let text =
        |(Content { name, bytes, .. }, kind)| Some(Text { name, kind, text: String::from_utf8(bytes).ok()? });
    files.into_iter().zip(kinds).filter_map(text).collect()
}

//! Findings with everything that a report shows of them: words, Python lines, Mosaic lines.

use octile_mosaic::{
    interpret::{Agent, Finding, Note, Site, Trouble},
    verify::Violation,
};
use serde::Serialize;

use super::{kernels::SimulatedKernel, wording::Wording};
use crate::python::PythonPlace;

/// A finding in words, at its lines.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// Name of the kernel.
    pub kernel: String,
    /// The kind of defect in words, such as RACE.
    pub title: &'static str,
    /// What is wrong, in a sentence.
    pub message: String,
    /// What to do, where it is certain.
    pub remedy: Option<String>,
    /// The Python line to look at.
    pub python: Option<PythonPlace>,
    /// The Mosaic line to look at.
    pub mosaic: Option<MosaicLine>,
    /// Device of that line, if there are several.
    pub device: Option<usize>,
    /// Grid step of that line.
    pub step: Option<Vec<i64>>,
    /// The operations concerned; that line's comes first.
    pub sites: Vec<DiagnosedSite>,
    /// Operations that could signal the semaphores of a deadlock, but have not.
    pub could_signal: Vec<LocatedLine>,
    /// Arguments of the kernel that the message calls by their Mosaic names.
    pub arguments: Vec<ArgumentNote>,
    /// The whole sentence, with title and remedy.
    #[serde(skip)]
    pub sentence: String,
}

/// A line of the kernel's Mosaic text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MosaicLine {
    /// The line, from 1.
    pub line: u32,
    /// Its text.
    pub text: Option<String>,
}

/// A line of a kernel and of its Python program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocatedLine {
    /// The Python line.
    pub python: Option<PythonPlace>,
    /// The Mosaic line.
    pub mosaic: MosaicLine,
}

/// What an argument is that is called by its Mosaic name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArgumentNote {
    /// Its Mosaic name.
    pub name: String,
    /// What it is: `scratch 4, memref<2x2x!tpu.dma_semaphore>`.
    pub description: String,
}

/// An operation concerned.
#[derive(Debug, Clone, Serialize)]
pub struct DiagnosedSite {
    /// What it does: `read`, `DMA`, `wait`.
    pub role: &'static str,
    /// Name of the operation.
    pub op: String,
    /// Who executed it.
    pub agent: Agent,
    /// Grid step.
    pub step: Vec<i64>,
    /// Device, if there are several.
    pub device: Option<usize>,
    /// Its Python line.
    pub python: Option<PythonPlace>,
    /// Its Mosaic line.
    pub mosaic: Option<MosaicLine>,
}

/// Something that the compiler would reject, at its lines.
#[derive(Debug, Clone, Serialize)]
pub struct Rejection {
    /// The violated rule.
    #[serde(flatten)]
    pub violation: Violation,
    /// Its Python line.
    pub python: Option<PythonPlace>,
    /// Its Mosaic line.
    pub mosaic: Option<MosaicLine>,
}

/// A remark at its lines.
#[derive(Debug, Clone, Serialize)]
pub struct LocatedNote {
    /// The remark.
    #[serde(flatten)]
    pub note: Note,
    /// Its Python line.
    pub python: Option<PythonPlace>,
    /// Operations of which it is true; the lines are those of the first.
    pub times: usize,
}

/// What a kernel printed, at its line.
#[derive(Debug, Clone, Serialize)]
pub struct LocatedPrint {
    /// The text.
    pub text: String,
    /// Grid step.
    pub step: Vec<i64>,
    /// Device, if there are several.
    pub device: Option<usize>,
    /// Its Python line.
    pub python: Option<PythonPlace>,
}

impl Diagnosis {
    /// Describes a finding of a kernel.
    pub(super) fn new(finding: &Finding, kernel: &SimulatedKernel) -> Self {
        let wording = Wording::of(&finding.trouble);
        let sites: Vec<_> =
            wording.sites.iter().map(|(role, site)| DiagnosedSite::new(role, site, kernel)).collect();
        let first = sites.first();
        let sentence = wording.sentence();
        // What concerns a whole kernel is at its definition.
        let python = first.map_or_else(|| kernel.definition(), |site| site.python.clone());
        let has_python = python.is_some() || sites.iter().any(|site| site.python.is_some());
        Self {
            kernel: kernel.name.clone(),
            title: wording.title,
            remedy: wording.remedy,
            python,
            mosaic: first.and_then(|site| site.mosaic.clone()),
            device: first.and_then(|site| site.device),
            step: first.map(|site| site.step.clone()),
            // A reader of Python does not see the names of the Mosaic text.
            arguments: if has_python { kernel.argument_notes(&sentence) } else { Vec::new() },
            could_signal: could_signal(&finding.trouble, kernel),
            sites,
            message: wording.says,
            sentence,
            finding: finding.clone(),
        }
    }
}

/// The operations that could end a deadlock, except those that have signalled.
fn could_signal(trouble: &Trouble, kernel: &SimulatedKernel) -> Vec<LocatedLine> {
    let waits: Vec<(&str, &[Site])> = match trouble {
        Trouble::Deadlock { semaphore, signalled_by, .. } => vec![(semaphore, signalled_by)],
        Trouble::DeviceDeadlock { waiting, .. } => {
            waiting.iter().map(|waiter| (&*waiter.semaphore, &*waiter.signalled_by)).collect()
        }
        _ => return Vec::new(),
    };
    let mut lines: Vec<u32> = Vec::new();
    for (semaphore, signalled_by) in waits {
        let signallers = kernel.signallers(semaphore).into_iter();
        lines.extend(signallers.filter(|line| signalled_by.iter().all(|site| site.line != Some(*line))));
    }
    lines.sort_unstable();
    lines.dedup();
    let located = |line| LocatedLine { python: kernel.python_at(line), mosaic: kernel.mosaic(line) };
    lines.into_iter().map(located).collect()
}

impl DiagnosedSite {
    fn new(role: &'static str, site: &Site, kernel: &SimulatedKernel) -> Self {
        Self {
            role,
            op: site.op.clone(),
            agent: site.agent.clone(),
            step: site.step.clone(),
            device: site.device,
            python: kernel.python.place(&site.source).or_else(|| match site.agent {
                Agent::Window(number) => kernel.index_map(number),
                _ => None,
            }),
            mosaic: site.line.map(|line| kernel.mosaic(line)),
        }
    }
}

impl Rejection {
    /// Locates a violation in a kernel.
    pub(super) fn new(violation: Violation, kernel: &SimulatedKernel) -> Self {
        let line = violation.place.map(|place| place.line);
        let python = line.and_then(|line| kernel.python_at(line));
        Self { violation, python, mosaic: line.map(|line| kernel.mosaic(line)) }
    }
}

impl LocatedNote {
    /// Locates a remark in a kernel.
    pub(super) fn new(note: Note, kernel: &SimulatedKernel) -> Self {
        let python = note.line.and_then(|line| kernel.python_at(line));
        Self { note, python, times: 1 }
    }

    /// Whether another remark says the same of another operation.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        self.note.op == other.note.op && self.note.message == other.note.message
    }
}

//! The structural difference of two dumps, part by part.

use serde::Serialize;

use super::{
    mosaic,
    part::{Aspect, Part, Subject, Value, sentence},
    schedule,
};
use crate::{
    facts::{Evidence, Facts, FileKind, Level, Witness},
    hlo::{KernelBody, Module},
    llo::Listing,
    mosaic::MosaicKernel,
};

/// A file of a dump.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Name in evidence.
    pub name: &'a str,
    /// Its kind.
    pub kind: FileKind,
    /// Its content.
    pub text: &'a str,
}

/// The dump of one kernel.
#[derive(Clone, Debug)]
pub struct Dump<'a> {
    /// Its facts.
    pub facts: &'a Facts,
    /// The files.
    pub files: Vec<File<'a>>,
}

/// Fate of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// In both dumps, with differences.
    Changed,
    /// Only in the first dump.
    Vanished,
    /// Only in the second dump.
    Appeared,
}

/// A changed aspect of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shift {
    /// Which.
    pub aspect: Aspect,
    /// In the first dump.
    pub before: Value,
    /// In the second one.
    pub after: Value,
    /// As a sentence.
    pub says: String,
}

/// A part that differs between the dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Kind of part.
    pub subject: Subject,
    /// Compiler stage.
    pub stage: Level,
    /// Its role.
    pub role: String,
    /// Its fate.
    pub fate: Fate,
    /// The changes; empty if only one dump has the part.
    pub shifts: Vec<Shift>,
    /// The changes as sentences.
    pub says: Vec<String>,
    /// Its line in the first dump.
    pub before: Option<Evidence>,
    /// Its line in the second one.
    pub after: Option<Evidence>,
}

/// The structural difference of two dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Structure {
    /// Differing parts, by kind.
    #[serde(rename = "parts")]
    pub differences: Vec<Difference>,
    /// Number of equal parts.
    pub alike: usize,
    /// What could not be compared and why, one sentence each.
    pub not_compared: Vec<String>,
}

impl Structure {
    /// Compares two dumps, part by part.
    pub fn between(before: &Dump<'_>, after: &Dump<'_>) -> Self {
        let (mut before, mut after) = (Side::new(before), Side::new(after));
        let not_compared = not_compared(&before, &after);
        let executed = before.executed && after.executed;
        before.settle(executed, &after.stages);
        after.settle(executed, &before.stages);
        let (mut left, mut right) = (before.parts.iter().collect(), after.parts.iter().collect());
        let pairs = pair(&mut left, &mut right);
        let mut differences: Vec<_> = pairs.iter().filter_map(|(b, a)| changed(b, a)).collect();
        let alike = pairs.len() - differences.len();
        let telling = |part: &&Part| match part.subject {
            // Executed copies are reported from the listing; the Mosaic text would repeat them.
            Subject::Copies => !executed || part.stage != Level::Mosaic,
            // A figure that only one dump states.
            Subject::Code => false,
            _ => true,
        };
        differences.extend(left.into_iter().filter(telling).map(vanished));
        differences.extend(right.into_iter().filter(telling).map(appeared));
        differences.sort_by_key(|difference| difference.subject);
        Self { differences, alike, not_compared }
    }
}

struct Side {
    stages: Vec<Level>,
    /// Whether the listing could be executed.
    executed: bool,
    parts: Vec<Part>,
}

impl Side {
    fn new(dump: &Dump<'_>) -> Self {
        let of = |kinds: &[FileKind]| dump.files.iter().find(|file| kinds.contains(&file.kind));
        let mut stages = Vec::new();
        let mut parts = schedule::parts(dump.facts);
        if let Some((name, text)) = kernel_text(dump)
            && let Ok(kernel) = MosaicKernel::parse(&text)
        {
            stages.push(Level::Mosaic);
            parts.extend(mosaic::parts(dump.facts, &kernel, &Witness::new(&name, &text)));
        }
        let listing = of(&[FileKind::LloPacked]).or_else(|| of(&[FileKind::LloFinal]));
        if let Some(file) = listing {
            stages.push(Level::Llo);
            let witness = Witness::new(file.name, file.text);
            parts.extend(schedule::loops(dump.facts, &Listing::parse(file.text), &witness));
        }
        let others = [
            (FileKind::Guide, Level::Guide),
            (FileKind::Hlo, Level::Hlo),
            (FileKind::Ptx, Level::Ptx),
            (FileKind::Sass, Level::Sass),
        ];
        stages.extend(others.into_iter().filter(|(kind, _)| of(&[*kind]).is_some()).map(|(_, level)| level));
        Self { stages, executed: dump.facts.cycles.is_some(), parts }
    }

    /// Drops parts of stages that the other side lacks, and those that a later stage shows better.
    fn settle(&mut self, executed: bool, others: &[Level]) {
        let both = |stage: Level| self.stages.contains(&stage) && others.contains(&stage);
        let (scheduled, assembled) = (both(Level::Llo), both(Level::Sass));
        self.parts.retain(|part| {
            others.contains(&part.stage)
                && (executed || !part.is(Subject::Copies, Level::Llo))
                && !(scheduled && part.is(Subject::Operand, Level::Hlo))
                && !(assembled && part.stage == Level::Ptx)
        });
        if executed {
            for part in self.parts.iter_mut().filter(|part| part.is(Subject::Copies, Level::Mosaic)) {
                part.aspects.retain(|(aspect, _)| *aspect == Aspect::Semaphore);
            }
        }
    }
}

/// The Mosaic text: a file, or embedded in the HLO program.
fn kernel_text(dump: &Dump<'_>) -> Option<(String, String)> {
    let file = dump.files.iter().find(|file| file.kind == FileKind::Mosaic);
    if let Some(file) = file {
        return Some((file.name.to_owned(), file.text.to_owned()));
    }
    dump.files.iter().filter(|file| file.kind == FileKind::Hlo).find_map(|file| {
        Module::parse(file.text).kernel_calls().into_iter().find_map(|call| match call.body {
            Some(KernelBody::Text(text)) => Some((format!("{} (body of {})", file.name, call.name), text)),
            _ => None,
        })
    })
}

/// Pairs the parts of both lists: equal ones first, then the most similar.
fn pair<'p>(left: &mut Vec<&'p Part>, right: &mut Vec<&'p Part>) -> Vec<(&'p Part, &'p Part)> {
    let mut pairs = Vec::new();
    for exact in [true, false] {
        left.retain(|before| {
            let candidates = right
                .iter()
                .enumerate()
                .filter(|(_, after)| before.matches(after) && (!exact || before.aspects == after.aspects));
            // The first of equally similar ones.
            let best = candidates.rev().max_by_key(|(_, after)| before.likeness(after));
            let best = best.map(|(index, _)| index);
            pairs.extend(best.map(|index| (*before, right.remove(index))));
            best.is_none()
        });
    }
    pairs
}

fn difference(fate: Fate, part: &Part, says: Vec<String>) -> Difference {
    let Part { subject, stage, role, .. } = part;
    let (role, shifts) = (role.clone(), Vec::new());
    Difference { subject: *subject, stage: *stage, role, fate, shifts, says, before: None, after: None }
}

fn changed(before: &Part, after: &Part) -> Option<Difference> {
    let shifts: Vec<_> = before
        .aspects
        .iter()
        .filter_map(|(aspect, old)| {
            let new = after.get(*aspect).filter(|new| *new != old)?;
            let says = sentence(&before.role, *aspect, old, new);
            Some(Shift { aspect: *aspect, before: old.clone(), after: new.clone(), says })
        })
        .collect();
    let says = shifts.iter().map(|shift| shift.says.clone()).collect();
    let (was, is) = (Some(before.evidence.clone()), Some(after.evidence.clone()));
    let base = difference(Fate::Changed, before, says);
    (!shifts.is_empty()).then_some(Difference { shifts, before: was, after: is, ..base })
}

fn vanished(part: &Part) -> Difference {
    let says = vec![format!("{} vanished ({})", part.role, part.summary())];
    Difference { before: Some(part.evidence.clone()), ..difference(Fate::Vanished, part, says) }
}

fn appeared(part: &Part) -> Difference {
    let says = vec![format!("{} appeared ({})", part.role, part.summary())];
    Difference { after: Some(part.evidence.clone()), ..difference(Fate::Appeared, part, says) }
}

fn not_compared(before: &Side, after: &Side) -> Vec<String> {
    let name = |level: Level| match level {
        Level::Guide => "a file in the notation of the guides",
        Level::Mosaic => "the kernel's Mosaic text",
        Level::Hlo => "optimized HLO",
        Level::Llo => "a scheduled LLO listing",
        Level::Ptx => "PTX",
        Level::Sass => "SASS",
    };
    let mut sentences = Vec::new();
    for (side, other, which) in [(before, after, "first"), (after, before, "second")] {
        let alone = side.stages.iter().filter(|stage| !other.stages.contains(stage));
        sentences.extend(alone.map(|stage| format!("only the {which} dump has {}", name(*stage))));
    }
    for (side, which) in [(before, "first"), (after, "second")] {
        if side.stages.contains(&Level::Llo) && !side.executed {
            sentences.push(format!("the listing of the {which} dump could not be executed"));
        }
    }
    sentences
}

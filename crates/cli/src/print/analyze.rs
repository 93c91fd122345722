//! `octile analyze` as text.

use std::fmt::{Display, Write};

use octile_core::plan::hopper::{Release, STAGE_K};
use octile_dump::{
    checks::{Finding, Verdict},
    compare::Row,
    facts::{Evidence, Facts},
    roofline::{Bound, Roofline},
};

use super::{counted, emit, heading, source_lines};
use crate::{
    args::HOPPER_TARGET,
    command::analyze::{Helper, Known, Promise, Version, manifest::Plan},
};

/// Lines of evidence per finding.
const EVIDENCE_LINES: usize = 2;
/// Characters of an excerpt.
const EXCERPT: usize = 96;

/// Prints facts and the checklist of every version.
pub fn report(versions: &[Version]) {
    emit(&versions.iter().map(text).collect());
}

fn text(version: &Version) -> String {
    let mut text = heading(title(version));
    for trouble in &version.troubles {
        let _ = writeln!(text, "WARNING   {trouble}");
    }
    if let Some(contradiction) = &version.promise.contradiction {
        let _ = writeln!(text, "WARNING   {contradiction}");
    }
    text.push_str(&facts(version));
    if version.ignored > 0 {
        text.push_str(&fact(
            "ignored",
            &format!("{} of the compiler's dump", counted(version.ignored, "other file")),
        ));
    }
    if let Some(view) = &version.source {
        text.push_str(&source_lines::table(view));
    }
    text.push('\n');
    text.extend(version.findings.iter().map(|finding| claim(finding, version.is_required(finding))));
    for waiver in &version.promise.waived {
        let _ = writeln!(text, "  {} is not required: {}", waiver.check, waiver.because);
    }
    for helper in &version.helpers {
        let _ = writeln!(text, "\n{}", helper_title(helper));
        text.extend(resources(&helper.facts).map(|(name, what)| fact(name, &what)));
        text.push('\n');
        text.extend(helper.findings.iter().map(|finding| claim(finding, true)));
    }
    text.push('\n');
    text
}

/// A check with its evidence.
fn claim(finding: &Finding, required: bool) -> String {
    let mut text = line(finding, required);
    for evidence in finding.evidence.iter().take(EVIDENCE_LINES) {
        let _ = writeln!(text, "      {}", place(evidence));
    }
    if finding.verdict == Verdict::Fail && required {
        let _ = writeln!(text, "      why: {}\n      do:  {}", finding.why, finding.remedy);
    }
    text
}

/// Name and folder of a kernel that prepares operands.
pub fn helper_title(helper: &Helper) -> String {
    format!("{}, in {}/, runs before it", helper.entry(), helper.name)
}

/// Two lines: the name of a version; its strategy, chip and problem.
pub fn title(version: &Version) -> String {
    let promise = &version.promise;
    let of = match (promise.strategy, promise.known) {
        (None, Known::Foreign) => foreign(version),
        (None, _) if version.findings.is_empty() => "unknown version".to_owned(),
        (None, _) => "unknown version: only common checks are required".to_owned(),
        (Some(strategy), known) => {
            let source = match known {
                Known::Told => "from the command line",
                Known::Manifest => "from the manifest",
                _ => "from the name",
            };
            format!("{} {}, {source}", strategy.version(), strategy.title())
        }
    };
    format!("{}\n{of}; {}{}{}", version.name, chip(promise), problem(version), variant(version))
}

/// What a kernel that Octile did not generate comes from.
fn foreign(version: &Version) -> String {
    match version.manifest.as_ref().and_then(|manifest| manifest.kernel.as_ref()) {
        Some(kernel) => format!("kernel {} of {}", kernel.name, kernel.source),
        None => "kernel of a compiler dump".to_owned(),
    }
}

/// The chip of a version.
pub fn chip(promise: &Promise) -> String {
    match (promise.chip, promise.gpu_name, promise.gpu) {
        (Some(chip), ..) => chip.name.to_owned(),
        (None, Some(gpu), _) => format!("{HOPPER_TARGET} ({})", gpu.to_uppercase()),
        (None, None, true) => "an NVIDIA GPU".to_owned(),
        (None, None, false) => "unknown chip".to_owned(),
    }
}

/// The problem of a version, to follow in a sentence.
fn problem(version: &Version) -> String {
    let Some(problem) = version.manifest.as_ref().and_then(|manifest| manifest.problem()) else {
        return String::new();
    };
    format!("; {problem}, x {}, out {}", problem.x, problem.out)
}

/// Options of a GPU kernel, to follow in a sentence.
fn variant(version: &Version) -> String {
    let Some(Plan::Gpu(plan)) = version.manifest.as_ref().and_then(|manifest| manifest.plan.as_ref()) else {
        return String::new();
    };
    let every = plan.promote_every;
    let promotion = (every != STAGE_K).then(|| format!(", promoted every {every} K elements"));
    let racecheck = (plan.release == Release::Thread).then_some(", for racecheck");
    format!("{}{}", promotion.unwrap_or_default(), racecheck.unwrap_or_default())
}

/// One line of the checklist.
pub fn line(finding: &Finding, required: bool) -> String {
    let optional = if required { "" } else { " (not required)" };
    format!("  {:<4} {:<16} {}{optional}\n", word(finding.verdict, required), finding.check, finding.says)
}

/// The word for a verdict. Only a required check can fail; any other one is a note.
pub fn word(verdict: Verdict, required: bool) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::NotObservable => "?",
        Verdict::Fail | Verdict::Obscured if required => "FAIL",
        Verdict::Fail | Verdict::Obscured => "note",
    }
}

/// `file:line:column: excerpt`
pub fn place(evidence: &Evidence) -> String {
    let mut excerpt: String = evidence.excerpt.chars().take(EXCERPT).collect();
    if excerpt.len() < evidence.excerpt.len() {
        excerpt.push_str("...");
    }
    format!("{}:{}: {excerpt}", evidence.file, evidence.place)
}

fn facts(version: &Version) -> String {
    let facts = &version.facts;
    let row = Row::of(&version.name, facts, &version.findings);
    let mut text = String::new();
    let mut say = |name: &str, what: String| text.push_str(&fact(name, &what));
    if let Some(matmul) = Facts::latest(&facts.matmuls, |matmul| matmul.level).first() {
        say("MMA", format!("{} by {}, {} in the code", matmul.lhs, matmul.rhs, matmul.count));
    }
    if let Some(copies) = row.copies {
        let bytes = row.hbm_bytes.map_or(String::new(), |bytes| format!(", {} to and from HBM", size(bytes)));
        let depth = row.buffers.map_or(String::new(), |depth| format!(", {depth} pipeline stages"));
        say("copies", format!("{copies}{bytes}{depth}"));
    }
    if let Some(vmem) = &facts.vmem {
        let limit = vmem.limit.map_or(String::new(), |limit| format!(" of {}", size(limit)));
        say("VMEM", format!("{}{limit}", size(vmem.used)));
    }
    for (name, what) in resources(facts) {
        say(name, what);
    }
    match (&facts.cycles, &facts.cycles_error) {
        (Some(cycles), _) => {
            let share = 1e2 * cycles.mxu_share();
            let stalled = cycles.stalled;
            say("cycles", format!("{} counted, {stalled:.0} in modelled waits", cycles.issued));
            say("MXU", format!("busy {share:.1} % of the time, modelled waits included"));
            let loops: Vec<_> =
                cycles.loops.iter().map(|l| format!("{:#x}: {}", l.first, l.iterations)).collect();
            if !loops.is_empty() {
                say("loops", format!("iterations by first bundle: {}", loops.join(", ")));
            }
        }
        (None, Some(error)) => say("cycles", format!("not counted: {error}")),
        (None, None) => {}
    }
    // The compiler reports 0 for some kernels.
    if let Some(estimate) = facts.estimated_cycles.filter(|&estimate| estimate > 0) {
        say("estimate", format!("{estimate} cycles, by the compiler"));
    }
    if let Some(roofline) = &version.roofline {
        say("roofline", roof(roofline));
    }
    text
}

/// Registers, spills and shared memory of a GPU kernel.
pub fn resources(facts: &Facts) -> impl Iterator<Item = (&'static str, String)> {
    let registers = facts.assembler.as_ref().map(|assembled| {
        let report = &assembled.report;
        let spilled = report.spill_stores.saturating_add(report.spill_loads);
        let spills = if spilled == 0 { "no spills".to_owned() } else { format!("{spilled} bytes of spills") };
        ("registers", format!("{} per thread, {spills}", report.registers))
    });
    let shared =
        facts.shared_bytes.map(|bytes| ("shared", format!("{} of shared memory per CTA", size(bytes))));
    registers.into_iter().chain(shared)
}

fn fact(name: &str, what: &str) -> String {
    format!("{name:<10}{what}\n")
}

/// The roofline in one line.
pub fn roof(roofline: &Roofline) -> String {
    let bound = match roofline.bound {
        Bound::Compute => "the MXU",
        Bound::Memory => "HBM",
    };
    let [mxu, hbm] = [roofline.mxu_cycles, roofline.hbm_cycles].map(|cycles| grouped(cycles.round() as u64));
    format!(
        "{mxu} cycles at the MXU limit, {hbm} at the HBM limit; {:.2} times the limit of {bound}",
        roofline.distance
    )
}

/// Formats bytes with a binary unit.
pub fn size(bytes: impl Into<u64>) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes.into() as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value.fract() > 0.05);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A number with a comma before every three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A value, or a question mark.
pub fn or_unknown(value: Option<impl Display>) -> String {
    value.map_or("?".to_owned(), |value| value.to_string())
}

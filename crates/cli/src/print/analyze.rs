//! `octile analyze` as text.

use std::fmt::{Display, Write};

use octile_dump::{
    checks::{Finding, Verdict},
    compare::Row,
    facts::{Evidence, Facts},
    roofline::{Bound, Roofline},
};

use super::{emit, heading};
use crate::{
    args::HOPPER_TARGET,
    command::analyze::{Known, Version},
};

/// Lines of evidence to show of one finding.
const EVIDENCE_LINES: usize = 2;
/// Columns of a dump's line to show.
const EXCERPT: usize = 96;

/// Prints facts and the checklist of every version.
pub fn report(versions: &[Version]) {
    emit(&versions.iter().map(text).collect());
}

/// Prints any value as JSON.
pub fn json(value: &impl serde::Serialize) {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    emit(&text);
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
    text.push('\n');
    for finding in &version.findings {
        text.push_str(&line(version, finding));
        for evidence in finding.evidence.iter().take(EVIDENCE_LINES) {
            let _ = writeln!(text, "      {}", place(evidence));
        }
        if finding.verdict == Verdict::Fail {
            let _ = writeln!(text, "      why: {}\n      do:  {}", finding.why, finding.remedy);
        }
    }
    for waiver in &version.promise.waived {
        let _ = writeln!(text, "  {} is not required: {}", waiver.check, waiver.because);
    }
    text.push('\n');
    text
}

/// The name of a version and how it is known.
pub fn title(version: &Version) -> String {
    let promise = &version.promise;
    let of = match (promise.strategy, promise.known) {
        (None, _) => "version not known: judged by what all versions promise".to_owned(),
        (Some(strategy), known) => {
            let source = match known {
                Known::Told => "as told",
                Known::Manifest => "from the manifest",
                _ => "from the name",
            };
            format!("{} {}, {source}", strategy.version(), strategy.title())
        }
    };
    let chip = match (promise.chip, &promise.gpu_name, promise.gpu) {
        (Some(chip), ..) => chip.name.to_owned(),
        (None, Some(gpu), _) => format!("{HOPPER_TARGET} ({})", gpu.to_uppercase()),
        (None, None, true) => "an NVIDIA GPU".to_owned(),
        (None, None, false) => "chip not known".to_owned(),
    };
    format!("{}\n{of}; {chip}", version.name)
}

/// One line of the checklist.
pub fn line(version: &Version, finding: &Finding) -> String {
    let required = if version.is_required(finding) { "" } else { " (not required)" };
    format!("  {:<4} {:<16} {}{required}\n", word(finding.verdict), finding.check, finding.says)
}

/// The word for a verdict.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::NotObservable => "?",
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
    let mut say = |name: &str, what: String| {
        let _ = writeln!(text, "{name:<10}{what}");
    };
    if let Some(matmul) = Facts::latest(&facts.matmuls, |matmul| matmul.level).first() {
        say("products", format!("{} by {}, {} in the code", matmul.lhs, matmul.rhs, matmul.count));
    }
    if let Some(copies) = row.copies {
        let bytes = row.hbm_bytes.map_or(String::new(), |bytes| format!(", {} to and from HBM", size(bytes)));
        let depth = row.buffers.map_or(String::new(), |depth| format!(", {depth} places in turn"));
        say("copies", format!("{copies}{bytes}{depth}"));
    }
    if let Some(vmem) = &facts.vmem {
        let limit = vmem.limit.map_or(String::new(), |limit| format!(" of {}", size(limit)));
        say("VMEM", format!("{}{limit}", size(vmem.used)));
    }
    if let Some(report) = facts.assembler.as_ref().map(|assembled| &assembled.report) {
        let spilled = report.spill_stores + report.spill_loads;
        let spills = if spilled == 0 { "no spills".to_owned() } else { format!("{spilled} bytes of spills") };
        say("registers", format!("{} per thread, {spills}", report.registers));
    }
    if let Some(bytes) = version.manifest.as_ref().and_then(|manifest| manifest.figures.shared_bytes) {
        say("shared", format!("{} of shared memory per block", size(bytes)));
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
    if let Some(estimate) = facts.estimated_cycles {
        say("estimate", format!("{estimate} cycles, by the compiler"));
    }
    if let Some(roofline) = &version.roofline {
        say("roofline", roof(roofline));
    }
    text
}

/// The limits in one line.
pub fn roof(roofline: &Roofline) -> String {
    let bound = match roofline.bound {
        Bound::Compute => "the matrix units",
        Bound::Memory => "device memory",
    };
    format!(
        "{:.0} cycles for the matrix units, {:.0} for device memory; {:.2} times the limit of {bound}",
        roofline.mxu_cycles, roofline.hbm_cycles, roofline.distance
    )
}

/// Bytes, as people say them.
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

/// A value, or that it is not known.
pub fn or_unknown(value: Option<impl Display>) -> String {
    value.map_or("?".to_owned(), |value| value.to_string())
}

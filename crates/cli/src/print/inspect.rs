//! `octile inspect` as text.

use std::fmt::Write;

use super::{emit, heading};
use crate::command::inspect::{Counted, Report, VersionReport};

/// Prints what was compiled and where it is.
pub fn report(report: &Report) {
    emit(&text(report));
}

fn text(report: &Report) -> String {
    let libtpu = &report.libtpu;
    let version =
        libtpu.version.map_or_else(|| "of unknown version".to_owned(), |version| version.to_string());
    let mut text = heading(format!(
        "FP8 2-D block-scaled matmul: compiled for {}\nlibtpu {version}, {}",
        report.chip.name, libtpu.origin
    ));
    for version in &report.versions {
        text += &version_text(version);
    }
    text += "Cycles are counted on the listing, one bundle per cycle, with every wait for a copy free; no TPU was used.\n";
    text
}

fn version_text(report: &VersionReport) -> String {
    let VersionReport { plan, folder, figures } = report;
    let (problem, strategy) = (&plan.problem, plan.strategy);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} {} ({problem}, {}, x {})",
        strategy.version(),
        strategy.title(),
        plan.mode,
        problem.x
    );
    let _ = writeln!(text, "  tile {}, grid {}", plan.tile, plan.grid);
    let _ = match &figures.counted {
        Counted::Cycles { cycles, mxu_share } => {
            writeln!(text, "  {cycles} cycles, matrix units busy {:.1} % of them", 100.0 * mxu_share)
        }
        Counted::NotCounted { reason } => writeln!(text, "  cycles not counted: {reason}"),
    };
    let _ = writeln!(
        text,
        "  {} bytes of code, {} bytes of temporaries, compiled in {:.1} s",
        figures.code_bytes, figures.memory.temp, figures.compile_seconds
    );
    let _ = writeln!(text, "  {}\n", folder.display());
    text
}

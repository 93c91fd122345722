//! Prints a simulated GPU kernel.

use std::fmt::Write;

use octile_core::exact::WrongElement;
use octile_harness::check::ExactCheck;

use super::super::{emit, heading};
use crate::{
    Verdict,
    command::simulate::gpu::{GpuSimulateReport, StoppedAt},
};

/// Lines of context around the line where the kernel was stopped.
const AROUND: usize = 2;

/// Prints what stopped the kernel, or how accurate its result is.
pub fn report(report: &GpuSimulateReport) {
    emit(&text(report));
}

fn text(report: &GpuSimulateReport) -> String {
    let GpuSimulateReport { kernel, gpu, problem, .. } = report;
    let mut text = heading(format!(
        "{kernel}\n{problem}, x {}, out {}; simulated on a modelled {gpu}, thread by thread",
        problem.x, problem.out
    ));
    if let Some(found) = &report.fault {
        text += &stopped(found, &report.lines);
    }
    let plural = if report.orders == 1 { "" } else { "s" };
    let _ = match &report.fault {
        Some(_) => {
            writeln!(text, "findings  1 in {} schedule{plural}; the kernel was stopped", report.orders)
        }
        None => {
            writeln!(text, "findings  none in {} schedule{plural}, with race detection", report.orders)
        }
    };
    let _ = match &report.comparison {
        None => writeln!(text, "result    none"),
        Some(comparison) => writeln!(
            text,
            "result    {}: largest relative error {:.3e}, {:.3} of the error bound{}",
            if comparison.passed() { "PASS" } else { "FAIL" },
            comparison.max_relative,
            comparison.worst_of_bound,
            if report.repeatable { "" } else { "; another schedule gave other bits" }
        ),
    };
    let _ = match report.exact {
        ExactCheck { draws: 0, .. } => Ok(()),
        ExactCheck { first: Some(WrongElement { row, col, result, expected }), wrong, .. } => writeln!(
            text,
            "exact     FAIL: {wrong} wrong elements; row {row}, column {col} is {result:e}, not {expected:e}"
        ),
        _ => writeln!(text, "exact     PASS: small integers with power-of-two scales, bit-exact"),
    };
    if report.instructions > 0 {
        let _ = writeln!(text, "executed  {} instructions of all warps", report.instructions);
    }
    if !report.unreached.is_empty() {
        let _ = writeln!(text, "unreached {}: never executed, so not checked", ranges(&report.unreached));
    }
    let _ = writeln!(text, "time      {:.3} s on this machine", report.seconds);
    let verdict = if report.verdict() == Verdict::Passed { "PASS" } else { "FAIL" };
    let _ = writeln!(text, "verdict   {verdict}");
    text
}

/// Formats line numbers as ranges; labels may be between the lines of a range.
fn ranges(lines: &[usize]) -> String {
    const SHOWN: usize = 6;
    let ranges: Vec<&[usize]> = lines.chunk_by(|line, next| next - line <= 2).collect();
    let shown = ranges.iter().take(SHOWN).map(|range| match range {
        [line] => line.to_string(),
        _ => format!("{}-{}", range[0], range[range.len() - 1]),
    });
    let more = if ranges.len() > SHOWN { ", and others (see --json)" } else { "" };
    format!("lines {}{more}", shown.collect::<Vec<_>>().join(", "))
}

/// What stopped the kernel, with the lines around it.
fn stopped(found: &StoppedAt, lines: &[String]) -> String {
    let StoppedAt { line, block, thread, problem } = found;
    let mut text = format!("STOPPED at line {line}, thread {thread} of CTA {block}: {problem}\n");
    let shown = line.saturating_sub(AROUND).max(1)..=(line + AROUND).min(lines.len());
    for number in shown {
        let mark = if number == *line { '>' } else { ' ' };
        let _ = writeln!(text, "  {mark} {number:>5} | {}", lines[number - 1].trim_end().replace('\t', "  "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_lines_form_ranges() {
        assert_eq!(ranges(&[3]), "lines 3");
        assert_eq!(ranges(&[3, 4, 6, 9, 20, 21]), "lines 3-6, 9, 20-21");
        let many: Vec<usize> = (0..9).map(|at| 10 * at).collect();
        assert_eq!(ranges(&many), "lines 0, 10, 20, 30, 40, 50, and others (see --json)");
    }
}

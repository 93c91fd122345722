//! `octile test` as text, laid out as the original test suite printed it.

use std::fmt::Write;

use octile_core::bound::Accumulator;
use octile_harness::{
    check::{Check, ExactCheck, RELATIVE_TOLERANCE},
    correctness::{CaseChecks, TestReport},
};

use super::{emit, heading, plans};

/// Prints every check and the summary.
pub fn report(report: &TestReport) {
    emit(&text(report));
}

/// Prints one line per shape and the summary.
pub fn summary(report: &TestReport) {
    let mut text = title(report);
    for case in &report.cases {
        let _ = write!(text, "{:<12} {:<20}", case.case.label, case.case.problem);
        for (strategy, check) in &case.checks {
            let _ = write!(text, " {strategy} {}", verdict(check.passed()));
        }
        text.push('\n');
        text.extend(failures(case));
    }
    text.push('\n');
    text += &conclusion(report);
    text.push('\n');
    emit(&text);
}

fn verdict(passed: bool) -> &'static str {
    if passed { "PASS" } else { "FAIL" }
}

fn title(report: &TestReport) -> String {
    heading(format!("FP8 2-D block-scaled matmul: correctness\n{}", report.setup))
}

fn text(report: &TestReport) -> String {
    let mut text = title(report);
    for case in &report.cases {
        let problem = &case.case.problem;
        let plans = || case.checks.iter().map(|(strategy, _)| *strategy).zip(&case.plans);
        let isa = plans::isas(plans()).map(|isa| format!(", isa {isa}")).unwrap_or_default();
        let (label, x, out) = (&case.case.label, problem.x, problem.out);
        let _ = writeln!(text, "\nTest: {problem} ({label}), x {x}, out {out}{isa}");
        let _ = writeln!(
            text,
            "  {:<4} {:<20} {:>12} {:>12} {:>12} {:>8}",
            "", "strategy", "max rel err", "mean rel err", "of bound", "exact"
        );
        for (strategy, check) in &case.checks {
            let Check { comparison, .. } = check;
            let _ = writeln!(
                text,
                "  {:<4} {:<20} {:>12.3e} {:>12.3e} {:>12.3e} {:>8}  {}",
                strategy.version(),
                strategy.title(),
                comparison.max_relative,
                comparison.mean_relative,
                comparison.worst_of_bound,
                exactness(check),
                verdict(check.passed())
            );
        }
        text += &plans::tuned(plans());
        text.extend(failures(case));
    }
    let _ = writeln!(
        text,
        "\nmax rel err: at most {RELATIVE_TOLERANCE}. of bound: largest error relative to its bound, at most 1"
    );
    let models: Vec<_> = report.accumulators.iter().map(rounding).collect();
    let _ = writeln!(
        text,
        "({}).\n{}{}Results must be bitwise repeatable.\n",
        models.join("; "),
        if has_exact(report) {
            "exact: small integers and power-of-two scales, for which every element must be exact.\n"
        } else {
            ""
        },
        if has_inexact(report) { "n/a: K is too long for exact sums in f32.\n" } else { "" }
    );
    text += &heading("TEST SUMMARY");
    for (strategy, passed, all) in report.tally() {
        let _ = writeln!(
            text,
            "{}: {}\n  Passed: {passed}/{all}\n  Failed: {}/{all}",
            strategy.version(),
            verdict(passed == all),
            all - passed
        );
    }
    text.push('\n');
    text += &conclusion(report);
    text
}

/// Verdict on exact operands.
fn exactness(check: &Check) -> &'static str {
    match check.exact {
        None => "",
        Some(ExactCheck { draws: 0, .. }) => "n/a",
        Some(exact) => verdict(exact.wrong == 0),
    }
}

fn has_exact(report: &TestReport) -> bool {
    report.cases.iter().flat_map(|case| &case.checks).any(|(_, check)| check.exact.is_some())
}

fn has_inexact(report: &TestReport) -> bool {
    report.cases.iter().flat_map(|case| &case.checks).any(|(_, check)| exactness(check) == "n/a")
}

/// The accumulator model, in words.
fn rounding(accumulator: &Accumulator) -> &'static str {
    match accumulator {
        Accumulator::F32 => "f32 accumulator",
        Accumulator::Bf16Operands => "operands scaled and rounded to bf16, f32 accumulator",
        Accumulator::HopperTensorCore { .. } => "tensor core accumulator, promoted to f32",
    }
}

fn failures(case: &CaseChecks) -> impl Iterator<Item = String> {
    case.checks
        .iter()
        .filter_map(|(strategy, check)| Some(format!("  {}: {}\n", strategy.version(), check.complaint()?)))
}

fn conclusion(report: &TestReport) -> String {
    if report.passed() {
        "ALL TESTS PASSED: every strategy is correct.\n".to_owned()
    } else {
        "SOME TESTS FAILED: do not benchmark or use a strategy that is marked FAIL.\n".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use octile_core::{
        Problem, QuantBlock, Strategy, device::cpu::Isa, exact::WrongElement, oracle::Comparison,
    };
    use octile_harness::{
        backend::{PlanLabel, Setup},
        case::named_cases,
        record::Provenance,
    };

    use super::*;

    #[test]
    fn a_pass_and_a_failure() {
        let check = |worst_of_bound, repeatable| Check {
            comparison: Comparison {
                max_relative: 1.25e-6,
                mean_relative: 2.5e-8,
                worst_of_bound,
                worst_at: (3, 4),
            },
            exact: Some(ExactCheck { draws: 1, ..ExactCheck::default() }),
            repeatable,
            findings: 0,
            stopped: None,
        };
        let wrong = WrongElement { row: 5, col: 6, result: 2.5, expected: 1.5 };
        let inexact = ExactCheck { draws: 1, wrong: 16, first: Some(wrong) };
        let problem = Problem::new(512, 512, 512, QuantBlock::B128).unwrap();
        let plan = PlanLabel { isa: Some(Isa::Avx2), tuned: None };
        let drops_a_block = CaseChecks {
            case: named_cases(&[problem]).remove(0),
            checks: vec![(Strategy::Auto, Check { exact: Some(inexact), ..check(0.9, true) })],
            plans: vec![plan.clone()],
        };
        let case = CaseChecks {
            case: named_cases(&[problem]).remove(0),
            plans: vec![plan; 4],
            checks: vec![
                (Strategy::Auto, check(0.01, true)),
                (Strategy::Dma, check(17.0, true)),
                (Strategy::Smem, check(0.01, false)),
                (Strategy::Strip, Check { stopped: Some("line 7: deadlock".into()), ..check(17.0, true) }),
            ],
        };
        let setup =
            Setup::Cpu { cpu_model: "a processor".into(), isa: "avx2".into(), threads: 2, pinned: false };
        let provenance = Provenance { date: "2026-01-01T00:00:00Z".into(), version: "0".into() };
        insta::assert_snapshot!(text(&TestReport {
            provenance,
            setup,
            seed: 1,
            accumulators: vec![Accumulator::F32],
            cases: vec![case, drops_a_block]
        }));
    }
}

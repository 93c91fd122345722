//! `octile bench` as text, laid out as the original benchmark printed it.

use std::fmt::Write;

use octile_harness::{
    bench::{BenchReport, CaseTimings, Recommendation},
    compare::{BenchComparison, ComparedTiming, TimingChange},
    roofline::Limiter,
    stats::Estimate,
};

use super::{counted, emit, heading, plans, rule, say};

/// Prints every timing, the summary and the recommendation.
pub fn report(report: &BenchReport) {
    emit(&text(report));
}

fn text(report: &BenchReport) -> String {
    let mut text = title(report);
    for case in &report.cases {
        text += &case_table(report, case);
    }
    let conclusion = conclusion(report);
    if !conclusion.is_empty() {
        text += &heading("BENCHMARK SUMMARY");
    }
    text + &conclusion
}

/// The timings so far, for a benchmark that is interrupted.
pub fn so_far(report: &BenchReport, shapes: usize) -> String {
    let done = report.cases.len();
    text(report)
        + &format!("Interrupted: timed {done} of {}, and no file was written.\n", counted(shapes, "shape"))
}

/// Prints the ranking per shape and the recommendation.
pub fn summary(report: &BenchReport) {
    emit(&(title(report) + &ranking(report) + &conclusion(report)));
}

fn title(report: &BenchReport) -> String {
    let peak = &report.peak;
    heading(format!(
        "FP8 2-D block-scaled matmul: performance\n{}; measured peak {:.3} TFLOP/s, read {:.1} GB/s",
        report.setup, peak.tflops, peak.read_gbytes
    ))
}

fn case_table(report: &BenchReport, case: &CaseTimings) -> String {
    let problem = &case.case.problem;
    let roof = report.roof(problem);
    let plans = || case.timings.iter().map(|timing| (timing.strategy, &timing.plan));
    let isa = plans::isas(plans()).map(|isa| format!(", isa: {isa}")).unwrap_or_default();
    let mut text = heading(format!(
        "Configuration: {} ({problem}), x: {}, out: {}{isa}\nRoof: {:.3} TFLOP/s, limited by {}",
        case.case.label, problem.x, problem.out, roof.tflops, roof.limiter
    ));
    for (strategy, check) in &case.refused {
        let failure = check.complaint().unwrap_or_default();
        let _ = writeln!(text, "  {strategy} is not timed because it is wrong: {failure}");
    }
    let Some(winner) = case.winner() else { return text };
    let unit = Unit::of(case);
    let [mean, min, max, std, median] =
        ["mean", "min", "max", "std", "median"].map(|figure| format!("{figure} {}", unit.name));
    let _ = writeln!(
        text,
        "  {:<22} {:>4} {mean:>9} {min:>9} {max:>9} {std:>8} {median:>9} {:>9} {:>9} {:>8} {:>6} {:>6}",
        "version", "runs", "TF/s mean", "TF/s best", "GB/s", "% roof", "% best"
    );
    let mut exceeds_roof = false;
    for timing in &case.timings {
        let stats = &timing.stats;
        let of_roof = roof.percent(timing.tflops_median);
        exceeds_roof |= of_roof > 100.0;
        let _ = writeln!(
            text,
            "{} {:<22} {:>4} {:>9.3} {:>9.3} {:>9.3} {:>8.3} {:>9.3} {:>9.3} {:>9.3} {:>8.2} {:>6.1} {:>6.1}",
            if winner.strategy == timing.strategy { '*' } else { ' ' },
            format!("{} {}", timing.strategy.version(), timing.strategy.title()),
            stats.samples_ms.len(),
            unit.per_ms * stats.mean_ms,
            unit.per_ms * stats.min_ms,
            unit.per_ms * stats.max_ms,
            unit.per_ms * stats.std_ms,
            unit.per_ms * stats.median_ms,
            timing.tflops_mean,
            timing.tflops_best,
            timing.gbytes_per_s,
            of_roof,
            100.0 * winner.stats.median_ms / stats.median_ms
        );
    }
    text += &plans::tuned(plans());
    for timing in &case.timings {
        if let Some((untuned, speedup)) = case.untuned(timing) {
            let _ = writeln!(
                text,
                "  {} with its default plan: median {:.3} {}; the tuned plan is {speedup:.3} times as fast",
                timing.strategy.version(),
                unit.per_ms * untuned.stats.median_ms,
                unit.name
            );
        }
    }
    if exceeds_roof {
        let reason = match roof.limiter {
            Limiter::Memory => "the operands stay in cache between runs",
            Limiter::Compute => "the peak was measured too low, on a machine that was busy",
        };
        let _ = writeln!(text, "  above 100 % of the roof: {reason}");
    }
    text += "  runs are interleaved; * smallest median\n\n";
    text
}

/// The unit of a shape's times.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    per_ms: f64,
}

impl Unit {
    /// Small enough for three decimals to show three digits of the shortest time.
    fn of(case: &CaseTimings) -> Self {
        Self::for_ms(case.winner().map_or(0.0, |winner| winner.stats.median_ms))
    }

    fn for_ms(shortest: f64) -> Self {
        match shortest {
            _ if shortest < 1e-4 => Self { name: "ns", per_ms: 1e6 },
            _ if shortest < 0.1 => Self { name: "us", per_ms: 1e3 },
            _ => Self { name: "ms", per_ms: 1.0 },
        }
    }
}

fn ranking(report: &BenchReport) -> String {
    let mut text = String::new();
    for case in &report.cases {
        let Some(winner) = case.winner() else { continue };
        let roof = report.roof(&case.case.problem);
        let _ = writeln!(text, "{} ({}), limited by {}:", case.case.label, case.case.problem, roof.limiter);
        for timing in &case.timings {
            let (unit, median) = (Unit::of(case), timing.stats.median_ms);
            let _ = writeln!(
                text,
                "{} {:<22} {:>10.3} {} {:>8.3} TFLOP/s {:>6.1} % of roof {:>6.1} % of best",
                if timing.strategy == winner.strategy { '*' } else { ' ' },
                format!("{} {}", timing.strategy.version(), timing.strategy.title()),
                unit.per_ms * median,
                unit.name,
                timing.tflops_median,
                roof.percent(timing.tflops_median),
                100.0 * winner.stats.median_ms / median
            );
        }
        text.push('\n');
    }
    text
}

fn conclusion(report: &BenchReport) -> String {
    let mut text = String::new();
    for (case, strategy, check) in report.refused() {
        let failure = check.complaint().unwrap_or_default();
        let _ = writeln!(text, "{strategy} was not timed on {} because it is wrong: {failure}", case.problem);
    }
    let Some(recommendation) = report.recommendation() else { return text };
    text += "Wins by version:\n";
    for (strategy, wins) in report.wins() {
        let _ =
            writeln!(text, "  {} {:<20} {wins}/{}", strategy.version(), strategy.title(), report.cases.len());
    }
    text += "\nRECOMMENDATION\n";
    text += &rule();
    text += &advice(recommendation);
    text
}

/// The thresholds of the original guide: below 5 % take the simpler version, above 10 % the faster one.
fn advice(recommendation: Recommendation) -> String {
    let Recommendation { winner, gain, simplest, spread } = recommendation;
    let percent = 100.0 * gain;
    let faster = format!(
        "{winner} ({}) is {percent:.1} % faster than {simplest} ({}), geometric mean of medians",
        winner.version(),
        simplest.version()
    );
    let unsure =
        format!("Use {simplest}, the simplest, or time again with more --iterations on a quiet machine.\n");
    if winner == simplest {
        format!("{winner} ({}) is the simplest, and no other wins more shapes: use it.\n", winner.version())
    } else if let (false, Some(spread)) = (recommendation.is_significant(), spread) {
        let spread = 100.0 * spread;
        format!("{faster}, +- {spread:.1} %: not significant.\n{unsure}")
    } else if !recommendation.is_significant() {
        format!("{faster}, but there are too few runs to show a difference.\n{unsure}")
    } else if percent < 5.0 {
        format!("{faster}: negligible, use the simpler {simplest}.\n")
    } else if percent <= 10.0 {
        format!("{faster}: noticeable, weigh it against the complexity.\n")
    } else {
        format!("{faster}: significant, use {winner}.\n")
    }
}

/// Prints two benchmark records side by side.
pub fn comparison(comparison: &BenchComparison) {
    emit(&comparison_text(comparison));
}

fn comparison_text(comparison: &BenchComparison) -> String {
    let BenchComparison { before, after, pairs, mean_ratio, only_before, only_after } = comparison;
    let mut text = heading("BENCHMARK COMPARISON");
    for (name, origin) in [("before", before), ("after", after)] {
        let _ = writeln!(text, "{name:<7} {}, version {}", origin.provenance.date, origin.provenance.version);
        let _ = writeln!(text, "        {}", origin.machine);
    }
    if !comparison.is_same_machine() {
        text += "The machines differ: ratios include their difference.\n";
    }
    let _ = writeln!(
        text,
        "\n{:<7} {:>11} {:>11} {:>7} {:>17}",
        "version", "before ms", "after ms", "ratio", "95 % interval"
    );
    let mut problem = None;
    for pair in pairs {
        if problem != Some(&pair.problem) {
            let _ = writeln!(text, "{}", pair.problem);
            problem = Some(&pair.problem);
        }
        text += &pair_line(pair);
    }
    if let (Some(mean), true) = (mean_ratio, pairs.len() > 1) {
        let _ = writeln!(text, "geometric mean {:>23.3} {}", mean.value, interval(mean));
    }
    for (names, side) in [(only_before, "before"), (only_after, "after")] {
        for name in names {
            let _ = writeln!(text, "only {side}: {name}");
        }
    }
    text
}

fn pair_line(pair: &ComparedTiming) -> String {
    let change = match pair.change {
        TimingChange::Faster => "faster".to_owned(),
        TimingChange::Slower => "slower".to_owned(),
        TimingChange::NotSignificant => "not significant".to_owned(),
        TimingChange::TooFewRuns => format!("too few runs ({} and {})", pair.runs.0, pair.runs.1),
    };
    let interval = pair.ratio.as_ref().map(interval).unwrap_or_default();
    format!(
        "  {:<5} {:>11.4} {:>11.4} {:>7.3} {interval:>17}  {change}\n",
        pair.strategy,
        pair.before_ms,
        pair.after_ms,
        pair.after_ms / pair.before_ms
    )
}

fn interval(estimate: &Estimate) -> String {
    format!("{:.3} .. {:.3}", estimate.low, estimate.high)
}

/// Prints on standard error which strategies exceed the limit of `--fail-if-slower`.
pub fn gate(slower: &[&ComparedTiming], limit: f64) {
    for pair in slower {
        say(&gate_line(pair, limit));
    }
}

fn gate_line(pair: &ComparedTiming, limit: f64) -> String {
    let (ratio, limit) = (pair.after_ms / pair.before_ms, 100.0 * limit);
    format!("FAIL: {} on {} takes {ratio:.3} times as long, limit {limit} %", pair.strategy, pair.problem)
}

#[cfg(test)]
mod tests {
    use octile_core::{Problem, QuantBlock, Strategy, device::cpu::Isa};
    use octile_harness::{
        backend::{Peak, PlanLabel, Setup},
        bench::Timing,
        case::named_cases,
        record::{BenchBaseline, Provenance},
        stats::Statistics,
    };

    use super::*;

    fn report_of(timings: &[(Strategy, &[f64])]) -> BenchReport {
        let problem = Problem::new(2048, 2048, 2048, QuantBlock::B512).unwrap();
        let timing = |&(strategy, samples): &(Strategy, &[f64])| {
            let plan = PlanLabel { isa: Some(Isa::Avx2), tuned: None };
            Timing::new(strategy, plan, &problem, Statistics::of(samples.to_vec()))
        };
        let case = CaseTimings {
            case: named_cases(&[problem]).remove(0),
            timings: timings.iter().map(timing).collect(),
            refused: Vec::new(),
            untuned: Vec::new(),
        };
        BenchReport {
            provenance: Provenance { date: "2026-01-01T00:00:00Z".into(), version: "0".into() },
            setup: Setup::Cpu {
                cpu_model: "a processor".into(),
                isa: "avx2".into(),
                threads: 2,
                pinned: false,
            },
            peak: Peak { tflops: 0.5, read_gbytes: 20.0 },
            seed: 1,
            warmup: 2,
            cases: vec![case],
        }
    }

    #[test]
    fn two_versions_on_one_shape() {
        let report =
            report_of(&[(Strategy::Auto, &[56.0, 54.0, 55.0]), (Strategy::Strip, &[44.0, 45.0, 43.0])]);
        insta::assert_snapshot!(text(&report));
    }

    #[test]
    fn a_roof_that_is_exceeded_is_explained() {
        let mut report = report_of(&[(Strategy::Strip, &[10.0])]);
        assert!(text(&report).contains("above 100 % of the roof: the peak was measured too low"));
        report.peak = Peak { tflops: 500.0, read_gbytes: 0.1 };
        assert!(text(&report).contains("above 100 % of the roof: the operands stay in cache"));
    }

    #[test]
    fn two_records_side_by_side() {
        let around = |ms: f64| [0.97, 0.98, 0.99, 1.0, 1.0, 1.01, 1.02, 1.03].map(|factor| ms * factor);
        let record = |auto: f64, strip: &[f64]| {
            BenchBaseline::from(&report_of(&[(Strategy::Auto, &around(auto)), (Strategy::Strip, strip)]))
        };
        let (before, after) = (record(50.0, &around(40.0)), record(60.0, &[40.0]));
        let comparison = BenchComparison::new(&before, &after).unwrap();
        insta::assert_snapshot!(comparison_text(&comparison) + &gate_line(&comparison.pairs[0], 0.05));
    }

    #[test]
    fn short_times_keep_their_digits() {
        assert_eq!([0.00002, 0.0375, 0.647, 44.0].map(|ms| Unit::for_ms(ms).name), ["ns", "us", "ms", "ms"]);
        assert_eq!(format!("{:.3}", Unit::for_ms(0.0375).per_ms * 0.0375), "37.500");
    }

    #[test]
    fn advice_follows_the_thresholds() {
        let advice = |gain, spread| {
            advice(Recommendation { winner: Strategy::Strip, gain, spread, simplest: Strategy::Auto })
        };
        assert!(advice(0.04, Some(0.01)).contains("negligible"));
        assert!(advice(0.07, Some(0.01)).contains("noticeable"));
        assert!(advice(0.11, Some(0.01)).contains("significant, use strip"));
        let unsure = advice(0.11, Some(0.2));
        assert!(unsure.contains("+- 20.0 %: not significant.\nUse auto, the simplest,"), "{unsure}");
        let unknown = advice(0.11, None);
        assert!(unknown.contains("too few runs") && unknown.contains("--iterations"), "{unknown}");
    }
}

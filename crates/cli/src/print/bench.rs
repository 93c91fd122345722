//! `octile bench` as text, laid out as the original benchmark printed it.

use std::fmt::Write;

use super::{emit, heading, rule};
use crate::command::bench::{CaseReport, Recommendation, Report};

/// Prints every timing, the summary and the recommendation.
pub fn report(report: &Report) {
    emit(&text(report));
}

fn text(report: &Report) -> String {
    let mut text = title(report);
    for case in &report.cases {
        text += &case_table(report, case);
    }
    text += &heading("BENCHMARK SUMMARY");
    text += &ranking(report);
    text += &conclusion(report);
    text
}

/// The timings so far, for a benchmark that is interrupted before it is over.
pub fn so_far(report: &Report, shapes: usize) -> String {
    let done = report.cases.len();
    text(report) + &format!("Interrupted: {done} of {shapes} shapes were timed, and no file was written.\n")
}

/// Prints the ranking per shape and the recommendation.
pub fn summary(report: &Report) {
    emit(&(title(report) + &ranking(report) + &conclusion(report)));
}

fn title(report: &Report) -> String {
    let peak = &report.peak;
    heading(format!(
        "FP8 2-D block-scaled matmul: performance\n{}; measured peak {:.3} TFLOP/s, read {:.1} GB/s",
        report.setup, peak.tflops, peak.read_gbytes
    ))
}

fn case_table(report: &Report, case: &CaseReport) -> String {
    let problem = &case.case.problem;
    let mut text = heading(format!(
        "Configuration: {} ({problem})\n  M: {}, N: {}, K: {}, block: {}, x: {}, out: {}",
        case.case.label,
        problem.m,
        problem.n,
        problem.k,
        problem.quant_block.size(),
        problem.x,
        problem.out
    ));
    for (strategy, check) in &case.refused {
        let complaint = check.complaint().unwrap_or_default();
        let _ = writeln!(text, "  {strategy} is not timed because it is wrong: {complaint}");
    }
    if case.timings.is_empty() {
        return text;
    }
    let unit = Unit::of(case);
    let [mean, min, max, std, median] =
        ["mean", "min", "max", "std", "median"].map(|figure| format!("{figure} {}", unit.name));
    let _ = writeln!(
        text,
        "  {:<22} {mean:>9} {min:>9} {max:>9} {std:>8} {median:>9} {:>9} {:>9} {:>8} {:>7}",
        "version", "TF/s mean", "TF/s best", "GB/s", "% peak"
    );
    let winner = case.winner().map(|w| w.strategy);
    for timing in &case.timings {
        let stats = &timing.stats;
        let _ = writeln!(
            text,
            "{} {:<22} {:>9.3} {:>9.3} {:>9.3} {:>8.3} {:>9.3} {:>9.3} {:>9.3} {:>8.2} {:>7.1}",
            if winner == Some(timing.strategy) { '*' } else { ' ' },
            format!("{} {}", timing.strategy.version(), timing.strategy.title()),
            unit.per_ms * stats.mean_ms,
            unit.per_ms * stats.min_ms,
            unit.per_ms * stats.max_ms,
            unit.per_ms * stats.std_ms,
            unit.per_ms * stats.median_ms,
            timing.tflops_mean,
            timing.tflops_best,
            timing.gbytes_per_s,
            report.percent_of_peak(timing)
        );
    }
    let runs = case.timings.first().map_or(0, |t| t.stats.samples_ms.len());
    let each = if runs == 1 { "run" } else { "runs" };
    let _ = writeln!(text, "  {runs} {each} of each, in turns; * least median\n");
    text
}

/// What the times of a shape are told in.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    per_ms: f64,
}

impl Unit {
    /// Small enough for three decimals to show three digits of the shortest time.
    fn of(case: &CaseReport) -> Self {
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

fn ranking(report: &Report) -> String {
    let mut text = String::new();
    for case in &report.cases {
        let Some(winner) = case.winner() else { continue };
        let _ = writeln!(text, "{} ({}):", case.case.label, case.case.problem);
        for timing in &case.timings {
            let (unit, median) = (Unit::of(case), timing.stats.median_ms);
            let _ = writeln!(
                text,
                "{} {:<22} {:>10.3} {} {:>8.3} TFLOP/s {:>6.1} % of peak {:>6.1} % of best",
                if timing.strategy == winner.strategy { '*' } else { ' ' },
                format!("{} {}", timing.strategy.version(), timing.strategy.title()),
                unit.per_ms * median,
                unit.name,
                timing.tflops_median,
                report.percent_of_peak(timing),
                100.0 * winner.stats.median_ms / median
            );
        }
        text.push('\n');
    }
    text
}

fn conclusion(report: &Report) -> String {
    let mut text = String::new();
    for (case, strategy, check) in report.refused() {
        let complaint = check.complaint().unwrap_or_default();
        let _ =
            writeln!(text, "{strategy} was not timed on {} because it is wrong: {complaint}", case.problem);
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

const MORE_RUNS: &str = "Use the simplest, or time again with more --iterations on a quiet machine.\n";

/// The thresholds of the original guide: below 5 % take the simpler version, above 10 % the faster one.
fn advice(recommendation: Recommendation) -> String {
    let Recommendation { winner, gain, simplest, spread } = recommendation;
    let percent = 100.0 * gain;
    let faster = format!(
        "{winner} ({}) is {percent:.1} % faster than {simplest} ({}), geometric mean of medians",
        winner.version(),
        simplest.version()
    );
    if winner == simplest {
        format!("{winner} ({}) is the simplest, and no other wins more shapes: use it.\n", winner.version())
    } else if let (false, Some(spread)) = (recommendation.is_sure(), spread) {
        let spread = 100.0 * spread;
        format!("{faster}, but that may be off by {spread:.1} %: no difference is shown.\n{MORE_RUNS}")
    } else if !recommendation.is_sure() {
        format!("{faster}, but so few runs do not show a difference.\n{MORE_RUNS}")
    } else if percent < 5.0 {
        format!("{faster}: negligible, use the simpler {simplest}.\n")
    } else if percent <= 10.0 {
        format!("{faster}: noticeable, weigh it against the complexity.\n")
    } else {
        format!("{faster}: significant, use {winner}.\n")
    }
}

#[cfg(test)]
mod tests {
    use octile_core::{Problem, QuantBlock, Strategy};

    use super::*;
    use crate::{
        backend::{Peak, Setup},
        case::named_cases,
        command::bench::Timing,
        record::Provenance,
        stats::Statistics,
    };

    #[test]
    fn two_versions_on_one_shape() {
        let problem = Problem::new(2048, 2048, 2048, QuantBlock::B512).unwrap();
        let timing = |strategy, samples: [f64; 3]| {
            let stats = Statistics::of(samples.to_vec());
            let tflops = |ms: f64| problem.flops() / ms / 1e9;
            Timing {
                strategy,
                tflops_mean: tflops(stats.mean_ms),
                tflops_best: tflops(stats.min_ms),
                tflops_median: tflops(stats.median_ms),
                gbytes_per_s: 1.5,
                stats,
            }
        };
        let case = CaseReport {
            case: named_cases(&[problem]).remove(0),
            timings: vec![
                timing(Strategy::Auto, [56.0, 54.0, 55.0]),
                timing(Strategy::Strip, [44.0, 45.0, 43.0]),
            ],
            refused: Vec::new(),
        };
        insta::assert_snapshot!(text(&Report {
            provenance: Provenance { date: "2026-01-01T00:00:00Z".into(), version: "0" },
            setup: Setup::Cpu { cpu_model: "a processor".into(), isa: "avx2".into(), threads: 2 },
            peak: Peak { tflops: 0.5, read_gbytes: 20.0 },
            seed: 1,
            warmup: 2,
            cases: vec![case],
        }));
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
        assert!(advice(0.11, Some(0.01)).contains("significant"));
        let unsure = advice(0.11, Some(0.2));
        assert!(unsure.contains("may be off by 20.0 %") && !unsure.contains("significant"), "{unsure}");
        let unknown = advice(0.11, None);
        assert!(unknown.contains("so few runs") && unknown.contains("--iterations"), "{unknown}");
    }
}

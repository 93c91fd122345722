use super::*;
use crate::{FloatKind, QuantBlock, Strategy, device::hopper::HOPPER_GPUS, plan::hopper::TileConfig};

const GPU: HopperGpu = HOPPER_GPUS[1];

/// A plan of a record, with its measured time.
struct Timed {
    problem: Problem,
    shape: TileConfig,
    microseconds: f64,
}

fn problem(m: usize, n: usize, k: usize) -> Problem {
    Problem::new(m, n, k, QuantBlock::B128).unwrap().with_out(FloatKind::Bf16)
}

fn shape(fields: &[&str]) -> TileConfig {
    let cluster = match fields[3] {
        "Single" => ClusterMode::Single,
        "MulticastA" => ClusterMode::MulticastA,
        "MulticastB" => ClusterMode::MulticastB,
        "SplitTail" => ClusterMode::SplitTail,
        split => {
            let parts = split.trim_start_matches("SplitK(").trim_end_matches(')');
            ClusterMode::SplitK(parts.parse().unwrap())
        }
    };
    let tile = GpuTile { a: fields[0].parse().unwrap(), b: fields[1].parse().unwrap() };
    TileConfig { tile, swapped: fields[2] == "1", cluster }
}

/// Rows of a record, as fields after a problem.
fn rows(record: &'static str) -> impl Iterator<Item = (Problem, Vec<&'static str>)> {
    record.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<usize>().unwrap();
        (problem(number(0), number(1), number(2)), fields[3..].to_vec())
    })
}

/// The records that the model is fitted to.
fn timed() -> Vec<Timed> {
    let records = [
        include_str!("../../../../../../bench/record/h200/plans.csv"),
        include_str!("../../../../../../bench/record/h200/plans_fit.csv"),
        include_str!("../../../../../../bench/record/h200/plans_judge.csv"),
        include_str!("../../../../../../bench/record/h200/plans_more.csv"),
        include_str!("../../../../../../bench/record/h200/plans_served.csv"),
    ];
    let time = |field: &str| field.parse::<f64>().unwrap();
    let row = |(problem, fields): (Problem, Vec<&str>)| Timed {
        problem,
        shape: shape(&fields[..4]),
        microseconds: time(fields[6]).min(time(fields[7])),
    };
    records.into_iter().flat_map(rows).map(row).collect()
}

fn choice(problem: &Problem) -> TileConfig {
    HopperPlan::best(problem, &GPU, Strategy::Strip).unwrap().shape
}

#[test]
fn choices_are_as_fast_as_the_best_measured() {
    let timed = timed();
    let mut problems: Vec<Problem> = Vec::new();
    for plan in &timed {
        if !problems.contains(&plan.problem) {
            problems.push(plan.problem);
        }
    }
    let count = problems.len();
    assert!(count > 450, "{count}");
    // Of the shapes that were timed before there were so many candidates, some choices are not.
    let ratios = problems.into_iter().filter_map(|problem| {
        let of_problem = || timed.iter().filter(|plan| plan.problem == problem);
        let choice = choice(&problem);
        let chosen = of_problem().find(|plan| plan.shape == choice)?;
        let least = of_problem().map(|plan| plan.microseconds).fold(f64::INFINITY, f64::min);
        let ratio = least / chosen.microseconds;
        assert!(ratio >= 0.77, "{problem}: {choice:?} reaches {ratio:.3} of the best plan");
        Some(ratio.ln())
    });
    let logs: Vec<f64> = ratios.collect();
    assert!(logs.len() * 10 > count * 8, "only {} of {count} choices were timed", logs.len());
    let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    assert!(mean >= 0.98, "{mean:.4} in the geometric mean");
}

#[test]
fn expected_times_are_near_those_measured() {
    let errors = timed().into_iter().filter_map(|timed| {
        let plan = HopperPlan::new(&timed.problem, &GPU, Strategy::Strip, timed.shape, None).unwrap();
        let splits_k = matches!(timed.shape.cluster, ClusterMode::SplitK(_));
        let is_ranked = !splits_k || plan.blocks <= at_once(&plan, &GPU);
        is_ranked.then(|| (plan.expected_time().total_ns / 1e3 / timed.microseconds).ln())
    });
    let errors: Vec<f64> = errors.collect();
    let mean_square = errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64;
    assert!(mean_square.sqrt() < 0.13, "{:.3}", mean_square.sqrt());
}

/// Plans that beat the choice of an earlier model on shapes which neither was fitted to. Other
/// candidates, which were not timed there, may look faster, but not much.
#[test]
fn the_best_plans_of_unseen_shapes_are_near_the_choice() {
    let record = include_str!("../../../../../../bench/record/h200/unseen.csv");
    let mut known = 0;
    for (problem, fields) in rows(record).filter(|(_, fields)| !fields[4].is_empty()) {
        let best = shape(&fields[5..]);
        let measured = problem.flops() / (fields[4].parse::<f64>().unwrap() * 1e3);
        let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, best, None).unwrap();
        let expected = plan.expected_time().total_ns;
        assert!((expected / measured - 1.0).abs() < 0.15, "{problem}: {expected:.0} of {measured:.0} ns");
        let chosen = HopperPlan::best(&problem, &GPU, Strategy::Strip).unwrap().expected_time().total_ns;
        assert!(chosen > 0.8 * expected, "{problem}: {:?} {chosen:.0} of {expected:.0}", choice(&problem));
        known += 1;
    }
    assert_eq!(known, 3);
}

#[test]
fn what_limits_a_kernel_is_named() {
    let limit =
        |m, n, k| HopperPlan::best(&problem(m, n, k), &GPU, Strategy::Strip).unwrap().expected_time().limit;
    assert_eq!(limit(1, 7168, 16384), GpuLimit::Hbm);
    assert_eq!(limit(1, 24576, 1024), GpuLimit::L2);
    assert_eq!(limit(8192, 8192, 8192), GpuLimit::Power);
    assert_eq!(limit(1, 64, 128), GpuLimit::Overhead);
}

#[test]
fn times_of_extreme_problems_are_finite() {
    for (m, n, k) in [(1, 1, 1), (1 << 20, 1, 1), (1, 1 << 20, 1 << 20), (1 << 15, 1 << 15, 1 << 15)] {
        for plan in HopperPlan::candidates(&problem(m, n, k), &GPU).unwrap() {
            let time = plan.expected_time();
            assert!(time.total_ns.is_finite() && time.total_ns > 0.0, "{m}x{n}x{k}: {time:?}");
            assert!(time.idle_ns >= -1e-6 * time.total_ns, "{time:?}");
        }
    }
}

//! Judges the Hopper time model on a record of timed plans: `cargo run --release -p octile-harness --example
//! gpu_model`. No GPU is needed.
//!
//! Prints how fast the model's choices are, as parts of the best plan that was timed, and how far its times
//! are off. Then it leaves out a part of the shapes, fits all constants to the others from rough guesses, and
//! prints the choices for those that were left out: what a model is worth on shapes that nobody has timed.
//! `fit` also prints constants fitted to all shapes.

use std::fs;

use anyhow::{Context, Result, bail};
use octile_core::{
    FloatKind, Problem, QuantBlock, Strategy,
    device::hopper::{HOPPER_GPUS, HopperGpu},
    plan::hopper::{ClusterMode, GpuTile, HopperPlan, TileConfig, TimeModel},
    sample::Rng,
};

const RECORDS: [&str; 6] = [
    "bench/record/h200/plans.csv",
    "bench/record/h200/plans_fit.csv",
    "bench/record/h200/plans_judge.csv",
    "bench/record/h200/plans_more.csv",
    "bench/record/h200/plans_served.csv",
    "bench/record/h200/plans_wide.csv",
];
const GPU: &HopperGpu = &HOPPER_GPUS[1];
/// Parts of the shapes, one of which a fit leaves out.
const PARTS: usize = 7;
/// Steps of a fit to a part of the shapes.
const STEPS: usize = 6000;
/// Fits to all shapes, from different random numbers, of which the best one counts.
const STARTS: u64 = 8;
/// Relative difference of expected times that the fit takes for a tie.
const TIE: f64 = 0.012;
/// Weight of errors of times beside choices.
const TIMES: f64 = 5.0;

/// A plan that was timed.
struct Timed {
    plan: HopperPlan,
    /// Nanoseconds.
    time: f64,
}

/// The timed plans of one problem that the model chooses among, and the best time of all.
struct Shape {
    problem: Problem,
    plans: Vec<Timed>,
    best: f64,
}

fn main() -> Result<()> {
    let shapes = read()?;
    let all: Vec<&Shape> = shapes.iter().collect();
    println!("{} shapes of {}", shapes.len(), RECORDS.join(", "));
    summary(
        "constants of this version",
        &all.iter().map(|shape| (*shape, TimeModel::H200)).collect::<Vec<_>>(),
    );
    if std::env::args().nth(1).as_deref() == Some("fit") {
        let all = &all;
        let fits = std::thread::scope(|scope| {
            let fits: Vec<_> =
                (0..STARTS).map(|seed| scope.spawn(move || fit(all, seed, 3 * STEPS))).collect();
            fits.into_iter().map(|fit| fit.join().expect("a fit does not panic")).collect::<Vec<_>>()
        });
        let best = fits.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
        println!("{:?}", best.context("there are fits")?.1);
    }
    for (name, key) in [
        ("shape", (|problem| [problem.m, problem.n, problem.k]) as fn(&Problem) -> _),
        ("weight", |problem| [0, problem.n, problem.k]),
    ] {
        let part = |problem: &Problem| {
            let mixed = key(problem).into_iter().fold(1_usize, |mixed, size| mixed * 31 + size);
            mixed % PARTS
        };
        let judged: Vec<(&Shape, TimeModel)> = std::thread::scope(|scope| {
            let fits = (0..PARTS).map(|left_out| {
                let (judged, fitted): (Vec<&Shape>, Vec<&Shape>) =
                    shapes.iter().partition(|shape| part(&shape.problem) == left_out);
                scope.spawn(move || (judged, fit(&fitted, 1, STEPS).1))
            });
            let fits: Vec<_> = fits.collect();
            let fits = fits.into_iter().map(|fit| fit.join().expect("a fit does not panic"));
            fits.flat_map(|(judged, model)| judged.into_iter().map(move |shape| (shape, model))).collect()
        });
        summary(&format!("fitted without a part of the shapes, by {name}"), &judged);
    }
    Ok(())
}

fn summary(name: &str, judged: &[(&Shape, TimeModel)]) {
    let ratios: Vec<f64> =
        judged.iter().map(|(shape, model)| shape.best / shape.chosen(model).time).collect();
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let below = ratios.iter().filter(|ratio| **ratio < 0.95).count();
    let near: Vec<f64> = judged.iter().flat_map(|(shape, model)| shape.near_errors(model)).collect();
    let error = (near.iter().map(|error| error * error).sum::<f64>() / near.len() as f64).sqrt();
    println!(
        "{name}: choices reach {mean:.4} of the best plan (geometric mean), {worst:.3} at worst, {below} below \
         0.95; times of plans within 1.3 of the best are off by {:.1} % (root mean square)",
        100.0 * error
    );
    for ((shape, model), ratio) in judged.iter().zip(&ratios).filter(|(_, ratio)| **ratio < 0.93) {
        println!("  {ratio:.3} {}: {:?}", shape.problem, shape.chosen(model).plan.shape);
    }
}

impl Shape {
    fn expected(&self, model: &TimeModel) -> Vec<f64> {
        self.plans.iter().map(|timed| model.expected_time(&timed.plan, GPU).total_ns).collect()
    }

    fn chosen(&self, model: &TimeModel) -> &Timed {
        let expected = self.expected(model);
        let least = (0..self.plans.len()).min_by(|&a, &b| expected[a].total_cmp(&expected[b]));
        &self.plans[least.unwrap_or(0)]
    }

    fn near_errors(&self, model: &TimeModel) -> Vec<f64> {
        let pairs = self.plans.iter().zip(self.expected(model));
        let near = pairs.filter(|(timed, _)| timed.time < 1.3 * self.best);
        near.map(|(timed, expected)| (expected / timed.time).ln()).collect()
    }

    /// What the choice loses, with ties for all plans that are expected to be about as fast, and errors of
    /// times, which count the less the slower a plan is.
    fn loss(&self, model: &TimeModel) -> (f64, f64) {
        let expected = self.expected(model);
        let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
        let (mut lost, mut sum, mut errors) = (0.0, 0.0, 0.0);
        for (timed, expected) in self.plans.iter().zip(expected) {
            let weight = (-(expected / least).ln() / TIE).exp();
            let slower = timed.time / self.best;
            lost += weight * slower.ln();
            sum += weight;
            errors += ((expected / timed.time).ln() * (-2.0 * (slower - 1.0)).exp().max(0.03)).powi(2);
        }
        (lost / sum, errors / self.plans.len() as f64)
    }
}

/// The constants that a fit may change.
const FREE: [fn(&mut TimeModel) -> &mut f64; 38] = [
    |model| &mut model.launch,
    |model| &mut model.late_launch,
    |model| &mut model.late_cluster,
    |model| &mut model.wave,
    |model| &mut model.column,
    |model| &mut model.swapped_column,
    |model| &mut model.stage,
    |model| &mut model.three_consumers,
    |model| &mut model.selecting,
    |model| &mut model.shared_sm,
    |model| &mut model.packed_cluster,
    |model| &mut model.overlapped,
    |model| &mut model.overlapped_column,
    |model| &mut model.chain,
    |model| &mut model.chain_column,
    |model| &mut model.tile_loads,
    |model| &mut model.tile_sharpness,
    |model| &mut model.tile,
    |model| &mut model.results,
    |model| &mut model.short_vectors,
    |model| &mut model.element_results,
    |model| &mut model.ragged_results,
    |model| &mut model.ragged_swapped_results,
    |model| &mut model.staggered,
    |model| &mut model.multicast,
    |model| &mut model.multicast_stage,
    |model| &mut model.split,
    |model| &mut model.split_part,
    |model| &mut model.split_everywhere,
    |model| &mut model.tail,
    |model| &mut model.reduction,
    |model| &mut model.hbm,
    |model| &mut model.hbm_latency,
    |model| &mut model.tpc,
    |model| &mut model.reread,
    |model| &mut model.l2,
    |model| &mut model.first_load,
    |model| &mut model.sharpness,
];

/// Where fits start: orders of magnitude.
fn guess() -> TimeModel {
    TimeModel {
        launch: 1000.0,
        late_launch: 500.0,
        late_cluster: 500.0,
        wave: 30.0,
        column: 1.0,
        swapped_column: 1.0,
        stage: 20.0,
        three_consumers: 1.0,
        selecting: 1.0,
        shared_sm: 1.0,
        packed_cluster: 1.0,
        overlapped: 30.0,
        overlapped_column: 1.0,
        chain: 50.0,
        chain_column: 2.0,
        tile_loads: 10_000.0,
        tile_sharpness: 3.0,
        tile: 50.0,
        results: 30.0,
        short_vectors: 50.0,
        element_results: 100.0,
        ragged_results: 300.0,
        ragged_swapped_results: 100.0,
        staggered: 1.0,
        multicast: 1000.0,
        multicast_stage: 10.0,
        split: 200.0,
        split_part: 20.0,
        split_everywhere: 500.0,
        tail: 300.0,
        reduction: 100.0,
        hbm: 1.0,
        hbm_latency: 600.0,
        tpc: 78.0,
        reread: 0.5,
        l2: 10_000.0,
        first_load: 500.0,
        sharpness: 3.0,
    }
}

/// Random changes of a few constants at a time, kept where they help: the loss, and the model.
fn fit(shapes: &[&Shape], seed: u64, steps: usize) -> (f64, TimeModel) {
    let loss = |model: &TimeModel| {
        let losses = shapes.iter().map(|shape| shape.loss(model));
        let sum = losses.fold((0.0, 0.0), |sum, loss| (sum.0 + loss.0, sum.1 + loss.1));
        (sum.0 + TIMES * sum.1) / shapes.len() as f64
    };
    let mut rng = Rng::new(seed, 0);
    let mut best = guess();
    let mut least = loss(&best);
    for step in 0..steps {
        let mut changed = best;
        // Large steps at first, then small ones.
        let size = 0.3 * 0.03f64.powf(step as f64 / steps as f64);
        for _ in 0..1 + rng.next_u64() % 3 {
            *FREE[rng.next_u64() as usize % FREE.len()](&mut changed) *= (size * f64::from(rng.bell())).exp();
        }
        let new = loss(&changed);
        if new < least {
            (best, least) = (changed, new);
        }
    }
    (least, best)
}

fn read() -> Result<Vec<Shape>> {
    let mut shapes: Vec<Shape> = Vec::new();
    let mut lines = Vec::new();
    for record in RECORDS {
        let text = fs::read_to_string(record)
            .with_context(|| format!("cannot read {record}: run it in the checkout"))?;
        lines.extend(text.lines().skip(1).map(str::to_owned));
    }
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [m, n, k, a, b, swapped, cluster, _, _, flushed, graph, ..] = fields[..] else {
            bail!("'{line}' is no timed plan");
        };
        let problem =
            Problem::new(m.parse()?, n.parse()?, k.parse()?, QuantBlock::B128)?.with_out(FloatKind::Bf16);
        let cluster = match cluster {
            "Single" => ClusterMode::Single,
            "MulticastA" => ClusterMode::MulticastA,
            "MulticastB" => ClusterMode::MulticastB,
            "SplitTail" => ClusterMode::SplitTail,
            split => ClusterMode::SplitK(split.trim_start_matches("SplitK(").trim_end_matches(')').parse()?),
        };
        let tile = GpuTile { a: a.parse()?, b: b.parse()? };
        let config = TileConfig { tile, swapped: swapped == "1", cluster };
        let time = 1e3 * flushed.parse::<f64>()?.min(graph.parse()?);
        let known = shapes.iter().position(|shape| shape.problem == problem);
        let at = known.unwrap_or_else(|| {
            shapes.push(Shape { problem, plans: Vec::new(), best: f64::INFINITY });
            shapes.len() - 1
        });
        let shape = &mut shapes[at];
        shape.best = shape.best.min(time);
        let ranked = HopperPlan::candidates(&problem, GPU)?;
        if ranked.iter().any(|plan| plan.shape == config) {
            let plan = HopperPlan::new(&problem, GPU, Strategy::Strip, config, None)?;
            shape.plans.push(Timed { plan, time });
        }
    }
    Ok(shapes)
}

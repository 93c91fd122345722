//! Times candidate plans on the shapes of inference servers, checks every result, and prints CSV. The cost
//! model in `plan/hopper/time.rs` is fitted to these timings.
//!
//! - `gpu_sweep time [MxNxK:QB ...] [columns=B] [within=FACTOR] [seconds=S]` times candidate plans: all, or
//!   those that the model expects to be about as fast as the best, of as many problems as the time allows
//! - `gpu_sweep first [MxNxK:QB ...]` times first calls; set `CUDA_CACHE_PATH` to an empty folder for a cold
//!   cache
//! - `gpu_sweep check [SEED]` compares results with the reference, `gpu_sweep repeat` with each other
//! - `gpu_sweep strategies` and `gpu_sweep promotions` time the strategies and promotion intervals
//! - `gpu_sweep serve` reads a shape per line and answers with its times, for interleaved comparisons

mod check;
mod device;

use std::{
    collections::HashSet,
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use check::{check, check_promotion, repeat};
use device::*;
use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    oracle::Reference,
    plan::hopper::{HopperPlan, PROMOTIONS, TileConfig, candidates},
};
use octile_kernels::hopper;
use octile_runtime::cuda::{Buffer, Gpu, Graph, MultiplyKernel};

/// Shapes that the peers are timed on: the benchmark suite, a large one, and the layers of DeepSeek-V3.
const SHAPES: &str = include_str!("../../../../bench/peers/gpu/shapes.txt");

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let gpu = Gpu::open(0)?;
    match args.first().map(String::as_str) {
        Some(mode @ ("time" | "first")) => {
            let (options, named): (Vec<&str>, Vec<&str>) =
                args[1..].iter().map(String::as_str).partition(|arg| arg.contains('='));
            if mode == "first" && !options.is_empty() {
                bail!("`first` has no options");
            }
            let selection = Selection::parse(&options)?;
            let named = named.iter().map(|shape| shape.parse::<Problem>()).collect::<Result<Vec<_>, _>>()?;
            let problems = if named.is_empty() { served()? } else { named };
            if mode == "first" { first(&gpu, &problems) } else { time(&gpu, &problems, &selection) }
        }
        Some("serve") => serve(&gpu),
        Some("repeat") => repeat(&gpu),
        Some("strategies") => strategies(&gpu),
        Some("promotions") => promotions(&gpu),
        Some("check") => {
            let seed = args.get(1).map_or(Ok(1), |seed| seed.parse())?;
            check_promotion(&gpu, seed)?;
            check(&gpu, seed)
        }
        _ => bail!(
            "expected: gpu_sweep time [MxNxK:QB ...] [columns=B] [within=FACTOR] [seconds=S], first [MxNxK:QB ...], check [SEED], \
             repeat, strategies, promotions, or serve"
        ),
    }
}

fn served() -> Result<Vec<Problem>> {
    SHAPES.lines().map(|shape| Ok(format!("{shape}:128").parse()?)).collect()
}

/// The problem with the element types that the peers are timed on.
fn as_served(problem: Problem) -> Problem {
    problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token)).with_out(FloatKind::Bf16)
}

/// Fills the compilation cache, on all cores.
fn compile_all(gpu: &Gpu, plans: &[HopperPlan]) {
    let mut seen = HashSet::new();
    let queue: Vec<_> = plans.iter().filter(|plan| seen.insert(hopper::multiply(plan).ptx)).collect();
    let queue = Mutex::new(queue);
    std::thread::scope(|scope| {
        for _ in 0..14 {
            scope.spawn(|| {
                loop {
                    let Some(plan) = queue.lock().expect("no panics").pop() else { break };
                    if let Err(error) = MultiplyKernel::new(gpu, plan) {
                        println!("{}: {error}", hopper::multiply(plan).entry);
                    }
                }
            });
        }
    });
}

fn plans(gpu: &Gpu, problem: &Problem) -> Vec<HopperPlan> {
    candidates(problem)
        .into_iter()
        .filter_map(|shape| HopperPlan::new(problem, gpu.properties(), Strategy::Strip, shape, None).ok())
        .collect()
}

/// Which candidates `time` measures, and how long.
#[derive(Default)]
struct Selection {
    /// Only tiles with so many columns.
    columns: Option<usize>,
    /// Only plans that the model expects within this factor of the best one, at most so many.
    within: Option<f64>,
    /// No further problem after so many seconds.
    seconds: Option<f64>,
}

impl Selection {
    fn parse(options: &[&str]) -> Result<Self> {
        let mut selection = Self::default();
        for option in options {
            let (name, value) = option.split_once('=').context("options are NAME=VALUE")?;
            match name {
                "columns" => selection.columns = Some(value.parse()?),
                "within" => selection.within = Some(value.parse()?),
                "seconds" => selection.seconds = Some(value.parse()?),
                _ => bail!("{option}: the options are columns=B, within=FACTOR and seconds=S"),
            }
        }
        Ok(selection)
    }

    /// The plans to time, the best one by the model first.
    fn plans(&self, gpu: &Gpu, problem: &Problem) -> Vec<HopperPlan> {
        let mut plans = plans(gpu, problem);
        plans.retain(|plan| self.columns.is_none_or(|columns| plan.shape.tile.b == columns));
        let expected = |plan: &HopperPlan| plan.expected_time().total_ns;
        plans.sort_by(|a, b| expected(a).total_cmp(&expected(b)));
        if let (Some(within), Some(best)) = (self.within, plans.first().map(expected)) {
            plans.retain(|plan| expected(plan) <= within * best);
            plans.truncate(MOST_TIMED);
        }
        plans
    }
}

/// Most plans of a problem that are timed where the model selects.
const MOST_TIMED: usize = 16;
/// Threads that prepare operands and references while others are timed.
const PREPARING: usize = 6;

fn time(gpu: &Gpu, problems: &[Problem], selection: &Selection) -> Result<()> {
    let problems: Vec<Problem> = problems.iter().copied().map(as_served).collect();
    let flush = Buffer::zeros(gpu, 4 * gpu.properties().l2)?;
    compile_all(gpu, &problems.iter().flat_map(|p| selection.plans(gpu, p)).collect::<Vec<_>>());
    println!("m,n,k,a,b,swapped,cluster,stages,blocks,flushed_us,graph_us,tflops,worst_of_bound,model");
    let start = Instant::now();
    let is_late = || selection.seconds.is_some_and(|seconds| start.elapsed().as_secs_f64() > seconds);
    let queue = Mutex::new(problems.iter());
    std::thread::scope(|scope| {
        let (sender, prepared) = std::sync::mpsc::sync_channel(2);
        for _ in 0..PREPARING {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                loop {
                    let Some(problem) = queue.lock().expect("no panics").next() else { break };
                    let operands = pieces(*problem);
                    let reference = reference(&operands, &sampled_rows(problem.m));
                    if sender.send((operands, reference)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (operands, reference) in prepared {
            if is_late() {
                break;
            }
            let problem = operands.problem;
            let (device, rows) = (Device::new(gpu, &operands)?, sampled_rows(problem.m));
            let best = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip)?.shape;
            for plan in selection.plans(gpu, &problem) {
                match measure(gpu, &plan, &device, &flush, &reference, &rows, SHORT_REST) {
                    Ok(times) => print_row(&plan, &times, plan.shape == best),
                    Err(error) => eprintln!("{problem} {:?}: {error}", plan.shape),
                }
            }
        }
        Ok(())
    })
}

fn print_row(plan: &HopperPlan, times: &Times, is_best: bool) {
    let problem = &plan.problem;
    let Times { flushed, replayed, worst, .. } = times;
    let tflops = problem.flops() / flushed.min(*replayed) / 1e6;
    let TileConfig { tile, swapped, cluster } = plan.shape;
    println!(
        "{},{},{},{},{},{},{cluster:?},{},{},{flushed:.2},{replayed:.2},{tflops:.1},{worst:.3},{}",
        problem.m,
        problem.n,
        problem.k,
        tile.a,
        tile.b,
        u8::from(swapped),
        plan.stages,
        plan.blocks,
        u8::from(is_best)
    );
}

/// Median cold-cache time and graph-replay time per call in microseconds, and the largest error relative to
/// the bound.
struct Times {
    kernel: String,
    flushed: f64,
    replayed: f64,
    worst: f64,
}

/// A GPU at its power limit throttles within milliseconds: it idles before long work, so that every
/// contender starts alike.
const REST: Duration = Duration::from_millis(100);
/// The same among many candidates.
const SHORT_REST: Duration = Duration::from_millis(50);

fn measure(
    gpu: &Gpu,
    plan: &HopperPlan,
    device: &Device,
    flush: &Buffer,
    reference: &Reference,
    rows: &[usize],
    rest: Duration,
) -> Result<Times> {
    let multiplication = MultiplyKernel::new(gpu, plan)?;
    let prepared = multiplication.prepare(device.operands())?;
    device.guarded.fill(0xff)?;
    prepared.launch()?;
    let (values, guarded) = result(device, &plan.problem, rows)?;
    let worst = if guarded { worst(reference, &values) } else { f64::INFINITY };
    let median = |mut times: Vec<f32>| {
        times.sort_by(f32::total_cmp);
        f64::from(times[times.len() / 2]) * 1e3
    };
    let rest = || {
        if plan.problem.flops() > 2f64.powi(34) {
            std::thread::sleep(rest);
        }
    };
    rest();
    let mut flushed = Vec::new();
    // The same number as the peers get: more runs would heat the GPU.
    for _ in 0..if plan.problem.flops() > 2f64.powi(37) { 7 } else { 11 } {
        flush.fill(0)?;
        flushed.push(gpu.time(|| prepared.launch())?);
    }
    // A graph of about 10^12 operations, so that its launch overhead does not count.
    let repeats = (1e12 / plan.problem.flops()).clamp(3.0, 100.0) as usize;
    let graph = Graph::capture(gpu, std::iter::repeat_n(&prepared, repeats))?;
    gpu.wait()?;
    rest();
    graph.launch()?;
    let mut replayed = Vec::new();
    for _ in 0..5 {
        replayed.push(gpu.time(|| graph.launch())? / repeats as f32);
    }
    Ok(Times {
        kernel: multiplication.entry().to_owned(),
        flushed: median(flushed),
        replayed: median(replayed),
        worst,
    })
}

fn sampled_rows(m: usize) -> Vec<usize> {
    let count = m.min(3);
    (0..count).map(|at| at * (m - 1) / (count - 1).max(1)).collect()
}

/// Answers each line, a shape and optionally a file of operands, with one line of JSON.
fn serve(gpu: &Gpu) -> Result<()> {
    let flush = Buffer::zeros(gpu, 4 * gpu.properties().l2)?;
    let mut last: Option<(Problem, Device, Reference)> = None;
    for line in std::io::stdin().lines() {
        let line = line?;
        let (shape, file) = line.trim().split_once(' ').map_or((line.trim(), None), |(s, f)| (s, Some(f)));
        let problem: Problem = shape.parse()?;
        let problem = as_served(problem);
        let rows = sampled_rows(problem.m);
        let (_, device, reference) = match last.take() {
            Some(last) if last.0 == problem => last,
            _ => {
                let operands = match file {
                    Some(file) => from_file(problem, file)?,
                    None => pieces(problem),
                };
                (problem, Device::new(gpu, &operands)?, reference(&operands, &rows))
            }
        };
        let plan = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip)?;
        let Times { kernel, flushed, replayed, worst } =
            measure(gpu, &plan, &device, &flush, &reference, &rows, REST)?;
        println!(
            "{{\"kernel\": \"{kernel}\", \"flushed_us\": {flushed}, \"graph_us\": {replayed}, \
             \"worst_of_bound\": {worst}}}"
        );
        last = Some((problem, device, reference));
    }
    Ok(())
}

/// Times first calls: planning, code generation, compilation and the first run.
fn first(gpu: &Gpu, problems: &[Problem]) -> Result<()> {
    println!("shape,kernel,compile_ms,first_call_ms,second_call_ms");
    for problem in problems.iter().copied().map(as_served) {
        let device = Device::new(gpu, &pieces(problem))?;
        gpu.wait()?;
        let call = || -> Result<(String, Duration, Duration)> {
            let start = Instant::now();
            let plan = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip)?;
            let multiplication = MultiplyKernel::new(gpu, &plan)?;
            let compiled = start.elapsed();
            multiplication.prepare(device.operands())?.launch()?;
            gpu.wait()?;
            Ok((multiplication.entry().to_owned(), compiled, start.elapsed()))
        };
        let ((kernel, compiled, first), (_, _, second)) = (call()?, call()?);
        let [compiled, first, second] = [compiled, first, second].map(|time| time.as_secs_f64() * 1e3);
        println!("{problem},{kernel},{compiled:.1},{first:.1},{second:.1}");
    }
    Ok(())
}

/// Times the four strategies on the benchmark suite.
fn strategies(gpu: &Gpu) -> Result<()> {
    let flush = Buffer::zeros(gpu, 4 * gpu.properties().l2)?;
    let quant_blocks = [128, 256, 512, 512, 512, 512];
    println!("shape,strategy,kernel,flushed_us,graph_us,tflops,worst_of_bound");
    for (shape, quant_block) in SHAPES.lines().zip(quant_blocks) {
        let problem: Problem = format!("{shape}:{quant_block}").parse()?;
        let problem = problem.with_out(FloatKind::Bf16);
        let operands = pieces(problem);
        let device = Device::new(gpu, &operands)?;
        let rows = sampled_rows(problem.m);
        let reference = reference(&operands, &rows);
        for strategy in Strategy::ALL {
            let plan = HopperPlan::best(&problem, gpu.properties(), strategy)?;
            let Times { kernel, flushed, replayed, worst } =
                measure(gpu, &plan, &device, &flush, &reference, &rows, REST)?;
            let tflops = problem.flops() / flushed.min(replayed) / 1e6;
            println!("{problem},{strategy},{kernel},{flushed:.2},{replayed:.2},{tflops:.1},{worst:.3}");
        }
    }
    Ok(())
}

/// Times the promotion intervals and measures their error.
fn promotions(gpu: &Gpu) -> Result<()> {
    let flush = Buffer::zeros(gpu, 4 * gpu.properties().l2)?;
    let problem = Problem::new(4096, 4096, 4096, QuantBlock::B512)?;
    let operands = pieces(problem);
    let device = Device::new(gpu, &operands)?;
    let rows = sampled_rows(problem.m);
    println!("shape,promote_every,kernel,tflops,largest_error,root_mean_square_error");
    for every in PROMOTIONS {
        let plan = HopperPlan::with_promotion(&problem, gpu.properties(), Strategy::Strip, every)?;
        let reference = reference_promoting(&operands, &rows, every);
        let Times { kernel, flushed, replayed, .. } =
            measure(gpu, &plan, &device, &flush, &reference, &rows, REST)?;
        let (values, _) = result(&device, &problem, &rows)?;
        let size = |values: &mut dyn Iterator<Item = f64>| -> f64 {
            (values.map(|v| v * v).sum::<f64>() / reference.values.len() as f64).sqrt()
        };
        let errors: Vec<f64> = values.iter().zip(&reference.values).map(|(got, want)| got - want).collect();
        let scale = size(&mut reference.values.iter().copied());
        let largest = errors.iter().fold(0.0f64, |largest, error| largest.max(error.abs())) / scale;
        let mean = size(&mut errors.iter().copied()) / scale;
        let tflops = problem.flops() / flushed.min(replayed) / 1e6;
        println!("{problem},{every},{kernel},{tflops:.1},{largest:.2e},{mean:.2e}");
    }
    Ok(())
}

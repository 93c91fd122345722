//! Times every shape of plan that is worth a thought on the shapes that inference servers meet, checks every result, and
//! prints one line of comma-separated values for each. The model in `plan/hopper/choose.rs` is fitted to these.
//!
//! `gpu_sweep time [MxNxK:QB ...]`, `gpu_sweep check [SEED]`, `gpu_sweep repeat`, `gpu_sweep strategies`, `gpu_sweep
//! quantized`; `gpu_sweep serve` reads a shape from each
//! line and answers with the times of the plan that Octile picks, for comparisons that take turns.

use std::{collections::HashSet, sync::Mutex};

use anyhow::{Result, bail};
use half::bf16;
use octile_core::{
    ActivationKind, FloatKind, Mat, Problem, QuantBlock, QuantizedActivation, QuantizedWeight,
    ScaleGranularity, Strategy,
    bound::Accumulator,
    oracle::{self, OracleInput, Reference},
    plan::hopper::{Arguments, HopperPlan, STAGE_K, Shape, candidates},
    sample::{Activations, Operands},
};
use octile_kernels::hopper::{self, Kernel};
use octile_runtime::cuda::{
    Buffer, Gpu, Graph, KernelText, Multiplication, MultiplyOperands, Quantization, QuantizeOperands,
};

/// N and K of DeepSeek-V3's layers, and the six shapes of the benchmark suite.
const SERVED: [(usize, usize); 7] =
    [(2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)];
const SQUARE: [(usize, usize, usize); 7] = [
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (1024, 4096, 2048),
    (2048, 2048, 4096),
    (8192, 8192, 8192),
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let gpu = Gpu::open(0)?;
    match args.first().map(String::as_str) {
        Some("time") => {
            let named =
                args[1..].iter().map(|shape| shape.parse::<Problem>()).collect::<Result<Vec<_>, _>>()?;
            time(&gpu, &if named.is_empty() { served() } else { named })
        }
        Some("serve") => serve(&gpu),
        Some("repeat") => repeat(&gpu),
        Some("strategies") => strategies(&gpu),
        Some("quantized") => quantized(&gpu),
        Some("check") => {
            let seed = args.get(1).map_or(Ok(1), |seed| seed.parse())?;
            check_quantize(&gpu, seed)?;
            check(&gpu, seed)
        }
        _ => bail!("expected: gpu_sweep time [MxNxK:QB ...], check [SEED], repeat, or serve"),
    }
}

fn text(kernel: &Kernel) -> KernelText<'_> {
    KernelText { entry: &kernel.entry, ptx: &kernel.ptx }
}

fn served() -> Vec<Problem> {
    let served = [1, 16, 64, 128, 4096].into_iter().flat_map(|m| SERVED.map(|(n, k)| (m, n, k)));
    let all = SQUARE.into_iter().chain(served);
    all.map(|(m, n, k)| Problem::new(m, n, k, QuantBlock::B128).expect("these shapes are valid")).collect()
}

/// Operands that are quick to make at any size: pieces of one small quantized matrix.
fn pieces(problem: Problem) -> Operands {
    let Problem { m, n, k, quant_block, .. } = problem;
    let small = Problem::new(1024, 1024, 1024, quant_block).expect("valid").with_x(problem.x);
    let small = Operands::random(small, 7);
    let codes = |pool: &[u8], rows: usize| -> Vec<u8> {
        let piece = |row: usize| {
            let start = (row * 7919) % (pool.len() / 2);
            pool[start..].iter().cycle().take(k).copied().collect::<Vec<u8>>()
        };
        (0..rows).flat_map(piece).collect()
    };
    let scales =
        |pool: &[f32], count: usize| -> Vec<f32> { pool.iter().cycle().take(count).copied().collect() };
    let Activations::Fp8(x) = &small.x else { unreachable!("the sweep uses quantized activations") };
    let (w_rows, w_cols) = problem.w_scale_shape();
    let (x_rows, x_cols) = problem.x_scale_shape().expect("quantized");
    let (w_codes, x_codes) = (codes(small.weight.codes(), n), codes(x.codes(), m));
    let weight = QuantizedWeight::from_parts(
        Mat::new(&w_codes, n, k).expect("fits"),
        &scales(small.weight.scales(), w_rows * w_cols),
        quant_block,
    );
    let x = QuantizedActivation::from_parts(
        Mat::new(&x_codes, m, k).expect("fits"),
        &scales(x.scales(), x_rows * x_cols),
        quant_block,
        x.granularity(),
    );
    Operands { problem, weight: weight.expect("finite"), x: Activations::Fp8(x.expect("finite")) }
}

struct Device {
    x: Buffer,
    x_scales: Buffer,
    w: Buffer,
    w_scales: Buffer,
    out: Buffer,
    arguments: Arguments,
}

impl Device {
    fn new(gpu: &Gpu, operands: &Operands) -> Result<Self> {
        let problem = operands.problem;
        // Both layouts of the scales take part in checks; comparisons use the one that the peers ask for.
        let arguments = if problem.m % 2 == 1 && problem.m > 1 {
            Arguments::packed(&problem)
        } else {
            Arguments::fastest(&problem)
        };
        let (_, k_blocks) = problem.x_scale_shape().expect("quantized");
        let Activations::Fp8(x) = &operands.x else { unreachable!("the sweep uses quantized activations") };
        Ok(Self {
            x: Buffer::from_rows(gpu, x.codes(), problem.k, arguments.x_stride)?,
            x_scales: Buffer::from_slice(gpu, &arguments.x_scales.arrange(x.scales(), k_blocks))?,
            w: Buffer::from_rows(gpu, operands.weight.codes(), problem.k, arguments.w_stride)?,
            w_scales: Buffer::from_slice(gpu, operands.weight.scales())?,
            // Guard bands: 4 KiB on either side would need an offset, so one behind.
            out: Buffer::zeros(gpu, problem.m * problem.n * problem.out.bytes() + GUARD)?,
            arguments,
        })
    }

    fn operands(&self) -> MultiplyOperands<'_> {
        let Self { x, x_scales, w, w_scales, out, arguments } = self;
        MultiplyOperands { x, x_scales, w, w_scales, out, arguments: *arguments }
    }
}

const GUARD: usize = 4096;

/// Some rows of the result, and whether the guard band is untouched.
fn result(device: &Device, problem: &Problem, rows: &[usize]) -> Result<(Vec<f64>, bool)> {
    let row_bytes = problem.n * problem.out.bytes();
    let mut result = vec![0u8; rows.len() * row_bytes];
    for (bytes, row) in result.chunks_mut(row_bytes).zip(rows) {
        device.out.read_at(row * row_bytes, bytes)?;
    }
    let mut guard = [0u8; GUARD];
    device.out.read_at(problem.m * row_bytes, &mut guard)?;
    let values = match problem.out {
        FloatKind::F32 => {
            result.chunks(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
        }
        FloatKind::Bf16 => result.chunks(2).map(|b| f64::from(bf16::from_le_bytes([b[0], b[1]]))).collect(),
        FloatKind::F16 => {
            result.chunks(2).map(|b| f64::from(half::f16::from_le_bytes([b[0], b[1]]))).collect()
        }
    };
    Ok((values, guard.iter().all(|&byte| byte == 0xff)))
}

const ACCUMULATOR: Accumulator = Accumulator::HopperTensorCore { promote_every: STAGE_K };

/// The reference of some rows.
fn reference(operands: &Operands, rows: &[usize]) -> Reference {
    let Activations::Fp8(x) = &operands.x else { unreachable!("the sweep uses quantized activations") };
    let input = OracleInput::Fp8(x.select_rows(rows));
    oracle::multiply(&input, rows.len(), &operands.weight, ACCUMULATOR, operands.problem.out)
}

/// Largest error as a part of the bound over the rows of the reference.
fn worst(reference: &Reference, values: &[f64]) -> f64 {
    let mut worst = 0.0f64;
    for ((value, bound), result) in reference.values.iter().zip(&reference.bounds).zip(values) {
        let error = (result - value).abs() / bound;
        worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
    }
    worst
}

/// Compiles what is not in the cache yet, on all cores.
fn compile_all(gpu: &Gpu, plans: &[HopperPlan]) {
    let mut seen = HashSet::new();
    let kernels: Vec<_> = plans.iter().map(|plan| (plan, hopper::multiply(plan))).collect();
    let queue: Vec<_> = kernels.iter().filter(|(_, kernel)| seen.insert(kernel.ptx.clone())).collect();
    let queue = Mutex::new(queue);
    std::thread::scope(|scope| {
        for _ in 0..14 {
            scope.spawn(|| {
                loop {
                    let Some((plan, kernel)) = queue.lock().expect("no panics").pop() else { break };
                    if let Err(error) = Multiplication::new(gpu, plan, text(kernel)) {
                        println!("{}: {error}", kernel.entry);
                    }
                }
            });
        }
    });
}

fn plans(gpu: &Gpu, problem: &Problem) -> Vec<HopperPlan> {
    let shapes = candidates(problem).into_iter();
    shapes
        .filter_map(|shape| HopperPlan::new(problem, gpu.facts(), Strategy::Strip, shape, None).ok())
        .collect()
}

fn time(gpu: &Gpu, problems: &[Problem]) -> Result<()> {
    let token = ActivationKind::Fp8(ScaleGranularity::Token);
    let problems: Vec<Problem> = problems.iter().map(|p| p.with_x(token).with_out(FloatKind::Bf16)).collect();
    let flush = Buffer::zeros(gpu, 4 * gpu.facts().l2)?;
    compile_all(gpu, &problems.iter().flat_map(|problem| plans(gpu, problem)).collect::<Vec<_>>());
    println!("m,n,k,a,b,swapped,together,stages,blocks,flushed_us,graph_us,tflops,worst_of_bound,model");
    for problem in &problems {
        let operands = pieces(*problem);
        let device = Device::new(gpu, &operands)?;
        let rows = sampled_rows(problem.m);
        let reference = reference(&operands, &rows);
        let best = HopperPlan::best(problem, gpu.facts(), Strategy::Strip)?.shape;
        for plan in plans(gpu, problem) {
            if let Err(error) = time_one(gpu, &plan, &device, &flush, &reference, &rows, best) {
                println!("{problem} {:?}: {error:#}", plan.shape);
                return Err(error);
            }
        }
    }
    Ok(())
}

fn time_one(
    gpu: &Gpu,
    plan: &HopperPlan,
    device: &Device,
    flush: &Buffer,
    reference: &Reference,
    rows: &[usize],
    best: Shape,
) -> Result<()> {
    let problem = &plan.problem;
    let Times { flushed, replayed, worst, .. } = measure(gpu, plan, device, flush, reference, rows)?;
    let tflops = problem.flops() / flushed.min(replayed) / 1e6;
    let Shape { tile, swapped, together } = plan.shape;
    println!(
        "{},{},{},{},{},{},{together:?},{},{},{flushed:.2},{replayed:.2},{tflops:.1},{worst:.3},{}",
        problem.m,
        problem.n,
        problem.k,
        tile.a,
        tile.b,
        u8::from(swapped),
        plan.stages,
        plan.blocks,
        u8::from(plan.shape == best)
    );
    Ok(())
}

/// Microseconds: the median of single calls after the cache was flushed, and per call of a replayed graph. And the
/// largest error as a part of the bound.
struct Times {
    kernel: String,
    flushed: f64,
    replayed: f64,
    worst: f64,
}

fn measure(
    gpu: &Gpu,
    plan: &HopperPlan,
    device: &Device,
    flush: &Buffer,
    reference: &Reference,
    rows: &[usize],
) -> Result<Times> {
    let kernel = hopper::multiply(plan);
    let multiplication = Multiplication::new(gpu, plan, text(&kernel))?;
    let prepared = multiplication.prepare(device.operands())?;
    device.out.fill(0xff)?;
    prepared.launch()?;
    let (values, guarded) = result(device, &plan.problem, rows)?;
    let worst = if guarded { worst(reference, &values) } else { f64::INFINITY };
    let median = |mut times: Vec<f32>| {
        times.sort_by(f32::total_cmp);
        f64::from(times[times.len() / 2]) * 1e3
    };
    let mut flushed = Vec::new();
    for _ in 0..11 {
        flush.fill(0)?;
        flushed.push(gpu.time(|| prepared.launch())?);
    }
    let repeats = 10;
    let graph = Graph::record(gpu, || (0..repeats).try_for_each(|_| prepared.launch()))?;
    graph.launch()?;
    let mut replayed = Vec::new();
    for _ in 0..5 {
        replayed.push(gpu.time(|| graph.launch())? / repeats as f32);
    }
    Ok(Times { kernel: kernel.entry, flushed: median(flushed), replayed: median(replayed), worst })
}

fn sampled_rows(m: usize) -> Vec<usize> {
    let count = m.min(3);
    (0..count).map(|at| at * (m - 1) / (count - 1).max(1)).collect()
}

/// Answers every line with a shape in it with one line of JSON.
fn serve(gpu: &Gpu) -> Result<()> {
    let flush = Buffer::zeros(gpu, 4 * gpu.facts().l2)?;
    let mut last: Option<(Problem, Device, Reference)> = None;
    for line in std::io::stdin().lines() {
        let problem: Problem = line?.trim().parse()?;
        let problem = problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token)).with_out(FloatKind::Bf16);
        let rows = sampled_rows(problem.m);
        let (_, device, reference) = match last.take() {
            Some(last) if last.0 == problem => last,
            _ => {
                let operands = pieces(problem);
                (problem, Device::new(gpu, &operands)?, reference(&operands, &rows))
            }
        };
        let plan = HopperPlan::best(&problem, gpu.facts(), Strategy::Strip)?;
        let Times { kernel, flushed, replayed, worst } =
            measure(gpu, &plan, &device, &flush, &reference, &rows)?;
        println!(
            "{{\"kernel\": \"{kernel}\", \"flushed_us\": {flushed}, \"graph_us\": {replayed}, \"worst_of_bound\": {worst}}}"
        );
        last = Some((problem, device, reference));
    }
    Ok(())
}

/// The four strategies on the six shapes of the benchmark suite.
fn strategies(gpu: &Gpu) -> Result<()> {
    let flush = Buffer::zeros(gpu, 4 * gpu.facts().l2)?;
    let quant_blocks = [128, 256, 512, 512, 512, 512];
    println!("shape,strategy,kernel,flushed_us,graph_us,tflops,worst_of_bound");
    for ((m, n, k), quant_block) in SQUARE.into_iter().zip(quant_blocks) {
        let problem = Problem::new(m, n, k, QuantBlock::try_from(quant_block)?)?.with_out(FloatKind::Bf16);
        let operands = pieces(problem);
        let device = Device::new(gpu, &operands)?;
        let rows = sampled_rows(m);
        let reference = reference(&operands, &rows);
        for strategy in Strategy::ALL {
            let plan = HopperPlan::best(&problem, gpu.facts(), strategy)?;
            let Times { kernel, flushed, replayed, worst } =
                measure(gpu, &plan, &device, &flush, &reference, &rows)?;
            let tflops = problem.flops() / flushed.min(replayed) / 1e6;
            println!("{problem},{strategy},{kernel},{flushed:.2},{replayed:.2},{tflops:.1},{worst:.3}");
        }
    }
    Ok(())
}

/// Quantization and multiplication together, beside the multiplication alone.
fn quantized(gpu: &Gpu) -> Result<()> {
    println!("shape,multiply_us,quantize_us,both_us");
    for (n, k) in SERVED {
        let token = ActivationKind::Fp8(ScaleGranularity::Token);
        let problem = Problem::new(4096, n, k, QuantBlock::B128)?.with_x(token).with_out(FloatKind::Bf16);
        let device = Device::new(gpu, &pieces(problem))?;
        let start = std::time::Instant::now();
        let plan = HopperPlan::best(&problem, gpu.facts(), Strategy::Strip)?;
        let kernel = hopper::multiply(&plan);
        let multiply = Multiplication::new(gpu, &plan, text(&kernel))?.prepare(device.operands())?;
        multiply.launch()?;
        gpu.wait()?;
        let first_call = start.elapsed();
        let floats: Vec<bf16> = (0..4096 * k).map(|at| bf16::from_f32((at % 61) as f32 - 30.0)).collect();
        let floats = Buffer::from_slice(gpu, &floats)?;
        let kernel = hopper::quantize(FloatKind::Bf16, ScaleGranularity::Token, 128, true);
        let groups = hopper::groups_per_block(128);
        let quantization = Quantization::new(
            gpu,
            &problem,
            FloatKind::Bf16,
            text(&kernel),
            hopper::QUANTIZE_THREADS,
            groups,
        )?;
        let quantize = quantization.prepare(QuantizeOperands {
            x: &floats,
            x_stride: k,
            codes: &device.x,
            codes_stride: device.arguments.x_stride,
            scales: &device.x_scales,
            layout: device.arguments.x_scales,
        })?;
        let time = |work: &dyn Fn() -> Result<(), octile_runtime::cuda::CudaError>| -> Result<f32> {
            let graph = Graph::record(gpu, || (0..10).try_for_each(|_| work()))?;
            graph.launch()?;
            let mut times = Vec::new();
            for _ in 0..7 {
                times.push(gpu.time(|| graph.launch())? * 100.0);
            }
            times.sort_by(f32::total_cmp);
            Ok(times[3])
        };
        let alone = time(&|| multiply.launch())?;
        let before = time(&|| quantize.launch())?;
        let both = time(&|| quantize.launch().and_then(|()| multiply.launch()))?;
        println!("{problem},{alone:.2},{before:.2},{both:.2},first call {} ms", first_call.as_millis());
    }
    Ok(())
}

/// A thousand runs of some shapes must give the same bits.
fn repeat(gpu: &Gpu) -> Result<()> {
    for (m, n, k) in
        [(1, 4096, 7168), (16, 2112, 7168), (64, 4096, 7168), (128, 7168, 2048), (1000, 1000, 2000)]
    {
        let problem = Problem::new(m, n, k, QuantBlock::B128)?
            .with_x(ActivationKind::Fp8(ScaleGranularity::Token))
            .with_out(FloatKind::Bf16);
        let device = Device::new(gpu, &pieces(problem))?;
        let plan = HopperPlan::best(&problem, gpu.facts(), Strategy::Strip)?;
        let kernel = hopper::multiply(&plan);
        let prepared = Multiplication::new(gpu, &plan, text(&kernel))?.prepare(device.operands())?;
        let run = || -> Result<Vec<u8>> {
            device.out.fill(0xff)?;
            prepared.launch()?;
            let mut bytes = vec![0; m * n * problem.out.bytes()];
            device.out.read(&mut bytes)?;
            Ok(bytes)
        };
        let first = run()?;
        let mut other = 0;
        for _ in 1..1000 {
            other += usize::from(run()? != first);
        }
        println!("{problem} {}: {other} of 999 runs gave other bits than the first", kernel.entry);
    }
    Ok(())
}

/// Quantization against the CPU's: every code and scale must be the same.
fn check_quantize(gpu: &Gpu, seed: u64) -> Result<()> {
    let (mut checked, mut failed) = (0, 0);
    for kind in [FloatKind::F32, FloatKind::Bf16, FloatKind::F16] {
        for granularity in [ScaleGranularity::Token, ScaleGranularity::Block] {
            for quant_block in QuantBlock::ALL {
                for (m, k) in [(1, 1), (3, 129), (200, 1000), (130, 1024), (700, 2048)] {
                    let problem = Problem::new(m, 1, k, quant_block)?
                        .with_x(ActivationKind::Quantized(kind, granularity));
                    let operands = Operands::random(problem, seed);
                    let OracleInput::Fp8(expected) = operands.oracle_input() else {
                        unreachable!("quantized")
                    };
                    let floats = match &operands.x {
                        Activations::F32(x) => Buffer::from_slice(gpu, x)?,
                        Activations::Bf16(x) => Buffer::from_slice(gpu, x)?,
                        Activations::F16(x) => Buffer::from_slice(gpu, x)?,
                        Activations::Fp8(_) => unreachable!("floats were asked for"),
                    };
                    let arguments = Arguments::packed(&problem);
                    let codes = Buffer::zeros(gpu, m * arguments.x_stride)?;
                    let scales = Buffer::zeros(gpu, 4 * expected.scales().len())?;
                    let kernel = hopper::quantize(kind, granularity, quant_block.size(), k % 8 == 0);
                    let groups = hopper::groups_per_block(quant_block.size());
                    let quantization = Quantization::new(
                        gpu,
                        &problem,
                        kind,
                        text(&kernel),
                        hopper::QUANTIZE_THREADS,
                        groups,
                    )?;
                    quantization
                        .prepare(QuantizeOperands {
                            x: &floats,
                            x_stride: k,
                            codes: &codes,
                            codes_stride: arguments.x_stride,
                            scales: &scales,
                            layout: arguments.x_scales,
                        })?
                        .launch()?;
                    let (mut got_codes, mut got_scales) =
                        (vec![0u8; m * arguments.x_stride], vec![0f32; expected.scales().len()]);
                    codes.read(&mut got_codes)?;
                    scales.read(&mut got_scales)?;
                    let rows = got_codes.chunks(arguments.x_stride).zip(expected.codes().chunks(k));
                    let other = rows
                        .flat_map(|(got, want)| got.iter().zip(want))
                        .filter(|(got, want)| got != want)
                        .count();
                    let other_scales =
                        got_scales.iter().zip(expected.scales()).filter(|(got, want)| got != want).count();
                    checked += 1;
                    if other + other_scales > 0 {
                        failed += 1;
                        println!(
                            "FAIL {} {m}x{k}: {other} codes, {other_scales} scales differ",
                            kernel.entry
                        );
                    }
                }
            }
        }
    }
    println!("quantize: {checked} checked, {failed} failed");
    Ok(())
}

/// Random small problems on every strategy, and on every shape of `strip`: all rows against the reference.
fn check(gpu: &Gpu, seed: u64) -> Result<()> {
    let mut rng = octile_core::sample::Rng::new(seed, 3);
    let mut pick = |from: &[usize]| from[(rng.next_u64() % from.len() as u64) as usize];
    let mut problems = Vec::new();
    for m in (1..=256).step_by(5).chain([2, 3, 8, 16, 32, 64, 128, 300, 513]) {
        let n = pick(&[1, 8, 60, 100, 129, 264, 576, 1001]);
        let k = pick(&[1, 16, 100, 128, 130, 513, 1024, 1999]);
        let quant_block = QuantBlock::try_from(pick(&[128, 128, 256, 512])).expect("valid");
        let granularity = [ScaleGranularity::Token, ScaleGranularity::Block][pick(&[0, 1])];
        let out = [FloatKind::Bf16, FloatKind::F16, FloatKind::F32][pick(&[0, 0, 1, 2])];
        let problem = Problem::new(m, n, k, quant_block).expect("valid");
        problems.push(problem.with_x(ActivationKind::Fp8(granularity)).with_out(out));
    }
    let all = |problem: &Problem| {
        let mut all = plans(gpu, problem);
        // A third of the shapes of strip, another third each time.
        let mut turn = problem.m;
        all.retain(|plan| {
            turn += 1;
            plan.shape.swapped || turn % 3 == 0
        });
        for strategy in [Strategy::Auto, Strategy::Dma, Strategy::Smem] {
            all.push(HopperPlan::best(problem, gpu.facts(), strategy).expect("fits"));
        }
        all
    };
    compile_all(gpu, &problems.iter().flat_map(&all).collect::<Vec<_>>());
    let (mut checked, mut failed, mut largest) = (0, 0, 0.0f64);
    for problem in &problems {
        let operands = Operands::random(*problem, seed);
        let device = Device::new(gpu, &operands)?;
        let rows: Vec<usize> = (0..problem.m).collect();
        let reference = reference(&operands, &rows);
        for plan in all(problem) {
            let kernel = hopper::multiply(&plan);
            let prepared = Multiplication::new(gpu, &plan, text(&kernel))?.prepare(device.operands())?;
            device.out.fill(0xff)?;
            prepared.launch()?;
            let (values, guarded) = result(&device, problem, &rows)?;
            let worst = worst(&reference, &values);
            checked += 1;
            largest = largest.max(worst);
            if worst > 1.0 || !guarded {
                failed += 1;
                println!(
                    "FAIL {problem} {} {} {}: worst {worst:.3}, guard {guarded}",
                    problem.x, problem.out, kernel.entry
                );
            }
        }
    }
    println!("{checked} checked, {failed} failed, worst {largest:.3} of the bound");
    if failed > 0 { bail!("some kernels are wrong") } else { Ok(()) }
}

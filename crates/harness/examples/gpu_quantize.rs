//! Checks and times candidate tunings of the GPU quantization kernel.
//!
//! `gpu_quantize check` compares every code and scale with the CPU; `gpu_quantize time` prints CSV:
//! quantization alone, then followed by the matmul, with interleaved tunings.

use anyhow::{Result, bail};
use half::{bf16, f16};
use octile_core::{
    ActivationKind, FloatKind, Mat, Problem, QuantBlock, QuantizedActivation, QuantizedWeight,
    ScaleGranularity, Strategy,
    bound::Accumulator,
    oracle,
    plan::hopper::{Arguments, CachePriority, HopperPlan, QuantizeTuning, STAGE_K},
    sample::{self, Activations, Operands, Rng},
};
use octile_runtime::cuda::{
    Buffer, DeviceOperands, Gpu, Graph, HostActivations, PlannedMatmul, QuantizeKernel, QuantizeOperands,
    multiply_host,
};

fn main() -> Result<()> {
    let gpu = Gpu::open(0)?;
    match std::env::args().nth(1).as_deref() {
        Some("check") => check(&gpu),
        Some("time") => time_alone(&gpu).and_then(|()| time_together(&gpu)),
        _ => bail!("expected: gpu_quantize check, or gpu_quantize time"),
    }
}

/// Candidate tunings.
fn tunings() -> Vec<QuantizeTuning> {
    let best = QuantizeTuning { persistent_ctas: None, ..QuantizeTuning::BEST };
    let mut all = vec![QuantizeTuning::BEST];
    let shapes = [(256, 1), (256, 2), (256, 4), (128, 2), (512, 1), (512, 2), (1024, 1)];
    let stays = [
        (CachePriority::Normal, CachePriority::EvictLast),
        (CachePriority::EvictFirst, CachePriority::Normal),
    ];
    for (floats, codes) in stays {
        all.extend(shapes.map(|(threads, unroll)| QuantizeTuning { threads, unroll, floats, codes, ..best }));
    }
    all.push(QuantizeTuning { codes: CachePriority::Normal, ..best });
    all.push(QuantizeTuning { floats: CachePriority::EvictFirst, ..best });
    let persistent =
        [(256, 1, 4), (256, 1, 8), (256, 2, 4), (256, 2, 6), (256, 4, 4), (512, 2, 2), (1024, 1, 2)];
    all.extend(persistent.map(|(threads, unroll, blocks)| QuantizeTuning {
        threads,
        unroll,
        persistent_ctas: Some(blocks),
        ..best
    }));
    let mut distinct = Vec::new();
    for tuning in all {
        if !distinct.contains(&tuning) {
            distinct.push(tuning);
        }
    }
    distinct
}

/// Uploads activations.
fn upload(gpu: &Gpu, x: &Activations) -> Result<Buffer> {
    Ok(match x {
        Activations::F32(x) => Buffer::from_slice(gpu, x)?,
        Activations::Bf16(x) => Buffer::from_slice(gpu, x)?,
        Activations::F16(x) => Buffer::from_slice(gpu, x)?,
        Activations::Fp8(_) => bail!("expected float activations"),
    })
}

/// Values that are hard to scale: zeros, subnormals, the largest, and every mantissa of a scale.
fn hard_values(m: usize, k: usize, kind: FloatKind) -> Vec<f32> {
    let mut values = sample::values(m, k, QuantBlock::B128, &mut Rng::new(7, 7));
    let round = |value: f32| match kind {
        FloatKind::F32 => value,
        FloatKind::Bf16 => bf16::from_f32(value).to_f32(),
        FloatKind::F16 => f16::from_f32(value).to_f32(),
    };
    for (row, values) in values.chunks_mut(k).enumerate() {
        for (group, values) in values.chunks_mut(128).enumerate() {
            let factor = match (row + 3 * group) % 8 {
                0 => 0.0,
                1 => 1e-38,
                2 => 1e-41,
                3 if kind != FloatKind::F16 => 1e37,
                _ => 1.0 + ((row * 977 + group * 131) % 65_536) as f32 / 65_536.0,
            };
            values.iter_mut().for_each(|value| *value = round(*value * factor));
        }
    }
    values
}

fn activations(values: Vec<f32>, kind: FloatKind) -> Activations {
    match kind {
        FloatKind::F32 => Activations::F32(values),
        FloatKind::Bf16 => Activations::Bf16(values.into_iter().map(bf16::from_f32).collect()),
        FloatKind::F16 => Activations::F16(values.into_iter().map(f16::from_f32).collect()),
    }
}

fn check(gpu: &Gpu) -> Result<()> {
    let (mut checked, mut failed) = (0, 0);
    for kind in [FloatKind::Bf16, FloatKind::F16, FloatKind::F32] {
        for granularity in [ScaleGranularity::Token, ScaleGranularity::Block] {
            for quant_block in QuantBlock::ALL {
                for (m, k) in [(1, 1), (3, 129), (200, 1000), (130, 1024), (1000, 2048), (257, 7168)] {
                    let values = hard_values(m, k, kind);
                    let matrix = Mat::new(&values, m, k)?;
                    let expected = QuantizedActivation::quantize(matrix, quant_block, granularity)?;
                    let floats = upload(gpu, &activations(values.clone(), kind))?;
                    let problem = Problem::new(m, 1, k, quant_block)?
                        .with_x(ActivationKind::Quantized(kind, granularity));
                    // Tunings differ for token groups only.
                    let ways = if granularity == ScaleGranularity::Token {
                        tunings()
                    } else {
                        vec![QuantizeTuning::BEST]
                    };
                    for tuning in ways {
                        let wrong = wrong(gpu, &problem, &floats, &expected, tuning)?;
                        checked += 1;
                        failed += usize::from(wrong > 0);
                        if wrong > 0 {
                            println!("FAIL {kind} {granularity} {problem} {tuning:?}: {wrong} differ");
                        }
                    }
                }
            }
        }
    }
    println!("quantize: {checked} checked, {failed} failed");
    failed += check_infinite(gpu)?;
    failed += check_host(gpu)?;
    if failed > 0 { bail!("{failed} checks failed") } else { Ok(()) }
}

/// Number of codes and scales that differ from the CPU.
fn wrong(
    gpu: &Gpu,
    problem: &Problem,
    floats: &Buffer,
    expected: &QuantizedActivation,
    tuning: QuantizeTuning,
) -> Result<usize> {
    let arguments = Arguments::fastest(problem);
    let (_, cols) = problem.x_scale_shape().unwrap_or((1, 1));
    let arranged = arguments.x_scales.arrange(expected.scales(), cols);
    let (codes, scales) = quantized(gpu, problem, floats, tuning)?;
    let rows = codes.chunks(arguments.x_stride).zip(expected.codes().chunks(problem.k));
    let other = rows.flat_map(|(got, want)| got.iter().zip(want)).filter(|(got, want)| got != want).count();
    let scales = scales.iter().zip(&arranged).filter(|(got, want)| got.to_bits() != want.to_bits());
    Ok(other + scales.count())
}

fn quantized(
    gpu: &Gpu,
    problem: &Problem,
    floats: &Buffer,
    tuning: QuantizeTuning,
) -> Result<(Vec<u8>, Vec<f32>)> {
    let Problem { m, k, .. } = *problem;
    let arguments = Arguments::fastest(problem);
    let scale_count = arguments.x_scales.extent(problem.x_scale_shape().unwrap_or((1, 1)));
    let (codes, scales) = (Buffer::zeros(gpu, m * arguments.x_stride)?, Buffer::zeros(gpu, 4 * scale_count)?);
    let quantization = QuantizeKernel::tuned(gpu, problem, tuning)?;
    let operands = QuantizeOperands {
        x: floats,
        x_stride: k,
        codes: &codes,
        codes_stride: arguments.x_stride,
        scales: &scales,
        layout: arguments.x_scales,
    };
    quantization.prepare(operands)?.launch()?;
    let (mut got_codes, mut got_scales) = (vec![0; m * arguments.x_stride], vec![0.0; scale_count]);
    codes.read(&mut got_codes)?;
    scales.read(&mut got_scales)?;
    Ok((got_codes, got_scales))
}

/// Checks that infinities and NaN stay visible in the result.
fn check_infinite(gpu: &Gpu) -> Result<usize> {
    let mut values = vec![bf16::ONE; 2 * 256];
    values[5] = bf16::INFINITY;
    values[300] = bf16::NAN;
    let floats = Buffer::from_slice(gpu, &values)?;
    let kind = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token);
    let problem = Problem::new(2, 1, 256, QuantBlock::B128)?.with_x(kind);
    let (codes, scales) = quantized(gpu, &problem, &floats, QuantizeTuning::BEST)?;
    let is_nan = |code: u8| code & 0x7f == 0x7f;
    let shown = !scales[0].is_finite() && is_nan(codes[5]) && is_nan(codes[300]) && !is_nan(codes[130]);
    println!("infinity and NaN stay visible: {}", if shown { "yes" } else { "NO" });
    Ok(usize::from(!shown))
}

/// Checks the host call on every kind of activations.
fn check_host(gpu: &Gpu) -> Result<usize> {
    let granularity = ScaleGranularity::Token;
    let kinds = [
        ActivationKind::Fp8(granularity),
        ActivationKind::Quantized(FloatKind::Bf16, granularity),
        ActivationKind::Quantized(FloatKind::F16, ScaleGranularity::Block),
        ActivationKind::Quantized(FloatKind::F32, granularity),
    ];
    let mut failed = 0;
    for kind in kinds {
        let problem = Problem::new(130, 300, 1000, QuantBlock::B128)?.with_x(kind);
        let operands = Operands::random(problem, 3);
        let accumulator = Accumulator::HopperTensorCore { promote_every: STAGE_K };
        let reference =
            oracle::multiply(&operands.oracle_input(), problem.m, &operands.weight, accumulator, problem.out);
        let mut out = vec![f32::NAN; 130 * 300];
        let plan = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip)?;
        multiply_host(gpu, &plan, HostActivations::from(&operands.x), &operands.weight, &mut out)?;
        let comparison = reference.compare(&out);
        println!("host call, x {kind}: {comparison:?}");
        failed += usize::from(!comparison.passed());
    }
    Ok(failed)
}

fn median(mut times: Vec<f32>) -> f32 {
    times.sort_by(f32::total_cmp);
    times[times.len() / 2] * 1e3
}

/// Times quantization alone: cold cache, and graph replay.
fn time_alone(gpu: &Gpu) -> Result<()> {
    const M: usize = 4096;
    let flush = Buffer::zeros(gpu, 4 * gpu.properties().l2)?;
    println!("k,way,flushed_us,replayed_us,gbytes_per_s");
    for k in [512, 1536, 2048, 7168, 16_384] {
        let kind = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token);
        let problem = Problem::new(M, 1, k, QuantBlock::B128)?.with_x(kind);
        let arguments = Arguments::fastest(&problem);
        let floats = Buffer::from_slice(gpu, &floats(M * k))?;
        let (codes, scales) = (Buffer::zeros(gpu, M * k)?, Buffer::zeros(gpu, M * k / 32)?);
        let operands = QuantizeOperands {
            x: &floats,
            x_stride: k,
            codes: &codes,
            codes_stride: k,
            scales: &scales,
            layout: arguments.x_scales,
        };
        let mut ways = Vec::new();
        for tuning in tunings() {
            let quantization = QuantizeKernel::tuned(gpu, &problem, tuning)?;
            let prepared = quantization.prepare(operands)?;
            let graph = Graph::capture(gpu, std::iter::repeat_n(&prepared, 10))?;
            graph.launch()?;
            ways.push((quantization.entry().to_owned(), prepared, graph, Vec::new(), Vec::new()));
        }
        for _ in 0..15 {
            for (_, prepared, graph, flushed, replayed) in &mut ways {
                flush.fill(0)?;
                flushed.push(gpu.time(|| prepared.launch())?);
                replayed.push(gpu.time(|| graph.launch())? / 10.0);
            }
        }
        for (name, _, _, flushed, replayed) in ways {
            let (flushed, replayed) = (median(flushed), median(replayed));
            let rate = (3 * M * k) as f32 / replayed / 1e3;
            println!("{k},{name},{flushed:.2},{replayed:.2},{rate:.0}");
        }
    }
    Ok(())
}

/// Times quantization and matmul beside the matmul alone.
fn time_together(gpu: &Gpu) -> Result<()> {
    const SERVED: [(usize, usize); 7] = [
        (2112, 7168),
        (576, 7168),
        (24_576, 1536),
        (32_768, 512),
        (7168, 16_384),
        (4096, 7168),
        (7168, 2048),
    ];
    println!("n,k,way,both_us,multiply_us,more_percent");
    for (n, k) in SERVED {
        let token = ScaleGranularity::Token;
        let problem = Problem::new(4096, n, k, QuantBlock::B128)?.with_out(FloatKind::Bf16);
        let (quantized, codes) = (
            problem.with_x(ActivationKind::Quantized(FloatKind::Bf16, token)),
            problem.with_x(ActivationKind::Fp8(token)),
        );
        let weight = Operands::random(Problem::new(1, 128, 128, QuantBlock::B128)?, 1).weight;
        let weight = repeated(&weight, n, k)?;
        let x = floats(4096 * k);
        let with_floats = DeviceOperands::new(gpu, &quantized, HostActivations::Bf16(&x), &weight)?;
        let wide: Vec<f32> = x.iter().map(|value| value.to_f32()).collect();
        let x = QuantizedActivation::quantize(Mat::new(&wide, 4096, k)?, QuantBlock::B128, token)?;
        let with_codes = DeviceOperands::new(gpu, &codes, HostActivations::Fp8(&x), &weight)?;
        let plan = |problem: &Problem| HopperPlan::best(problem, gpu.properties(), Strategy::Strip);
        let mut products = vec![("multiply".to_owned(), PlannedMatmul::new(gpu, &plan(&codes)?)?)];
        for tuning in tunings() {
            products.push((format!("{tuning:?}"), PlannedMatmul::tuned(gpu, &plan(&quantized)?, tuning)?));
        }
        let mut ways = Vec::new();
        for (name, product) in &products {
            let uploaded = if ways.is_empty() { &with_codes } else { &with_floats };
            let prepared = product.prepare(uploaded.operands())?;
            let graph = Graph::capture(gpu, std::iter::repeat_n(&prepared, 10))?;
            graph.launch()?;
            ways.push((name, graph, Vec::new()));
        }
        for _ in 0..7 {
            for (_, graph, times) in &mut ways {
                times.push(gpu.time(|| graph.launch())? / 10.0);
            }
        }
        let mut alone = None;
        for (name, _, times) in ways {
            let time = median(times);
            let alone = *alone.get_or_insert(time);
            println!("{n},{k},{name},{time:.2},{alone:.2},{:.1}", 1e2 * (time / alone - 1.0));
        }
        require_equal(&with_floats, &with_codes, 4096 * n)?;
    }
    Ok(())
}

/// Checks that both ways give the same result.
fn require_equal(a: &DeviceOperands, b: &DeviceOperands, len: usize) -> Result<()> {
    let (mut left, mut right) = (vec![bf16::ZERO; len], vec![bf16::ZERO; len]);
    a.out.read(&mut left)?;
    b.out.read(&mut right)?;
    if left.iter().zip(&right).any(|(a, b)| a.to_bits() != b.to_bits()) {
        bail!("results of quantizing on the GPU and on the CPU differ");
    }
    Ok(())
}

fn floats(len: usize) -> Vec<bf16> {
    (0..len).map(|at| bf16::from_f32((at * 7 % 61) as f32 - 30.0)).collect()
}

/// A weight made of copies of a small one, because quantizing a large one is slow.
fn repeated(small: &QuantizedWeight, n: usize, k: usize) -> Result<QuantizedWeight> {
    let codes: Vec<u8> = (0..n)
        .flat_map(|row| small.codes()[row % 128 * 128..][..128].iter().copied().cycle().take(k))
        .collect();
    let scales = vec![small.scales()[0]; n.div_ceil(128) * k.div_ceil(128)];
    Ok(QuantizedWeight::from_parts(Mat::new(&codes, n, k)?, &scales, QuantBlock::B128)?)
}

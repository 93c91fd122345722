//! Times CPU kernels as a share of the peak that is measured between the samples.
//!
//! `cpu_sweep ISA|default THREADS ROUNDS SHAPE...` prints JSON: for each shape the samples in microseconds
//! with fp8 activations and an f32 result, with the result at the start of a cache line and 16 bytes after
//! it, as an allocator may place it, and with bf16 activations, quantized in the call, and a bf16 result.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use half::bf16;
use octile_core::{
    Mat, MatMut, Problem, QuantizedActivation, QuantizedWeight, ScaleGranularity, Strategy, sample::Rng,
};
use octile_runtime::cpu::{Activation, Cpu, Output, PackedWeight, WeightRef, Workspace, peak};
use serde_json::{Value, json};

/// Bytes of a cache line.
const LINE: usize = 64;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [isa, threads, rounds, shapes @ ..] = &args[..] else {
        bail!("expected: cpu_sweep ISA THREADS ROUNDS SHAPE...");
    };
    let builder = Cpu::builder().threads(threads.parse()?);
    let builder = if isa == "default" { builder } else { builder.isa(isa.parse()?) };
    let cpu = builder.build()?;
    let rounds: usize = rounds.parse().context("the number of rounds")?;
    let mut cases = shapes.iter().map(|shape| Case::new(&cpu, shape)).collect::<Result<Vec<_>>>()?;
    let mut peaks = Vec::new();
    for _ in 0..rounds {
        for case in &mut cases {
            peaks.push(peak::gflops(&cpu, &case.problem));
            case.run(&cpu)?;
        }
    }
    let shapes: Vec<Value> = cases.iter().map(Case::to_json).collect();
    let record = json!({
        "isa": isa, "threads": cpu.threads(), "peak_gflops": peaks,
        "read_gbytes_per_s": peak::read_gbytes(&cpu), "shapes": shapes,
    });
    println!("{}", serde_json::to_string(&record)?);
    Ok(())
}

/// A problem with its operands and samples.
struct Case {
    problem: Problem,
    weight: PackedWeight,
    fp8: QuantizedActivation,
    bf16: Vec<bf16>,
    workspaces: [Workspace; 2],
    samples: [Vec<f64>; 3],
}

impl Case {
    fn new(cpu: &Cpu, shape: &str) -> Result<Self> {
        let problem: Problem = shape.parse()?;
        let Problem { m, n, k, quant_block, .. } = problem;
        let mut rng = Rng::new(1, 0);
        let mut normals = |len: usize| -> Vec<f32> { (0..len).map(|_| rng.bell()).collect() };
        let (x, weight) = (normals(m * k), normals(n * k));
        let weight = QuantizedWeight::quantize(Mat::new(&weight, n, k)?, quant_block)?;
        Ok(Self {
            problem,
            weight: cpu.pack(&weight),
            fp8: QuantizedActivation::quantize(Mat::new(&x, m, k)?, quant_block, ScaleGranularity::Token)?,
            bf16: x.iter().map(|value| bf16::from_f32(*value)).collect(),
            workspaces: Default::default(),
            samples: Default::default(),
        })
    }

    fn run(&mut self, cpu: &Cpu) -> Result<()> {
        let Problem { m, k, .. } = self.problem;
        let plain = Activation::Quantize(Mat::new(&self.bf16, m, k)?.into(), ScaleGranularity::Token);
        let weight = WeightRef::from(&self.weight);
        let [fp8_space, bf16_space] = &mut self.workspaces;
        let [aligned, shifted, narrow] = &mut self.samples;
        time::<f32>(cpu, &self.problem, (&self.fp8).into(), weight, 0, fp8_space, aligned)?;
        time::<f32>(cpu, &self.problem, (&self.fp8).into(), weight, 16, fp8_space, shifted)?;
        time::<bf16>(cpu, &self.problem, plain, weight, 0, bf16_space, narrow)
    }

    fn to_json(&self) -> Value {
        let [aligned, shifted, narrow] = &self.samples;
        json!({
            "shape": self.problem.to_string(),
            "fp8_to_f32_us": aligned, "fp8_to_f32_at_16_us": shifted, "bf16_to_bf16_us": narrow,
        })
    }
}

/// Takes three samples, with a result `offset` bytes after the start of a cache line.
fn time<T: Output + Default>(
    cpu: &Cpu,
    problem: &Problem,
    x: Activation<'_>,
    weight: WeightRef<'_>,
    offset: usize,
    workspace: &mut Workspace,
    samples: &mut Vec<f64>,
) -> Result<()> {
    let Problem { m, n, .. } = *problem;
    let mut out = vec![T::default(); m * n + 2 * LINE];
    let first = out.as_ptr().align_offset(LINE) + offset / size_of::<T>();
    for sample in 0..4 {
        let out = MatMut::new(&mut out[first..][..m * n], m, n)?;
        let start = Instant::now();
        cpu.multiply(Strategy::Strip, x, weight, out, workspace)?;
        let elapsed = start.elapsed();
        // The first one warms up.
        if sample > 0 {
            samples.push(elapsed.as_secs_f64() * 1e6);
        }
    }
    Ok(())
}

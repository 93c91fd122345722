//! Multiply activations with a block-scaled FP8 weight on the CPU.
//!
//! Run with `cargo run --release -p octile-runtime --example 02_multiply`.

use octile_core::{Mat, MatMut, QuantBlock, QuantizedWeight, ScaleGranularity, Strategy};
use octile_runtime::cpu::{Activation, Cpu, PackedWeight, Workspace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (m, n, k) = (4, 300, 200);
    let weight: Vec<f32> = (0..n * k).map(|i| ((i as f32) * 0.37).sin()).collect();
    let x: Vec<f32> = (0..m * k).map(|i| ((i as f32) * 0.11).cos()).collect();

    // Once, when the model is loaded.
    let quantized = QuantizedWeight::quantize(Mat::new(&weight, n, k)?, QuantBlock::B128)?;
    let packed = PackedWeight::new(&quantized);
    let cpu = Cpu::new()?;
    let mut workspace = Workspace::new();

    // For every batch. The activations are quantized on the way, one scale per token and 128 inputs.
    let mut out = vec![0f32; m * n];
    let activation = Activation::Quantize(Mat::new(&x, m, k)?.into(), ScaleGranularity::Token);
    cpu.multiply(Strategy::Strip, activation, &packed, MatMut::new(&mut out, m, n)?, &mut workspace)?;

    let exact: f32 = x[..k].iter().zip(&weight[..k]).map(|(x, w)| x * w).sum();
    println!("on {}: out[0][0] = {:.4}, before quantization {exact:.4}", cpu.isa(), out[0]);
    Ok(())
}

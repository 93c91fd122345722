//! Multiply activations with a block-scaled FP8 weight, on a GPU if there is one.
//!
//! Run with `cargo run --release -p octile --example 02_multiply`.

use octile::{Block, DType, Device, Error, Matmul, Scales, Weight};

fn main() -> Result<(), Error> {
    let (m, n, k) = (4, 300, 200);
    let values: Vec<f32> = (0..n * k).map(|i| ((i as f32) * 0.37).sin()).collect();
    let x: Vec<f32> = (0..m * k).map(|i| ((i as f32) * 0.11).cos()).collect();

    // Once, when the model is loaded.
    let device = Device::best()?;
    let matmul = Matmul::builder(&device, Weight::quantize(&values, [n, k], Block::B128)?)
        .activations(DType::F32, Scales::PerToken)
        .output(DType::F32)
        .build()?;

    // For every batch. Activations are quantized on the way, with one scale per token and 128 inputs.
    let mut out = vec![0f32; m * n];
    matmul.run(&x, &mut out)?;

    let exact: f32 = x[..k].iter().zip(&values[..k]).map(|(x, w)| x * w).sum();
    println!("on {device}: out[0][0] = {:.4}, before quantization {exact:.4}", out[0]);
    println!("{:#}", matmul.plan(m)?);
    Ok(())
}

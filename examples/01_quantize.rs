//! Quantize a weight, look at what it costs in precision, and get the values back.
//!
//! Run with `cargo run --release -p octile-runtime --example 01_quantize`.

use octile_core::{Mat, QuantBlock, QuantizedWeight};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 300 outputs, 200 inputs: neither is a multiple of the block, and need not be.
    let (n, k) = (300, 200);
    let weight: Vec<f32> = (0..n * k).map(|i| ((i as f32) * 0.37).sin()).collect();

    let quantized = QuantizedWeight::quantize(Mat::new(&weight, n, k)?, QuantBlock::B128)?;

    println!("{} codes of one byte, {} scales", quantized.codes().len(), quantized.scales().len());
    let back = quantized.dequantize();
    let worst = weight.iter().zip(&back).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("largest error of a weight: {worst:.4}");
    Ok(())
}

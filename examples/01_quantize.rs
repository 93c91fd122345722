//! Quantize a weight, look at what it costs in precision, and get the values back.
//!
//! Run with `cargo run --release -p octile --example 01_quantize`.

use octile::{Block, Error, Weight};

fn main() -> Result<(), Error> {
    // 300 outputs, 200 inputs: neither has to be a multiple of the block.
    let [n, k] = [300, 200];
    let values: Vec<f32> = (0..n * k).map(|i| ((i as f32) * 0.37).sin()).collect();

    let weight = Weight::quantize(&values, [n, k], Block::B128)?;

    println!("{} codes of one byte, {} scales", weight.codes().len(), weight.scales().len());
    let back = weight.dequantize();
    let worst = values.iter().zip(&back).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("largest error of a weight: {worst:.4}");
    Ok(())
}

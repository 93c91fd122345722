//! Times calls of `Matmul::run` on the CPU that are so small that what surrounds the kernel counts.
//!
//! `cargo run --release -p octile --example small_calls [THREADS]` prints one line per shape: M, N, K, the
//! fastest and the median microseconds of a call.

#![allow(clippy::print_stdout, reason = "an example reports on standard output")]

use std::time::Instant;

use octile::{Block, DType, Device, Error, Matmul, Scales, Weight, bf16};

const SHAPES: [[usize; 3]; 8] = [
    [1, 128, 128],
    [1, 256, 512],
    [4, 256, 512],
    [1, 512, 1024],
    [1, 1024, 1024],
    [16, 512, 512],
    [1, 2048, 2048],
    [64, 1024, 1024],
];

fn main() -> Result<(), Error> {
    let threads = std::env::args().nth(1).and_then(|threads| threads.parse().ok());
    let device = threads.map_or_else(Device::cpu, Device::cpu_with_threads)?;
    for [m, n, k] in SHAPES {
        let values: Vec<f32> = (0..n * k).map(|i| (i as f32 * 0.37).sin()).collect();
        let matmul = Matmul::builder(&device, Weight::quantize(&values, [n, k], Block::B128)?)
            .activations(DType::BF16, Scales::PerToken)
            .build()?;
        let x = vec![bf16::ONE; m * k];
        let mut out = vec![bf16::ZERO; m * n];
        let calls = (20_000_000_000 / (m * n * k + 8 * n * k)).clamp(100, 20_000) / 10;
        let mut samples = Vec::with_capacity(calls);
        for _ in 0..calls {
            let start = Instant::now();
            matmul.run(&x, &mut out)?;
            samples.push(start.elapsed().as_secs_f64() * 1e6);
        }
        samples.sort_by(f64::total_cmp);
        println!("{m} {n} {k} {:.2} {:.2}", samples[0], samples[calls / 2]);
    }
    Ok(())
}

//! Octile and candle in one program.

#![forbid(unsafe_code)]
#![cfg(test)]

use candle_core::{Device as CandleDevice, Result, Tensor};
use octile::{Block, DType, Device, Matmul, Scales, Weight};

/// Both multiply the same activations with the same dequantized weight.
#[test]
fn both_libraries_agree() -> Result<()> {
    let (m, n, k) = (5, 300, 260);
    let values: Vec<f32> = (0..n * k).map(|i| ((i as f32) * 0.37).sin()).collect();
    let weight = Weight::quantize(&values, [n, k], Block::B128).map_err(candle_core::Error::wrap)?;
    let x = Tensor::arange(0f32, (m * k) as f32, &CandleDevice::Cpu)?.affine(0.11, 0.0)?.cos()?;

    let dequantized = Tensor::from_vec(weight.dequantize(), (n, k), &CandleDevice::Cpu)?;
    let expected = x.reshape((m, k))?.matmul(&dequantized.t()?)?.flatten_all()?.to_vec1::<f32>()?;

    let device = Device::cpu().map_err(candle_core::Error::wrap)?;
    let matmul = Matmul::builder(&device, weight)
        .activations(DType::F32, Scales::None)
        .output(DType::F32)
        .build()
        .map_err(candle_core::Error::wrap)?;
    let mut out = vec![f32::NAN; m * n];
    matmul.run(&x.to_vec1::<f32>()?, &mut out).map_err(candle_core::Error::wrap)?;

    let norm = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt();
    let difference: Vec<f32> = out.iter().zip(&expected).map(|(a, b)| a - b).collect();
    let error = norm(&difference) / norm(&expected);
    assert!(error < 1e-5, "relative error {error}");
    Ok(())
}

//! The layer on a GPU against the CPU, which quantizes activations in the same way. Needs a Hopper GPU and
//! `--features cuda`.

#![cfg(feature = "cuda")]

use std::io::Write;

use candle_core::{DType, Device, IndexOp, Module, Result, Tensor};
use octile_candle::{Fp8Linear, Scales};

/// The first GPU. Without one the test is reported as not run, or fails if a GPU is required.
fn gpu() -> Option<Device> {
    match Device::new_cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            let required = std::env::var("OCTILE_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|name| name == "gpu"), "a GPU is required: {error}");
            // Written directly, because the test runner captures what passing tests print.
            let name = std::thread::current().name().unwrap_or("test").to_owned();
            let _ = writeln!(std::io::stderr(), "NOT RUN: {name} needs gpu: {error}");
            None
        }
    }
}

fn activations(shape: &[usize]) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    Tensor::arange(0f32, count as f32, &Device::Cpu)?.affine(0.11, 0.0)?.cos()?.reshape(shape)
}

fn error(found: &Tensor, expected: &Tensor) -> Result<f32> {
    let norm = |tensor: Tensor| tensor.sqr()?.sum_all()?.sqrt()?.to_scalar::<f32>();
    let found = found.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
    let expected = expected.to_dtype(DType::F32)?;
    Ok(norm((found - &expected)?)? / norm(expected)?)
}

#[test]
fn agrees_with_the_cpu() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    for (n, k) in [(256, 512), (300, 272), (3072, 1024), (1024, 3072)] {
        let weight = activations(&[n, k])?;
        let cpu_layer = Fp8Linear::quantize(&weight)?.with_activation_scales(Scales::PerToken)?;
        let gpu_layer = Fp8Linear::quantize(&weight.to_device(&gpu)?)?;
        for batch in [&[1][..], &[7], &[2, 3], &[130], &[0]] {
            let x = activations(&[batch, &[k]].concat())?;
            for (dtype, tolerance) in [(DType::F32, 1e-3), (DType::BF16, 5e-3), (DType::F16, 2e-3)] {
                let x = x.to_dtype(dtype)?;
                let out = gpu_layer.forward(&x.to_device(&gpu)?)?;
                assert_eq!((out.dims(), out.dtype()), ([batch, &[n]].concat().as_slice(), dtype));
                if batch != [0] {
                    let error = error(&out, &cpu_layer.forward(&x)?)?;
                    assert!(error < tolerance, "[{n}, {k}] {batch:?} {dtype:?}: {error}");
                }
            }
        }
    }
    Ok(())
}

/// Operands that candle makes and frees around the multiplication, all in its stream, with views whose rows
/// are not contiguous or not aligned.
#[test]
fn is_ordered_with_candles_work() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let (n, k) = (512, 1024);
    let weight = activations(&[n, k])?;
    let cpu_layer = Fp8Linear::quantize(&weight)?.with_activation_scales(Scales::PerToken)?;
    let gpu_layer = Fp8Linear::quantize(&weight.to_device(&gpu)?)?;
    let x = activations(&[64, k + 1])?.to_dtype(DType::BF16)?;
    let on_gpu = x.to_device(&gpu)?;
    for round in 0..200 {
        let row = round % 60;
        let view = |x: &Tensor| x.i((row..row + 4, 1..))?.affine(1.0 + f64::from(round as u32) / 64.0, 0.0);
        let out = gpu_layer.forward(&view(&on_gpu)?)?;
        let error = error(&out, &cpu_layer.forward(&view(&x)?)?)?;
        assert!(error < 5e-3, "round {round}: {error}");
    }
    let flat = on_gpu.flatten_all()?.narrow(0, 1, 3 * k)?.reshape((3, k))?;
    let expected = cpu_layer.forward(&x.flatten_all()?.narrow(0, 1, 3 * k)?.reshape((3, k))?)?;
    assert!(error(&gpu_layer.forward(&flat)?, &expected)? < 5e-3);
    Ok(())
}

#[test]
fn other_devices_and_depths_are_refused() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let layer = Fp8Linear::quantize(&activations(&[128, 128])?.to_device(&gpu)?)?;
    let error = layer.forward(&activations(&[1, 128])?).unwrap_err().to_string();
    assert!(error.contains("move one to the other's device"), "{error}");
    let error = Fp8Linear::quantize(&activations(&[128, 130])?.to_device(&gpu)?).unwrap_err().to_string();
    assert!(error.contains("16"), "{error}");
    assert!(layer.with_activation_scales(Scales::None).is_err());
    Ok(())
}

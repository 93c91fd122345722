//! The layer against candle's own on the dequantized weight.

use std::collections::HashMap;

use candle_core::{DType, Device, IndexOp, Module, Result, Tensor};
use candle_nn::VarBuilder;
use octile::{Block, Weight};
use octile_candle::{Fp8Linear, Scales};

/// A layer with a bias, and candle's layer of the same values.
struct Pair {
    tensors: HashMap<String, Tensor>,
    reference: candle_nn::Linear,
}

fn pair(n: usize, k: usize, block: Block) -> Result<Pair> {
    let values: Vec<f32> = (0..n * k).map(|i| ((i as f32) * 0.37).sin() / (1.0 + (i % 11) as f32)).collect();
    let weight = Weight::quantize(&values, [n, k], block).unwrap();
    let codes = Tensor::from_raw_buffer(weight.codes(), DType::F8E4M3, &[n, k], &Device::Cpu)?;
    let scales = Tensor::from_slice(weight.scales(), (block.count(n), block.count(k)), &Device::Cpu)?;
    let bias = Tensor::arange(0f32, n as f32, &Device::Cpu)?.affine(0.01, -0.5)?;
    let dequantized = Tensor::from_vec(weight.dequantize(), (n, k), &Device::Cpu)?;
    let reference = candle_nn::Linear::new(dequantized, Some(bias.clone()));
    let named = [("weight", codes), ("weight_scale_inv", scales), ("bias", bias)];
    let tensors = named.into_iter().map(|(name, tensor)| (format!("up.{name}"), tensor)).collect();
    Ok(Pair { tensors, reference })
}

impl Pair {
    fn load(&self, in_dim: usize, out_dim: usize) -> Result<Fp8Linear> {
        let vb = VarBuilder::from_tensors(self.tensors.clone(), DType::F32, &Device::Cpu);
        Fp8Linear::load(in_dim, out_dim, vb.pp("up"))
    }
}

fn activations(shape: &[usize]) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    Tensor::arange(0f32, count as f32, &Device::Cpu)?.affine(0.11, 0.0)?.cos()?.reshape(shape)
}

fn error(found: &Tensor, expected: &Tensor) -> Result<f32> {
    let norm = |tensor: Tensor| tensor.sqr()?.sum_all()?.sqrt()?.to_scalar::<f32>();
    let found = found.to_dtype(DType::F32)?;
    Ok(norm(found.sub(expected)?)? / norm(expected.clone())?)
}

#[test]
fn rounded_activations_are_those_of_bf16() -> Result<()> {
    let (n, k) = (300, 260);
    let pair = pair(n, k, Block::B128)?;
    let layer = pair.load(k, n)?.with_rounded_activations()?;
    for rows in [1, 7, 200] {
        let x = activations(&[rows, k])?;
        let rounded = x.to_dtype(DType::BF16)?.to_dtype(DType::F32)?;
        let found = layer.forward(&x)?;
        assert_eq!(found.dtype(), DType::F32);
        let (far, near) = (
            error(&found, &pair.reference.forward(&x)?)?,
            error(&found, &pair.reference.forward(&rounded)?)?,
        );
        assert!(
            near < 1e-6 && far > 1e-5,
            "{rows} rows: {near} of the rounded, {far} of the exact activations"
        );
    }
    Ok(())
}

#[test]
fn agrees_with_candle_for_every_rank_type_and_block() -> Result<()> {
    for (block, n, k) in [(Block::B128, 300, 260), (Block::B256, 256, 512), (Block::B512, 700, 513)] {
        let pair = pair(n, k, block)?;
        let layer = pair.load(k, n)?;
        assert_eq!((layer.shape(), layer.bias().is_some()), ([n, k], true));
        for batch in [&[][..], &[1], &[9], &[2, 3], &[2, 1, 2, 3]] {
            let x = activations(&[batch, &[k]].concat())?;
            let rows = x.reshape(((), k))?;
            let expected = pair.reference.forward(&rows)?.reshape([batch, &[n]].concat())?;
            for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 5e-3), (DType::F16, 1e-3)] {
                let out = layer.forward(&x.to_dtype(dtype)?)?;
                assert_eq!((out.dims(), out.dtype()), (expected.dims(), dtype));
                let error = error(&out, &expected)?;
                assert!(error < tolerance, "{block:?} {batch:?} {dtype:?}: {error}");
            }
        }
    }
    Ok(())
}

#[test]
fn takes_views_that_are_not_contiguous() -> Result<()> {
    let pair = pair(200, 256, Block::B128)?;
    let layer = pair.load(256, 200)?;
    let x = activations(&[256, 5])?;
    let transposed = x.t()?;
    assert!(!transposed.is_contiguous());
    assert!(error(&layer.forward(&transposed)?, &pair.reference.forward(&transposed.contiguous()?)?)? < 1e-5);
    let x = activations(&[6, 300])?;
    for view in [x.narrow(1, 13, 256)?, x.i((2.., ..256))?] {
        assert!(error(&layer.forward(&view)?, &pair.reference.forward(&view.contiguous()?)?)? < 1e-5);
    }
    let offset = activations(&[6, 256])?.i(3..5)?;
    assert!(error(&layer.forward(&offset)?, &pair.reference.forward(&offset)?)? < 1e-5);
    assert_eq!(layer.forward(&activations(&[0, 256])?)?.dims(), [0, 200]);
    Ok(())
}

#[test]
fn quantizes_weights_and_activations() -> Result<()> {
    let weight = activations(&[384, 256])?;
    let x = activations(&[4, 256])?.affine(3.0, 0.2)?;
    let expected = candle_nn::Linear::new(weight.clone(), None).forward(&x)?;
    let layer = Fp8Linear::quantize(&weight)?;
    let plain = error(&layer.forward(&x)?, &expected)?;
    assert!((1e-3..0.04).contains(&plain), "{plain}");
    let quantized = layer.with_activation_scales(Scales::PerToken)?;
    let quantized = error(&quantized.forward(&x)?, &expected)?;
    assert!((1e-3..0.06).contains(&quantized) && quantized != plain, "{quantized}");
    Ok(())
}

#[test]
fn gradients_are_refused() -> Result<()> {
    let layer = Fp8Linear::quantize(&activations(&[128, 128])?)?;
    let x = candle_core::Var::from_tensor(&activations(&[1, 128])?)?;
    let error = layer.forward(&x)?.sum_all()?.backward().unwrap_err().to_string();
    assert!(error.contains("fp8-linear"), "{error}");
    Ok(())
}

/// The message without the backtrace that candle appends with `RUST_BACKTRACE`.
fn first_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn bad_layers_and_activations_are_explained() -> Result<()> {
    let pair = pair(200, 256, Block::B128)?;
    let message = |result: Result<Fp8Linear>| first_line(&result.unwrap_err());
    let mut without_scales = self::pair(200, 256, Block::B128)?;
    without_scales.tensors.remove("up.weight_scale_inv");
    assert!(message(without_scales.load(256, 200)).starts_with("up has no weight_scale_inv: quantize the"));
    assert!(message(pair.load(200, 256)).contains("shape mismatch"));

    let (codes, scales) = (&pair.tensors["up.weight"], &pair.tensors["up.weight_scale_inv"]);
    let transposed = scales.i((.., ..1))?;
    let expected = "scales of [2, 1] for a weight of [200, 256]: expected one per block of 128, 256 or 512";
    assert_eq!(message(Fp8Linear::new(codes, &transposed, None)), expected);
    let wide = codes.to_dtype(DType::F32)?;
    assert_eq!(
        message(Fp8Linear::new(&wide, scales, None)),
        "the weight is f32 [200, 256], expected F8_E4M3 [N, K]"
    );
    let short = Tensor::zeros(199, DType::F32, &Device::Cpu)?;
    assert_eq!(
        message(Fp8Linear::new(codes, scales, Some(short))),
        "the bias has shape [199], expected [200]"
    );
    let infinite = scales.affine(f64::INFINITY, 0.0)?;
    assert!(message(Fp8Linear::new(codes, &infinite, None)).contains("finite"));

    let layer = pair.load(256, 200)?;
    let message = |x: Tensor| first_line(&layer.forward(&x).unwrap_err());
    assert_eq!(
        message(activations(&[3, 200])?),
        "x has shape [3, 200], but this layer of [200, 256] takes 256 features"
    );
    assert_eq!(
        message(activations(&[3, 256])?.to_dtype(DType::F64)?),
        "x has type f64: convert it to f32, bf16 or f16"
    );
    Ok(())
}

/// Layers work from several threads at once, and from inside of a rayon pool.
#[test]
fn threads_share_a_layer() -> Result<()> {
    use rayon::prelude::*;

    let pair = pair(256, 384, Block::B128)?;
    let layer = pair.load(384, 256)?;
    let x = activations(&[5, 384])?;
    let expected = layer.forward(&x)?.to_vec2::<f32>()?;
    (0..64).into_par_iter().for_each(|_| {
        assert_eq!(layer.forward(&x).unwrap().to_vec2::<f32>().unwrap(), expected);
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(layer.forward(&x).unwrap().to_vec2::<f32>().unwrap(), expected));
        }
    });
    Ok(())
}

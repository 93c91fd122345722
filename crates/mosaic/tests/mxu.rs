//! Explicit control of the MXUs: results, state, and what is reported when a kernel takes from an MXU what it
//! does not hold.

mod support;

use octile_mosaic::{
    Float,
    interpret::{Element, Options, Tensor, simulate},
    parse,
};
use support::{floats, rates, text};

/// Small integers that differ along rows and columns.
fn number(i: usize) -> f32 {
    (i * 7919 % 9) as f32 - 4.0
}

fn narrow(shape: &[usize], float: Float, value: impl Fn(usize) -> f32) -> Tensor {
    let wide = floats(shape, value).to_f32();
    let bytes: Vec<u8> = match float {
        Float::Bf16 => wide.iter().flat_map(|&v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect(),
        _ => wide.iter().map(|&v| octile_core::fp8::E4m3::from_f32(v).to_bits()).collect(),
    };
    Tensor { element: Element::Float(float), shape: shape.to_vec(), bytes: bytes.into() }
}

/// `x * w^T` of `m` x `k` and `n` x `k` elements.
fn product([m, n, k]: [usize; 3], x: &[f32], w: &[f32]) -> Vec<f32> {
    let sum = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * w[j * k + l]).sum();
    (0..m * n).map(|place| sum(place / n, place % n)).collect()
}

/// Lowered by JAX 0.10.2 from `block_scaled.py`: both MXUs, weights dequantized while the MXUs multiply, state
/// across a loop, branches and waits.
#[test]
fn a_kernel_that_jax_lowered_gives_the_exact_product() {
    let module = parse(&text("mxu", "block_scaled")).unwrap();
    let (m, n, k) = (256, 512, 512);
    let scales = [0.5, 2.0, 1.0, 0.25];
    let x = narrow(&[m, k], Float::Bf16, number);
    let w = narrow(&[n, k], Float::F8E4M3FN, |i| number(i + i / k));
    let operands = [floats(&[2, 2], |i| scales[i]), x.clone(), w.clone()];
    let outcome = simulate(&module, &operands, &Options::new(rates())).unwrap();
    assert_eq!((outcome.findings, outcome.completed), (Vec::new(), true));
    let scaled = w.to_f32().into_iter().enumerate();
    let scaled: Vec<f32> = scaled.map(|(i, w)| w * scales[i / k / 256 * 2 + i % k / 256]).collect();
    assert_eq!(outcome.outputs[0].to_f32(), product([m, n, k], &x.to_f32(), &scaled));
}

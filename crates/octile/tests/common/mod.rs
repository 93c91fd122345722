//! Operands, and a multiplication with any of them.

#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod gpu;

use octile::{Block, DType, Device, Error, Float, Matmul, Scales, Weight, bf16, f16};
use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity,
    sample::{Activations, Operands},
};

/// Random operands for a multiplication of `[m, n, k]`.
pub(crate) fn operands(shape: [usize; 3], dtype: DType, scales: Scales, out: DType) -> Operands {
    operands_in(Block::B128, shape, dtype, scales, out)
}

/// The same with another quantization block.
pub(crate) fn operands_in(
    block: Block,
    [m, n, k]: [usize; 3],
    dtype: DType,
    scales: Scales,
    out: DType,
) -> Operands {
    let granularity = match scales {
        Scales::PerBlock => ScaleGranularity::Block,
        Scales::PerToken | Scales::None => ScaleGranularity::Token,
    };
    let x = match (float(dtype), scales) {
        (Some(kind), Scales::None) => ActivationKind::Plain(kind),
        (Some(kind), _) => ActivationKind::Quantized(kind, granularity),
        (None, _) => ActivationKind::Fp8(granularity),
    };
    let problem = Problem::new(m, n, k, block).unwrap().with_x(x);
    Operands::random(problem.with_out(float(out).unwrap()), 7)
}

fn float(dtype: DType) -> Option<FloatKind> {
    match dtype {
        DType::F32 => Some(FloatKind::F32),
        DType::BF16 => Some(FloatKind::Bf16),
        DType::F16 => Some(FloatKind::F16),
        DType::F8E4M3 => None,
    }
}

/// The weight of some operands.
pub(crate) fn weight(operands: &Operands) -> Weight {
    let Problem { n, k, .. } = operands.problem;
    let weight = &operands.weight;
    Weight::from_parts(weight.codes(), weight.scales(), [n, k], weight.quant_block()).unwrap()
}

/// Multiplies, whatever type the activations have.
pub(crate) fn run<O: Float>(matmul: &Matmul, x: &Activations, out: &mut [O]) -> Result<(), Error> {
    match x {
        Activations::F32(x) => matmul.run(x, out),
        Activations::Bf16(x) => matmul.run(x, out),
        Activations::F16(x) => matmul.run(x, out),
        Activations::Fp8(x) => matmul.run_fp8(x.codes(), x.scales(), out),
    }
}

/// Results that can be NaN-poisoned and compared bit by bit.
pub(crate) trait Bits: Float {
    const NAN: Self;
    fn bits(self) -> u32;
}

impl Bits for f32 {
    const NAN: Self = f32::NAN;
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Bits for bf16 {
    const NAN: Self = bf16::NAN;
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

impl Bits for f16 {
    const NAN: Self = f16::NAN;
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

#[track_caller]
pub(crate) fn require_same_bits<T: Bits>(got: &[T], expected: &[T], what: &str) {
    assert!(got.iter().map(|v| v.bits()).eq(expected.iter().map(|v| v.bits())), "{what}");
}

/// A small multiplication of f32 with f32 results.
pub(crate) fn small(device: &Device) -> Matmul {
    let weight = Weight::quantize(&vec![0.5f32; 40 * 200], [40, 200], Block::B128).unwrap();
    Matmul::builder(device, weight)
        .activations(DType::F32, Scales::PerToken)
        .output(DType::F32)
        .build()
        .unwrap()
}

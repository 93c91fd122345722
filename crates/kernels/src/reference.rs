//! The operation as plain StableHLO: dequantize, then one f32 dot. Slow and simple on purpose; it runs on
//! every PJRT plugin.

use octile_core::{ActivationKind, Problem};
use octile_mosaic::{Attributes, Float, FunctionBuilder, Module, Type, Value, Visibility};

use crate::stablehlo::{Hlo, float};

/// Arguments of every module for a problem: `x, w_q, w_scale[, x_scale]`.
pub(crate) struct Arguments {
    pub(crate) x: Value,
    pub(crate) w_q: Value,
    pub(crate) w_scale: Value,
    /// For fp8 activations.
    pub(crate) x_scale: Option<Value>,
}

impl Arguments {
    pub(crate) fn declare(b: &mut FunctionBuilder, problem: &Problem) -> Self {
        let x_element = match problem.x {
            ActivationKind::Fp8(_) => Float::F8E4M3FN,
            ActivationKind::Quantized(kind, _) | ActivationKind::Plain(kind) => float(kind),
        };
        let pair = |(rows, cols): (usize, usize)| [rows, cols];
        let x = b.argument("x", Type::tensor([problem.m, problem.k], x_element));
        let w_q = b.argument("w_q", Type::tensor([problem.n, problem.k], Float::F8E4M3FN));
        let w_scale = b.argument("w_scale", Type::tensor(pair(problem.w_scale_shape()), Float::F32));
        let brings_scales = matches!(problem.x, ActivationKind::Fp8(_));
        let x_scale = problem.x_scale_shape().filter(|_| brings_scales);
        let x_scale = x_scale.map(|shape| b.argument("x_scale", Type::tensor(pair(shape), Float::F32)));
        Self { x, w_q, w_scale, x_scale }
    }
}

/// Emits `@main(x, w_q, w_scale[, x_scale]) -> out` without a kernel.
pub fn stablehlo(problem: &Problem) -> Module {
    let mut b = FunctionBuilder::new("main", Visibility::Public);
    let arguments = Arguments::declare(&mut b, problem);
    let mut hlo = Hlo(&mut b);
    let qb = problem.quant_block.size();
    let x_rows = problem.x.granularity().map_or(qb, |granularity| granularity.rows(problem.quant_block));
    let x_blocks = Blocks { rows: x_rows, cols: qb };
    let x = match (problem.x, arguments.x_scale) {
        (ActivationKind::Quantized(..), _) => x_blocks.quantize_and_back(&mut hlo, arguments.x),
        (_, Some(scale)) => x_blocks.dequantize(&mut hlo, arguments.x, scale),
        (_, None) => hlo.convert(arguments.x, Float::F32),
    };
    let w = Blocks { rows: qb, cols: qb }.dequantize(&mut hlo, arguments.w_q, arguments.w_scale);
    let out = hlo.dot(x, w);
    let out = hlo.convert(out, float(problem.out));
    let main = b.finish(&[out], Attributes::new());
    Module { name: Some("octile_reference".into()), attributes: Attributes::new(), functions: vec![main] }
}

/// The shape of blocks that share a scale.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl Blocks {
    /// Broadcasts the scales to a matrix of `shape`.
    fn spread(self, hlo: &mut Hlo<'_>, scale: Value, shape: [usize; 2]) -> Value {
        let blocks = [shape[0].div_ceil(self.rows), shape[1].div_ceil(self.cols)];
        let grouped = [blocks[0], self.rows, blocks[1], self.cols];
        let spread = hlo.broadcast(scale, &[0, 2], &grouped);
        let spread = hlo.reshape(spread, &[blocks[0] * self.rows, blocks[1] * self.cols]);
        hlo.take(spread, &shape)
    }

    fn dequantize(self, hlo: &mut Hlo<'_>, codes: Value, scale: Value) -> Value {
        let shape = [hlo.0.ty(codes).shape()[0], hlo.0.ty(codes).shape()[1]];
        let wide = hlo.convert(codes, Float::F32);
        let scale = self.spread(hlo, scale, shape);
        hlo.multiply(wide, scale)
    }

    /// The largest magnitude of every block; edge blocks are padded with 0.
    pub(crate) fn abs_max(self, hlo: &mut Hlo<'_>, values: Value) -> Value {
        let shape = hlo.0.ty(values).shape().to_vec();
        let blocks = [shape[0].div_ceil(self.rows), shape[1].div_ceil(self.cols)];
        let magnitudes = hlo.abs(values);
        let padded = hlo.pad(magnitudes, &[blocks[0] * self.rows, blocks[1] * self.cols]);
        let grouped = hlo.reshape(padded, &[blocks[0], self.rows, blocks[1], self.cols]);
        let largest = hlo.largest(grouped, &[1, 3]);
        hlo.convert(largest, Float::F32)
    }

    fn quantize_and_back(self, hlo: &mut Hlo<'_>, values: Value) -> Value {
        let shape = [hlo.0.ty(values).shape()[0], hlo.0.ty(values).shape()[1]];
        let abs_max = self.abs_max(hlo, values);
        let blocks = hlo.0.ty(abs_max).shape().to_vec();
        let most = hlo.fill(448.0, Float::F32, &blocks);
        let least = hlo.fill(f32::MIN_POSITIVE, Float::F32, &blocks);
        let scale = hlo.divide(abs_max, most);
        let scale = hlo.maximum(scale, least);
        let ones = hlo.fill(1.0, Float::F32, &blocks);
        let inverse = hlo.divide(ones, scale);
        let inverse = self.spread(hlo, inverse, shape);
        let wide = hlo.convert(values, Float::F32);
        let codes = hlo.multiply(wide, inverse);
        let codes = hlo.convert(codes, Float::F8E4M3FN);
        self.dequantize(hlo, codes, scale)
    }
}

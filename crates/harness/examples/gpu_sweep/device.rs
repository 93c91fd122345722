//! Operands on the host and on the GPU, with their reference.

use std::sync::Arc;

use anyhow::{Context, Result};
use half::bf16;
use octile_core::{
    FloatKind, Mat, Problem, QuantizedActivation, QuantizedWeight,
    bound::Accumulator,
    oracle::{self, OracleInput, Reference},
    plan::hopper::{Arguments, STAGE_K},
    sample::{Activations, Operands},
};
use octile_runtime::cuda::{Buffer, Gpu, MultiplyOperands};

/// Operands made of copies of a small quantized matrix, which is fast at any size.
pub(crate) fn pieces(problem: Problem) -> Operands {
    let Problem { m, n, k, quant_block, .. } = problem;
    let small = Problem::new(1024, 1024, 1024, quant_block).expect("valid").with_x(problem.x);
    let small = Operands::random(small, 7);
    let codes = |pool: &[u8], rows: usize| -> Vec<u8> {
        let piece = |row: usize| {
            let start = (row * 7919) % (pool.len() / 2);
            pool[start..].iter().cycle().take(k).copied().collect::<Vec<u8>>()
        };
        (0..rows).flat_map(piece).collect()
    };
    let scales =
        |pool: &[f32], count: usize| -> Vec<f32> { pool.iter().cycle().take(count).copied().collect() };
    let Activations::Fp8(x) = &small.x else { unreachable!("the sweep uses quantized activations") };
    let (w_rows, w_cols) = problem.w_scale_shape();
    let (x_rows, x_cols) = problem.x_scale_shape().expect("quantized");
    let (w_codes, x_codes) = (codes(small.weight.codes(), n), codes(x.codes(), m));
    let weight = QuantizedWeight::from_parts(
        Mat::new(&w_codes, n, k).expect("fits"),
        &scales(small.weight.scales(), w_rows * w_cols),
        quant_block,
    );
    let x = QuantizedActivation::from_parts(
        Mat::new(&x_codes, m, k).expect("fits"),
        &scales(x.scales(), x_rows * x_cols),
        quant_block,
        x.granularity(),
    );
    Operands { problem, weight: weight.expect("finite"), x: Activations::Fp8(x.expect("finite")) }
}

/// Operands that another contender wrote: codes of x, codes of the weight, f32 scales of both, all row-major.
pub(crate) fn from_file(problem: Problem, path: &str) -> Result<Operands> {
    let Problem { m, n, k, quant_block, .. } = problem;
    let bytes = std::fs::read(path)?;
    let (x, rest) = bytes.split_at_checked(m * k).context("the file ends within x")?;
    let (w, rest) = rest.split_at_checked(n * k).context("the file ends within the weight")?;
    let scales: Vec<f32> =
        rest.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let (x_rows, x_cols) = problem.x_scale_shape().context("x is quantized")?;
    let (x_scales, w_scales) =
        scales.split_at_checked(x_rows * x_cols).context("the file ends within the scales")?;
    let granularity = problem.x.granularity().context("x is quantized")?;
    let weight = QuantizedWeight::from_parts(Mat::new(w, n, k)?, w_scales, quant_block)?;
    let x = QuantizedActivation::from_parts(Mat::new(x, m, k)?, x_scales, quant_block, granularity)?;
    Ok(Operands { problem, weight, x: Activations::Fp8(x) })
}

pub(crate) struct Device {
    pub x: Buffer,
    pub x_scales: Buffer,
    pub w: Buffer,
    pub w_scales: Buffer,
    /// The result with its guard bands, and the result alone.
    pub guarded: Arc<Buffer>,
    pub out: Buffer,
    pub arguments: Arguments,
}

impl Device {
    /// Operands in the layout that the peers get.
    pub(crate) fn new(gpu: &Gpu, operands: &Operands) -> Result<Self> {
        Self::with(gpu, operands, Arguments::fastest(&operands.problem))
    }

    pub(crate) fn with(gpu: &Gpu, operands: &Operands, arguments: Arguments) -> Result<Self> {
        let problem = operands.problem;
        // Written only here, before the stream is synchronized.
        let arguments = arguments.with_constant_weight();
        let (_, k_blocks) = problem.x_scale_shape().expect("quantized");
        let Activations::Fp8(x) = &operands.x else { unreachable!("the sweep uses quantized activations") };
        let out_bytes = problem.m * problem.n * problem.out.bytes();
        let guarded = Arc::new(Buffer::zeros(gpu, GUARD + out_bytes + GUARD)?);
        Ok(Self {
            x: Buffer::from_rows(gpu, x.codes(), problem.k, arguments.x_stride)?,
            x_scales: Buffer::from_slice(gpu, &arguments.x_scales.arrange(x.scales(), k_blocks))?,
            w: Buffer::from_rows(gpu, operands.weight.codes(), problem.k, arguments.w_stride)?,
            w_scales: Buffer::from_slice(gpu, operands.weight.scales())?,
            out: Buffer::part(&guarded, GUARD, out_bytes),
            guarded,
            arguments,
        })
    }

    pub(crate) fn operands(&self) -> MultiplyOperands<'_> {
        let Self { x, x_scales, w, w_scales, out, arguments, .. } = self;
        MultiplyOperands { x, x_scales, w, w_scales, out, arguments: *arguments }
    }
}

/// Bytes of a guard band.
const GUARD: usize = 4096;

/// Some rows of the result, and whether the guard bands are intact.
pub(crate) fn result(device: &Device, problem: &Problem, rows: &[usize]) -> Result<(Vec<f64>, bool)> {
    let row_bytes = problem.n * problem.out.bytes();
    let mut result = vec![0u8; rows.len() * row_bytes];
    for (bytes, row) in result.chunks_mut(row_bytes).zip(rows) {
        device.out.read_at(row * row_bytes, bytes)?;
    }
    let mut bands = [[0u8; GUARD]; 2];
    for (band, start) in bands.iter_mut().zip([0, GUARD + problem.m * row_bytes]) {
        device.guarded.read_at(start, band)?;
    }
    let values = match problem.out {
        FloatKind::F32 => {
            result.chunks(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
        }
        FloatKind::Bf16 => result.chunks(2).map(|b| f64::from(bf16::from_le_bytes([b[0], b[1]]))).collect(),
        FloatKind::F16 => {
            result.chunks(2).map(|b| f64::from(half::f16::from_le_bytes([b[0], b[1]]))).collect()
        }
    };
    Ok((values, bands.as_flattened().iter().all(|&byte| byte == 0xff)))
}

/// Reference for some rows.
pub(crate) fn reference(operands: &Operands, rows: &[usize]) -> Reference {
    reference_promoting(operands, rows, STAGE_K)
}

/// As [`reference`], with the error bound of this promotion interval.
pub(crate) fn reference_promoting(operands: &Operands, rows: &[usize], promote_every: usize) -> Reference {
    let accumulator = Accumulator::HopperTensorCore { promote_every };
    let Activations::Fp8(x) = &operands.x else { unreachable!("the sweep uses quantized activations") };
    let input = OracleInput::Fp8(x.select_rows(rows));
    oracle::multiply(&input, rows.len(), &operands.weight, accumulator, operands.problem.out)
}

/// Largest error relative to the bound, over the rows of the reference.
pub(crate) fn worst(reference: &Reference, values: &[f64]) -> f64 {
    let mut worst = 0.0f64;
    for ((value, bound), result) in reference.values.iter().zip(&reference.bounds).zip(values) {
        let error = (result - value).abs() / bound;
        worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
    }
    worst
}

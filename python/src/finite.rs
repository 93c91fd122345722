//! Activations that are not finite, which the library refuses to quantize on CPUs.

use octile::{DType, Error, MatmulOp, ScaleLayout, WeightRef, bf16, f16};

use crate::dtype;

/// Multiplies as [`MatmulOp::run_bytes`] does, but gives NaN for rows of x with NaN or infinity among their
/// values or scales, as GPUs do and as programs for PyTorch and JAX expect.
pub(crate) fn run_bytes(
    op: &MatmulOp,
    [x_type, out_type]: [DType; 2],
    weight: WeightRef<'_>,
    (x, x_scales, layout): (&[u8], &[f32], Option<ScaleLayout>),
    out: &mut [u8],
) -> Result<(), Error> {
    let refusal = match op.run_bytes(weight, x, x_scales, layout, out) {
        Err(error @ Error::Values(_)) => error,
        done => return done,
    };
    let [n, k] = op.shape();
    let x_row = k * dtype::size(x_type);
    let mut scales = scales_of_rows(op, x_type, x.len() / x_row, x_scales, layout);
    let k_blocks = op.block().count(k);
    let others: Vec<usize> = x
        .chunks_exact(x_row)
        .enumerate()
        .filter(|(row, values)| {
            let own = scales.get(row * k_blocks..(row + 1) * k_blocks).unwrap_or_default();
            !is_finite(values, x_type) || own.iter().any(|scale| !scale.is_finite())
        })
        .map(|(row, _)| row)
        .collect();
    if others.is_empty() {
        return Err(refusal);
    }
    // Words are aligned for every type.
    let mut words = vec![0u32; x.len().div_ceil(4)];
    let finite = &mut bytemuck::cast_slice_mut(&mut words)[..x.len()];
    finite.copy_from_slice(x);
    for row in &others {
        finite[row * x_row..][..x_row].fill(0);
        if let Some(own) = scales.get_mut(row * k_blocks..(row + 1) * k_blocks) {
            own.fill(0.0);
        }
    }
    let (x_scales, layout) = if scales.is_empty() { (x_scales, layout) } else { (&*scales, None) };
    op.run_bytes(weight, finite, x_scales, layout, out)?;
    let out_row = n * dtype::size(out_type);
    for row in others {
        fill_with_nan(&mut out[row * out_row..][..out_row], out_type);
    }
    Ok(())
}

/// A row-major copy of the scales of codes; empty where rows have none of their own.
fn scales_of_rows(
    op: &MatmulOp,
    x_type: DType,
    rows: usize,
    x_scales: &[f32],
    layout: Option<ScaleLayout>,
) -> Vec<f32> {
    let shape = (rows, op.block().count(op.shape()[1]));
    let layout = layout.unwrap_or(ScaleLayout::k_major(shape));
    // There are fewer where blocks of rows share them.
    if x_type == DType::F8E4M3 && layout.span(shape) <= x_scales.len() {
        layout.to_k_major(x_scales, shape)
    } else {
        Vec::new()
    }
}

fn is_finite(values: &[u8], dtype: DType) -> bool {
    let mut halves = values.as_chunks().0.iter();
    match dtype {
        DType::F32 => values.as_chunks().0.iter().all(|&bytes| f32::from_ne_bytes(bytes).is_finite()),
        DType::BF16 => halves.all(|&bytes| bf16::from_ne_bytes(bytes).is_finite()),
        DType::F16 => halves.all(|&bytes| f16::from_ne_bytes(bytes).is_finite()),
        // All bits but the sign: the only NaN; there is no infinity.
        DType::F8E4M3 => values.iter().all(|code| code & 0x7f != 0x7f),
    }
}

fn fill_with_nan(values: &mut [u8], dtype: DType) {
    match dtype {
        DType::F32 => values.as_chunks_mut().0.fill(f32::NAN.to_ne_bytes()),
        DType::BF16 => values.as_chunks_mut().0.fill(bf16::NAN.to_ne_bytes()),
        DType::F16 => values.as_chunks_mut().0.fill(f16::NAN.to_ne_bytes()),
        DType::F8E4M3 => {}
    }
}

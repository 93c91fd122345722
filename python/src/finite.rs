//! Activations that are not finite, which the library refuses to quantize on CPUs.

use octile::{DType, Error, MatmulOp, ScaleLayout, WeightRef, bf16, f16};

use crate::dtype;

/// Multiplies as [`MatmulOp::run_bytes`] does, but gives NaN for rows of x with NaN or infinity, as GPUs do
/// and as programs for PyTorch and JAX expect.
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
    let others: Vec<usize> = x
        .chunks_exact(x_row)
        .enumerate()
        .filter_map(|(row, values)| (!is_finite(values, x_type)).then_some(row))
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
    }
    op.run_bytes(weight, finite, x_scales, layout, out)?;
    let out_row = n * dtype::size(out_type);
    for row in others {
        fill_with_nan(&mut out[row * out_row..][..out_row], out_type);
    }
    Ok(())
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

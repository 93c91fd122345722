//! The multiplication as a StableHLO module for TPUs.

use octile::{Block, DType, Scales};
use octile_cli::tpu_tuned;
use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, TpuPlan},
};
use octile_kernels::tpu;
use pyo3::prelude::*;

use super::matmul::{read_dtype, read_scales};
use crate::error;

/// The StableHLO module `@main(x, codes, scales[, x_scales]) -> out` for one multiplication on a TPU, with
/// its kernel in the serialized Mosaic dialect. The tile is from a tuned table where one has an entry for
/// this version of libtpu.
#[pyfunction]
#[pyo3(signature = (chip, shape, block, *, x, x_scaling, out, libtpu=None))]
pub(crate) fn tpu_module(
    chip: &str,
    shape: (usize, usize, usize),
    block: usize,
    x: &str,
    x_scaling: &str,
    out: &str,
    libtpu: Option<&str>,
) -> PyResult<String> {
    let emit = || -> Result<String, String> {
        let chip = TpuChip::named(chip).map_err(|error| error.to_string())?;
        let block = Block::try_from(block).map_err(|error| error.to_string())?;
        let (m, n, k) = shape;
        let problem = Problem::new(m, n, k, block).map_err(|error| error.to_string())?;
        let x = activations(read_dtype(x)?, read_scales(x_scaling)?)?;
        let out =
            float(read_dtype(out)?).ok_or("a result cannot be fp8: use float32, bfloat16 or float16")?;
        let problem = problem.with_x(x).with_out(out);
        let plan = TpuPlan::new(&problem, chip, Strategy::Strip, BlockMode::Auto);
        let default = plan.map_err(|error| error.to_string())?;
        let plan = libtpu.and_then(|version| tpu_tuned::plan(&default, version)).unwrap_or(default);
        Ok(tpu::emit_portable(&plan).to_string())
    };
    emit().map_err(error::value)
}

fn activations(dtype: DType, scales: Scales) -> Result<ActivationKind, String> {
    let granularity = match scales {
        Scales::PerToken => Some(ScaleGranularity::Token),
        Scales::PerBlock => Some(ScaleGranularity::Block),
        Scales::None => None,
    };
    match (float(dtype), granularity) {
        (Some(kind), Some(granularity)) => Ok(ActivationKind::Quantized(kind, granularity)),
        (Some(kind), None) => Ok(ActivationKind::Plain(kind)),
        (None, Some(granularity)) => Ok(ActivationKind::Fp8(granularity)),
        (None, None) => Err("fp8 activations need scales: x_scaling is token or block".to_owned()),
    }
}

fn float(dtype: DType) -> Option<FloatKind> {
    match dtype {
        DType::F32 => Some(FloatKind::F32),
        DType::BF16 => Some(FloatKind::Bf16),
        DType::F16 => Some(FloatKind::F16),
        DType::F8E4M3 => None,
    }
}

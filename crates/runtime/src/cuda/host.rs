//! Operands in host memory.

use half::{bf16, f16};
use octile_core::{
    ActivationKind, FloatKind, Problem, QuantizedActivation, QuantizedWeight,
    plan::hopper::{Arguments, HopperPlan},
    quantize::check_scale_products,
    sample::Activations,
};

use super::{Buffer, CudaError, DeviceActivations, Gpu, MatmulOperands, PlannedMatmul, buffer::Float};

/// Activations in host memory, row after row.
#[derive(Debug, Clone, Copy)]
pub enum HostActivations<'a> {
    /// Already quantized.
    Fp8(&'a QuantizedActivation),
    /// 32-bit floats.
    F32(&'a [f32]),
    /// bfloat16.
    Bf16(&'a [bf16]),
    /// IEEE half precision.
    F16(&'a [f16]),
}

impl<'a> From<&'a Activations> for HostActivations<'a> {
    fn from(x: &'a Activations) -> Self {
        match x {
            Activations::Fp8(x) => Self::Fp8(x),
            Activations::F32(x) => Self::F32(x),
            Activations::Bf16(x) => Self::Bf16(x),
            Activations::F16(x) => Self::F16(x),
        }
    }
}

impl HostActivations<'_> {
    /// Number of elements.
    fn len(&self) -> usize {
        match self {
            Self::Fp8(x) => x.codes().len(),
            Self::F32(x) => x.len(),
            Self::Bf16(x) => x.len(),
            Self::F16(x) => x.len(),
        }
    }

    /// Checks that shape and kind are the problem's.
    fn require(&self, problem: &Problem) -> Result<(), CudaError> {
        let fits = match (self, problem.x) {
            (Self::Fp8(x), ActivationKind::Fp8(granularity)) => {
                x.granularity() == granularity
                    && x.quant_block() == problem.quant_block
                    && x.cols() == problem.k
            }
            (Self::F32(_), ActivationKind::Quantized(kind, _)) => kind == FloatKind::F32,
            (Self::Bf16(_), ActivationKind::Quantized(kind, _)) => kind == FloatKind::Bf16,
            (Self::F16(_), ActivationKind::Quantized(kind, _)) => kind == FloatKind::F16,
            _ => false,
        };
        let planned = problem.m.checked_mul(problem.k).ok_or(CudaError::TooLarge)?;
        if fits && self.len() == planned {
            return Ok(());
        }
        let kind = match self {
            Self::Fp8(x) => format!("fp8 ({} scales)", x.granularity()),
            Self::F32(_) => "f32".to_owned(),
            Self::Bf16(_) => "bf16".to_owned(),
            Self::F16(_) => "f16".to_owned(),
        };
        Err(CudaError::PlanMismatch {
            planned: format!("{planned} activations, {}", problem.x),
            given: format!("{} activations, {kind}", self.len()),
        })
    }
}

impl HostActivations<'_> {
    /// Copies activations of the problem's shape and kind to the GPU, with their scales where they have any,
    /// in the layout of [`Arguments::fastest`]. Waits for the copy.
    pub(super) fn upload(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        w_scales: &[f32],
    ) -> Result<(Buffer, Option<Buffer>), CudaError> {
        self.require(problem)?;
        match self {
            HostActivations::Fp8(x) => {
                let arguments = Arguments::fastest(problem);
                let (_, scale_cols) = problem.x_scale_shape().unwrap_or((1, 1));
                check_scale_products(x.scales(), w_scales, scale_cols).map_err(CudaError::Scales)?;
                let scales = arguments.x_scales.arrange(x.scales(), scale_cols);
                let codes = Buffer::from_rows(gpu, x.codes(), problem.k, arguments.x_stride)?;
                Ok((codes, Some(Buffer::from_slice(gpu, &scales)?)))
            }
            HostActivations::F32(x) => Ok((Buffer::from_slice(gpu, x)?, None)),
            HostActivations::Bf16(x) => Ok((Buffer::from_slice(gpu, x)?, None)),
            HostActivations::F16(x) => Ok((Buffer::from_slice(gpu, x)?, None)),
        }
    }
}

/// Operands copied to the GPU, and a buffer for the result.
#[derive(Debug)]
pub struct DeviceOperands {
    x: Buffer,
    /// Scales of x, if x is fp8.
    x_scales: Option<Buffer>,
    w: Buffer,
    w_scales: Buffer,
    /// The result.
    pub out: Buffer,
    problem: Problem,
    arguments: Arguments,
}

impl DeviceOperands {
    /// Copies operands to the GPU. Waits for the copies.
    pub fn new(
        gpu: &Gpu,
        problem: &Problem,
        x: HostActivations<'_>,
        weight: &QuantizedWeight,
    ) -> Result<Self, CudaError> {
        let (rows, cols) = (weight.rows(), weight.cols());
        if (rows, cols, weight.quant_block()) != (problem.n, problem.k, problem.quant_block) {
            let named =
                |n: usize, k: usize, block: usize| format!("a weight of {n} x {k} in blocks of {block}");
            return Err(CudaError::PlanMismatch {
                planned: named(problem.n, problem.k, problem.quant_block.size()),
                given: named(rows, cols, weight.quant_block().size()),
            });
        }
        let out_elements = problem.m.checked_mul(problem.n).ok_or(CudaError::TooLarge)?;
        let out_bytes = out_elements.checked_mul(problem.out.bytes()).ok_or(CudaError::TooLarge)?;
        // Nothing writes the weight after `new`, which waits for its upload.
        let arguments = Arguments::fastest(problem).with_constant_weight();
        let (x, x_scales) = x.upload(gpu, problem, weight.scales())?;
        Ok(Self {
            x,
            x_scales,
            w: Buffer::from_rows(gpu, weight.codes(), problem.k, arguments.w_stride)?,
            w_scales: Buffer::from_slice(gpu, weight.scales())?,
            out: Buffer::zeros(gpu, out_bytes)?,
            problem: *problem,
            arguments,
        })
    }

    /// The operands of a [`PlannedMatmul`].
    pub fn operands(&self) -> MatmulOperands<'_> {
        let x = match &self.x_scales {
            Some(scales) => DeviceActivations::Codes { codes: &self.x, scales },
            None => DeviceActivations::Floats { values: &self.x, stride: self.problem.k },
        };
        let Self { w, w_scales, out, arguments, .. } = self;
        MatmulOperands { x, w, w_scales, out, arguments: *arguments }
    }
}

/// Multiplies operands in host memory: copies them to the GPU, quantizes the activations there if the plan
/// says so, multiplies, and copies the result back. Meant for tests; to keep the weight on the GPU use
/// [`GpuMatmul`](super::GpuMatmul).
///
/// ```no_run
/// use half::bf16;
/// use octile_core::{
///     ActivationKind, FloatKind, Mat, Problem, QuantBlock, QuantizedWeight, ScaleGranularity, Strategy,
///     plan::hopper::HopperPlan,
/// };
/// use octile_runtime::cuda::{Gpu, HostActivations, multiply_host};
///
/// let (m, n, k) = (3, 256, 512);
/// let weight = vec![0.5f32; n * k];
/// let weight = QuantizedWeight::quantize(Mat::new(&weight, n, k)?, QuantBlock::B128)?;
/// let x = vec![bf16::ONE; m * k];
///
/// let gpu = Gpu::open(0)?;
/// let problem = Problem::new(m, n, k, QuantBlock::B128)?
///     .with_x(ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token))
///     .with_out(FloatKind::F32);
/// let plan = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip)?;
///
/// let mut out = vec![0.0f32; m * n];
/// multiply_host(&gpu, &plan, HostActivations::Bf16(&x), &weight, &mut out)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn multiply_host<T: Float>(
    gpu: &Gpu,
    plan: &HopperPlan,
    x: HostActivations<'_>,
    weight: &QuantizedWeight,
    out: &mut [T],
) -> Result<(), CudaError> {
    let problem = &plan.problem;
    require_results::<T>(problem, out)?;
    let uploaded = DeviceOperands::new(gpu, problem, x, weight)?;
    PlannedMatmul::new(gpu, plan)?.prepare(uploaded.operands())?.launch()?;
    uploaded.out.read(out)
}

/// Checks that a slice has the length and type of the problem's result.
pub(super) fn require_results<T: Float>(problem: &Problem, out: &[T]) -> Result<(), CudaError> {
    let results = problem.m.checked_mul(problem.n).ok_or(CudaError::TooLarge)?;
    if (out.len(), T::KIND) == (results, problem.out) {
        return Ok(());
    }
    Err(CudaError::PlanMismatch {
        planned: format!("{results} results in {}", problem.out),
        given: format!("room for {} in {}", out.len(), T::KIND),
    })
}

#[cfg(test)]
mod tests {
    use octile_core::{Mat, QuantBlock, ScaleGranularity};

    use super::*;

    #[test]
    fn other_activations_than_planned_are_refused() {
        let problem = Problem::new(2, 1, 4, QuantBlock::B128).unwrap();
        let block = ActivationKind::Fp8(ScaleGranularity::Block);
        let quantized = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token);
        let values = [1.0f32; 8];
        let matrix = Mat::new(&values, 2, 4).unwrap();
        let codes = QuantizedActivation::quantize(matrix, QuantBlock::B128, ScaleGranularity::Token).unwrap();
        let refused = |x: HostActivations<'_>, kind: ActivationKind| {
            x.require(&problem.with_x(kind)).unwrap_err().to_string()
        };
        assert_eq!(
            refused(HostActivations::Fp8(&codes), block),
            "the plan is for 8 activations, fp8 (block scales), but got 8 activations, fp8 (token scales): \
             make a plan for that"
        );
        assert!(refused(HostActivations::F32(&values), quantized).contains("but got 8 activations, f32"));
        let short = [bf16::ONE; 7];
        assert!(refused(HostActivations::Bf16(&short), quantized).contains("but got 7 activations, bf16"));
        let plain = ActivationKind::Plain(FloatKind::Bf16);
        assert!(
            refused(HostActivations::Bf16(&[bf16::ONE; 8]), plain)
                .contains("the plan is for 8 activations, bf16")
        );
        HostActivations::Fp8(&codes)
            .require(&problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token)))
            .expect("these are the planned ones");
    }
}

//! A multiplication with whatever quantization its activations need, behind one call.

use octile_core::{
    ActivationKind,
    plan::hopper::{Arguments, HopperPlan, QuantizeTuning},
};

use cudarc::driver::CudaStream;

use super::{
    Buffer, CudaError, Gpu, Multiplication, MultiplyOperands, PreparedMultiply, PreparedQuantize,
    Quantization, QuantizeOperands,
    graph::{Recordable, sealed::Work},
    launch::Kernel,
};

/// The compiled kernels of one plan, and memory for the codes that they hand to each other. Calls on one stream may
/// follow each other at once; for calls on several streams make one of these each.
#[derive(Debug)]
pub struct Product {
    multiplication: Multiplication,
    quantizing: Option<Quantizing>,
}

/// What is needed where activations come as floats.
#[derive(Debug)]
struct Quantizing {
    quantization: Quantization,
    codes: Buffer,
    scales: Buffer,
    /// How codes and scales lie there.
    arguments: Arguments,
}

/// Activations in device memory.
#[derive(Debug, Clone, Copy)]
pub enum DeviceActivations<'a> {
    /// Codes with their scales, as the arguments say.
    Codes {
        /// The codes.
        codes: &'a Buffer,
        /// Their scales.
        scales: &'a Buffer,
    },
    /// Floats of the kind that the problem names.
    Floats {
        /// The floats.
        values: &'a Buffer,
        /// Elements from one row to the next.
        stride: usize,
    },
}

/// Operands and result in device memory.
#[derive(Debug, Clone, Copy)]
pub struct ProductOperands<'a> {
    /// The activations.
    pub x: DeviceActivations<'a>,
    /// Codes of the weight.
    pub w: &'a Buffer,
    /// Scales of the weight.
    pub w_scales: &'a Buffer,
    /// The result.
    pub out: &'a Buffer,
    /// How they lie in memory; what it says of x is about codes.
    pub arguments: Arguments,
}

impl Product {
    /// Compiles the kernels of a plan, and reserves memory for codes where x comes in floats. The plan must be made for this GPU,
    /// see [`Gpu::facts`].
    pub fn new(gpu: &Gpu, plan: &HopperPlan) -> Result<Self, CudaError> {
        Self::tuned(gpu, plan, QuantizeTuning::BEST)
    }

    /// The same with another way to quantize, for measurements.
    pub fn tuned(gpu: &Gpu, plan: &HopperPlan, tuning: QuantizeTuning) -> Result<Self, CudaError> {
        let problem = &plan.problem;
        let multiplication = Multiplication::new(gpu, plan)?;
        let quantizing = match problem.x {
            ActivationKind::Quantized(..) => {
                let arguments = Arguments::fastest(problem);
                let scales = arguments.x_scales.extent(problem.x_scale_shape().unwrap_or((1, 1)));
                Some(Quantizing {
                    quantization: Quantization::tuned(gpu, problem, tuning)?,
                    codes: Buffer::zeros(gpu, problem.m * arguments.x_stride)?,
                    scales: Buffer::zeros(gpu, size_of::<f32>() * scales)?,
                    arguments,
                })
            }
            ActivationKind::Fp8(_) | ActivationKind::Plain(_) => None,
        };
        Ok(Self { multiplication, quantizing })
    }

    /// The plan.
    pub fn plan(&self) -> &HopperPlan {
        self.multiplication.plan()
    }

    /// Checks the operands and makes everything ready to launch again and again.
    pub fn prepare<'a>(&'a self, operands: ProductOperands<'a>) -> Result<PreparedProduct<'a>, CudaError> {
        let ProductOperands { x, w, w_scales, out, arguments } = operands;
        let (codes, scales, arguments, quantize) = match (x, &self.quantizing) {
            (DeviceActivations::Codes { codes, scales }, None) => (codes, scales, arguments, None),
            (DeviceActivations::Floats { values, stride }, Some(quantizing)) => {
                let Quantizing { quantization, codes, scales, arguments: own } = quantizing;
                let (codes_stride, layout) = (own.x_stride, own.x_scales);
                let quantize = quantization.prepare(QuantizeOperands {
                    x: values,
                    x_stride: stride,
                    codes,
                    codes_stride,
                    scales,
                    layout,
                })?;
                let arguments = Arguments { x_stride: codes_stride, x_scales: layout, ..arguments };
                (codes, scales, arguments, Some(quantize))
            }
            (x, _) => {
                let given = match x {
                    DeviceActivations::Codes { .. } => "x in codes",
                    DeviceActivations::Floats { .. } => "x in floats",
                };
                let planned = format!("x {}", self.plan().problem.x);
                return Err(CudaError::OtherThanPlanned { planned, given: given.to_owned() });
            }
        };
        let multiply = self.multiplication.prepare(MultiplyOperands {
            x: codes,
            x_scales: scales,
            w,
            w_scales,
            out,
            arguments,
        })?;
        Ok(PreparedProduct { quantize, multiply })
    }
}

/// A multiplication, with the quantization before it where there is one, that is ready to be put on the stream.
#[derive(Debug, Clone)]
pub struct PreparedProduct<'a> {
    quantize: Option<PreparedQuantize<'a>>,
    multiply: PreparedMultiply<'a>,
}

impl PreparedProduct<'_> {
    /// Puts all of it on the stream, and returns at once.
    pub fn launch(&self) -> Result<(), CudaError> {
        if let Some(quantize) = &self.quantize {
            quantize.launch()?;
        }
        self.multiply.launch()
    }
}

impl<'a> Recordable<'a> for PreparedProduct<'a> {}

impl Work for PreparedProduct<'_> {
    fn gpu(&self) -> &Gpu {
        self.multiply.gpu()
    }

    fn kernels(&self) -> Vec<Kernel> {
        let quantize = self.quantize.iter().flat_map(Work::kernels);
        quantize.chain(self.multiply.kernels()).collect()
    }

    unsafe fn put(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: the caller's promise is for both.
        unsafe {
            if let Some(quantize) = &self.quantize {
                quantize.put(stream)?;
            }
            self.multiply.put(stream)
        }
    }
}

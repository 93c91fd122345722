//! An NVIDIA Hopper GPU.

use std::time::Duration;

use anyhow::Result;
use octile_core::{
    ActivationKind, FloatKind, Problem, Strategy,
    bound::Accumulator,
    plan::hopper::{Arguments, HopperPlan, STAGE_K},
    sample::{Activations, Operands},
};
use octile_kernels::hopper::{self, Kernel};
use octile_runtime::cuda::{
    Buffer, Gpu, KernelText, Multiplication, MultiplyOperands, PeakKernel, Quantization, QuantizeOperands,
};

use super::{Backend, Contender, Output, Peak, Setup};

/// The GPU backend.
pub struct GpuBackend {
    gpu: Gpu,
    /// More than the cache holds: filling it leaves nothing of the operands there.
    flush: Buffer,
}

impl GpuBackend {
    /// Opens the first GPU.
    pub fn open() -> Result<Self> {
        let gpu = Gpu::open(0)?;
        let flush = Buffer::zeros(&gpu, 4 * gpu.facts().l2)?;
        Ok(Self { gpu, flush })
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

/// The kernel as the runtime takes it.
pub fn text(kernel: &Kernel) -> KernelText<'_> {
    KernelText { entry: &kernel.entry, ptx: &kernel.ptx }
}

impl Backend for GpuBackend {
    fn setup(&self) -> Setup {
        let (major, minor) = (self.gpu.driver() / 1000, self.gpu.driver() % 1000 / 10);
        Setup {
            backend: "gpu",
            cpu_model: self.gpu.name().to_owned(),
            isa: format!("sm_90a, driver CUDA {major}.{minor}"),
            threads: self.gpu.facts().sms,
        }
    }

    fn accumulator(&self) -> Accumulator {
        Accumulator::HopperTensorCore { promote_every: STAGE_K }
    }

    fn best(&self, _: &Problem) -> Strategy {
        Strategy::Strip
    }

    fn peak(&self) -> Result<Peak> {
        Ok(Peak { tflops: peak_tflops(&self.gpu)?, read_gbytes: copy_gbytes(&self.gpu)? })
    }

    fn prepare<'a>(&'a self, strategy: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        let plan = HopperPlan::best(&operands.problem, self.gpu.facts(), strategy)?;
        Ok(Box::new(GpuContender::new(self, &plan, operands)?))
    }
}

/// A plan on operands that lie in device memory.
pub struct GpuContender<'a> {
    backend: &'a GpuBackend,
    multiplication: Multiplication,
    quantization: Option<Quantization>,
    memory: Memory,
    output: Output,
    /// Whether the caller may have changed `output` since it was last copied to the GPU.
    handed_out: bool,
    /// Whether the GPU has a newer result than `output`.
    newer_on_gpu: bool,
}

/// Everything in device memory.
struct Memory {
    /// Unquantized activations, where there are any.
    floats: Option<Buffer>,
    x: Buffer,
    x_scales: Buffer,
    w: Buffer,
    w_scales: Buffer,
    out: Buffer,
    arguments: Arguments,
}

impl Memory {
    fn new(gpu: &Gpu, operands: &Operands) -> Result<Self> {
        let problem = operands.problem;
        let arguments = Arguments::fastest(&problem);
        let (scale_rows, scale_cols) = problem.x_scale_shape().unwrap_or((1, 1));
        let empty = || -> Result<_> {
            let codes = Buffer::zeros(gpu, problem.m * arguments.x_stride)?;
            Ok((codes, Buffer::zeros(gpu, 4 * scale_rows * scale_cols)?))
        };
        let (floats, (x, x_scales)) = match &operands.x {
            Activations::Fp8(x) => {
                let codes = Buffer::from_rows(gpu, x.codes(), problem.k, arguments.x_stride)?;
                let scales = arguments.x_scales.arrange(x.scales(), scale_cols);
                (None, (codes, Buffer::from_slice(gpu, &scales)?))
            }
            Activations::F32(x) => (Some(Buffer::from_slice(gpu, x)?), empty()?),
            Activations::Bf16(x) => (Some(Buffer::from_slice(gpu, x)?), empty()?),
            Activations::F16(x) => (Some(Buffer::from_slice(gpu, x)?), empty()?),
        };
        let weight = &operands.weight;
        Ok(Self {
            floats,
            x,
            x_scales,
            w: Buffer::from_rows(gpu, weight.codes(), problem.k, arguments.w_stride)?,
            w_scales: Buffer::from_slice(gpu, weight.scales())?,
            out: Buffer::zeros(gpu, problem.m * problem.n * problem.out.bytes())?,
            arguments,
        })
    }
}

impl<'a> GpuContender<'a> {
    /// Compiles the plan's kernel and copies the operands to the GPU.
    pub fn new(backend: &'a GpuBackend, plan: &HopperPlan, operands: &Operands) -> Result<Self> {
        let (gpu, problem) = (&backend.gpu, operands.problem);
        let kernel = hopper::multiply(plan);
        let quantization = match problem.x {
            ActivationKind::Quantized(kind, _) => Some(quantization(gpu, &problem, kind)?),
            ActivationKind::Fp8(_) | ActivationKind::Plain(_) => None,
        };
        Ok(Self {
            backend,
            multiplication: Multiplication::new(gpu, plan, text(&kernel))?,
            quantization,
            memory: Memory::new(gpu, operands)?,
            output: Output::poisoned(problem.out, problem.m * problem.n),
            handed_out: true,
            newer_on_gpu: false,
        })
    }

    /// Puts quantization, where there is any, and multiplication on the stream `times` times.
    pub fn launch(&self, times: usize) -> Result<()> {
        let memory = &self.memory;
        let Memory { x, x_scales, w, w_scales, out, arguments, .. } = memory;
        let multiply = self.multiplication.prepare(MultiplyOperands {
            x,
            x_scales,
            w,
            w_scales,
            out,
            arguments: *arguments,
        })?;
        let quantize = match (&self.quantization, &memory.floats) {
            (Some(quantization), Some(floats)) => Some(quantization.prepare(QuantizeOperands {
                x: floats,
                x_stride: self.columns(),
                codes: x,
                codes_stride: arguments.x_stride,
                scales: x_scales,
                layout: arguments.x_scales,
            })?),
            _ => None,
        };
        for _ in 0..times {
            if let Some(quantize) = &quantize {
                quantize.launch()?;
            }
            multiply.launch()?;
        }
        Ok(())
    }

    fn columns(&self) -> usize {
        self.multiplication.plan().problem.k
    }

    /// Copies what the caller wrote into the result to the GPU, so that poison is found where nothing is written.
    fn upload(&mut self) -> Result<()> {
        if self.handed_out {
            match &self.output {
                Output::F32(values) => self.memory.out.write(values)?,
                Output::Bf16(values) => self.memory.out.write(values)?,
                Output::F16(values) => self.memory.out.write(values)?,
            }
            self.handed_out = false;
        }
        Ok(())
    }
}

impl Contender for GpuContender<'_> {
    fn run(&mut self) -> Result<Duration> {
        self.upload()?;
        self.newer_on_gpu = true;
        self.backend.flush.fill(0)?;
        let mut launched = Ok(());
        let milliseconds = self.backend.gpu.time(|| {
            launched = self.launch(1);
            Ok(())
        })?;
        launched?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }

    fn output(&mut self) -> &mut Output {
        if self.newer_on_gpu {
            let copied = match &mut self.output {
                Output::F32(values) => self.memory.out.read(values),
                Output::Bf16(values) => self.memory.out.read(values),
                Output::F16(values) => self.memory.out.read(values),
            };
            // A result that cannot be read is no result: leave it poisoned.
            if copied.is_err() {
                self.output.poison();
            }
            self.newer_on_gpu = false;
        }
        self.handed_out = true;
        &mut self.output
    }
}

fn quantization(gpu: &Gpu, problem: &Problem, kind: FloatKind) -> Result<Quantization> {
    let granularity = problem.x.granularity().expect("quantized activations have scales");
    let quant_block = problem.quant_block.size();
    // Vector loads need rows that start at multiples of their size.
    let aligned = problem.k.is_multiple_of(8);
    let kernel = hopper::quantize(kind, granularity, quant_block, aligned);
    let groups = hopper::groups_per_block(quant_block);
    Ok(Quantization::new(gpu, problem, kind, text(&kernel), hopper::QUANTIZE_THREADS, groups)?)
}

/// Bytes read plus bytes written per nanosecond by a large copy.
fn copy_gbytes(gpu: &Gpu) -> Result<f64> {
    const BYTES: usize = 2 << 30;
    let (from, to) = (Buffer::zeros(gpu, BYTES)?, Buffer::zeros(gpu, BYTES)?);
    let copy = || gpu.time(|| to.copy_from(&from));
    copy()?;
    let times = (0..5).map(|_| copy()).collect::<Result<Vec<f32>, _>>()?;
    let best = times.into_iter().fold(f32::INFINITY, f32::min);
    Ok(2.0 * BYTES as f64 / f64::from(best) / 1e6)
}

/// Matrix products of operands that stay in shared memory, without scales.
fn peak_tflops(gpu: &Gpu) -> Result<f64> {
    type Peak = hopper::PeakKernel;
    let (kernel, blocks) = (hopper::peak().kernel, gpu.facts().sms);
    let peak = PeakKernel::new(gpu, text(&kernel), blocks as u32, Peak::THREADS, Peak::SHARED_BYTES)?;
    let run = || gpu.time(|| peak.launch());
    run()?;
    let times = (0..5).map(|_| run()).collect::<Result<Vec<f32>, _>>()?;
    let best = times.into_iter().fold(f32::INFINITY, f32::min);
    Ok(Peak::flops(blocks) / f64::from(best) / 1e9)
}

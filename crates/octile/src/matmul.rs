//! The multiplication with one weight.

use std::ffi::c_void;

use octile_core::{Problem, Strategy};
use octile_runtime::cuda::{GpuMatmul, HostActivations, RawActivations};

use crate::{
    DType, Device, Error, Float, Plan, ScaleLayout, Scales, Weight,
    cpu::{CpuMatmul, quantized_activation},
    device,
    dtype::{Input, Output},
    plan,
    problem::MatmulProblem,
    simulated::{GpuSimulator, TpuSimulator},
};

/// Options for building a [`Matmul`]. By default activations and results are bf16, with one
/// activation scale per token and block of K, and the fastest strategy is used.
#[derive(Debug, Clone)]
#[must_use]
pub struct MatmulBuilder {
    device: Device,
    weight: Weight,
    x: (DType, Scales),
    out: DType,
    strategy: Option<Strategy>,
}

impl MatmulBuilder {
    /// Sets the type of the activations, and how they are scaled.
    ///
    /// Wider types are quantized as part of the call. [`DType::F8E4M3`] comes with the caller's scales, see
    /// [`Matmul::run_fp8`].
    pub fn activations(self, dtype: DType, scales: Scales) -> Self {
        Self { x: (dtype, scales), ..self }
    }

    /// Sets the type of the results.
    pub fn output(self, dtype: DType) -> Self {
        Self { out: dtype, ..self }
    }

    /// Uses this strategy, for comparison. Without it the fastest is used.
    pub fn with_strategy(self, strategy: Strategy) -> Self {
        Self { strategy: Some(strategy), ..self }
    }

    /// Brings the weight to the device, in the form that the strategy reads.
    pub fn build(self) -> Result<Matmul, Error> {
        let Self { device, weight, x, out, strategy } = self;
        let problem = MatmulProblem::new(weight.shape(), weight.block(), x, out)?;
        let one_row = problem.rows(1)?;
        let strategy = strategy.unwrap_or_else(|| Strategy::best_for(&one_row, device.0.planned(&one_row)));
        let engine = match &device.0 {
            device::Kind::Cpu(cpu) => Engine::Cpu(CpuMatmul::new(cpu, strategy, weight)),
            device::Kind::Gpu(gpu) => {
                Engine::Gpu(Box::new(GpuMatmul::new(gpu, &one_row, strategy, weight.quantized())?))
            }
            device::Kind::SimulatedGpu(gpu) => Engine::SimulatedGpu(GpuSimulator { gpu, strategy, weight }),
            device::Kind::SimulatedTpu(chip) => Engine::SimulatedTpu(TpuSimulator { chip, strategy, weight }),
        };
        let matmul = Matmul { device, problem, engine };
        // Refuses what the device cannot multiply now, and not at the first call.
        matmul.plan(1)?;
        Ok(matmul)
    }
}

/// One weight on one device, ready to be multiplied with any number of rows.
///
/// May be used from several threads at once. Plans, compiled kernels and workspaces are cached inside.
///
/// ```
/// use octile::{Block, DType, Device, Matmul, Scales, Weight};
///
/// let weight = Weight::quantize(&vec![0.5f32; 64 * 128], [64, 128], Block::B128)?;
/// let matmul = Matmul::builder(&Device::cpu()?, weight)
///     .activations(DType::F32, Scales::PerToken)
///     .output(DType::F32)
///     .build()?;
/// let mut out = [0.0f32; 2 * 64];
/// matmul.run(&[2.0f32; 2 * 128], &mut out)?;
/// assert!(out.iter().all(|value| (value - 128.0).abs() < 0.01));
/// # Ok::<(), octile::Error>(())
/// ```
#[derive(Debug)]
pub struct Matmul {
    device: Device,
    problem: MatmulProblem,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Cpu(CpuMatmul),
    Gpu(Box<GpuMatmul>),
    SimulatedGpu(GpuSimulator),
    SimulatedTpu(TpuSimulator),
}

impl Matmul {
    /// Starts with the defaults: bf16 activations with token scales, bf16 results.
    pub fn builder(device: &Device, weight: Weight) -> MatmulBuilder {
        MatmulBuilder {
            device: device.clone(),
            weight,
            x: (DType::BF16, Scales::PerToken),
            out: DType::BF16,
            strategy: None,
        }
    }

    /// Computes `out = x * transpose(weight)` for rows of K activations and rows of N results in host memory.
    ///
    /// M is the length of `x` divided by K; for M = 0 nothing is done. On CPUs, activations to be quantized
    /// that are infinite or NaN are refused, and rows of `out` before them may have been written. GPUs give
    /// NaN for all results of such a row (or block of rows).
    pub fn run<X: Float, O: Float>(&self, x: &[X], out: &mut [O]) -> Result<(), Error> {
        self.multiply(X::input(x), O::output(out))
    }

    /// Computes the same for activations that are quantized already: f8e4m3fn codes with row-major scales.
    ///
    /// ```
    /// use octile::{Block, DType, Device, Matmul, Scales, Weight};
    ///
    /// let weight = Weight::quantize(&[1.0f32; 128], [1, 128], Block::B128)?;
    /// let matmul = Matmul::builder(&Device::cpu()?, weight)
    ///     .activations(DType::F8E4M3, Scales::PerToken)
    ///     .output(DType::F32)
    ///     .build()?;
    /// let (codes, scales) = ([0x38; 2 * 128], [0.5, 0.25]); // 0x38 is 1.0
    /// let mut out = [0.0f32; 2];
    /// matmul.run_fp8(&codes, &scales, &mut out)?;
    /// assert_eq!(out, [64.0, 32.0]);
    /// # Ok::<(), octile::Error>(())
    /// ```
    pub fn run_fp8<O: Float>(&self, codes: &[u8], scales: &[f32], out: &mut [O]) -> Result<(), Error> {
        self.multiply(Input::Fp8 { codes, scales, layout: None }, O::output(out))
    }

    fn multiply(&self, x: Input<'_>, mut out: Output<'_>) -> Result<(), Error> {
        let Some(problem) = self.problem.of(&x, &out)? else { return Ok(()) };
        match &self.engine {
            Engine::Cpu(engine) => engine.run(&problem, x, out),
            Engine::Gpu(engine) => run_on_gpu(engine, &problem, x, out),
            Engine::SimulatedGpu(engine) => engine.run(&problem, x, &mut out),
            Engine::SimulatedTpu(engine) => engine.run(&problem, x, &mut out),
        }
    }

    /// Plans and compiles for `m` rows, allocates a workspace and starts threads, so that the first call does
    /// not.
    pub fn prepare(&self, m: usize) -> Result<(), Error> {
        match &self.engine {
            Engine::Cpu(engine) => engine.prepare(&self.problem.rows(m)?)?,
            Engine::Gpu(engine) => engine.prepare(m)?,
            Engine::SimulatedGpu(_) | Engine::SimulatedTpu(_) => drop(self.plan(m)?),
        }
        Ok(())
    }

    /// How `m` rows are multiplied.
    pub fn plan(&self, m: usize) -> Result<Plan, Error> {
        let problem = self.problem.rows(m)?;
        Ok(Plan(match &self.engine {
            Engine::Cpu(engine) => plan::Kind::Cpu(Box::new(engine.plan(&problem))),
            Engine::Gpu(engine) => plan::Kind::Gpu(Box::new(engine.plan(m)?)),
            Engine::SimulatedGpu(engine) => plan::Kind::Gpu(Box::new(engine.plan(&problem)?)),
            Engine::SimulatedTpu(engine) => plan::Kind::Tpu(Box::new(engine.plan(&problem)?)),
        }))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Rows and columns of the weight: N and K.
    pub fn shape(&self) -> [usize; 2] {
        self.problem.shape()
    }

    /// Puts a multiplication on a CUDA stream of another library, and returns at once.
    ///
    /// `x` and `out` are device pointers to M x K activations and M x N results, rows without gaps. The first
    /// call for a stream and M compiles and allocates, which synchronizes; [`Matmul::prepare_stream`] does
    /// that ahead. After that nothing here waits or allocates, and the call can be captured into a graph.
    ///
    /// ```no_run
    /// # fn example(
    /// #     matmul: &octile::Matmul, stream: *mut std::ffi::c_void, x: u64, out: u64,
    /// # ) -> Result<(), octile::Error> {
    /// // SAFETY: the stream and both allocations belong to this program and outlive the work.
    /// unsafe {
    ///     matmul.prepare_stream(stream, 16)?;
    ///     matmul.enqueue(stream, x, out, 16)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// - `stream` is a `CUstream` of the device's primary context, not the per-thread default stream. It is
    ///   not destroyed while work from here is on it.
    /// - The pointers are valid until that work is done, and other accesses to the memory are ordered with
    ///   the stream.
    /// - A graph that captured the call is not launched after the `Matmul` is dropped.
    #[allow(unsafe_code, reason = "raw pointers cross the border here; the caller's promise is passed on")]
    pub unsafe fn enqueue(&self, stream: *mut c_void, x: u64, out: u64, m: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue_raw(stream, RawActivations::Floats(x), out, m) }
    }

    /// The same for activations that are quantized already: device pointers to codes and to scales, which are
    /// row-major without padding, unless a layout is given; see [`DeviceOperands`](crate::DeviceOperands).
    ///
    /// K must be a multiple of 16. Scales are not checked: one that is infinite or NaN gives NaN.
    ///
    /// # Safety
    /// As for [`Matmul::enqueue`].
    #[allow(unsafe_code, reason = "raw pointers cross the border here; the caller's promise is passed on")]
    pub unsafe fn enqueue_fp8(
        &self,
        stream: *mut c_void,
        codes: u64,
        scales: u64,
        layout: Option<ScaleLayout>,
        out: u64,
        m: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue_raw(stream, RawActivations::Fp8 { codes, scales, layout }, out, m) }
    }

    /// Compiles for `m` rows and allocates a workspace for a stream, which is kept as long as the `Matmul`.
    ///
    /// # Safety
    /// As for [`Matmul::enqueue`]; the stream is not being captured.
    #[allow(unsafe_code, reason = "raw pointers cross the border here; the caller's promise is passed on")]
    pub unsafe fn prepare_stream(&self, stream: *mut c_void, m: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.gpu()?.prepare_stream(stream, m) }.map_err(Error::from)
    }

    #[allow(unsafe_code, reason = "the caller's promise is passed on")]
    unsafe fn enqueue_raw(
        &self,
        stream: *mut c_void,
        x: RawActivations,
        out: u64,
        m: usize,
    ) -> Result<(), Error> {
        let gpu = self.gpu()?;
        if m == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { gpu.enqueue(stream, x, out, m) }.map_err(Error::from)
    }

    fn gpu(&self) -> Result<&GpuMatmul, Error> {
        match &self.engine {
            Engine::Gpu(engine) => Ok(engine),
            _ => Err(Error::NoStreams { device: self.device.to_string() }),
        }
    }
}

fn run_on_gpu(engine: &GpuMatmul, problem: &Problem, x: Input<'_>, out: Output<'_>) -> Result<(), Error> {
    let quantized;
    let x = match x {
        Input::F32(x) => HostActivations::F32(x),
        Input::Bf16(x) => HostActivations::Bf16(x),
        Input::F16(x) => HostActivations::F16(x),
        Input::Fp8 { .. } => {
            quantized = quantized_activation(problem, x)?;
            HostActivations::Fp8(&quantized)
        }
    };
    match out {
        Output::F32(out) => engine.run(problem.m, x, out)?,
        Output::Bf16(out) => engine.run(problem.m, x, out)?,
        Output::F16(out) => engine.run(problem.m, x, out)?,
    }
    Ok(())
}

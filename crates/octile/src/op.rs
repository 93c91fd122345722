//! The multiplication whose operands, the weight included, stay with the caller.

use std::{ffi::c_void, sync::Arc};

use octile_core::{Problem, Strategy, WeightView};
use octile_runtime::{
    cpu::{PackedView, WeightRef as CpuWeightRef},
    cuda::{GpuMatmulOp, RawActivations, RawOperands},
};

use crate::{
    Block, DType, Device, Error, Float, Plan, ScaleLayout, Scales,
    cpu::CpuDevice,
    device,
    dtype::{Input, Output},
    plan,
    problem::MatmulProblem,
};

/// A weight in host memory that stays where the caller has it.
///
/// ```
/// use octile::{Block, Weight, WeightRef};
///
/// let weight = Weight::quantize(&[0.5f32; 64 * 128], [64, 128], Block::B128)?;
/// let WeightRef::Rows { codes, scales } = weight.as_rows() else { panic!("rows") };
/// assert_eq!((codes.len(), scales.len()), (64 * 128, 1));
/// # Ok::<(), octile::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum WeightRef<'a> {
    /// As checkpoints hold it.
    Rows {
        /// `[N, K]` codes in f8e4m3fn, row-major. Calls do not look for NaN, which gives wrong results or NaN
        /// in its column: [`WeightRef::check`] does.
        codes: &'a [u8],
        /// A scale for each block, row-major. Finite and not negative, which every call checks.
        scales: &'a [f32],
    },
    /// The bytes that [`packed::pack`](crate::packed::pack) makes, scales included. The fastest form.
    ///
    /// Aligned to 4 bytes; 64 is best. A call checks the length, and the headers of the first and the last
    /// panel. Other bytes in between give wrong results, nothing worse.
    Packed(&'a [u8]),
}

impl WeightRef<'_> {
    /// Checks all of a weight of `[n, k]`, as is worthwhile once after loading it: lengths, every panel's
    /// header, and that codes and scales are finite.
    ///
    /// ```
    /// use octile::{Block, WeightRef};
    ///
    /// let weight = WeightRef::Rows { codes: &[0x38, 0x7f], scales: &[1.0] }; // 0x7f is NaN
    /// assert!(weight.check([1, 2], Block::B128).is_err());
    /// # Ok::<(), octile::Error>(())
    /// ```
    pub fn check(&self, shape: [usize; 2], block: Block) -> Result<(), Error> {
        match self {
            Self::Rows { codes, scales } => {
                let weight = WeightView::new(codes, scales, shape, block)?;
                weight.check_scales()?;
                weight.check_codes()?;
            }
            Self::Packed(bytes) => PackedView::new(bytes, shape, block)?.check()?,
        }
        Ok(())
    }
}

/// Operands and result in device memory, rows without gaps, aligned to 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceOperands {
    /// `[M, K]` activations.
    pub x: u64,
    /// f32 scales of activations in [`DType::F8E4M3`]; otherwise not used.
    pub x_scales: u64,
    /// Their layout; row-major without padding if there is none.
    ///
    /// MN-major scales are the fastest, if each block of K is padded to 16 bytes: `ScaleLayout { row: 1, k }`
    /// where k is a multiple of 4, as [`ScaleLayout::aligned`] makes it. Then the kernel reads 16 bytes at
    /// once, and those of the last scale must exist too, with any content: [`ScaleLayout::extent`] elements.
    /// A stride must fit in 32 bits in bytes.
    pub x_scale_layout: Option<ScaleLayout>,
    /// `[N, K]` codes of the weight.
    pub w: u64,
    /// Row-major f32 scales of the weight, one per block, aligned to 4 bytes.
    pub w_scales: u64,
    /// `[M, N]` results.
    pub out: u64,
    /// Memory of [`MatmulOp::workspace_bytes`], overwritten; not used if that is 0.
    pub workspace: u64,
}

/// Options for building a [`MatmulOp`]. By default activations and results are bf16, with one activation
/// scale per token and block of K.
#[derive(Debug, Clone)]
#[must_use]
pub struct MatmulOpBuilder {
    device: Device,
    shape: [usize; 2],
    block: Block,
    x: (DType, Scales),
    out: DType,
    has_constant_weight: bool,
}

impl MatmulOpBuilder {
    /// Sets the type of the activations, and how they are scaled.
    pub fn activations(self, dtype: DType, scales: Scales) -> Self {
        Self { x: (dtype, scales), ..self }
    }

    /// Sets the type of the results.
    pub fn output(self, dtype: DType) -> Self {
        Self { out: dtype, ..self }
    }

    /// Promises that the preceding kernel in the stream of [`MatmulOp::enqueue`] does not write the weight,
    /// as in inference. On GPUs the weight is then fetched before that kernel has finished. If the promise is
    /// broken, results are wrong.
    pub fn with_constant_weight(self) -> Self {
        Self { has_constant_weight: true, ..self }
    }

    /// Checks that the device can multiply this.
    pub fn build(self) -> Result<MatmulOp, Error> {
        let Self { device, shape, block, x, out, has_constant_weight } = self;
        let problem = MatmulProblem::new(shape, block, x, out)?;
        let engine = match &device.0 {
            device::Kind::Cpu(cpu) => OpEngine::Cpu(Arc::clone(cpu)),
            device::Kind::Gpu(gpu) => {
                OpEngine::Gpu(Box::new(GpuMatmulOp::new(gpu, &problem.rows(1)?, has_constant_weight)?))
            }
            device::Kind::SimulatedGpu(_) | device::Kind::SimulatedTpu(_) => {
                return Err(Error::Simulated { device: device.to_string() });
            }
        };
        let op = MatmulOp { device, problem, engine };
        // Refuses what the device cannot multiply now, and not at the first call.
        op.plan(1)?;
        Ok(op)
    }
}

/// A multiplication whose operands, the weight included, stay with the caller.
///
/// [`Matmul`](crate::Matmul) holds a weight; this is for libraries that hold it themselves, such as tensor
/// libraries or mapped files. Nothing is copied. Results have the same bits. May be used from several threads
/// at once; compiled kernels are cached inside, plans and scratch memory in the device.
///
/// ```
/// use octile::{Block, DType, Device, MatmulOp, Scales, WeightRef};
///
/// let op = MatmulOp::builder(&Device::cpu()?, [64, 128], Block::B128)
///     .activations(DType::F32, Scales::PerToken)
///     .output(DType::F32)
///     .build()?;
/// let (codes, scales) = (vec![0x38; 64 * 128], [0.5]); // 0x38 is 1.0
/// let mut out = [0.0f32; 2 * 64];
/// op.run(WeightRef::Rows { codes: &codes, scales: &scales }, &[2.0f32; 2 * 128], &mut out)?;
/// assert_eq!(out, [128.0; 2 * 64]);
/// # Ok::<(), octile::Error>(())
/// ```
#[derive(Debug)]
pub struct MatmulOp {
    device: Device,
    problem: MatmulProblem,
    engine: OpEngine,
}

#[derive(Debug)]
enum OpEngine {
    Cpu(Arc<CpuDevice>),
    Gpu(Box<GpuMatmulOp>),
}

impl MatmulOp {
    /// Starts with the defaults, for weights of `[n, k]`: bf16 activations with token scales, bf16 results.
    pub fn builder(device: &Device, shape: [usize; 2], block: Block) -> MatmulOpBuilder {
        MatmulOpBuilder {
            device: device.clone(),
            shape,
            block,
            x: (DType::BF16, Scales::PerToken),
            out: DType::BF16,
            has_constant_weight: false,
        }
    }

    /// Computes `out = x * transpose(weight)` for rows of K activations and rows of N results, on the CPU.
    ///
    /// M is the length of `x` divided by K; for M = 0 nothing is done. Activations to be quantized that are
    /// infinite or NaN are refused, and rows of `out` before them may have been written.
    pub fn run<X: Float, O: Float>(
        &self,
        weight: WeightRef<'_>,
        x: &[X],
        out: &mut [O],
    ) -> Result<(), Error> {
        self.multiply(weight, X::input(x), O::output(out))
    }

    /// Computes the same for activations that are quantized already: f8e4m3fn codes with scales, which are
    /// row-major without padding, unless a layout is given. Results do not depend on the layout.
    ///
    /// ```
    /// use octile::{Block, DType, Device, MatmulOp, ScaleLayout, Scales, WeightRef};
    ///
    /// let op = MatmulOp::builder(&Device::cpu()?, [1, 256], Block::B128)
    ///     .activations(DType::F8E4M3, Scales::PerToken)
    ///     .output(DType::F32)
    ///     .build()?;
    /// let weight = WeightRef::Rows { codes: &[0x38; 256], scales: &[1.0, 2.0] }; // 0x38 is 1.0
    /// // Three rows: one scale for each in the first block of K, padding, one for each in the second.
    /// let scales = [1.0, 2.0, 3.0, f32::NAN, 0.5, 0.5, 0.5];
    /// let layout = ScaleLayout { row: 1, k: 4 };
    /// let mut out = [0.0f32; 3];
    /// op.run_fp8(weight, &[0x38; 3 * 256], &scales, Some(layout), &mut out)?;
    /// assert_eq!(out, [256.0, 384.0, 512.0]);
    /// # Ok::<(), octile::Error>(())
    /// ```
    pub fn run_fp8<O: Float>(
        &self,
        weight: WeightRef<'_>,
        codes: &[u8],
        scales: &[f32],
        layout: Option<ScaleLayout>,
        out: &mut [O],
    ) -> Result<(), Error> {
        self.multiply(weight, Input::Fp8 { codes, scales, layout }, O::output(out))
    }

    /// Computes the same for bytes of the types that the multiplication was built for, in the byte order of
    /// the machine and aligned to an element. Unless activations are [`DType::F8E4M3`], `x_scales` is empty
    /// and has no layout.
    ///
    /// ```
    /// use octile::{Block, Device, MatmulOp, WeightRef, bf16};
    ///
    /// let op = MatmulOp::builder(&Device::cpu()?, [64, 128], Block::B128).build()?;
    /// let weight = WeightRef::Rows { codes: &[0x38; 64 * 128], scales: &[0.5] };
    /// let x: Vec<u8> = [bf16::ONE; 128].iter().flat_map(|value| value.to_ne_bytes()).collect();
    /// let mut out = vec![0; 64 * 2];
    /// op.run_bytes(weight, &x, &[], None, &mut out)?;
    /// assert_eq!(out[..2], bf16::from_f32(64.0).to_ne_bytes());
    /// # Ok::<(), octile::Error>(())
    /// ```
    pub fn run_bytes(
        &self,
        weight: WeightRef<'_>,
        x: &[u8],
        x_scales: &[f32],
        x_scale_layout: Option<ScaleLayout>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x_type, out_type) = (self.problem.activations(), self.problem.output());
        let x = Input::from_bytes(x_type, x, x_scales, x_scale_layout)?;
        self.multiply(weight, x, Output::from_bytes(out_type, out)?)
    }

    fn multiply(&self, weight: WeightRef<'_>, x: Input<'_>, out: Output<'_>) -> Result<(), Error> {
        let OpEngine::Cpu(cpu) = &self.engine else {
            return Err(Error::HostMemory { device: self.device.to_string() });
        };
        let Some(problem) = self.problem.of(&x, &out)? else { return Ok(()) };
        cpu.run(&problem, borrowed(&problem, weight)?, x, out)
    }

    /// Plans for `m` rows, and compiles on a GPU, so that the first call does not.
    ///
    /// On a GPU what is prepared stays as long as the `MatmulOp`, so that it can be captured into a graph.
    pub fn prepare(&self, m: usize) -> Result<(), Error> {
        let problem = self.problem.rows(m)?;
        match &self.engine {
            OpEngine::Cpu(cpu) => cpu.prepare(&problem, Strategy::Strip)?,
            OpEngine::Gpu(op) => op.prepare(m)?,
        }
        Ok(())
    }

    /// How `m` rows are multiplied; on CPUs, with a packed weight.
    pub fn plan(&self, m: usize) -> Result<Plan, Error> {
        let problem = self.problem.rows(m)?;
        Ok(Plan(match &self.engine {
            OpEngine::Cpu(device) => plan::Kind::Cpu(Box::new(device.cpu().plan(&problem, Strategy::Strip))),
            OpEngine::Gpu(op) => plan::Kind::Gpu(Box::new(op.plan(m)?)),
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

    /// Side of the square of the weight that shares a scale.
    pub fn block(&self) -> Block {
        self.problem.block()
    }

    /// Bytes of device memory that [`MatmulOp::enqueue`] needs beside the operands: 0 if activations are
    /// [`DType::F8E4M3`].
    pub fn workspace_bytes(&self, m: usize) -> Result<usize, Error> {
        if m == 0 {
            return Ok(0);
        }
        Ok(self.gpu()?.workspace_bytes(m)?)
    }

    /// Puts a multiplication on a CUDA stream of another library, and returns at once.
    ///
    /// K must be a multiple of 16. The first call for a value of M compiles, which may synchronize;
    /// [`MatmulOp::prepare`] does that ahead. After that nothing here waits or allocates device memory, and
    /// the call can be captured into a graph. The thread's current context is left as it was. Values are not
    /// looked at: scales, activations or codes that are not finite give NaN.
    ///
    /// ```no_run
    /// # use std::ffi::c_void;
    /// # use octile::{DeviceOperands, Error, MatmulOp};
    /// # fn example(op: &MatmulOp, stream: *mut c_void, allocate: fn(usize) -> u64) -> Result<(), Error> {
    /// # let [x, w, w_scales, out] = [0; 4];
    /// let workspace = allocate(op.workspace_bytes(16)?);
    /// let operands = DeviceOperands { x, w, w_scales, out, workspace, ..DeviceOperands::default() };
    /// // SAFETY: stream and memory belong to this program and outlive the work.
    /// unsafe { op.enqueue(stream, &operands, 16)? };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// - `stream` is a `CUstream` of the device's primary context; the per-thread default stream is that of
    ///   the calling thread. It is not destroyed while work from here is on it.
    /// - The pointers are valid until that work is done, and other accesses to the memory, the workspace
    ///   included, are ordered with the stream.
    /// - A graph that captured the call is not launched after the `MatmulOp` is dropped.
    #[allow(unsafe_code, reason = "raw pointers cross the border here; the caller's promise is passed on")]
    pub unsafe fn enqueue(
        &self,
        stream: *mut c_void,
        operands: &DeviceOperands,
        m: usize,
    ) -> Result<(), Error> {
        let gpu = self.gpu()?;
        if m == 0 {
            return Ok(());
        }
        let DeviceOperands { x, x_scales, x_scale_layout: layout, w, w_scales, out, workspace } = *operands;
        let x = match self.problem.activations() {
            DType::F8E4M3 => RawActivations::Fp8 { codes: x, scales: x_scales, layout },
            DType::F32 | DType::BF16 | DType::F16 => RawActivations::Floats(x),
        };
        let operands = RawOperands { x, w, w_scales, out, workspace };
        // SAFETY: the caller's promise.
        unsafe { gpu.enqueue(stream, &operands, m) }.map_err(Error::from)
    }

    fn gpu(&self) -> Result<&GpuMatmulOp, Error> {
        match &self.engine {
            OpEngine::Gpu(op) => Ok(op),
            OpEngine::Cpu(_) => Err(Error::NoStreams { device: self.device.to_string() }),
        }
    }
}

/// Checks a weight as far as a call does.
fn borrowed<'a>(problem: &Problem, weight: WeightRef<'a>) -> Result<CpuWeightRef<'a>, Error> {
    let Problem { n, k, quant_block, .. } = *problem;
    Ok(match weight {
        WeightRef::Rows { codes, scales } => {
            CpuWeightRef::Rows(WeightView::new(codes, scales, [n, k], quant_block)?)
        }
        WeightRef::Packed(bytes) => CpuWeightRef::Packed(PackedView::new(bytes, [n, k], quant_block)?),
    })
}

//! The multiplication as XLA calls it, on the CPU and on CUDA devices.

use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

use octile::{Block, DType, Device, DeviceOperands, MatmulOp, Scales, WeightRef, packed};

use super::{
    frame::{Buffer, Frame, Result, Stage, answer},
    sys::{self, dtype},
};
use crate::finite;

/// What the attributes of a call say.
#[derive(Clone, Copy)]
struct Call {
    m: usize,
    op: Op,
}

/// What is compiled once and used for any number of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Op {
    /// `None` is the CPU.
    gpu: Option<usize>,
    n: usize,
    k: usize,
    block: Block,
    x: DType,
    scales: Scales,
    out: DType,
}

impl Call {
    fn read(frame: &Frame<'_>, gpu: Option<usize>) -> Result<Self> {
        let op = Op {
            gpu,
            n: frame.number("n")?,
            k: frame.number("k")?,
            block: Block::try_from(frame.number("block")?).map_err(|error| error.to_string())?,
            x: read_dtype(frame.text("x")?)?,
            scales: read_scales(frame.text("x_scaling")?)?,
            out: read_dtype(frame.text("out")?)?,
        };
        Ok(Self { m: frame.number("m")?, op })
    }

    fn x(&self, buffer: Buffer<'_>) -> Result<usize> {
        let len = product(self.m, self.op.k)?;
        buffer.require("x", xla_dtype(self.op.x), len)?;
        product(len, bytes(self.op.x))
    }

    fn out(&self, buffer: Buffer<'_>) -> Result<usize> {
        let len = product(self.m, self.op.n)?;
        buffer.require("the result", xla_dtype(self.op.out), len)?;
        product(len, bytes(self.op.out))
    }

    fn codes(&self, buffer: Buffer<'_>) -> Result<usize> {
        let len = product(self.op.n, self.op.k)?;
        buffer.require("the weight", dtype::F8E4M3FN, len).map(|_| len)
    }

    fn scales(&self, buffer: Buffer<'_>) -> Result<usize> {
        let len = product(self.op.block.count(self.op.n), self.op.block.count(self.op.k))?;
        buffer.require("the weight's scales", dtype::F32, len).map(|_| len)
    }

    fn x_scales(&self, buffer: Buffer<'_>) -> Result<usize> {
        let rows = match self.op.scales {
            Scales::PerBlock => self.op.block.count(self.m),
            _ => self.m,
        };
        let len = product(rows, self.op.block.count(self.op.k))?;
        buffer.require("the scales of x", dtype::F32, len).map(|_| len)
    }
}

impl Op {
    /// The compiled multiplication, made by the first call.
    fn get(self) -> Result<Arc<MatmulOp>> {
        static MADE: LazyLock<RwLock<HashMap<Op, Arc<MatmulOp>>>> = LazyLock::new(RwLock::default);
        if let Some(op) = MADE.read().unwrap_or_else(PoisonError::into_inner).get(&self) {
            return Ok(Arc::clone(op));
        }
        let device = match self.gpu {
            None => Device::cpu(),
            Some(ordinal) => Device::gpu(ordinal),
        };
        let device = device.map_err(|error| error.to_string())?;
        let builder = MatmulOp::builder(&device, [self.n, self.k], self.block);
        let op = builder.activations(self.x, self.scales).output(self.out).build();
        let op = Arc::new(op.map_err(|error| error.to_string())?);
        Ok(Arc::clone(MADE.write().unwrap_or_else(PoisonError::into_inner).entry(self).or_insert(op)))
    }
}

/// `out = x * transpose(weight)` in host memory, for x, codes, scales and, if x is fp8, its scales; or for x,
/// a packed weight and the scales of x.
pub(super) unsafe extern "C" fn cpu(frame: *mut sys::CallFrame) -> *mut c_void {
    // SAFETY: XLA calls this with its frame.
    unsafe { answer(frame, 0, run_on_cpu) }
}

fn run_on_cpu(frame: &Frame<'_>, stage: Stage) -> Result<()> {
    if stage != Stage::Execute {
        return Ok(());
    }
    let call = Call::read(frame, None)?;
    let is_packed = frame.text("weight")? == "packed";
    let (x, codes, scales, x_scales) = match (frame.argument_count(), is_packed) {
        (2, true) => frame.arguments().map(|[x, packed]| (x, packed, None, None)),
        (3, true) => frame.arguments().map(|[x, packed, x_scales]| (x, packed, None, Some(x_scales))),
        (4, false) => {
            frame.arguments().map(|[x, codes, scales, x_scales]| (x, codes, Some(scales), Some(x_scales)))
        }
        _ => frame.arguments().map(|[x, codes, scales]| (x, codes, Some(scales), None)),
    }?;
    let [out] = frame.results()?;
    // SAFETY: host memory; each buffer is required to have the elements that it is read as, before it is.
    unsafe {
        let weight = match scales {
            Some(scales) => WeightRef::Rows {
                codes: codes.slice("the weight", call.codes(codes)?)?,
                scales: scales.slice("the weight's scales", call.scales(scales)?)?,
            },
            None => WeightRef::Packed(packed_bytes(codes, call.op)?),
        };
        let x_scales = match x_scales {
            Some(x_scales) => x_scales.slice("the scales of x", call.x_scales(x_scales)?)?,
            None => &[],
        };
        let x = x.slice::<u8>("x", call.x(x)?)?;
        let out = out.slice_mut::<u8>("the result", call.out(out)?)?;
        let types = [call.op.x, call.op.out];
        finite::run_bytes(&*call.op.get()?, types, weight, (x, x_scales, None), out)
            .map_err(|error| error.to_string())
    }
}

/// # Safety
/// The buffer is in host memory.
unsafe fn packed_bytes(buffer: Buffer<'_>, op: Op) -> Result<&[u8]> {
    let [panels, bytes] = packed::shape([op.n, op.k], op.block).map_err(|error| error.to_string())?;
    let len = product(panels, bytes)?;
    buffer.require("the packed weight", dtype::U8, len)?;
    // SAFETY: as many bytes as were required.
    unsafe { buffer.slice("the packed weight", len) }
}

/// The same in device memory, with a second result as workspace.
pub(super) unsafe extern "C" fn cuda(frame: *mut sys::CallFrame) -> *mut c_void {
    // SAFETY: XLA calls this with its frame.
    unsafe { answer(frame, sys::COMMAND_BUFFER_COMPATIBLE, run_on_cuda) }
}

fn run_on_cuda(frame: &Frame<'_>, stage: Stage) -> Result<()> {
    let call = Call::read(frame, Some(frame.device_ordinal()?))?;
    if call.m == 0 {
        return Ok(());
    }
    let op = call.op.get()?;
    if stage == Stage::Initialize {
        // Compiles now: the execution may be captured into a graph.
        return op.prepare(call.m).map_err(|error| error.to_string());
    }
    let (x, codes, scales, x_scales) = match frame.argument_count() {
        4 => frame.arguments().map(|[x, codes, scales, x_scales]| (x, codes, scales, Some(x_scales))),
        _ => frame.arguments().map(|[x, codes, scales]| (x, codes, scales, None)),
    }?;
    let [out, workspace] = frame.results()?;
    call.x(x)?;
    call.codes(codes)?;
    call.scales(scales)?;
    x_scales.map_or(Ok(0), |x_scales| call.x_scales(x_scales))?;
    call.out(out)?;
    let needed = op.workspace_bytes(call.m).map_err(|error| error.to_string())?;
    let len = workspace.shape().iter().product::<i64>();
    if usize::try_from(len).is_ok_and(|len| len < needed) {
        return Err(format!("the workspace has {len} bytes, but {needed} are needed"));
    }
    let operands = DeviceOperands {
        x: x.address() as u64,
        x_scales: x_scales.map_or(0, |x_scales| x_scales.address() as u64),
        w: codes.address() as u64,
        w_scales: scales.address() as u64,
        out: out.address() as u64,
        workspace: if needed == 0 { 0 } else { workspace.address() as u64 },
        ..DeviceOperands::default()
    };
    // SAFETY: XLA's stream belongs to the primary context of the device; it keeps the buffers, which were
    // required to have the right sizes, until the work on the stream is done, and orders other accesses.
    unsafe { op.enqueue(frame.stream()?, &operands, call.m) }.map_err(|error| error.to_string())
}

/// Packs codes and scales for the CPU.
pub(super) unsafe extern "C" fn pack(frame: *mut sys::CallFrame) -> *mut c_void {
    // SAFETY: XLA calls this with its frame.
    unsafe { answer(frame, 0, pack_on_cpu) }
}

fn pack_on_cpu(frame: &Frame<'_>, stage: Stage) -> Result<()> {
    if stage != Stage::Execute {
        return Ok(());
    }
    let (shape, block) = read_weight(frame)?;
    let ([codes, scales], [out]) = (frame.arguments()?, frame.results()?);
    let lens = lens(shape, block)?;
    codes.require("the weight", dtype::F8E4M3FN, lens.codes)?;
    scales.require("the weight's scales", dtype::F32, lens.scales)?;
    out.require("the packed weight", dtype::U8, lens.packed)?;
    // SAFETY: host memory with the elements that were required.
    unsafe {
        let codes = codes.slice("the weight", lens.codes)?;
        let scales = scales.slice("the weight's scales", lens.scales)?;
        let out = out.slice_mut("the packed weight", lens.packed)?;
        packed::pack_into(codes, scales, shape, block, out).map_err(|error| error.to_string())
    }
}

/// Unpacks into codes and scales.
pub(super) unsafe extern "C" fn unpack(frame: *mut sys::CallFrame) -> *mut c_void {
    // SAFETY: XLA calls this with its frame.
    unsafe { answer(frame, 0, unpack_on_cpu) }
}

fn unpack_on_cpu(frame: &Frame<'_>, stage: Stage) -> Result<()> {
    if stage != Stage::Execute {
        return Ok(());
    }
    let (shape, block) = read_weight(frame)?;
    let ([packed], [codes, scales]) = (frame.arguments()?, frame.results()?);
    let lens = lens(shape, block)?;
    packed.require("the packed weight", dtype::U8, lens.packed)?;
    codes.require("the weight", dtype::F8E4M3FN, lens.codes)?;
    scales.require("the weight's scales", dtype::F32, lens.scales)?;
    // SAFETY: host memory with the elements that were required.
    unsafe {
        let packed = packed.slice("the packed weight", lens.packed)?;
        let unpacked = packed::unpack(packed, shape, block).map_err(|error| error.to_string())?;
        codes.slice_mut("the weight", lens.codes)?.copy_from_slice(&unpacked.0);
        scales.slice_mut("the weight's scales", lens.scales)?.copy_from_slice(&unpacked.1);
    }
    Ok(())
}

fn read_weight(frame: &Frame<'_>) -> Result<([usize; 2], Block)> {
    let block = Block::try_from(frame.number("block")?).map_err(|error| error.to_string())?;
    Ok(([frame.number("n")?, frame.number("k")?], block))
}

/// Elements of a weight in both forms.
struct Lens {
    codes: usize,
    scales: usize,
    packed: usize,
}

fn lens(shape: [usize; 2], block: Block) -> Result<Lens> {
    let [n, k] = shape;
    let [panels, bytes] = packed::shape(shape, block).map_err(|error| error.to_string())?;
    Ok(Lens {
        codes: product(n, k)?,
        scales: product(block.count(n), block.count(k))?,
        packed: product(panels, bytes)?,
    })
}

fn product(a: usize, b: usize) -> Result<usize> {
    a.checked_mul(b).ok_or_else(|| format!("{a} x {b} elements are too many to address"))
}

pub(super) fn read_dtype(name: &str) -> Result<DType> {
    match name {
        "f32" => Ok(DType::F32),
        "bf16" => Ok(DType::BF16),
        "f16" => Ok(DType::F16),
        "f8e4m3" => Ok(DType::F8E4M3),
        _ => Err(format!("element type {name} is not supported")),
    }
}

pub(super) fn read_scales(name: &str) -> Result<Scales> {
    match name {
        "token" => Ok(Scales::PerToken),
        "block" => Ok(Scales::PerBlock),
        "none" => Ok(Scales::None),
        _ => Err(format!("x_scaling {name} is not token, block or none")),
    }
}

fn xla_dtype(dtype: DType) -> c_int {
    match dtype {
        DType::F32 => dtype::F32,
        DType::BF16 => dtype::BF16,
        DType::F16 => dtype::F16,
        DType::F8E4M3 => dtype::F8E4M3FN,
    }
}

fn bytes(dtype: DType) -> usize {
    match dtype {
        DType::F32 => 4,
        DType::BF16 | DType::F16 => 2,
        DType::F8E4M3 => 1,
    }
}

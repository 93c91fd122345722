//! Memory on the GPU.

use std::{ops::Range, sync::Arc};

use cudarc::driver::{
    CudaSlice, DevicePtr,
    sys::{self, CUdeviceptr},
};
use half::{bf16, f16};
use octile_core::FloatKind;

use super::{CudaError, Gpu, error::DoingExt};

/// Where vectors start.
pub(super) const VECTOR: u64 = 16;
/// Where scales of the weight start, which are read one by one.
pub(super) const SCALE: u64 = 4;

/// Elements that are copied to and from the GPU: plain numbers, valid whatever their bits.
pub trait Element: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty),*) => { $(impl sealed::Sealed for $type {} impl Element for $type {})* };
}
elements!(u8, f32, bf16, f16);

/// Elements that results consist of.
pub trait Float: Element {
    /// Which one.
    const KIND: FloatKind;
}

impl Float for f32 {
    const KIND: FloatKind = FloatKind::F32;
}

impl Float for bf16 {
    const KIND: FloatKind = FloatKind::Bf16;
}

impl Float for f16 {
    const KIND: FloatKind = FloatKind::F16;
}

/// Bytes in device memory: its own, which are freed with it, or someone else's.
///
/// A buffer is owned by the stream of the [`Gpu`] that it was allocated with: copies, kernels and the release of the memory are
/// queued there. So dropping one while kernels still use it is sound: it is freed in stream order, behind them.
#[derive(Debug)]
pub struct Buffer {
    memory: Memory,
    gpu: Gpu,
}

#[derive(Debug)]
enum Memory {
    Own(CudaSlice<u8>),
    Part { of: Arc<Buffer>, start: usize, bytes: usize },
    Lent(Arc<Buffer>),
    Raw { pointer: CUdeviceptr, bytes: usize },
}

impl Buffer {
    /// A buffer of zeros.
    pub fn zeros(gpu: &Gpu, bytes: usize) -> Result<Self, CudaError> {
        // The driver refuses empty buffers.
        let memory = gpu.stream.alloc_zeros(bytes.max(1)).doing("allocate device memory")?;
        Ok(Self { memory: Memory::Own(memory), gpu: gpu.clone() })
    }

    /// Memory that belongs to another library, such as a tensor of an inference engine, in the primary context of this GPU. It is
    /// not freed. It starts where a [`Buffer::part`] may.
    ///
    /// # Safety
    /// `pointer` is valid for `bytes` bytes until all work queued with this buffer has completed, on the stream of `gpu` and on every
    /// stream that it was shared with ([`Buffer::on`]), also after the buffer is dropped. Accesses by others are ordered with those
    /// streams.
    pub unsafe fn from_raw_parts(gpu: &Gpu, pointer: CUdeviceptr, bytes: usize) -> Self {
        Self { memory: Memory::Raw { pointer, bytes }, gpu: gpu.clone() }
    }

    /// `bytes` bytes of another buffer, from byte `start` on. Operands and results start at multiples of 16 bytes, scales of the
    /// weight at multiples of 4.
    ///
    /// # Panics
    /// When the other buffer ends before that.
    pub fn part(of: &Arc<Self>, start: usize, bytes: usize) -> Self {
        assert!(start <= of.len() && bytes <= of.len() - start);
        Self { memory: Memory::Part { of: Arc::clone(of), start, bytes }, gpu: of.gpu.clone() }
    }

    /// Shares the buffer with another stream of the same GPU. That stream waits for the work queued so far; dropping the result makes
    /// the owning stream wait for it. In between, order writes on one stream with uses on the other by [`Gpu::wait`], or get wrong
    /// numbers.
    pub fn on(of: &Arc<Self>, gpu: &Gpu) -> Result<Self, CudaError> {
        if !gpu.is_same_gpu(&of.gpu) {
            return Err(CudaError::OtherGpu);
        }
        gpu.wait_for(&of.gpu)?;
        Ok(Self { memory: Memory::Lent(Arc::clone(of)), gpu: gpu.clone() })
    }

    /// A copy of `values`.
    pub fn from_slice<T: Element>(gpu: &Gpu, values: &[T]) -> Result<Self, CudaError> {
        let buffer = Self::zeros(gpu, size_of_val(values))?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// A copy of rows of `cols` values that start `stride` values apart on the GPU, zeros between them. Refuses values that are no
    /// whole rows, and strides shorter than a row.
    pub fn from_rows<T: Element>(
        gpu: &Gpu,
        values: &[T],
        cols: usize,
        stride: usize,
    ) -> Result<Self, CudaError> {
        let refused = CudaError::Rows { values: values.len(), cols, stride };
        if cols == 0 || stride < cols || !values.len().is_multiple_of(cols) {
            return Err(refused);
        }
        let (rows, size) = (values.len() / cols, size_of::<T>());
        let (Some(bytes), Some(pitch)) =
            (rows.checked_mul(stride).and_then(|all| all.checked_mul(size)), stride.checked_mul(size))
        else {
            return Err(refused);
        };
        if stride == cols {
            return Self::from_slice(gpu, values);
        }
        let buffer = Self::zeros(gpu, bytes)?;
        if rows == 0 {
            return Ok(buffer);
        }
        let stream = buffer.stream()?;
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            dstXInBytes: 0,
            dstY: 0,
            dstHost: std::ptr::null_mut(),
            dstArray: std::ptr::null_mut(),
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: values.as_ptr().cast(),
            srcPitch: cols * size,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: buffer.pointer(),
            dstPitch: pitch,
            WidthInBytes: cols * size,
            Height: rows,
        };
        // SAFETY: `rows` rows of `cols` values are all of the slice, and with `stride >= cols` within the `rows * stride` values of the
        // buffer just made; none of the products wraps.
        unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) }.result().doing("copy to the GPU")?;
        // The slice is only borrowed until here.
        gpu.wait()?;
        Ok(buffer)
    }

    /// Overwrites the start of the buffer. Waits for the copy.
    ///
    /// # Panics
    /// When the buffer is shorter than `values`.
    pub fn write<T: Element>(&self, values: &[T]) -> Result<(), CudaError> {
        let bytes = size_of_val(values);
        assert!(bytes <= self.len());
        let stream = self.stream()?;
        // SAFETY: the buffer holds that many bytes; the slice outlives the copy, because we wait.
        unsafe { sys::cuMemcpyHtoDAsync_v2(self.pointer(), values.as_ptr().cast(), bytes, stream) }
            .result()
            .doing("copy to the GPU")?;
        self.gpu.wait()
    }

    /// Reads the start of the buffer. Waits for what was put on the stream before.
    ///
    /// # Panics
    /// When the buffer is shorter than `values`.
    pub fn read<T: Element>(&self, values: &mut [T]) -> Result<(), CudaError> {
        self.read_at(0, values)
    }

    /// Reads from byte `start` on. Waits for what was put on the stream before.
    ///
    /// # Panics
    /// When the buffer ends before `values` are full.
    pub fn read_at<T: Element>(&self, start: usize, values: &mut [T]) -> Result<(), CudaError> {
        let bytes = size_of_val(values);
        assert!(start <= self.len() && bytes <= self.len() - start);
        let from = self.pointer() + start as u64;
        let stream = self.stream()?;
        // SAFETY: the buffer holds that many bytes, any bits are a valid `T`, and we wait before the borrow ends.
        unsafe { sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), from, bytes, stream) }
            .result()
            .doing("copy from the GPU")?;
        self.gpu.wait()
    }

    /// Sets every byte, in the order of the stream.
    pub fn fill(&self, byte: u8) -> Result<(), CudaError> {
        let stream = self.stream()?;
        // SAFETY: the buffer holds that many bytes.
        unsafe { sys::cuMemsetD8Async(self.pointer(), byte, self.len(), stream) }
            .result()
            .doing("fill device memory")
    }

    /// Copies the bytes of another buffer of the same stream, in the order of the stream. What both buffers have in common has any bytes
    /// after.
    ///
    /// # Panics
    /// When the other is shorter.
    pub fn copy_from(&self, other: &Self) -> Result<(), CudaError> {
        assert!(other.len() >= self.len());
        other.require_stream("the copied buffer", &self.gpu)?;
        let stream = self.stream()?;
        // SAFETY: both buffers hold that many bytes, and are freed on this stream.
        unsafe { sys::cuMemcpyDtoDAsync_v2(self.pointer(), other.pointer(), self.len(), stream) }
            .result()
            .doing("copy on the GPU")
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        match &self.memory {
            Memory::Own(memory) => memory.len(),
            Memory::Lent(of) => of.len(),
            Memory::Part { bytes, .. } | Memory::Raw { bytes, .. } => *bytes,
        }
    }

    /// Whether there is nothing in it. The driver gives no empty memory, but parts and foreign memory can be empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn pointer(&self) -> CUdeviceptr {
        match &self.memory {
            Memory::Own(memory) => memory.device_ptr(&self.gpu.stream).0,
            Memory::Lent(of) => of.pointer(),
            Memory::Part { of, start, .. } => of.pointer() + *start as u64,
            Memory::Raw { pointer, .. } => *pointer,
        }
    }

    /// The part that is needed of a buffer that work on the stream of `gpu` uses. Refuses one of another stream, one that is too small, and
    /// one that does not start at a multiple of `alignment` bytes.
    pub(super) fn require(
        &self,
        gpu: &Gpu,
        what: &'static str,
        needed: usize,
        alignment: u64,
    ) -> Result<Used, CudaError> {
        self.require_stream(what, gpu)?;
        let (held, start) = (self.len(), self.pointer());
        if held < needed {
            return Err(CudaError::BufferTooSmall { what, needed, held });
        }
        if !start.is_multiple_of(alignment) {
            return Err(CudaError::Misaligned { what, start, alignment });
        }
        Ok(Used { what, bytes: start..start + needed as u64 })
    }

    fn require_stream(&self, what: &'static str, gpu: &Gpu) -> Result<(), CudaError> {
        if self.gpu.shares_stream(gpu) { Ok(()) } else { Err(CudaError::OtherStream { what }) }
    }

    /// The stream, for use in this thread.
    fn stream(&self) -> Result<sys::CUstream, CudaError> {
        self.gpu.bind()?;
        Ok(self.gpu.stream.cu_stream())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Memory::Lent(of) = &self.memory else {
            // The last owner may be dropped in a thread that never used the GPU.
            let _ = self.gpu.bind();
            return;
        };
        let is_ordered = of.gpu.wait_for(&self.gpu).is_ok() || self.gpu.wait().is_ok();
        if !is_ordered {
            // Work may still be using the memory: better never to free it.
            std::mem::forget(Arc::clone(of));
        }
    }
}

/// Memory that a kernel uses.
#[derive(Debug, Clone)]
pub(super) struct Used {
    what: &'static str,
    bytes: Range<u64>,
}

impl Used {
    /// Refuses memory of which some is in another part too.
    pub(super) fn require_apart<'a>(
        &self,
        others: impl IntoIterator<Item = &'a Self>,
    ) -> Result<(), CudaError> {
        let overlaps =
            |other: &&Self| self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end;
        match others.into_iter().find(overlaps) {
            Some(other) => Err(CudaError::Overlap { what: self.what, other: other.what }),
            None => Ok(()),
        }
    }
}

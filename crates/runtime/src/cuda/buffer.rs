//! Device memory.

use std::{ops::Range, sync::Arc};

use cudarc::driver::{
    CudaSlice, DevicePtr,
    sys::{self, CUdeviceptr},
};
use half::{bf16, f16};
use octile_core::FloatKind;

use super::{CudaError, Gpu, error::DoingExt};

/// Alignment of vector loads and stores, in bytes.
pub(super) const VECTOR: u64 = 16;
/// Alignment of weight scales, which are loaded one by one.
pub(super) const SCALE: u64 = 4;

/// Element type of host slices copied to and from the GPU; every bit pattern is valid.
pub trait Element: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty),*) => { $(impl sealed::Sealed for $type {} impl Element for $type {})* };
}
elements!(u8, f32, bf16, f16);

/// Element type of results.
pub trait Float: Element {
    /// The kind.
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

/// Bytes in device memory, owned or borrowed.
///
/// A buffer is owned by the stream of the [`Gpu`] that it was allocated with: copies, kernels and the release
/// of the memory are queued there. So a buffer may be dropped while kernels still use it: the free is
/// stream-ordered.
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
    /// Allocates a buffer of zeros.
    pub fn zeros(gpu: &Gpu, bytes: usize) -> Result<Self, CudaError> {
        // The driver rejects allocations of 0 bytes.
        let memory = gpu.stream.alloc_zeros(bytes.max(1)).doing("allocate device memory")?;
        Ok(Self { memory: Memory::Own(memory), gpu: gpu.clone() })
    }

    /// Wraps memory owned by another library, such as a tensor of an inference engine, in the primary context
    /// of this GPU. It is not freed. Alignment as for [`Buffer::part`].
    ///
    /// # Safety
    /// `pointer` is valid for `bytes` bytes until all work queued with this buffer has completed, on the
    /// stream of `gpu` and on every stream that it was shared with ([`Buffer::on`]), also after the buffer is
    /// dropped. Accesses by others are ordered with those streams.
    pub unsafe fn from_raw_parts(gpu: &Gpu, pointer: CUdeviceptr, bytes: usize) -> Self {
        Self { memory: Memory::Raw { pointer, bytes }, gpu: gpu.clone() }
    }

    /// Returns a view of `bytes` bytes of another buffer, from byte `start` on. Operands and results must be
    /// aligned to 16 bytes, weight scales to 4.
    ///
    /// # Panics
    /// If the view exceeds the other buffer.
    pub fn part(of: &Arc<Self>, start: usize, bytes: usize) -> Self {
        assert!(start <= of.len() && bytes <= of.len() - start);
        Self { memory: Memory::Part { of: Arc::clone(of), start, bytes }, gpu: of.gpu.clone() }
    }

    /// Shares the buffer with another stream of the same GPU. That stream waits for the work queued so far;
    /// dropping the result makes the owning stream wait for it. In between, call [`Gpu::wait`] to order
    /// writes on one stream with reads on the other; without it results are undefined, memory stays safe.
    pub fn on(of: &Arc<Self>, gpu: &Gpu) -> Result<Self, CudaError> {
        if !gpu.is_same_gpu(&of.gpu) {
            return Err(CudaError::OtherGpu);
        }
        gpu.wait_for(&of.gpu)?;
        Ok(Self { memory: Memory::Lent(Arc::clone(of)), gpu: gpu.clone() })
    }

    /// Allocates a buffer and copies `values` into it.
    pub fn from_slice<T: Element>(gpu: &Gpu, values: &[T]) -> Result<Self, CudaError> {
        let buffer = Self::zeros(gpu, size_of_val(values))?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// Allocates a buffer of rows that start `stride` elements apart, zero-padded, and copies rows of `cols`
    /// values into it. Returns an error unless `values` are whole rows and `stride` is at least `cols`.
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
        // SAFETY: `rows` rows of `cols` values are all of the slice, and with `stride >= cols` within the
        // `rows * stride` values of the buffer just made; none of the products wraps.
        unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) }.result().doing("copy to the GPU")?;
        // The slice is borrowed until the copy is done.
        gpu.wait()?;
        Ok(buffer)
    }

    /// Overwrites the start of the buffer. Waits for the copy.
    ///
    /// # Panics
    /// If the buffer is shorter than `values`.
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

    /// Reads the start of the buffer. Waits for earlier work on the stream.
    ///
    /// # Panics
    /// If the buffer is shorter than `values`.
    pub fn read<T: Element>(&self, values: &mut [T]) -> Result<(), CudaError> {
        self.read_at(0, values)
    }

    /// Reads from byte `start` on. Waits for earlier work on the stream.
    ///
    /// # Panics
    /// If the buffer ends before `values` are filled.
    pub fn read_at<T: Element>(&self, start: usize, values: &mut [T]) -> Result<(), CudaError> {
        let bytes = size_of_val(values);
        assert!(start <= self.len() && bytes <= self.len() - start);
        let from = self.pointer() + start as u64;
        let stream = self.stream()?;
        // SAFETY: the buffer holds that many bytes, any bits are a valid `T`, and we wait before the borrow
        // ends.
        unsafe { sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), from, bytes, stream) }
            .result()
            .doing("copy from the GPU")?;
        self.gpu.wait()
    }

    /// Sets every byte, in stream order.
    pub fn fill(&self, byte: u8) -> Result<(), CudaError> {
        let stream = self.stream()?;
        // SAFETY: the buffer holds that many bytes.
        unsafe { sys::cuMemsetD8Async(self.pointer(), byte, self.len(), stream) }
            .result()
            .doing("fill device memory")
    }

    /// Copies the bytes of another buffer of the same stream, in stream order. If the buffers overlap, the
    /// overlap is undefined.
    ///
    /// # Panics
    /// If the other buffer is shorter.
    pub fn copy_from(&self, other: &Self) -> Result<(), CudaError> {
        assert!(other.len() >= self.len());
        other.require_stream("the copied buffer", &self.gpu)?;
        let stream = self.stream()?;
        // SAFETY: both buffers hold that many bytes, and are freed on this stream.
        unsafe { sys::cuMemcpyDtoDAsync_v2(self.pointer(), other.pointer(), self.len(), stream) }
            .result()
            .doing("copy on the GPU")
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match &self.memory {
            Memory::Own(memory) => memory.len(),
            Memory::Lent(of) => of.len(),
            Memory::Part { bytes, .. } | Memory::Raw { bytes, .. } => *bytes,
        }
    }

    /// Whether the length is 0, which only views and borrowed memory can have.
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

    /// Checks that work on the stream of `gpu` may use the first `needed` bytes: same stream, long enough,
    /// aligned to `alignment` bytes.
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

    /// Binds the context to this thread and returns the stream.
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
            // Work may still use the memory: leak it.
            std::mem::forget(Arc::clone(of));
        }
    }
}

/// A range of device memory that a kernel uses.
#[derive(Debug, Clone)]
pub(super) struct Used {
    what: &'static str,
    bytes: Range<u64>,
}

impl Used {
    /// Returns an error if this range overlaps one of the others.
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

//! Layers in the memory of a GPU, all of which belongs to candle.

use std::ffi::c_void;

use candle_core::{
    CudaDevice, CudaStorage, Error, Layout, Result, Storage, Tensor,
    backend::BackendStorage,
    bail,
    cuda_backend::{
        CudaDType, CudaStorageSlice,
        cudarc::driver::{DevicePtr, DevicePtrMut, DeviceRepr},
    },
};
use octile::{DeviceOperands, Float, bf16, f16};

use crate::ops::OpKey;

/// Alignment of rows that the kernels load with TMA.
pub(crate) const ALIGNMENT: usize = 16;

/// Codes and scales as candle loaded them.
#[derive(Debug)]
pub(crate) struct CudaWeight {
    codes: Tensor,
    scales: Tensor,
}

impl CudaWeight {
    pub(crate) fn new(weight: &Tensor, scales: &Tensor) -> Result<Self> {
        Ok(Self { codes: from_start(weight)?, scales: from_start(scales)? })
    }

    /// Multiplies the rows of a contiguous tensor on candle's stream, without waiting for the result.
    pub(crate) fn forward(&self, key: &OpKey, x: &CudaStorage, layout: &Layout) -> Result<CudaStorage> {
        match &x.slice {
            CudaStorageSlice::F32(_) => self.multiply::<f32>(key, x, layout),
            CudaStorageSlice::BF16(_) => self.multiply::<bf16>(key, x, layout),
            CudaStorageSlice::F16(_) => self.multiply::<f16>(key, x, layout),
            _ => bail!("the activations are not f32, bf16 or f16"),
        }
    }

    #[allow(unsafe_code, reason = "pointers and the stream of candle go to the kernels here")]
    fn multiply<T>(&self, key: &OpKey, x: &CudaStorage, layout: &Layout) -> Result<CudaStorage>
    where
        T: Float + CudaDType + DeviceRepr,
    {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("the activations are not contiguous");
        };
        let [n, k] = key.shape;
        let m = (end - start) / k;
        let device: &CudaDevice = x.device();
        let stream = device.cuda_stream();
        let op = key.op(T::DTYPE)?;
        let workspace_bytes = op.workspace_bytes(m).map_err(Error::wrap)?;
        // SAFETY: the kernels write every result, and read of the workspace only what they wrote.
        let (mut out, mut workspace) =
            unsafe { (device.alloc::<T>(m * n)?, device.alloc::<u8>(workspace_bytes.max(1))?) };
        let x = x.as_cuda_slice::<T>()?.slice(start..end);
        let (codes, _) = self.codes.storage_and_layout();
        let (scales, _) = self.scales.storage_and_layout();
        let (Storage::Cuda(codes), Storage::Cuda(scales)) = (&*codes, &*scales) else {
            bail!("the weight is not on the GPU");
        };
        let CudaStorageSlice::F8E4M3(codes) = &codes.slice else {
            bail!("the weight is not F8_E4M3");
        };
        {
            // The guards order the work with that of other streams when they are dropped.
            let (x, _x) = x.device_ptr(&stream);
            let (w, _w) = codes.device_ptr(&stream);
            let (w_scales, _scales) = scales.as_cuda_slice::<f32>()?.device_ptr(&stream);
            let (out, _out) = out.device_ptr_mut(&stream);
            let (workspace, _workspace) = workspace.device_ptr_mut(&stream);
            let operands = DeviceOperands { x, w, w_scales, out, workspace, ..DeviceOperands::default() };
            let stream = stream.cu_stream().cast::<c_void>();
            // SAFETY: the stream belongs to the primary context, which cudarc retains; the guards keep the
            // allocations, which have the lengths of the operands, until the work is in the stream, and
            // candle frees memory in stream order.
            unsafe { op.enqueue(stream, &operands, m) }.map_err(Error::wrap)?;
        }
        Ok(CudaStorage::wrap_cuda_slice(out, device.clone()))
    }
}

/// A contiguous tensor whose storage begins with its first element.
fn from_start(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_contiguous() && tensor.layout().start_offset() == 0 {
        return Ok(tensor.clone());
    }
    tensor.force_contiguous()
}

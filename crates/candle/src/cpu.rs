//! Layers in host memory.

use candle_core::{CpuStorage, Error, Layout, Result, Storage, Tensor, bail};
use octile::{Float, WeightRef, packed};

use crate::ops::OpKey;

/// Length of a cache line.
const LINE: usize = 64;

/// A weight in panels, as the CPU kernels read it.
#[derive(Debug)]
pub(crate) struct CpuWeight {
    bytes: Vec<u8>,
    /// Where the panels begin, so that they are aligned to cache lines.
    start: usize,
}

impl CpuWeight {
    pub(crate) fn pack(weight: &Tensor, scales: &Tensor, key: &OpKey) -> Result<Self> {
        let scales = scales.flatten_all()?.to_vec1::<f32>()?;
        let weight = weight.contiguous()?;
        let (storage, layout) = weight.storage_and_layout();
        let (Storage::Cpu(CpuStorage::F8E4M3(codes)), Some((start, end))) =
            (&*storage, layout.contiguous_offsets())
        else {
            bail!("the weight is not contiguous F8_E4M3 in host memory");
        };
        let codes: Vec<u8> = codes[start..end].iter().map(|code| code.to_bits()).collect();
        let [panels, panel_bytes] = packed::shape(key.shape, key.block).map_err(Error::wrap)?;
        let mut bytes = vec![0; panels * panel_bytes + LINE];
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        let packed = &mut bytes[start..][..panels * panel_bytes];
        packed::pack_into(&codes, &scales, key.shape, key.block, packed).map_err(Error::wrap)?;
        Ok(Self { bytes, start })
    }

    /// Multiplies the rows of a contiguous tensor.
    pub(crate) fn forward(&self, key: &OpKey, x: &CpuStorage, layout: &Layout) -> Result<CpuStorage> {
        Ok(match x {
            CpuStorage::F32(x) => CpuStorage::F32(self.multiply(key, x, layout)?),
            CpuStorage::BF16(x) => CpuStorage::BF16(self.multiply(key, x, layout)?),
            CpuStorage::F16(x) => CpuStorage::F16(self.multiply(key, x, layout)?),
            _ => bail!("the activations are not f32, bf16 or f16"),
        })
    }

    fn multiply<T: Float + Default>(&self, key: &OpKey, x: &[T], layout: &Layout) -> Result<Vec<T>> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("the activations are not contiguous");
        };
        let [n, k] = key.shape;
        let mut out = vec![T::default(); (end - start) / k * n];
        let weight = WeightRef::Packed(&self.bytes[self.start..self.bytes.len() - LINE + self.start]);
        key.op(T::DTYPE)?.run(weight, &x[start..end], &mut out).map_err(Error::wrap)?;
        Ok(out)
    }
}

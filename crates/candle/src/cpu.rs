//! Layers in host memory.

use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, Error, Layout, Result, Storage, Tensor, bail, utils::barrier_pool};
use octile::{DType, Executor, Float, WeightRef, bf16, packed::PackedWeight};

use crate::ops::OpKey;

/// candle's own threads. Its elementwise operations and quantized layers leave them spinning for the next
/// operation, so that a second pool would wait for cores, and sleep between layers.
#[derive(Debug)]
pub(crate) struct CandleThreads;

impl Executor for CandleThreads {
    fn threads(&self) -> usize {
        barrier_pool().n_workers() + 1
    }

    fn execute(&self, work: &(dyn Fn() + Sync)) {
        // One call per thread. Within a thread of the pool, this runs on that thread alone.
        barrier_pool().execute_chunked(self.threads(), |calls| calls.for_each(|_| work()));
    }
}

/// A weight in panels, as the CPU kernels read it.
#[derive(Debug)]
pub(crate) struct CpuWeight(PackedWeight);

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
        Ok(Self(PackedWeight::new(&codes, &scales, key.shape, key.block).map_err(Error::wrap)?))
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

    fn multiply<T>(&self, key: &OpKey, x: &[T], layout: &Layout) -> Result<Vec<T>>
    where
        T: Float + Default + Into<f32> + Sync,
    {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("the activations are not contiguous");
        };
        let [n, k] = key.shape;
        let mut out = vec![T::default(); (end - start) / k * n];
        let weight = WeightRef::Packed(self.0.as_bytes());
        let (op, x) = (key.op(T::DTYPE)?, &x[start..end]);
        let done = match key.is_rounded && T::DTYPE != DType::BF16 {
            true => op.run(weight, &rounded(x), &mut out),
            false => op.run(weight, x, &mut out),
        };
        done.map_err(Error::wrap)?;
        Ok(out)
    }
}

/// Values that a thread rounds at a time: fewer take less time than handing them out.
const ROUNDED_TOGETHER: usize = 16 << 10;

/// The values in bf16.
fn rounded<T: Copy + Into<f32> + Sync>(values: &[T]) -> Vec<bf16> {
    let mut rounded = vec![bf16::ZERO; values.len()];
    let round = |values: &[T], rounded: &mut [bf16]| {
        rounded.iter_mut().zip(values).for_each(|(to, from)| *to = bf16::from_f32((*from).into()));
    };
    let parts = values.chunks(ROUNDED_TOGETHER).zip(rounded.chunks_mut(ROUNDED_TOGETHER));
    let parts: Vec<_> = parts.map(Mutex::new).collect();
    let round_part = |part: &Mutex<(&[T], &mut [bf16])>| {
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        let (values, rounded) = &mut *part;
        round(values, rounded);
    };
    match &parts[..] {
        [only] => round_part(only),
        _ => barrier_pool().execute_chunked(parts.len(), |range| parts[range].iter().for_each(round_part)),
    }
    drop(parts);
    rounded
}

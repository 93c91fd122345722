//! Tensors that are not fp8: every value must be finite.

use std::{
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use safetensors::Dtype;

use super::{
    defect::{Defect, DefectKind},
    wording::are,
};
use crate::{
    Checkpoint, CheckpointError, Progress,
    error::Result,
    matrix::{bytes_of, elements},
    read::{Tensor, TensorId},
};

/// Bytes that a thread reads at a time.
const CHUNK: u64 = 4 << 20;

/// Float tensors, which are read to find NaN and infinite values.
#[derive(Debug, Default)]
pub(super) struct FloatTensors(Vec<TensorId>);

/// Values of a tensor that are not finite.
#[derive(Debug, Default, Clone, Copy)]
struct NonFinite {
    nan: u64,
    infinite: u64,
    /// Smallest index of one.
    first: Option<u64>,
}

impl FloatTensors {
    /// All f32, bf16 and f16 tensors but scales, which are checked with their weight.
    pub(super) fn new(checkpoint: &Checkpoint) -> Self {
        let is_float = |tensor: &Tensor| matches!(tensor.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16);
        let floats = checkpoint
            .tensors()
            .filter(|(_, tensor)| is_float(tensor) && checkpoint.scale_owner(&tensor.name).is_none());
        Self(floats.map(|(id, _)| id).collect())
    }

    /// Bytes that [`FloatTensors::judge`] reads.
    pub(super) fn bytes(&self, checkpoint: &Checkpoint) -> u64 {
        self.0.iter().map(|id| checkpoint.tensor(*id).bytes).sum()
    }

    /// Reads every tensor once, on `threads` threads.
    pub(super) fn judge(
        &self,
        checkpoint: &Checkpoint,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<Defect>> {
        let chunks: Vec<(usize, Range<u64>)> = self
            .0
            .iter()
            .enumerate()
            .flat_map(|(at, id)| {
                let bytes = checkpoint.tensor(*id).bytes;
                let range = move |start| (at, start..bytes.min(start + CHUNK));
                (0..bytes).step_by(CHUNK as usize).map(range)
            })
            .collect();
        let scan = Scan {
            checkpoint,
            tensors: &self.0,
            chunks: &chunks,
            progress,
            next: AtomicUsize::new(0),
            found: Mutex::new((vec![NonFinite::default(); self.0.len()], None)),
        };
        std::thread::scope(|scope| {
            for index in 1..threads.min(chunks.len()) {
                let thread = std::thread::Builder::new().name(format!("octile-{index}"));
                // A failed spawn is harmless: the other threads do its work.
                let _ = thread.spawn_scoped(scope, || scan.work());
            }
            scan.work();
        });
        let (found, failure) = scan.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let tensors = self.0.iter().map(|id| checkpoint.tensor(*id));
        Ok(tensors.zip(found).filter_map(|(tensor, found)| found.defect(tensor)).collect())
    }
}

/// The tensors, chunk by chunk.
struct Scan<'a> {
    checkpoint: &'a Checkpoint,
    tensors: &'a [TensorId],
    /// Index of the tensor, and bytes of it.
    chunks: &'a [(usize, Range<u64>)],
    progress: &'a dyn Progress,
    next: AtomicUsize,
    found: Mutex<(Vec<NonFinite>, Option<CheckpointError>)>,
}

impl Scan<'_> {
    fn work(&self) {
        let (mut buffer, mut file) = (Vec::new(), None);
        while let Some((at, range)) = self.chunks.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let id = self.tensors[*at];
            let tensor = self.checkpoint.tensor(id);
            if range.start == 0 {
                self.progress.begin(&tensor.name);
            }
            let length = (range.end - range.start) as usize;
            let opened = match file.take() {
                Some((shard, file)) if shard == id.shard => Ok(file),
                _ => self.checkpoint.shards()[id.shard].open(),
            };
            let read = opened.and_then(|opened| {
                opened.read_at(bytes_of(&mut buffer, length), tensor.offset + range.start)?;
                Ok(opened)
            });
            match read {
                Ok(opened) => file = Some((id.shard, opened)),
                Err(error) => {
                    self.found.lock().unwrap_or_else(PoisonError::into_inner).1.get_or_insert(error);
                    // The other threads find no more chunks.
                    self.next.store(self.chunks.len(), Ordering::Relaxed);
                    return;
                }
            }
            let size = (tensor.dtype.bitsize() / 8) as u64;
            let chunk = NonFinite::of(tensor.dtype, &buffer, length, range.start / size);
            self.progress.advance(length as u64);
            if chunk.first.is_some() {
                self.found.lock().unwrap_or_else(PoisonError::into_inner).0[*at].add(chunk);
            }
        }
    }
}

impl NonFinite {
    /// Examines some bytes of a tensor that begin with the value of index `start`.
    fn of(dtype: Dtype, buffer: &[u64], length: usize, start: u64) -> Self {
        match dtype {
            Dtype::F32 => Self::count(elements::<u32>(buffer, length / 4), 0x7f80_0000, start),
            Dtype::F16 => Self::count(elements::<u16>(buffer, length / 2), 0x7c00, start),
            _ => Self::count(elements::<u16>(buffer, length / 2), 0x7f80, start),
        }
    }

    /// `exponent` has the bits that are all set in NaN and infinity.
    fn count<T: Copy + Into<u32>>(values: &[T], exponent: u32, start: u64) -> Self {
        let is_special = |value: T| value.into() & exponent == exponent;
        // Without a branch per value: nearly all tensors are finite.
        if !values.iter().fold(false, |any, value| any | is_special(*value)) {
            return Self::default();
        }
        let mut found = Self::default();
        for (at, value) in values.iter().enumerate().filter(|(_, value)| is_special(**value)) {
            let mantissa = (*value).into() & ((exponent & exponent.wrapping_neg()) - 1);
            found.nan += u64::from(mantissa != 0);
            found.infinite += u64::from(mantissa == 0);
            found.first.get_or_insert(start + at as u64);
        }
        found
    }

    fn add(&mut self, other: Self) {
        self.nan += other.nan;
        self.infinite += other.infinite;
        self.first = self.first.into_iter().chain(other.first).min();
    }

    fn defect(&self, tensor: &Tensor) -> Option<Defect> {
        let first = self.first?;
        let total = 8 * tensor.bytes / tensor.dtype.bitsize() as u64;
        let what = match (self.nan, self.infinite) {
            (nan, 0) => format!("{nan} of {total} values {} NaN", are(nan)),
            (0, infinite) => format!("{infinite} of {total} values {} infinite", are(infinite)),
            (nan, infinite) => format!("{nan} of {total} values {} NaN and {infinite} infinite", are(nan)),
        };
        let evidence = format!("{what}, the first at {:?}", index(first, &tensor.shape));
        Some(Defect::of(DefectKind::NonFiniteValues, &tensor.name, evidence))
    }
}

/// The index in each dimension.
fn index(mut at: u64, shape: &[usize]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (place, side) in index.iter_mut().zip(shape).rev() {
        *place = at % (*side as u64).max(1);
        at /= (*side as u64).max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_are_told_apart() {
        let of = |dtype, bytes: &[u8]| {
            let mut buffer = vec![0u64; bytes.len().div_ceil(8)];
            bytes_of(&mut buffer, bytes.len()).copy_from_slice(bytes);
            let found = NonFinite::of(dtype, &buffer, bytes.len(), 10);
            (found.nan, found.infinite, found.first)
        };
        let f32s: Vec<u8> =
            [1.0, f32::NAN, f32::MAX, -f32::INFINITY].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(of(Dtype::F32, &f32s), (1, 1, Some(11)));
        let halves = |bits: &[u16]| -> Vec<u8> { bits.iter().flat_map(|v| v.to_le_bytes()).collect() };
        // bf16: largest finite value, infinity, NaN; f16: the same.
        assert_eq!(of(Dtype::BF16, &halves(&[0x7f7f, 0xff7f])), (0, 0, None));
        assert_eq!(of(Dtype::BF16, &halves(&[0x3f80, 0x7f80, 0xffc0])), (1, 1, Some(11)));
        assert_eq!(of(Dtype::F16, &halves(&[0x7bff, 0x7c00, 0x7e00, 0xfc00])), (1, 2, Some(11)));
        assert_eq!(index(23, &[4, 3, 2]), [3, 2, 1]);
        assert!(index(0, &[]).is_empty());
    }
}

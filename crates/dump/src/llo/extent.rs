//! Ranges of on-chip memory, in bytes from the start of a buffer.

use super::{instruction::Sublanes, program::buffer_of};
use crate::{flight::MemoryRange, limits::MAX_CHUNKS};

/// Bytes of a VMEM address: one sublane of 128 lanes.
pub(super) const ROW: i64 = 512;
/// Bytes of an SMEM address.
const WORD: i64 = 4;

/// Memory space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Vmem,
    Smem,
    /// Accessed by DMAs only.
    OffChip,
    Unknown,
}

impl Memory {
    pub(super) fn named(name: &str) -> Self {
        match name {
            "vmem" => Self::Vmem,
            "smem" => Self::Smem,
            "hbm" => Self::OffChip,
            _ => Self::Unknown,
        }
    }
}

/// Memory that an instruction or a DMA accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Exactly these chunks.
    Exactly(Chunks),
    /// These chunks, and others that are not known.
    AtLeast(Chunks),
    /// An unknown part of this memory.
    Somewhere(Memory),
}

/// Strided chunks of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    memory: Memory,
    buffer: i64,
    start: i64,
    chunk: i64,
    stride: i64,
    count: i64,
}

/// One end of a DMA.
#[derive(Clone, Copy, Debug)]
pub(super) struct DmaEnd {
    pub memory: Memory,
    pub address: Option<i64>,
    pub granules: i64,
    pub granule_bytes: i64,
    pub strides: Strides,
}

/// Layout of a DMA at one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strides {
    Contiguous,
    /// Granules from one chunk to the next, and rows per chunk.
    Every(i64, i64),
    /// Given by an unresolved descriptor or register: only the first row is known.
    Unknown,
}

impl Extent {
    /// Extent of a vector load or store: one row per bit of the sublane mask.
    pub(super) fn rows(address: i64, sublanes: Sublanes) -> impl Iterator<Item = Self> {
        let (buffer, offset) = buffer_of(address);
        sublanes.rows().map(move |row| {
            let start = offset.saturating_add(row);
            Self::Exactly(Chunks::contiguous(Memory::Vmem, buffer, start.saturating_mul(ROW), ROW))
        })
    }

    /// Extent of a scalar load or store.
    pub(super) fn word(address: i64) -> Self {
        let (buffer, offset) = buffer_of(address);
        Self::Exactly(Chunks::contiguous(Memory::Smem, buffer, offset.saturating_mul(WORD), WORD))
    }

    /// Extent of one end of a DMA.
    pub(super) fn of_dma(end: &DmaEnd) -> Self {
        let unit = match end.memory {
            Memory::Vmem => end.granule_bytes,
            Memory::Smem => WORD,
            Memory::OffChip | Memory::Unknown => return Self::Somewhere(end.memory),
        };
        let Some(address) = end.address else { return Self::Somewhere(end.memory) };
        let (buffer, offset) = buffer_of(address);
        let (start, bytes) = (offset.saturating_mul(unit), end.granules.saturating_mul(end.granule_bytes));
        let contiguous = |bytes| Chunks::contiguous(end.memory, buffer, start, bytes);
        match end.strides {
            Strides::Contiguous => Self::Exactly(contiguous(bytes)),
            Strides::Every(stride, rows) if stride > 0 && rows > 0 => {
                let chunk = rows.saturating_mul(ROW).min(bytes).max(1);
                let stride = stride.saturating_mul(end.granule_bytes);
                let chunks = Chunks { chunk, stride, count: bytes / chunk, ..contiguous(chunk) };
                if bytes % chunk == 0 { Self::Exactly(chunks) } else { Self::AtLeast(chunks) }
            }
            // Negative or zero stride.
            Strides::Every(..) => Self::Somewhere(end.memory),
            Strides::Unknown => Self::AtLeast(contiguous(bytes.min(ROW))),
        }
    }

    fn memory(&self) -> Memory {
        match self {
            Self::Exactly(chunks) | Self::AtLeast(chunks) => chunks.memory,
            Self::Somewhere(memory) => *memory,
        }
    }
}

impl MemoryRange for Extent {
    fn overlaps(&self, other: &Self) -> Option<bool> {
        let memories = [self.memory(), other.memory()];
        if memories.contains(&Memory::OffChip) {
            return Some(false);
        }
        let (Self::Exactly(ours) | Self::AtLeast(ours), Self::Exactly(theirs) | Self::AtLeast(theirs)) =
            (self, other)
        else {
            let apart = memories[0] != memories[1] && !memories.contains(&Memory::Unknown);
            return apart.then_some(false);
        };
        let goes_on = |extent: &Self, from: &Chunks, to: &Chunks| {
            matches!(extent, Self::AtLeast(_)) && from.buffer == to.buffer && to.end() > from.start
        };
        match ours.overlaps(theirs) {
            Some(false) if goes_on(self, ours, theirs) || goes_on(other, theirs, ours) => None,
            overlaps => overlaps,
        }
    }
}

impl Chunks {
    fn contiguous(memory: Memory, buffer: i64, start: i64, bytes: i64) -> Self {
        Self { memory, buffer, start, chunk: bytes, stride: bytes.max(1), count: 1 }
    }

    fn chunk(&self, number: i64) -> i64 {
        self.start.saturating_add(number.saturating_mul(self.stride))
    }

    fn end(&self) -> i64 {
        self.chunk(self.count.saturating_sub(1)).saturating_add(self.chunk)
    }

    /// Whether they overlap; `None` if there are too many chunks to compare.
    fn overlaps(&self, other: &Self) -> Option<bool> {
        if self.buffer != other.buffer || self.end() <= other.start || other.end() <= self.start {
            return Some(false);
        }
        let (few, many) = if self.count <= other.count { (self, other) } else { (other, self) };
        let mut chunks = (0..few.count.min(MAX_CHUNKS)).map(|number| few.chunk(number));
        let meets = chunks.any(|start| many.meets(start, start.saturating_add(few.chunk)));
        (meets || few.count <= MAX_CHUNKS).then_some(meets)
    }

    /// Whether one of the chunks overlaps an interval.
    fn meets(&self, start: i64, end: i64) -> bool {
        // The first chunk that ends after `start`.
        let before = start.saturating_sub(self.start).saturating_sub(self.chunk);
        let first = if before < 0 { 0 } else { before / self.stride + 1 };
        first < self.count && self.chunk(first) < end && start < end && self.chunk > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: i64 = 1 << 40;
    const NO_YES_YES_NO: [Option<bool>; 4] = [Some(false), Some(true), Some(true), Some(false)];

    fn dma(offset: i64, granules: i64, strides: Strides) -> Extent {
        let end = DmaEnd {
            memory: Memory::Vmem,
            address: Some(BUFFER + offset),
            granules,
            granule_bytes: 32,
            strides,
        };
        Extent::of_dma(&end)
    }

    fn row(at: i64) -> Extent {
        Extent::rows(BUFFER + at, Sublanes::FIRST).next().unwrap()
    }

    #[test]
    fn a_dma_covers_its_rows_and_no_others() {
        let tile = dma(512, 512, Strides::Contiguous);
        assert_eq!([31, 32, 63, 64].map(|at| tile.overlaps(&row(at))), NO_YES_YES_NO);
        // Eight rows, then eight that are skipped.
        let strided = dma(0, 256, Strides::Every(256, 8));
        assert_eq!(
            [0, 7, 8, 15, 16, 23, 24].map(|at| strided.overlaps(&row(at))),
            [true, true, false, false, true, true, false].map(Some)
        );
        let unknown = dma(16, 512, Strides::Unknown);
        assert_eq!(
            [0, 1, 2].map(|at| unknown.overlaps(&row(at))),
            [Some(false), Some(true), None],
            "goes on, and nobody knows where"
        );
        assert!(tile.overlaps(&strided) == strided.overlaps(&tile));
    }

    #[test]
    fn words_of_scalar_memory() {
        let end = DmaEnd {
            memory: Memory::Smem,
            address: Some(BUFFER + 128),
            granules: 16,
            granule_bytes: 32,
            strides: Strides::Contiguous,
        };
        let scales = Extent::of_dma(&end);
        assert_eq!([127, 128, 255, 256].map(|at| scales.overlaps(&Extent::word(BUFFER + at))), NO_YES_YES_NO);
        assert_eq!(scales.overlaps(&Extent::word(2 * BUFFER + 128)), Some(false));
    }

    #[test]
    fn sublane_masks_and_strides() {
        let tile = dma(16, 16, Strides::Contiguous);
        let touched = |mask, stride| {
            let sublanes = Sublanes { mask, stride, per_stride: 1 };
            Extent::rows(BUFFER, sublanes).any(|row| row.overlaps(&tile) == Some(true))
        };
        assert!(
            touched(0xff, 1)
                && touched(0b10, 1)
                && !touched(0b1, 1)
                && !touched(0b101, 2)
                && touched(0b11, 1)
        );
        assert!(!touched(0xff, 2));
    }

    #[test]
    fn sublanes_per_stride() {
        let rows =
            |mask, stride, per_stride| Sublanes { mask, stride, per_stride }.rows().collect::<Vec<_>>();
        assert_eq!(rows(0xff, 16, 4), [0, 1, 2, 3, 16, 17, 18, 19]);
        assert_eq!(rows(0xff, 16, 2), [0, 1, 16, 17, 32, 33, 48, 49]);
        assert_eq!(rows(0b1010_0001, 48, 4), [0, 49, 51]);
        assert_eq!(rows(0xff, 16, 8), rows(0xff, 1, 1), "one group");
        assert_eq!(rows(0b111, 0, 1), [0, 0, 0]);
    }

    #[test]
    fn what_is_not_known_is_not_denied() {
        let nowhere = |memory| {
            let end = DmaEnd {
                memory,
                address: None,
                granules: 1,
                granule_bytes: 32,
                strides: Strides::Contiguous,
            };
            Extent::of_dma(&end)
        };
        let word = Extent::word(BUFFER);
        let memories = [Memory::Vmem, Memory::Smem, Memory::OffChip, Memory::Unknown];
        assert_eq!(
            memories.map(|memory| nowhere(memory).overlaps(&row(0))),
            [None, Some(false), Some(false), None]
        );
        assert_eq!(
            memories.map(|memory| word.overlaps(&nowhere(memory))),
            [Some(false), None, Some(false), None]
        );
        // Every other row, of two that interleave: too many to be compared.
        let [even, odd] = [0, 16].map(|at| dma(at, 16 * 2000, Strides::Every(32, 1)));
        assert_eq!((even.overlaps(&odd), even.overlaps(&even)), (None, Some(true)));
        assert_eq!(dma(0, 24, Strides::Every(32, 1)).overlaps(&row(2)), None, "half a row is left");
        assert_eq!(dma(0, 64, Strides::Every(-16, 1)).overlaps(&row(9)), None);
    }
}

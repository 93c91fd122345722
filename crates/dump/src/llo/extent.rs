//! Parts of on-chip memory, in bytes from the beginning of a buffer.

use super::program::buffer_of;

/// Bytes of a VMEM address: one sublane of 128 lanes.
const ROW: i64 = 512;
/// Bytes of an SMEM address.
const WORD: i64 = 4;

/// A memory on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChip {
    Vmem,
    Smem,
}

impl OnChip {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "vmem" => Some(Self::Vmem),
            "smem" => Some(Self::Smem),
            _ => None,
        }
    }
}

/// Chunks of equal size at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    buffer: i64,
    start: i64,
    chunk: i64,
    stride: i64,
    count: i64,
}

/// The end of a DMA that is on the chip.
#[derive(Clone, Copy, Debug)]
pub struct DmaEnd {
    pub space: OnChip,
    pub address: i64,
    pub granules: i64,
    pub granule_bytes: i64,
    /// Distance between chunks in granules, and rows of a chunk. `None` where all is contiguous.
    pub strides: Strides,
}

/// How the bytes of a DMA lie at one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strides {
    Contiguous,
    /// Granules from one chunk to the next, and rows per chunk.
    Every(i64, i64),
    /// A descriptor or a register decides that is not followed: only the first row is known.
    Unknown,
}

impl Extent {
    /// What a vector load or store touches: one row for each bit of the sublane mask.
    pub fn rows(address: i64, mask: u32, sublane_stride: i64) -> impl Iterator<Item = Self> {
        let (buffer, offset) = buffer_of(address);
        let rows = (0..u32::BITS).filter(move |bit| mask >> bit & 1 == 1);
        rows.map(move |row| {
            let start = offset.saturating_add(i64::from(row).saturating_mul(sublane_stride));
            Self::contiguous(buffer, start.saturating_mul(ROW), ROW)
        })
    }

    /// What a scalar load or store touches.
    pub fn word(address: i64) -> Self {
        let (buffer, offset) = buffer_of(address);
        Self::contiguous(buffer, offset.saturating_mul(WORD), WORD)
    }

    /// What a DMA touches for certain.
    pub fn of_dma(end: &DmaEnd) -> Self {
        let (buffer, offset) = buffer_of(end.address);
        let unit = match end.space {
            OnChip::Vmem => end.granule_bytes,
            OnChip::Smem => WORD,
        };
        let (start, bytes) = (offset.saturating_mul(unit), end.granules.saturating_mul(end.granule_bytes));
        match end.strides {
            Strides::Contiguous => Self::contiguous(buffer, start, bytes),
            Strides::Every(stride, rows) if stride > 0 && rows > 0 => {
                let chunk = rows.saturating_mul(ROW).min(bytes);
                let stride = stride.saturating_mul(end.granule_bytes);
                Self { buffer, start, chunk, stride, count: bytes / chunk.max(1) }
            }
            Strides::Every(..) | Strides::Unknown => Self::contiguous(buffer, start, bytes.min(ROW)),
        }
    }

    fn contiguous(buffer: i64, start: i64, bytes: i64) -> Self {
        Self { buffer, start, chunk: bytes, stride: bytes.max(1), count: 1 }
    }

    /// Whether two extents have a byte in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        /// Chunks that are looked at one by one: more than a tile of a kernel has.
        const MOST: i64 = 1 << 10;
        let (few, many) = if self.count <= other.count { (self, other) } else { (other, self) };
        let chunks =
            (0..few.count.min(MOST)).map(|chunk| few.start.saturating_add(chunk.saturating_mul(few.stride)));
        self.buffer == other.buffer
            && chunks.into_iter().any(|start| many.meets(start, start.saturating_add(few.chunk)))
    }

    /// Whether one of the chunks meets an interval.
    fn meets(&self, start: i64, end: i64) -> bool {
        // The first chunk that ends behind `start`.
        let before = start.saturating_sub(self.start).saturating_sub(self.chunk);
        let first = if before < 0 { 0 } else { before / self.stride + 1 };
        let begins = self.start.saturating_add(first.saturating_mul(self.stride));
        first < self.count && begins < end && start < end && self.chunk > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: i64 = 1 << 40;

    fn dma(offset: i64, granules: i64, strides: Strides) -> Extent {
        let end =
            DmaEnd { space: OnChip::Vmem, address: BUFFER + offset, granules, granule_bytes: 32, strides };
        Extent::of_dma(&end)
    }

    fn row(at: i64) -> Extent {
        Extent::rows(BUFFER + at, 1, 1).next().unwrap()
    }

    #[test]
    fn a_dma_covers_its_rows_and_no_others() {
        let tile = dma(512, 512, Strides::Contiguous);
        assert_eq!([31, 32, 63, 64].map(|at| tile.overlaps(&row(at))), [false, true, true, false]);
        // Eight rows, then eight that are skipped.
        let strided = dma(0, 256, Strides::Every(256, 8));
        assert_eq!(
            [0, 7, 8, 15, 16, 23, 24].map(|at| strided.overlaps(&row(at))),
            [true, true, false, false, true, true, false]
        );
        let unknown = dma(16, 512, Strides::Unknown);
        assert_eq!([0, 1, 2].map(|at| unknown.overlaps(&row(at))), [false, true, false]);
        assert!(tile.overlaps(&strided) == strided.overlaps(&tile));
    }

    #[test]
    fn words_of_scalar_memory() {
        let end = DmaEnd {
            space: OnChip::Smem,
            address: BUFFER + 128,
            granules: 16,
            granule_bytes: 32,
            strides: Strides::Contiguous,
        };
        let scales = Extent::of_dma(&end);
        assert_eq!(
            [127, 128, 255, 256].map(|at| scales.overlaps(&Extent::word(BUFFER + at))),
            [false, true, true, false]
        );
        assert!(!scales.overlaps(&Extent::word(2 * BUFFER + 128)));
    }

    #[test]
    fn sublane_masks_and_strides() {
        let tile = dma(16, 16, Strides::Contiguous);
        let touched = |mask, stride| Extent::rows(BUFFER, mask, stride).any(|row| row.overlaps(&tile));
        assert!(
            touched(0xff, 1)
                && touched(0b10, 1)
                && !touched(0b1, 1)
                && !touched(0b101, 2)
                && touched(0b11, 1)
        );
        assert!(!touched(0xff, 2));
    }
}

//! The packed weight: codes in the order in which the microkernels read them.
//!
//! A panel is 32 adjacent rows of the weight, which are columns of the result. For every pair of adjacent k
//! it holds a group of 64 codes: columns 0-3, 16-19, 4-7, 20-23, 8-11, 24-27, 12-15, 28-31, with the two k of
//! a column adjacent. Unpack instructions, which interleave the halves of each 16 bytes, restore the column
//! order. Columns past N and k past K are zero.

use std::ops::Range;

use octile_core::{QuantBlock, QuantizedWeight, plan::cpu::PANEL};

use super::memory::{Memory, bytes, bytes_mut};

/// Bytes of one pair of k and all columns of a panel.
pub(super) const GROUP: usize = 2 * PANEL;
/// Codes of one row that are packed at a time.
const LINE: usize = 64;

/// A weight packed for [`Strategy::Strip`](octile_core::Strategy::Strip). Pack once, multiply often.
///
/// ```
/// use octile_runtime::cpu::{Mat, PackedWeight, QuantBlock, QuantizedWeight};
///
/// let weight = vec![1.0; 200 * 300];
/// let weight = QuantizedWeight::quantize(Mat::new(&weight, 200, 300)?, QuantBlock::B128)?;
/// let packed = PackedWeight::new(&weight);
/// assert_eq!((packed.rows(), packed.cols()), (200, 300));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PackedWeight {
    codes: Memory,
    scales: Vec<f32>,
    rows: usize,
    cols: usize,
    quant_block: QuantBlock,
}

impl PackedWeight {
    /// Packs a weight of `n x k`.
    pub fn new(weight: &QuantizedWeight) -> Self {
        let (rows, cols) = (weight.rows(), weight.cols());
        let panel_bytes = cols.div_ceil(2) * GROUP;
        // A group is a line.
        let mut codes = Memory::zeroed(rows.div_ceil(PANEL) * cols.div_ceil(2));
        for (panel, codes) in bytes_mut(&mut codes).chunks_mut(panel_bytes).enumerate() {
            pack(weight, panel, 0..cols, codes);
        }
        Self { codes, scales: weight.scales().to_vec(), rows, cols, quant_block: weight.quant_block() }
    }

    /// Rows of the weight: the N of the multiplication.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the weight: the K of the multiplication.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Side of a quantization block.
    pub fn quant_block(&self) -> QuantBlock {
        self.quant_block
    }

    /// Size of codes and scales in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.codes) + size_of_val(&*self.scales)
    }

    /// The codes of a panel from column `start` (even) of K on.
    pub(super) fn panel(&self, panel: usize, start: usize) -> &[u8] {
        let panel_bytes = self.cols.div_ceil(2) * GROUP;
        &bytes(&self.codes)[panel * panel_bytes..][..panel_bytes][start / 2 * GROUP..]
    }

    /// The scales, row-major.
    pub(super) fn scales(&self) -> &[f32] {
        &self.scales
    }
}

/// Packs a range of K of one panel; the range starts at an even k.
pub(super) fn pack(weight: &QuantizedWeight, panel: usize, depth: Range<usize>, groups: &mut [u8]) {
    let (rows, cols) = (weight.rows(), weight.cols());
    let first = panel * PANEL;
    let groups = &mut groups[..depth.len().div_ceil(2) * GROUP];
    if rows < first + PANEL {
        groups.fill(0);
    }
    // One cache line of every row at a time: the row stride is often a power of two, so rows map to the same
    // cache sets.
    for (line, groups) in groups.chunks_mut(LINE / 2 * GROUP).enumerate() {
        let start = depth.start + line * LINE;
        let row =
            |column: usize| &weight.codes()[(first + column) * cols..][start..depth.end.min(start + LINE)];
        if first + PANEL <= rows && start + LINE <= depth.end {
            let groups = eighths(groups);
            for column in (0..PANEL).step_by(4) {
                let rows = [0, 1, 2, 3].map(|at| whole_line(row(column + at)));
                pack_four(rows, groups, place(column) / 8);
            }
        } else {
            for column in 0..PANEL.min(rows - first) {
                pack_one(row(column), &mut groups[place(column)..]);
            }
        }
    }
}

type Eight = [u8; 8];

fn whole_line(row: &[u8]) -> &[Eight; LINE / 8] {
    row.as_chunks().0.try_into().expect("a whole line")
}

fn eighths(groups: &mut [u8]) -> &mut [[Eight; GROUP / 8]; LINE / 2] {
    groups.as_chunks_mut().0.as_chunks_mut().0.try_into().expect("the groups of a whole line")
}

/// Scatters the pairs of one row to the groups.
fn pack_one(row: &[u8], groups: &mut [u8]) {
    for (pair, group) in row.chunks(2).zip(groups.chunks_mut(GROUP)) {
        group[1] = 0;
        group[..pair.len()].copy_from_slice(pair);
    }
}

/// The same for a cache line of four adjacent rows, whose pairs are adjacent in a group: transposes 4 x 4
/// pairs at a time. All lengths are constant, so the loop has no bounds checks.
fn pack_four(rows: [&[Eight; LINE / 8]; 4], groups: &mut [[Eight; GROUP / 8]; LINE / 2], eighth: usize) {
    const EVEN: u64 = 0x0000_ffff_0000_ffff;
    const LOW: u64 = 0x0000_0000_ffff_ffff;
    let eighth = eighth % 8;
    for (at, groups) in groups.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let [a, b, c, d] = rows.map(|row| u64::from_le_bytes(row[at]));
        let (ab_even, ab_odd) = ((a & EVEN) | ((b & EVEN) << 16), ((a >> 16) & EVEN) | (b & !EVEN));
        let (cd_even, cd_odd) = ((c & EVEN) | ((d & EVEN) << 16), ((c >> 16) & EVEN) | (d & !EVEN));
        groups[0][eighth] = ((ab_even & LOW) | (cd_even << 32)).to_le_bytes();
        groups[1][eighth] = ((ab_odd & LOW) | (cd_odd << 32)).to_le_bytes();
        groups[2][eighth] = ((ab_even >> 32) | (cd_even & !LOW)).to_le_bytes();
        groups[3][eighth] = ((ab_odd >> 32) | (cd_odd & !LOW)).to_le_bytes();
    }
}

/// Offset of a column's pair in a group.
const fn place(column: usize) -> usize {
    column % 16 / 4 * 16 + column / 16 * 8 + column % 4 * 2
}

#[cfg(test)]
mod tests {
    use octile_core::Mat;

    use super::*;

    #[test]
    fn every_code_has_its_own_place_and_the_rest_is_zero() {
        let (rows, cols) = (37, 131);
        let codes: Vec<u8> = (0..rows * cols).map(|i| (i % 126 + 1) as u8).collect();
        let weight =
            QuantizedWeight::from_parts(Mat::new(&codes, rows, cols).unwrap(), &[1.0, 1.0], QuantBlock::B128)
                .unwrap();
        let packed = PackedWeight::new(&weight);
        let mut seen = 0;
        for row in 0..rows {
            for col in 0..cols {
                let group = &packed.panel(row / PANEL, col & !1)[..GROUP];
                assert_eq!(group[place(row % PANEL) + col % 2], codes[row * cols + col]);
                seen += 1;
            }
        }
        assert_eq!(bytes(&packed.codes).iter().filter(|&&c| c != 0).count(), seen);
    }
}

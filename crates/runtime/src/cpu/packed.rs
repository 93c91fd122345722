//! The weight rearranged for speed: one byte per weight, in the order in which the kernels read.
//!
//! A panel is 32 neighbouring rows of the weight, which are columns of the result. For every pair of neighbouring
//! k it holds a group of 64 codes: columns 0-3, 16-19, 4-7, 20-23, 8-11, 24-27, 12-15, 28-31, the two k of a
//! column side by side. Vector instructions that interleave the halves of each 16 bytes bring the columns into
//! order. Columns past N and k past K are zeros.

use std::ops::Range;

use octile_core::{QuantBlock, QuantizedWeight, plan::cpu::PANEL};

/// Bytes of one pair of k and all columns of a panel.
pub(super) const GROUP: usize = 2 * PANEL;

/// A weight prepared for [`Strategy::Strip`](octile_core::Strategy::Strip). Make it once, use it often.
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
#[derive(Debug, Clone)]
pub struct PackedWeight {
    codes: Vec<u8>,
    scales: Vec<f32>,
    rows: usize,
    cols: usize,
    quant_block: QuantBlock,
}

impl PackedWeight {
    /// Rearranges a weight of `n x k`.
    pub fn new(weight: &QuantizedWeight) -> Self {
        let (rows, cols) = (weight.rows(), weight.cols());
        let panel_bytes = cols.div_ceil(2) * GROUP;
        let mut codes = vec![0; rows.div_ceil(PANEL) * panel_bytes];
        for (panel, codes) in codes.chunks_mut(panel_bytes).enumerate() {
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

    /// Side of a block.
    pub fn quant_block(&self) -> QuantBlock {
        self.quant_block
    }

    /// Memory taken by codes and scales.
    pub fn bytes(&self) -> usize {
        self.codes.len() + self.scales.len() * size_of::<f32>()
    }

    /// The codes of a panel from column `start` (even) of K on.
    pub(super) fn panel(&self, panel: usize, start: usize) -> &[u8] {
        let panel_bytes = self.cols.div_ceil(2) * GROUP;
        &self.codes[panel * panel_bytes..][..panel_bytes][start / 2 * GROUP..]
    }

    /// The scales, block row by block row.
    pub(super) fn scales(&self) -> &[f32] {
        &self.scales
    }
}

/// Writes the groups of one panel and some columns of K, the first of them even.
pub(super) fn pack(weight: &QuantizedWeight, panel: usize, columns: Range<usize>, groups: &mut [u8]) {
    let (rows, cols) = (weight.rows(), weight.cols());
    let (start, len) = (columns.start, columns.len());
    let first = panel * PANEL;
    let groups = &mut groups[..len.div_ceil(2) * GROUP];
    if rows < first + PANEL {
        groups.fill(0);
    }
    // One cache line of a row at a time: rows are often a power of two apart and would push each other out.
    for (run, groups) in groups.chunks_mut(32 * GROUP).enumerate() {
        let columns = start + run * 64..start + len.min(run * 64 + 64);
        for column in 0..PANEL.min(rows - first) {
            let codes = &weight.codes()[(first + column) * cols..][columns.clone()];
            let at = place(column);
            let (pairs, odd) = codes.as_chunks::<2>();
            let mut slots = groups.chunks_exact_mut(GROUP);
            for (pair, slot) in pairs.iter().zip(&mut slots) {
                slot[at..at + 2].copy_from_slice(pair);
            }
            if let ([code], Some(slot)) = (odd, slots.next()) {
                slot[at..at + 2].copy_from_slice(&[*code, 0]);
            }
        }
    }
}

/// Where a column's pair starts in a group.
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
        assert_eq!(packed.codes.iter().filter(|&&c| c != 0).count(), seen);
    }
}

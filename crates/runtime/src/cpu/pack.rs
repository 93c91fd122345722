//! The order of codes in a packed panel.
//!
//! A panel is 32 adjacent rows of the weight, which are columns of the result. For every pair of adjacent k
//! it holds a group of 64 codes: columns 0-3, 16-19, 4-7, 20-23, 8-11, 24-27, 12-15, 28-31, with the two k of
//! a column adjacent. Unpack instructions, which interleave the halves of each 16 bytes, restore the column
//! order. Columns past N and k past K are zero.

use std::ops::Range;

use octile_core::{WeightView, plan::cpu::PANEL};

/// Bytes of one pair of k and all columns of a panel.
pub(super) const GROUP: usize = 2 * PANEL;
/// Codes of one row that are packed at a time.
const LINE: usize = 64;

/// Packs a range of K of one panel; the range starts at an even k.
pub(super) fn pack(weight: WeightView<'_>, panel: usize, depth: Range<usize>, groups: &mut [u8]) {
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
pub(super) const fn place(column: usize) -> usize {
    column % 16 / 4 * 16 + column / 16 * 8 + column % 4 * 2
}

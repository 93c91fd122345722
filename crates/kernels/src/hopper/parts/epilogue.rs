//! The epilogue of every strategy: from accumulators in registers straight to global memory.

use octile_core::{FloatKind, plan::hopper::WAVE_ROWS};

use super::{
    accumulators::Accumulators,
    cta::{Cta, Fragment},
    schedule::Tile,
};
use crate::hopper::ptx::{B32, B64, F32, Global, Label, Pred, Ptx};

/// Stores a tile.
pub(crate) fn store(
    ptx: &mut Ptx,
    cta: &Cta<'_>,
    fragment: Fragment,
    tile: Tile,
    accumulators: &Accumulators,
) {
    store_parts(ptx, cta, fragment, tile, accumulators, |_, _, _| None);
}

/// Stores a tile in parts. `before(part, accumulators)` is emitted ahead of each part; the label that it
/// returns is placed behind the part, so that a jump there skips it.
pub(crate) fn store_parts(
    ptx: &mut Ptx,
    cta: &Cta<'_>,
    fragment: Fragment,
    tile: Tile,
    accumulators: &Accumulators,
    mut before: impl FnMut(&mut Ptx, usize, &[F32]) -> Option<Label>,
) {
    let out = DirectStore::new(ptx, cta, fragment, tile);
    let chunks = cta.plan.shape.tile.b / 8;
    let per_part = cta.plan.chunks_per_part();
    let mut part = 0;
    for (wave, accumulators) in accumulators.promoted.iter().enumerate() {
        for first in (0..chunks).step_by(per_part) {
            let range = 4 * first..4 * (first + per_part).min(chunks);
            let end = before(ptx, part, &accumulators[range.clone()]);
            if cta.plan.shape.swapped {
                out.store_swapped(ptx, wave, first, &accumulators[range]);
            } else {
                out.store_rows(ptx, wave * WAVE_ROWS, first, &accumulators[range]);
            }
            if let Some(end) = end {
                ptx.place(end);
            }
            part += 1;
        }
    }
}

/// Addresses of a thread's results.
struct DirectStore {
    kind: FloatKind,
    /// Whether four neighbouring results may be stored at once.
    vectors: bool,
    pointer: B64,
    /// Bytes from row to row.
    stride: B32,
    rows: B32,
    columns: B32,
    /// The warp's first row (swapped: column) of the result in the first wave.
    warp_a: B32,
    /// The tile's first column (swapped: row) of the result.
    tile_b: B32,
    fragment: Fragment,
    /// Whether the thread has the odd index in its pair, and the first of its four columns among 16.
    is_odd: Pred,
    column_of_16: B32,
}

impl DirectStore {
    fn new(ptx: &mut Ptx, cta: &Cta<'_>, fragment: Fragment, tile: Tile) -> Self {
        let kind = cta.plan.out();
        let stride = ptx.number("out_stride");
        let odd = ptx.and(fragment.quad, 1);
        let second_half = ptx.shr(fragment.quad, 1);
        let four = ptx.shl(second_half, 2);
        Self {
            kind,
            vectors: cta.plan.stores_vectors(),
            pointer: ptx.pointer("out"),
            stride: ptx.mul(stride, kind.bytes() as u32),
            rows: ptx.number("m"),
            columns: ptx.number("n"),
            warp_a: ptx.add(tile.a_row, fragment.warp_row),
            tile_b: tile.b_row,
            fragment,
            is_odd: ptx.ne(odd, 0),
            column_of_16: ptx.mad(odd, 8, four),
        }
    }

    /// Address of a result, and whether it lies inside the matrix.
    fn at(&self, ptx: &mut Ptx, row: B32, column: B32) -> (Global, Pred) {
        let of_row = ptx.mad_wide(row, self.stride, self.pointer);
        let address = ptx.mad_wide(column, self.kind.bytes() as u32, of_row);
        let (in_rows, in_columns) = (ptx.lt(row, self.rows), ptx.lt(column, self.columns));
        (Global(address, 0), ptx.both(in_rows, in_columns))
    }

    /// Stores chunks of 8 columns from `first_chunk` on, of the wave whose first row is `first_row`.
    fn store_rows(&self, ptx: &mut Ptx, first_row: usize, first_chunk: usize, accumulators: &[F32]) {
        let first_column = ptx.add(self.tile_b, 8 * first_chunk as u32);
        let row = ptx.add(self.warp_a, self.fragment.lane_row);
        for half in 0..2 {
            let row = ptx.add(row, (first_row + 8 * half) as u32);
            let pairs: Vec<[F32; 2]> =
                accumulators.chunks(4).map(|chunk| [chunk[2 * half], chunk[2 * half + 1]]).collect();
            match (&pairs[..], self.kind) {
                ([low, high], FloatKind::Bf16 | FloatKind::F16) if self.vectors => {
                    let packed = [low, high].map(|pair| ptx.pack(self.kind, pair[0], pair[1]));
                    self.store_16(ptx, row, first_column, packed);
                }
                _ => {
                    for (chunk, pair) in (0..).zip(pairs) {
                        let column = ptx.add(first_column, self.fragment.column);
                        let column = ptx.add(column, 8 * chunk);
                        self.store_pair(ptx, row, column, pair);
                    }
                }
            }
        }
    }

    /// Stores one chunk of 8 rows of x by 16 rows of the weight, transposed on the way.
    fn store_swapped(&self, ptx: &mut Ptx, wave: usize, chunk: usize, accumulators: &[F32]) {
        let chunk_row = ptx.add(self.tile_b, 8 * chunk as u32);
        let first_column = ptx.add(self.warp_a, (wave * WAVE_ROWS) as u32);
        if self.vectors && self.kind != FloatKind::F32 {
            let packed = [0, 2].map(|at| {
                let packed = ptx.pack(self.kind, accumulators[at], accumulators[at + 1]);
                ptx.transpose(packed)
            });
            let row = ptx.add(chunk_row, self.fragment.lane_row);
            self.store_16(ptx, row, first_column, packed);
            return;
        }
        for (at, &value) in (0..).zip(accumulators) {
            let row = ptx.add(chunk_row, self.fragment.column);
            let row = ptx.add(row, at % 2);
            let column = ptx.add(first_column, self.fragment.lane_row);
            let column = ptx.add(column, at / 2 * 8);
            self.store_one(ptx, row, column, value);
        }
    }

    /// Stores 16 columns of one row. Four threads hold two pairs each; neighbours swap a pair, so that each
    /// has four adjacent columns and the four threads fill a 32-byte sector.
    fn store_16(&self, ptx: &mut Ptx, row: B32, first_column: B32, [low, high]: [B32; 2]) {
        let give = ptx.select(low, high, self.is_odd);
        let got = ptx.shuffle_xor(give, 1);
        let left = ptx.select(got, low, self.is_odd);
        let right = ptx.select(high, got, self.is_odd);
        let column = ptx.add(first_column, self.column_of_16);
        let (at, exists) = self.at(ptx, row, column);
        ptx.store_global_8_if(at, [left, right], exists);
    }

    /// Stores two neighbouring columns.
    fn store_pair(&self, ptx: &mut Ptx, row: B32, column: B32, pair: [F32; 2]) {
        if !self.vectors {
            let next = ptx.add(column, 1);
            self.store_one(ptx, row, column, pair[0]);
            self.store_one(ptx, row, next, pair[1]);
            return;
        }
        let (at, exists) = self.at(ptx, row, column);
        match self.kind {
            FloatKind::F32 => ptx.store_global_f32x2_if(at, pair, exists),
            FloatKind::Bf16 | FloatKind::F16 => {
                let packed = ptx.pack(self.kind, pair[0], pair[1]);
                ptx.store_global_b32_if(at, packed, exists);
            }
        }
    }

    fn store_one(&self, ptx: &mut Ptx, row: B32, column: B32, value: F32) {
        let (at, exists) = self.at(ptx, row, column);
        match self.kind {
            FloatKind::F32 => ptx.store_global_f32_if(at, value, exists),
            FloatKind::Bf16 | FloatKind::F16 => {
                let packed = ptx.pack(self.kind, value, value);
                let [low, _] = ptx.halves(packed);
                ptx.store_global_b16_if(at, low, exists);
            }
        }
    }
}

//! From sums to results in memory.

use std::ops::Range;

use octile_core::{FloatKind, plan::hopper::WAVE_ROWS};

use super::{
    frame::{Frame, Place},
    ptx::{B32, B64, F32, Global, Label, Pred, Ptx},
    schedule::Tile,
    sums::Sums,
};

/// Stores the tile, part by part. `before(part, registers)` runs ahead of each part with the wave and index of its sums;
/// the label that it returns is placed behind the part.
pub(super) fn store(
    ptx: &mut Ptx,
    frame: &Frame<'_>,
    place: Place,
    tile: Tile,
    sums: &Sums,
    mut before: impl FnMut(&mut Ptx, usize, Vec<(usize, usize)>) -> Option<Label>,
) {
    let out = Out::new(ptx, frame, place, tile);
    let chunks = frame.plan.shape.tile.b / 8;
    let per_part = frame.plan.chunks_per_part();
    let mut part = 0;
    for (wave, sums) in sums.waves.iter().enumerate() {
        for first in (0..chunks).step_by(per_part) {
            let range = 4 * first..4 * (first + per_part).min(chunks);
            let end = before(ptx, part, range.clone().map(|at| (wave, at)).collect());
            if frame.plan.shape.swapped {
                out.store_swapped(ptx, wave, first, &sums[range]);
            } else {
                out.store_rows(ptx, wave * WAVE_ROWS, range, sums);
            }
            if let Some(end) = end {
                ptx.place(end);
            }
            part += 1;
        }
    }
}

/// Where the results of a thread go.
struct Out {
    kind: FloatKind,
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
    place: Place,
    /// Whether the thread is the second of its pair, and where its four columns of 16 begin.
    is_odd: Pred,
    column_of_16: B32,
}

impl Out {
    fn new(ptx: &mut Ptx, frame: &Frame<'_>, place: Place, tile: Tile) -> Self {
        let kind = frame.plan.out();
        let stride = ptx.number("out_stride");
        let odd = ptx.and(place.quad, 1);
        let second_half = ptx.shr(place.quad, 1);
        let four = ptx.shl(second_half, 2);
        Self {
            kind,
            vectors: frame.plan.stores_vectors(),
            pointer: ptx.pointer("out"),
            stride: ptx.mul(stride, kind.bytes() as u32),
            rows: ptx.number("m"),
            columns: ptx.number("n"),
            warp_a: ptx.add(tile.a_row, place.warp_row),
            tile_b: tile.b_row,
            place,
            is_odd: ptx.ne(odd, 0),
            column_of_16: ptx.mad(odd, 8, four),
        }
    }

    /// The address of a result, and whether it exists.
    fn at(&self, ptx: &mut Ptx, row: B32, column: B32) -> (Global, Pred) {
        let of_row = ptx.mad_wide(row, self.stride, self.pointer);
        let address = ptx.mad_wide(column, self.kind.bytes() as u32, of_row);
        let (in_rows, in_columns) = (ptx.lt(row, self.rows), ptx.lt(column, self.columns));
        (Global(address, 0), ptx.both(in_rows, in_columns))
    }

    /// Stores the chunks of 8 columns whose sums are in `range`, of a wave that starts at row `first_row`.
    fn store_rows(&self, ptx: &mut Ptx, first_row: usize, range: Range<usize>, sums: &[F32]) {
        let first_column = ptx.add(self.tile_b, 2 * range.start as u32);
        let sums = &sums[range];
        let row = ptx.add(self.warp_a, self.place.lane_row);
        for half in 0..2 {
            let row = ptx.add(row, (first_row + 8 * half) as u32);
            let pairs: Vec<[F32; 2]> =
                sums.chunks(4).map(|chunk| [chunk[2 * half], chunk[2 * half + 1]]).collect();
            match (&pairs[..], self.kind) {
                ([low, high], FloatKind::Bf16 | FloatKind::F16) if self.vectors => {
                    let packed = [low, high].map(|pair| ptx.pack(self.kind, pair[0], pair[1]));
                    self.store_16(ptx, row, first_column, packed);
                }
                _ => {
                    for (chunk, pair) in (0..).zip(pairs) {
                        let column = ptx.add(first_column, self.place.column);
                        let column = ptx.add(column, 8 * chunk);
                        self.store_pair(ptx, row, column, pair);
                    }
                }
            }
        }
    }

    /// Stores 8 rows of x, 16 rows of the weight: the sums of one chunk, transposed on the way.
    fn store_swapped(&self, ptx: &mut Ptx, wave: usize, chunk: usize, sums: &[F32]) {
        let chunk_row = ptx.add(self.tile_b, 8 * chunk as u32);
        let first_column = ptx.add(self.warp_a, (wave * WAVE_ROWS) as u32);
        if self.vectors && self.kind != FloatKind::F32 {
            let packed = [0, 2].map(|at| {
                let packed = ptx.pack(self.kind, sums[at], sums[at + 1]);
                ptx.transpose(packed)
            });
            let row = ptx.add(chunk_row, self.place.lane_row);
            self.store_16(ptx, row, first_column, packed);
            return;
        }
        for (at, &sum) in (0..).zip(sums) {
            let row = ptx.add(chunk_row, self.place.column);
            let row = ptx.add(row, at % 2);
            let column = ptx.add(first_column, self.place.lane_row);
            let column = ptx.add(column, at / 2 * 8);
            self.store_one(ptx, row, column, sum);
        }
    }

    /// Stores 16 columns of one row, of which four threads hold two pairs each: neighbours swap a pair, so that each
    /// has four columns in a row and the four threads fill a sector of 32 bytes.
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

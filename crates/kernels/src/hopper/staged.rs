//! From sums to results in memory by way of shared memory, so that whole lines are stored: straight from the registers a
//! store would touch eight rows with 32 bytes each.

use std::ops::Range;

use octile_core::plan::hopper::{RESULT_COLUMNS, RESULT_ROWS, ResultPath, WAVE_ROWS};

use super::{
    frame::{Frame, Place},
    ptx::{B32, B64, F32, Global, Pred, Ptx, Shared},
    schedule::Tile,
    sums::Sums,
};

/// Rows of a piece, and of them those that one store covers.
const ROWS: u32 = RESULT_ROWS as u32;
const ROWS_PER_STORE: u32 = 4;
/// Columns of 16 bytes, the unit in which a lane moves results.
const UNIT: usize = 8;
/// Bytes of a row in shared memory.
const ROW_BYTES: u32 = 2 * RESULT_COLUMNS as u32;
const PIECE_BYTES: u32 = ROWS * ROW_BYTES;

/// Puts the warp's part of some waves into shared memory and tells the copy engine to fetch it. Calls go through the waves of a tile in order;
/// the last one closes the group of copies.
pub(super) fn hand_over(
    ptx: &mut Ptx,
    frame: &Frame<'_>,
    place: Place,
    tile: Tile,
    sums: &Sums,
    waves: Range<usize>,
) {
    let staging = Staging::of_warp(ptx, frame);
    let per_wave = frame.plan.shape.tile.b / RESULT_COLUMNS;
    let (first, end) = (per_wave * waves.start, per_wave * waves.end);
    let at_once = frame.plan.result_path == ResultPath::TmaStore;
    if at_once {
        // There may be a tile before this one.
        wait_until_read(ptx);
        ptx.warp_barrier();
    }
    let at_a_time = if at_once { end - first } else { 1 };
    for pieces in (first..end).step_by(at_a_time).map(|first| first..first + at_a_time) {
        staging.write_pieces(ptx, frame, sums, pieces.clone());
        ptx.fence_shared_stores();
        ptx.warp_barrier();
        ptx.in_one_lane(|ptx| {
            let map = ptx.tensor_map("map_out");
            let warp_row = ptx.add(tile.a_row, place.warp_row);
            for piece in pieces.clone() {
                let row = ptx.add(warp_row, (piece / per_wave * WAVE_ROWS) as u32);
                let column = ptx.add(tile.b_row, (piece % per_wave * RESULT_COLUMNS) as u32);
                ptx.tma_store(map, column, row, Shared(staging.base, staging.apart * piece as u32));
            }
            if pieces.end == per_wave * sums.waves.len() {
                ptx.tma_store_commit();
            }
        });
    }
}

/// Waits until the copy engine has read what was handed over before.
pub(super) fn wait_until_read(ptx: &mut Ptx) {
    ptx.in_one_lane(Ptx::tma_store_wait_until_read);
}

/// Stores the tile piece by piece.
pub(super) fn store_lines(ptx: &mut Ptx, frame: &Frame<'_>, place: Place, tile: Tile, sums: &Sums) {
    let staging = Staging::of_warp(ptx, frame);
    let out = Out::new(ptx, frame, place, tile);
    for (wave, sums) in sums.waves.iter().enumerate() {
        let rows = out.rows(ptx, wave);
        for (piece, sums) in sums.chunks(RESULT_COLUMNS / 2).enumerate() {
            staging.write(ptx, frame, sums, 0);
            ptx.warp_barrier();
            out.copy(ptx, &staging, &rows, piece * RESULT_COLUMNS, sums.len() * 2);
            ptx.warp_barrier();
        }
    }
}

/// A warp's pieces in shared memory: 16 rows of eight units each. The unit of a row is exchanged with that whose index differs
/// by the row's last three bits, the 128-byte swizzle: neither writing nor reading meets a bank twice.
pub(super) struct Staging {
    base: B32,
    /// Bytes from piece to piece.
    apart: u32,
    /// Where this lane writes the first two units, and the last bits of its row.
    write_row: B32,
    write_unit: B32,
    write_flip: B32,
    /// Where this lane reads in the first rows and, four rows on, in the second.
    read: [B32; 2],
}

impl Staging {
    /// All pieces of a warp one behind the other.
    fn of_warp(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let base = frame.buffer(ptx, "result", frame.warp);
        Self::new(ptx, frame, base, PIECE_BYTES)
    }

    /// The pieces of a wave's four warps one below the other.
    pub(super) fn of_waves(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let (group, warp) = (ptx.shr(frame.warp, 2), ptx.and(frame.warp, 3));
        let pieces = frame.plan.waves() * frame.plan.shape.tile.b / RESULT_COLUMNS;
        let first_piece = ptx.mul(group, pieces as u32);
        let base = frame.buffer(ptx, "result", first_piece);
        let base = ptx.mad(warp, PIECE_BYTES, base);
        Self::new(ptx, frame, base, 4 * PIECE_BYTES)
    }

    fn new(ptx: &mut Ptx, frame: &Frame<'_>, base: B32, apart: u32) -> Self {
        // Four matrices of 8 rows x 16 bytes are written at once: lanes 0 to 15 name rows of a unit, the others of the next.
        let row = ptx.and(frame.lane, ROWS - 1);
        let write_row = ptx.mad(row, ROW_BYTES, base);
        let write_flip = ptx.and(frame.lane, 7);
        let write_unit = ptx.shr(frame.lane, 4);
        let row = ptx.shr(frame.lane, 3);
        let unit = ptx.and(frame.lane, 7);
        let read = [0, ROWS_PER_STORE].map(|first| {
            let row = ptx.add(row, first);
            let at = ptx.mad(row, ROW_BYTES, base);
            let unit = ptx.xor(unit, row);
            ptx.mad(unit, 16, at)
        });
        Self { base, apart, write_row, write_unit, write_flip, read }
    }

    /// Writes some of the warp's pieces, counted through all waves of its tile.
    pub(super) fn write_pieces(&self, ptx: &mut Ptx, frame: &Frame<'_>, sums: &Sums, pieces: Range<usize>) {
        let per_wave = frame.plan.shape.tile.b / RESULT_COLUMNS;
        for piece in pieces {
            let columns = &sums.waves[piece / per_wave][piece % per_wave * (RESULT_COLUMNS / 2)..];
            self.write(ptx, frame, &columns[..RESULT_COLUMNS / 2], piece);
        }
    }

    fn write(&self, ptx: &mut Ptx, frame: &Frame<'_>, sums: &[F32], piece: usize) {
        for (pair, sums) in (0..).zip(sums.chunks(UNIT)) {
            let unit = ptx.add(self.write_unit, 2 * pair);
            let unit = ptx.xor(unit, self.write_flip);
            let at = ptx.mad(unit, 16, self.write_row);
            let packed = [0, 2, 4, 6].map(|at| ptx.pack(frame.plan.out(), sums[at], sums[at + 1]));
            ptx.store_matrices(Shared(at, self.apart * piece as u32), packed);
        }
    }

    /// This lane's unit in the rows of store `index`.
    fn read(&self, ptx: &mut Ptx, index: u32) -> [B32; 4] {
        // Every eighth row has its units in the same places.
        ptx.load_shared_16(Shared(self.read[index as usize % 2], index / 2 * 8 * ROW_BYTES))
    }
}

/// Where this lane's units go.
struct Out {
    /// The lane's first unit in its first row.
    first: B64,
    row: B32,
    column: B32,
    rows: B32,
    columns: B32,
    /// Bytes from row to row.
    stride: B32,
    /// The lane's unit among eight.
    unit: B32,
}

impl Out {
    fn new(ptx: &mut Ptx, frame: &Frame<'_>, place: Place, tile: Tile) -> Self {
        let stride = ptx.number("out_stride");
        let stride = ptx.shl(stride, 1);
        let row = ptx.add(tile.a_row, place.warp_row);
        let row_of_lane = ptx.shr(frame.lane, 3);
        let row = ptx.add(row, row_of_lane);
        let unit = ptx.and(frame.lane, 7);
        let column = ptx.mad(unit, UNIT as u32, tile.b_row);
        let pointer = ptx.pointer("out");
        let of_row = ptx.mad_wide(row, stride, pointer);
        let first = ptx.mad_wide(column, 2, of_row);
        Self { first, row, column, rows: ptx.number("m"), columns: ptx.number("n"), stride, unit }
    }

    /// The rows of a wave that this lane stores to, and whether they exist.
    fn rows(&self, ptx: &mut Ptx, wave: usize) -> Vec<(B64, Pred)> {
        (0..ROWS / ROWS_PER_STORE)
            .map(|index| {
                let down = (wave * WAVE_ROWS) as u32 + index * ROWS_PER_STORE;
                let row = ptx.add(self.row, down);
                (ptx.mad_wide(self.stride, down, self.first), ptx.lt(row, self.rows))
            })
            .collect()
    }

    /// Copies a piece of `columns` columns from shared memory.
    fn copy(
        &self,
        ptx: &mut Ptx,
        staging: &Staging,
        rows: &[(B64, Pred)],
        first_column: usize,
        columns: usize,
    ) {
        let column = ptx.add(self.column, first_column as u32);
        let mut in_columns = ptx.lt(column, self.columns);
        if columns < RESULT_COLUMNS {
            let in_piece = ptx.lt(self.unit, (columns / UNIT) as u32);
            in_columns = ptx.both(in_columns, in_piece);
        }
        for (index, &(row, in_rows)) in (0..).zip(rows) {
            let unit = staging.read(ptx, index);
            let exists = ptx.both(in_rows, in_columns);
            ptx.store_global_16_if(Global(row, 2 * first_column as u32), unit, exists);
        }
    }
}

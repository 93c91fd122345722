//! Stores whole lines: four rows of eight 16-byte vectors at once.

use octile_core::plan::hopper::{RESULT_COLUMNS, WAVE_ROWS};

use super::staged::{ROWS, ROWS_PER_STORE, Staging, StoreSubtile, VECTOR};
use crate::hopper::{
    parts::{
        cta::{Cta, Fragment},
        schedule::Tile,
    },
    ptx::{B32, B64, Global, Pred, Ptx},
};

/// Addresses of the lines that a lane stores parts of.
pub(super) struct LineStore {
    /// The lane's first vector in its first row.
    first: B64,
    row: B32,
    column: B32,
    rows: B32,
    columns: B32,
    /// Bytes from row to row.
    stride: B32,
    /// The lane's vector among eight.
    vector: B32,
}

impl LineStore {
    pub(super) fn new(ptx: &mut Ptx, cta: &Cta<'_>, fragment: Fragment, tile: Tile) -> Self {
        let stride = ptx.number("out_stride");
        let stride = ptx.shl(stride, 1);
        let row = ptx.add(tile.a_row, fragment.warp_row);
        let lane_row = ptx.shr(cta.lane, 3);
        let row = ptx.add(row, lane_row);
        let vector = ptx.and(cta.lane, 7);
        let column = ptx.mad(vector, VECTOR as u32, tile.b_row);
        let pointer = ptx.pointer("out");
        let row_start = ptx.mad_wide(row, stride, pointer);
        let first = ptx.mad_wide(column, 2, row_start);
        Self { first, row, column, rows: ptx.number("m"), columns: ptx.number("n"), stride, vector }
    }
}

impl StoreSubtile for LineStore {
    /// The rows of a wave that this lane stores to, and whether they lie inside the matrix.
    type Rows = Vec<(B64, Pred)>;

    fn rows(&self, ptx: &mut Ptx, wave: usize) -> Vec<(B64, Pred)> {
        (0..ROWS / ROWS_PER_STORE)
            .map(|index| {
                let down = (wave * WAVE_ROWS) as u32 + index * ROWS_PER_STORE;
                let row = ptx.add(self.row, down);
                (ptx.mad_wide(self.stride, down, self.first), ptx.lt(row, self.rows))
            })
            .collect()
    }

    fn store(
        &self,
        ptx: &mut Ptx,
        staging: &Staging,
        rows: &Self::Rows,
        (first_column, columns): (usize, usize),
    ) {
        let column = ptx.add(self.column, first_column as u32);
        let mut in_columns = ptx.lt(column, self.columns);
        if columns < RESULT_COLUMNS {
            let in_subtile = ptx.lt(self.vector, (columns / VECTOR) as u32);
            in_columns = ptx.both(in_columns, in_subtile);
        }
        for (index, &(row, in_rows)) in (0..).zip(rows) {
            let vector = staging.read(ptx, index);
            let exists = ptx.both(in_rows, in_columns);
            ptx.store_global_16_if(Global(row, 2 * first_column as u32), vector, exists);
        }
    }
}

//! Stores rows that are not aligned: 32 neighbouring results of a row at once, one from each lane.

use octile_core::plan::hopper::WAVE_ROWS;

use super::staged::{ROWS, Staging, StoreSubtile};
use crate::hopper::{
    parts::{
        cta::{Cta, Fragment},
        schedule::Tile,
    },
    ptx::{B32, B64, Global, Ptx},
};

/// Lanes of a warp, and columns that it stores at once.
const LANES: u32 = 32;

/// Addresses of the results that a lane stores.
pub(super) struct ElementStore {
    /// The lane's column in the warp's first row.
    first: B64,
    /// The warp's first row, and the lane's first column.
    row: B32,
    column: B32,
    rows: B32,
    columns: B32,
    /// Bytes from row to row.
    stride: B32,
    lane: B32,
}

impl ElementStore {
    pub(super) fn new(ptx: &mut Ptx, cta: &Cta<'_>, fragment: Fragment, tile: Tile) -> Self {
        let stride = ptx.number("out_stride");
        let stride = ptx.shl(stride, 1);
        let row = ptx.add(tile.a_row, fragment.warp_row);
        let column = ptx.add(tile.b_row, cta.lane);
        let pointer = ptx.pointer("out");
        let row_start = ptx.mad_wide(row, stride, pointer);
        let first = ptx.mad_wide(column, 2, row_start);
        Self { first, row, column, rows: ptx.number("m"), columns: ptx.number("n"), stride, lane: cta.lane }
    }
}

impl StoreSubtile for ElementStore {
    /// The first row of the wave, beside the first one of the warp.
    type Rows = u32;

    fn rows(&self, _: &mut Ptx, wave: usize) -> u32 {
        (wave * WAVE_ROWS) as u32
    }

    fn store(
        &self,
        ptx: &mut Ptx,
        staging: &Staging,
        first_row: &u32,
        (first_column, columns): (usize, usize),
    ) {
        let (first_column, columns) = (first_column as u32, columns as u32);
        for at in (0..columns).step_by(LANES as usize) {
            let column = ptx.add(self.column, first_column + at);
            let mut in_columns = ptx.lt(column, self.columns);
            if columns - at < LANES {
                let in_subtile = ptx.lt(self.lane, columns - at);
                in_columns = ptx.both(in_columns, in_subtile);
            }
            for row in 0..ROWS {
                let down = first_row + row;
                let value = staging.read_element(ptx, row, at);
                let address = ptx.mad_wide(self.stride, down, self.first);
                let below = ptx.add(self.row, down);
                let in_rows = ptx.lt(below, self.rows);
                let exists = ptx.both(in_rows, in_columns);
                ptx.store_global_b16_if(Global(address, 2 * (first_column + at)), value, exists);
            }
        }
    }
}

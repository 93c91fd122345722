//! Tiles whose columns belong to two quantization blocks of the weight, and so have two weight scales.

use octile_core::plan::hopper::HopperPlan;

use super::{scales::weight_scale_rows, schedule::Tile};
use crate::hopper::ptx::{B32, F32, Ptx};

/// The column of a tile at which its second weight scale starts.
pub(crate) struct Boundary {
    /// Every such column of the plan's tiles, in order. The tile's width stands for tiles with one scale.
    columns: Vec<usize>,
    /// That of the current tile, where tiles differ.
    current: Option<B32>,
}

impl Boundary {
    pub(crate) fn new(ptx: &mut Ptx, plan: &HopperPlan) -> Self {
        let width = plan.shape.tile.b;
        let mut columns: Vec<usize> = plan.boundaries().into_iter().map(|at| at.unwrap_or(width)).collect();
        columns.sort_unstable();
        let current = (columns.len() > 1).then(|| ptx.variable(0));
        Self { columns, current }
    }

    /// Whether tiles differ in it.
    pub(crate) fn differs(&self) -> bool {
        self.current.is_some()
    }

    /// Moves to a tile.
    pub(crate) fn set(&self, ptx: &mut Ptx, tile: Tile) {
        if let Some(current) = self.current {
            let [first, next] = weight_scale_rows(ptx, tile);
            let column = ptx.sub(next, first);
            ptx.set(current, column);
        }
    }

    /// Emits `body` once for each column, and a branch to the one of the current tile.
    pub(crate) fn for_each_column(&self, ptx: &mut Ptx, mut body: impl FnMut(&mut Ptx, usize)) {
        let end = ptx.label();
        let (last, others) = self.columns.split_last().expect("a problem has tiles");
        for &column in others {
            let next = ptx.label();
            let is_current = ptx.eq(self.current.expect("there are several columns"), column as u32);
            ptx.jump_unless(is_current, next);
            body(ptx, column);
            ptx.jump(end);
            ptx.place(next);
        }
        body(ptx, *last);
        ptx.place(end);
    }

    /// Scales of the thread's two rows in every group of 8 columns; `scale` makes those of the first or
    /// second weight scale. With `column` the code is specialized for one boundary, else it selects at run
    /// time.
    pub(crate) fn column_scales(
        &self,
        ptx: &mut Ptx,
        width: usize,
        column: Option<usize>,
        mut scale: impl FnMut(&mut Ptx, usize) -> [F32; 2],
    ) -> Vec<[F32; 2]> {
        let before = scale(ptx, 0);
        let mut all = vec![before; width / 8];
        let columns = column.as_ref().map_or(&self.columns[..], std::slice::from_ref);
        if columns == [width] {
            return all;
        }
        let after = scale(ptx, 1);
        all[columns[columns.len() - 1] / 8..].fill(after);
        for between in columns.windows(2) {
            let is_before = ptx.ge(self.current.expect("there are several columns"), between[1] as u32);
            let selected = [0, 1].map(|row| ptx.select_f32(before[row], after[row], is_before));
            all[between[0] / 8..between[1] / 8].fill(selected);
        }
        all
    }
}

//! Blocks of rows that stream past w.

use octile_mosaic::Value;

/// Buffers of the rows that whole blocks leave over. The first step multiplies them.
#[derive(Clone, Copy)]
pub(super) struct ShortBlock {
    pub(super) x: Value,
    pub(super) x_scale: Value,
    pub(super) out: Value,
}

/// Part of a block's result: stored at the block's end, or finished and stored during the next one.
#[derive(Clone, Copy)]
pub(super) enum Share {
    Early,
    Late,
}

/// A block of rows.
#[derive(Clone, Copy)]
pub(super) struct RowBlock {
    /// First row in x, as i32.
    pub(super) row: Value,
    /// First row in its stage.
    pub(super) begins: usize,
    pub(super) rows: usize,
    /// Its stage and that of its result, as i32; `None` for the rows that are left over.
    pub(super) stages: Option<(Value, Value)>,
    /// Its semaphores, as i32: of the loads and of the store.
    pub(super) lanes: (Value, Value),
    /// Semaphore of the store of its last products, as i32; `None` where they are stored with all others.
    pub(super) late: Option<Value>,
}

impl RowBlock {
    /// First row in its stage and number.
    pub(super) fn rows(self) -> (usize, usize) {
        (self.begins, self.rows)
    }
}

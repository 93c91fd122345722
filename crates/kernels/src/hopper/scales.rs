//! Scales: how they get to the multiplying threads.

use octile_core::{
    ScaleGranularity,
    plan::hopper::{COPIED_AT_ONCE, HopperPlan, STAGE_K, WAVE_ROWS},
};

use super::{
    frame::{Frame, Place},
    producer::FetchedOperands,
    ptx::{B32, B64, F32, Global, Ptx, Shared},
    ring::Cursor,
    schedule::{Stages, Tile, for_each_unit},
};

/// Where scales are in device memory.
struct Layout {
    pointer: B64,
    /// Rows that share a scale, as a shift.
    shift: B32,
    /// Bytes from row to row.
    row: B32,
    /// Bytes from quantization block to quantization block along K.
    k: B32,
}

impl Layout {
    fn of_x(ptx: &mut Ptx) -> Self {
        let shift = ptx.number("x_scale_shift");
        Self::new(ptx, "x_scale", shift, "x_scale_row", "x_scale_k")
    }

    fn of_w(ptx: &mut Ptx) -> Self {
        let shift = ptx.number("quant_shift");
        Self::new(ptx, "w_scale", shift, "w_scale_row", "w_scale_k")
    }

    fn new(ptx: &mut Ptx, pointer: &str, shift: B32, row: &str, k: &str) -> Self {
        let pointer = ptx.pointer(pointer);
        let (row, k) = (ptx.number(row), ptx.number(k));
        Self { pointer, shift, row: ptx.shl(row, 2), k: ptx.shl(k, 2) }
    }

    /// Where the scales of `row` start; beyond the last row, those of the last.
    fn of_row(&self, ptx: &mut Ptx, row: B32, rows: B32) -> B64 {
        let last = ptx.sub(rows, 1);
        let row = ptx.min(row, last);
        let block = ptx.shr(row, self.shift);
        ptx.mad_wide(block, self.row, self.pointer)
    }

    fn at(&self, ptx: &mut Ptx, of_row: B64, quant_k: B32) -> Global {
        Global(ptx.mad_wide(quant_k, self.k, of_row), 0)
    }
}

/// The quantization block along K that a stage lies in.
fn quant_k(ptx: &mut Ptx, k_block: B32) -> B32 {
    let shift = ptx.number("quant_shift");
    let shift = ptx.sub(shift, STAGE_K.ilog2());
    ptx.shr(k_block, shift)
}

/// Rows of the weight at which the two scales of a tile of B start: the tile's first, and that of the next quantization block.
fn straddled_rows(ptx: &mut Ptx, tile: Tile) -> [B32; 2] {
    let shift = ptx.number("quant_shift");
    let block = ptx.shr(tile.b_row, shift);
    let next = ptx.add(block, 1);
    [tile.b_row, ptx.shl(next, shift)]
}

/// The warp that copies the scales of every stage into the ring, whatever their layout. Where the scales of four rows lie
/// side by side and start at a multiple of 16 bytes, they are copied at once. `operands` are those that it asks for as well. What it
/// fetches may be what the kernel before writes.
pub(super) fn fetch(ptx: &mut Ptx, frame: &Frame<'_>, operands: Option<&FetchedOperands>) {
    if shares_wave(frame.plan) {
        return fetch_by(ptx, frame, operands, Copies::OnePerWave);
    }
    let (row, k, shift) = (ptx.number("x_scale_row"), ptx.number("x_scale_k"), ptx.number("x_scale_shift"));
    let misaligned = ptx.and(k, COPIED_AT_ONCE as u32 - 1);
    let other = ptx.sub(row, 1);
    let other = ptx.or(other, shift);
    let other = ptx.or(other, misaligned);
    let single = ptx.ne(other, 0);
    let (singly, end) = (ptx.label(), ptx.label());
    ptx.jump_if(single, singly);
    fetch_by(ptx, frame, operands, Copies::Rows(COPIED_AT_ONCE as u32));
    ptx.jump(end);
    ptx.place(singly);
    fetch_by(ptx, frame, operands, Copies::Rows(1));
    ptx.place(end);
}

/// Whether the rows of a wave have one scale of x: blocks have at least two waves of rows, and tiles start with a wave.
fn shares_wave(plan: &HopperPlan) -> bool {
    plan.problem.x.granularity() == Some(ScaleGranularity::Block) && !plan.shape.swapped
}

/// What a lane copies of the scales of x.
#[derive(Clone, Copy)]
enum Copies {
    /// Those of so many rows at a time.
    Rows(u32),
    /// The one of all rows of a wave.
    OnePerWave,
}

/// As [`fetch`], with the given copies.
fn fetch_by(ptx: &mut Ptx, frame: &Frame<'_>, operands: Option<&FetchedOperands>, copies: Copies) {
    let plan = frame.plan;
    // Rows at a time, scales that a stage has, and rows from one to the next.
    let (rows, x_scales, apart) = match copies {
        Copies::Rows(rows) => (rows, plan.x_and_w_rows().0 as u32, 1),
        Copies::OnePerWave => (1, (plan.shape.tile.a / WAVE_ROWS) as u32, WAVE_ROWS as u32),
    };
    let (x, w) = (Layout::of_x(ptx), Layout::of_w(ptx));
    let (m, n) = (ptx.number("m"), ptx.number("n"));
    let w_scales = plan.w_scales_per_stage() as u32;
    let first_scale = ptx.mul(frame.lane, rows);
    let first_row = ptx.mul(first_scale, apart);
    let cursor = Cursor::new(ptx);
    let stages = Stages::new(ptx, frame);
    let waited = ptx.variable(0);
    for_each_unit(ptx, frame, |ptx, unit| {
        let tile = unit.tile(ptx, frame);
        let x_row = if plan.shape.swapped { tile.b_row } else { tile.a_row };
        // Rows beyond the last have scale 0.
        let sources: Vec<(B64, B32)> = (0..x_scales.div_ceil(32 * rows))
            .map(|part| {
                let row = ptx.add(x_row, first_row);
                let row = ptx.add(row, 32 * rows * apart * part);
                let inside = ptx.min(row, m);
                let left = ptx.sub(m, inside);
                let left = ptx.min(left, rows);
                let last = ptx.sub(m, 1);
                // A copy of several rows starts at a multiple of them, also where nothing of it is copied.
                let last = ptx.and(last, !(rows - 1));
                let row = ptx.min(row, last);
                (x.of_row(ptx, row, m), ptx.shl(left, 2))
            })
            .collect();
        let w_row = if plan.shape.swapped {
            ptx.mad(frame.lane, WAVE_ROWS as u32, tile.a_row)
        } else {
            let rows = straddled_rows(ptx, tile);
            let is_first = ptx.eq(frame.lane, 0);
            ptx.select(rows[0], rows[1], is_first)
        };
        let w_source = w.of_row(ptx, w_row, n);
        let four = ptx.variable(4);
        let copies_w = ptx.lt(frame.lane, w_scales);
        let k_block = ptx.variable(stages.first);
        // In a branch of its own: otherwise the assembler moves what is above behind the wait.
        let is_first = ptx.eq(waited, 0);
        ptx.when(is_first, |ptx| {
            ptx.wait_for_previous_kernel();
            ptx.set(waited, 1);
        });
        ptx.while_(
            |ptx| ptx.lt(k_block, stages.end),
            |ptx| {
                let empty = frame.buffer(ptx, "empty", cursor.stage);
                let full = frame.buffer(ptx, "full", cursor.stage);
                let turn_before = ptx.xor(cursor.turn, 1);
                ptx.wait(empty, turn_before);
                let quant_k = quant_k(ptx, k_block);
                let x_ring = frame.buffer(ptx, "x_scale", cursor.stage);
                let x_ring = ptx.mad(first_scale, 4, x_ring);
                for (part, (source, bytes)) in (0..).zip(&sources) {
                    let source = x.at(ptx, *source, quant_k);
                    let destination = Shared(x_ring, 128 * rows * part);
                    let copy = |ptx: &mut Ptx| match rows {
                        1 => ptx.copy_4(destination, source, *bytes),
                        _ => ptx.copy_16(destination, source, *bytes),
                    };
                    let scales_left = x_scales - 32 * rows * part;
                    if scales_left >= 32 * rows {
                        copy(ptx);
                    } else {
                        let exists = ptx.lt(first_scale, scales_left);
                        ptx.when(exists, copy);
                    }
                }
                ptx.when(copies_w, |ptx| {
                    let w_ring = frame.buffer(ptx, "w_scale", cursor.stage);
                    let w_ring = ptx.mad(frame.lane, 4, w_ring);
                    let source = w.at(ptx, w_source, quant_k);
                    ptx.copy_4(Shared(w_ring, 0), source, four);
                });
                // Behind the scales: the other way round 192 x 128 tiles took 0.4 % longer with K of 8192, and no less with short K.
                if let Some(operands) = operands {
                    ptx.in_one_lane(|ptx| operands.fetch(ptx, frame, tile, k_block, cursor.stage));
                }
                ptx.arrive_after_copies(full);
                cursor.advance(ptx, frame);
                ptx.increase(k_block, 1);
            },
        );
    });
}

/// The scales that a multiplying thread needs in one stage.
pub(super) struct StageScales {
    /// Unswapped: of the thread's two rows in every wave.
    pub(super) x: Vec<[F32; 2]>,
    /// Unswapped: of the columns before and after the boundary. Swapped: of every wave.
    pub(super) w: Vec<F32>,
    /// Swapped: where the scales of x are in shared memory, for the thread's first column.
    pub(super) x_columns: Option<B32>,
}

impl StageScales {
    /// Registers for what the ring has for a stage.
    pub(super) fn variables(ptx: &mut Ptx, plan: &HopperPlan) -> Self {
        let (x, w) = if plan.shape.swapped { (0, plan.waves()) } else { (plan.waves(), 2) };
        Self {
            x: (0..x).map(|_| [ptx.f32(), ptx.f32()]).collect(),
            w: (0..w).map(|_| ptx.f32()).collect(),
            x_columns: plan.shape.swapped.then(|| ptx.variable(0)),
        }
    }

    /// Sets such registers.
    pub(super) fn set(&self, ptx: &mut Ptx, scales: &Self) {
        let floats = |of: &Self| of.x.iter().flatten().chain(&of.w).copied().collect::<Vec<F32>>();
        assert_eq!(floats(self).len(), floats(scales).len(), "these are registers for other scales");
        for (variable, scale) in floats(self).into_iter().zip(floats(scales)) {
            ptx.copy_float(variable, scale);
        }
        if let (Some(variable), Some(columns)) = (self.x_columns, scales.x_columns) {
            ptx.set(variable, columns);
        }
    }
}

/// How a multiplying thread gets at scales.
pub(super) enum Reader {
    /// From the ring.
    Ring,
    /// From device memory, beside the product. Starts of the thread's rows in every wave, then of the two weight scales.
    Memory { x: ScaleRows, w: ScaleRows },
}

/// A layout with the rows that a thread reads.
pub(super) struct ScaleRows {
    layout: Layout,
    rows: Vec<B64>,
}

impl Reader {
    /// A reader of device memory for one tile.
    pub(super) fn of_memory(ptx: &mut Ptx, frame: &Frame<'_>, place: Place, tile: Tile) -> Self {
        assert!(!frame.plan.shape.swapped, "only strip swaps operands, and its scales travel in the ring");
        let (x, w) = (Layout::of_x(ptx), Layout::of_w(ptx));
        let (m, n) = (ptx.number("m"), ptx.number("n"));
        let first = ptx.add(tile.a_row, place.warp_row);
        let first = ptx.add(first, place.lane_row);
        let offsets = (0..frame.plan.waves()).flat_map(|wave| [wave * WAVE_ROWS, wave * WAVE_ROWS + 8]);
        let x_rows = offsets
            .map(|offset| {
                let row = ptx.add(first, offset as u32);
                x.of_row(ptx, row, m)
            })
            .collect();
        let w_rows = straddled_rows(ptx, tile).into_iter().map(|row| w.of_row(ptx, row, n)).collect();
        Self::Memory { x: ScaleRows { layout: x, rows: x_rows }, w: ScaleRows { layout: w, rows: w_rows } }
    }

    /// Reads what one stage needs.
    pub(super) fn read(
        &self,
        ptx: &mut Ptx,
        frame: &Frame<'_>,
        place: Place,
        stage: B32,
        k_block: B32,
    ) -> StageScales {
        match self {
            Self::Memory { x, w } => {
                let quant_k = quant_k(ptx, k_block);
                let mut load = |side: &ScaleRows| -> Vec<F32> {
                    let rows = side.rows.iter();
                    rows.map(|&row| {
                        let at = side.layout.at(ptx, row, quant_k);
                        ptx.load_global_f32(at)
                    })
                    .collect()
                };
                let x = load(x).chunks(2).map(|pair| [pair[0], pair[1]]).collect();
                StageScales { x, w: load(w), x_columns: None }
            }
            Self::Ring => read_ring(ptx, frame, place, stage),
        }
    }
}

fn read_ring(ptx: &mut Ptx, frame: &Frame<'_>, place: Place, stage: B32) -> StageScales {
    let plan = frame.plan;
    let x_ring = frame.buffer(ptx, "x_scale", stage);
    let w_ring = frame.buffer(ptx, "w_scale", stage);
    if plan.shape.swapped {
        let wave = ptx.shr(place.warp_row, WAVE_ROWS.ilog2());
        let w_ring = ptx.mad(wave, 4, w_ring);
        let w = (0..plan.waves() as u32).map(|wave| ptx.load_shared_f32(Shared(w_ring, 4 * wave))).collect();
        return StageScales { x: Vec::new(), w, x_columns: Some(ptx.mad(place.column, 4, x_ring)) };
    }
    let x = if shares_wave(plan) {
        let wave = ptx.shr(place.warp_row, WAVE_ROWS.ilog2());
        let at = ptx.mad(wave, 4, x_ring);
        let scales = (0..plan.waves() as u32).map(|wave| ptx.load_shared_f32(Shared(at, 4 * wave)));
        scales.map(|scale| [scale; 2]).collect()
    } else {
        let row = ptx.add(place.warp_row, place.lane_row);
        let at = ptx.mad(row, 4, x_ring);
        let scale = |ptx: &mut Ptx, row: usize| ptx.load_shared_f32(Shared(at, 4 * row as u32));
        (0..plan.waves()).map(|wave| [0, 8].map(|row| scale(ptx, wave * WAVE_ROWS + row))).collect()
    };
    let w = ptx.load_shared_floats::<2>(Shared(w_ring, 0)).to_vec();
    StageScales { x, w, x_columns: None }
}

/// Where in a tile the second weight scale begins, by column.
pub(super) struct Boundary {
    /// All columns where it does in some tile, in order; the width of a tile stands for tiles without a second scale.
    columns: Vec<usize>,
    /// That of the tile at hand, where there are several.
    here: Option<B32>,
}

impl Boundary {
    pub(super) fn new(ptx: &mut Ptx, plan: &HopperPlan) -> Self {
        let width = plan.shape.tile.b;
        let mut columns: Vec<usize> = plan.boundaries().into_iter().map(|at| at.unwrap_or(width)).collect();
        columns.sort_unstable();
        let here = (columns.len() > 1).then(|| ptx.variable(0));
        Self { columns, here }
    }

    /// Whether it is not the same in all tiles.
    pub(super) fn differs(&self) -> bool {
        self.here.is_some()
    }

    /// Goes to a tile.
    pub(super) fn set(&self, ptx: &mut Ptx, tile: Tile) {
        if let Some(here) = self.here {
            let [first, next] = straddled_rows(ptx, tile);
            let columns = ptx.sub(next, first);
            ptx.set(here, columns);
        }
    }

    /// Emits `body` for each of several columns, and a choice among them for the tile at hand.
    pub(super) fn for_each_column(&self, ptx: &mut Ptx, mut body: impl FnMut(&mut Ptx, usize)) {
        let end = ptx.label();
        let (last, others) = self.columns.split_last().expect("a problem has tiles");
        for &column in others {
            let next = ptx.label();
            let is_here = ptx.eq(self.here.expect("there are several columns"), column as u32);
            ptx.jump_unless(is_here, next);
            body(ptx, column);
            ptx.jump(end);
            ptx.place(next);
        }
        body(ptx, *last);
        ptx.place(end);
    }

    /// The scales of the thread's two rows in every group of eight columns, made from the one before the boundary and the one after.
    /// `begins` says where the second begins if this code is for one such column; else the kernel chooses.
    pub(super) fn scales_of_columns(
        &self,
        ptx: &mut Ptx,
        width: usize,
        begins: Option<usize>,
        mut scale: impl FnMut(&mut Ptx, usize) -> [F32; 2],
    ) -> Vec<[F32; 2]> {
        let before = scale(ptx, 0);
        let mut all = vec![before; width / 8];
        let columns = begins.as_ref().map_or(&self.columns[..], std::slice::from_ref);
        if columns == [width] {
            return all;
        }
        let after = scale(ptx, 1);
        all[columns[columns.len() - 1] / 8..].fill(after);
        for between in columns.windows(2) {
            let is_before = ptx.ge(self.here.expect("there are several columns"), between[1] as u32);
            let chosen = [0, 1].map(|row| ptx.select_f32(before[row], after[row], is_before));
            all[between[0] / 8..between[1] / 8].fill(chosen);
        }
        all
    }
}

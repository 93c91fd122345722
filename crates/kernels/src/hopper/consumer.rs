//! The warpgroups that multiply.

use octile_core::plan::hopper::Together;

use super::{
    epilogue,
    frame::{Frame, K_STEPS, Operands, Place},
    ptx::{B32, F32, Ptx, Shared},
    ring::{Cursor, carries_scales, shares},
    scales::{Reader, StageScales, boundary},
    schedule::for_each_tile,
    split,
};

/// The f32 sums of a thread, and the registers that the tensor cores add up one stage in.
pub(super) struct Sums {
    /// One block of sums per wave.
    pub(super) waves: Vec<Vec<F32>>,
    partial: Vec<F32>,
}

impl Sums {
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let count = frame.plan.wave_columns() / 2;
        let waves = (0..frame.plan.waves()).map(|_| ptx.f32s(count)).collect();
        Self { waves, partial: ptx.f32s(count) }
    }

    pub(super) fn clear(&self, ptx: &mut Ptx) {
        for &sum in self.waves.iter().flatten() {
            ptx.set_float(sum, 0.0);
        }
    }

    /// Starts the products of one wave of a stage. The tensor cores keep about 13 bits inside a chain, so a chain
    /// ends with the stage and is added to the sums in f32.
    ///
    /// `fragments` holds A where it is kept in registers; then waves go along the columns, else along the rows.
    pub(super) fn start(
        &self,
        ptx: &mut Ptx,
        frame: &Frame<'_>,
        operands: &Operands,
        fragments: Option<&[[B32; 4]]>,
        stage: B32,
        wave: usize,
    ) {
        let columns = frame.plan.wave_columns();
        ptx.wgmma_fence();
        for step in 0..K_STEPS {
            let add = ptx.ne(step, 0);
            if let Some(fragments) = fragments {
                let b = operands.b(ptx, frame, stage, wave, step);
                ptx.wgmma_registers(&self.partial, columns, fragments[step as usize], b, add);
            } else {
                let a = operands.a(ptx, frame, stage, wave, step);
                let b = operands.b(ptx, frame, stage, 0, step);
                ptx.wgmma(&self.partial, columns, a, b, add);
            }
        }
        ptx.wgmma_commit();
    }

    /// Adds the finished products of one wave to the sums, scaled.
    pub(super) fn promote(
        &self,
        ptx: &mut Ptx,
        frame: &Frame<'_>,
        scales: &StageScales,
        boundary: Option<B32>,
        wave: usize,
    ) {
        let chunks = self.waves[wave].chunks(4).zip(self.partial.chunks(4)).enumerate();
        if let Some(columns) = scales.x_columns {
            for (chunk, (sums, partial)) in chunks {
                let x = ptx.load_shared_f32x2(Shared(columns, 32 * chunk as u32));
                let scale = x.map(|x| ptx.mul_f32(x, scales.w[wave]));
                for (at, (&sum, &partial)) in sums.iter().zip(partial).enumerate() {
                    ptx.fma_into(sum, partial, scale[at % 2]);
                }
            }
            return;
        }
        let (row_wave, column_wave) = if frame.plan.column_waves() > 1 { (0, wave) } else { (wave, 0) };
        let scale = |ptx: &mut Ptx, w: usize| scales.x[row_wave].map(|x| ptx.mul_f32(x, scales.w[w]));
        let before = scale(ptx, column_wave);
        let Some(boundary) = boundary else {
            return self.add_rows(ptx, wave, |_| before);
        };
        // A copy of the code for every place where the second scale can begin: cheaper than to choose for each sum.
        let after = scale(ptx, 1);
        let end = ptx.label();
        for columns in frame.plan.boundaries() {
            let is_here = ptx.eq(boundary, columns as u32);
            let next = ptx.label();
            ptx.jump_unless(is_here, next);
            self.add_rows(ptx, wave, |column| if column < columns { before } else { after });
            ptx.jump(end);
            ptx.place(next);
        }
        self.add_rows(ptx, wave, |_| before);
        ptx.place(end);
    }

    /// Adds the products of a wave, with a scale for each of the thread's two rows in each column.
    fn add_rows(&self, ptx: &mut Ptx, wave: usize, scale_of: impl Fn(usize) -> [F32; 2]) {
        for (chunk, (sums, partial)) in self.waves[wave].chunks(4).zip(self.partial.chunks(4)).enumerate() {
            let scale = scale_of(8 * chunk);
            for (at, (&sum, &partial)) in sums.iter().zip(partial).enumerate() {
                ptx.fma_into(sum, partial, scale[at / 2]);
            }
        }
    }
}

pub(super) fn emit(ptx: &mut Ptx, frame: &Frame<'_>) {
    let plan = frame.plan;
    let place = Place::new(ptx, frame);
    let operands = Operands::new(ptx, frame);
    let sums = Sums::new(ptx, frame);
    let cursor = Cursor::new(ptx);
    for_each_tile(ptx, frame, |ptx, tile| {
        let boundary = (!plan.boundaries().is_empty()).then(|| boundary(ptx, frame, tile));
        let reader =
            if carries_scales(plan) { Reader::Ring } else { Reader::of_memory(ptx, frame, place, tile) };
        sums.clear(ptx);
        let k_block = ptx.variable(tile.first);
        ptx.while_(
            |ptx| ptx.lt(k_block, tile.end),
            |ptx| {
                let full = frame.buffer(ptx, "full", cursor.stage);
                ptx.wait(full, cursor.turn);
                let scales = reader.read(ptx, frame, place, cursor.stage, k_block);
                let fragments = (plan.column_waves() > 1).then(|| operands.load_a(ptx, frame, cursor.stage));
                for wave in 0..plan.waves() {
                    sums.start(ptx, frame, &operands, fragments.as_deref(), cursor.stage, wave);
                    ptx.wgmma_wait(0);
                    // Swapped products still read their scales from the ring.
                    let is_last = wave + 1 == plan.waves();
                    if is_last && !plan.shape.swapped {
                        release(ptx, frame, &cursor);
                    }
                    sums.promote(ptx, frame, &scales, boundary, wave);
                    if is_last && plan.shape.swapped {
                        release(ptx, frame, &cursor);
                    }
                }
                cursor.advance(ptx, frame);
                ptx.increase(k_block, 1);
            },
        );
        match plan.shape.together {
            Together::SplitK(parts) => split::add_up(ptx, frame, place, tile, &sums, parts),
            _ => epilogue::store(ptx, frame, place, tile, &sums, |_, _, _| None),
        }
    });
}

/// Tells whoever fetches into this stage that the warp is done with it.
fn release(ptx: &mut Ptx, frame: &Frame<'_>, cursor: &Cursor) {
    let empty = frame.buffer(ptx, "empty", cursor.stage);
    if shares(frame.plan) {
        let arrives = ptx.lt(frame.lane, 2);
        ptx.when(arrives, |ptx| {
            let empty = ptx.of_block(empty, frame.lane);
            ptx.arrive_in_cluster(empty);
        });
    } else {
        let arrives = ptx.eq(frame.lane, 0);
        ptx.when(arrives, |ptx| ptx.arrive(empty));
    }
}

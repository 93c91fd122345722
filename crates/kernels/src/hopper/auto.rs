//! `auto`: plain loads through registers into two buffers. Nothing is scheduled by hand: the assembler moves loads up
//! as far as the registers let it.

use octile_core::plan::hopper::{HopperPlan, STAGE_K};

use super::{
    epilogue,
    frame::{Frame, Operands, Place},
    ptx::{B32, B64, Global, Pred, Ptx, Shared},
    scales::{Boundary, Reader},
    schedule::{Stages, for_each_unit},
    sums::{Chain, Products, Promotion, Sums},
};

/// Bytes of one load, and how many cover the depth of a stage.
const VECTOR: u32 = 16;
const VECTORS_PER_ROW: u32 = STAGE_K as u32 / VECTOR;

pub(super) fn emit(ptx: &mut Ptx, plan: &HopperPlan) {
    let frame = Frame::new(ptx, plan);
    let place = Place::new(ptx, &frame);
    let operands = Operands::new(ptx, &frame);
    let sums = Sums::new(ptx, &frame);
    let boundary = Boundary::new(ptx, plan);
    ptx.wait_for_previous_kernel();
    ptx.let_next_kernel_start();
    let stages = Stages::new(ptx, &frame);
    for_each_unit(ptx, &frame, |ptx, unit| {
        let tile = unit.tile(ptx, &frame);
        boundary.set(ptx, tile);
        let reader = Reader::of_memory(ptx, &frame, place, tile);
        let sources = [
            Source::new(ptx, &frame, "a", "x", "x_stride", "m", tile.a_row, plan.shape.tile.a),
            Source::new(ptx, &frame, "b", "w", "w_stride", "n", tile.b_row, plan.shape.tile.b),
        ];
        sums.clear(ptx);
        let k_block = ptx.variable(stages.first);
        let buffer = ptx.variable(0);
        for source in &sources {
            source.load(ptx, plan, k_block);
            source.store(ptx, &frame, buffer);
        }
        publish(ptx);
        ptx.while_(
            |ptx| ptx.lt(k_block, stages.end),
            |ptx| {
                let scales = reader.read(ptx, &frame, place, buffer, k_block);
                for wave in 0..plan.waves() {
                    let products = Products::of_wave(wave);
                    sums.start(ptx, &frame, &operands, buffer, products, Chain::STAGE);
                    ptx.wgmma_wait(0);
                    sums.promote(ptx, &scales, &boundary, None, products, Promotion::Add);
                }
                ptx.increase(k_block, 1);
                ptx.flip(buffer, 1);
                for source in &sources {
                    source.load(ptx, plan, k_block);
                    source.store(ptx, &frame, buffer);
                }
                publish(ptx);
            },
        );
        epilogue::store(ptx, &frame, place, tile, &sums, |_, _, _| None);
    });
}

/// Lets the tensor cores of every warp see what was stored.
fn publish(ptx: &mut Ptx) {
    ptx.fence_shared_stores();
    ptx.block_barrier();
}

/// One operand: what a thread loads of it and where it puts that.
struct Source {
    name: &'static str,
    /// The thread's vectors of a stage: where they start, whether their row exists, their registers.
    vectors: Vec<(B64, Pred, [B32; 4])>,
    /// First byte of the vectors in their row.
    column: B32,
    /// Where the first vector goes in a buffer; the others follow at equal distances.
    destination: B32,
}

impl Source {
    #[allow(clippy::too_many_arguments, reason = "names of one operand's parameters, given once each")]
    fn new(
        ptx: &mut Ptx,
        frame: &Frame<'_>,
        name: &'static str,
        pointer: &str,
        stride: &str,
        rows: &str,
        first_row: B32,
        tile_rows: usize,
    ) -> Self {
        let (pointer, stride, rows) = (ptx.pointer(pointer), ptx.number(stride), ptx.number(rows));
        let row = ptx.shr(frame.thread, VECTORS_PER_ROW.ilog2());
        let vector = ptx.and(frame.thread, VECTORS_PER_ROW - 1);
        let column = ptx.mul(vector, VECTOR);
        // The 128-byte swizzle: a row's vectors change places by the row's index in its group of 8.
        let swizzle = ptx.and(row, 7);
        let swizzled = ptx.xor(vector, swizzle);
        let in_row = ptx.mul(swizzled, VECTOR);
        let destination = ptx.mad(row, STAGE_K as u32, in_row);
        let rows_at_once = frame.consumer_threads() / VECTORS_PER_ROW;
        let vectors = (0..tile_rows as u32 / rows_at_once)
            .map(|part| {
                let row = ptx.add(row, rows_at_once * part);
                let row = ptx.add(row, first_row);
                let start = ptx.mad_wide(row, stride, pointer);
                let start = ptx.mad_wide(column, 1, start);
                (start, ptx.lt(row, rows), [(); 4].map(|()| ptx.b32()))
            })
            .collect();
        Self { name, vectors, column, destination }
    }

    /// Loads the vectors of a stage; what lies beyond the matrix becomes zeros.
    fn load(&self, ptx: &mut Ptx, plan: &HopperPlan, k_block: B32) {
        let k = ptx.number("k");
        let column = ptx.mad(k_block, STAGE_K as u32, self.column);
        let in_columns = ptx.lt(column, k);
        for &(start, in_rows, registers) in &self.vectors {
            for register in registers {
                ptx.set(register, 0);
            }
            let exists = ptx.both(in_rows, in_columns);
            let at = Global(ptx.mad_wide(k_block, STAGE_K as u32, start), 0);
            ptx.load_global_16_into(registers, at, exists);
            if !plan.problem.k.is_multiple_of(VECTOR as usize) {
                mask_tail(ptx, registers, column, k);
            }
        }
    }

    fn store(&self, ptx: &mut Ptx, frame: &Frame<'_>, buffer: B32) {
        let at = frame.buffer(ptx, self.name, buffer);
        let at = ptx.add(at, self.destination);
        let step = frame.consumer_threads() / VECTORS_PER_ROW * STAGE_K as u32;
        for (part, (_, _, registers)) in (0..).zip(&self.vectors) {
            ptx.store_shared_16(Shared(at, step * part), *registers);
        }
    }
}

/// Clears the bytes at `k` and beyond in a vector that starts at `column`.
fn mask_tail(ptx: &mut Ptx, registers: [B32; 4], column: B32, k: B32) {
    for (word, register) in (0..).zip(registers) {
        let start = ptx.add(column, 4 * word);
        let end = ptx.min(start, k);
        let bytes = ptx.sub(k, end);
        let bytes = ptx.min(bytes, 4);
        let bits = ptx.shl(bytes, 3);
        // A shift by 32 gives 0, so four bytes get a mask of ones.
        let above = ptx.shl(1, bits);
        let mask = ptx.sub(above, 1);
        let kept = ptx.and(register, mask);
        ptx.set(register, kept);
    }
}

//! `auto`: all warps load operands through registers into two shared-memory buffers, and multiply. Nothing is
//! scheduled by hand: the assembler hoists loads as far as registers allow. Scales are loaded from global
//! memory, beside the data.

use octile_core::plan::{
    BufferId,
    hopper::{HopperPlan, STAGE_K},
};

use super::{
    parts::{
        accumulators::{Accumulators, Chain, Promotion, WaveProduct},
        boundary::Boundary,
        cta::{Cta, Descriptors, Fragment},
        epilogue,
        scales::ScaleReader,
        schedule::{KRange, Tile, for_each_tile},
    },
    ptx::{B32, B64, Global, Pred, Ptx, Shared},
};

/// Bytes of one load, and loads that cover a row of a stage.
const VECTOR: u32 = 16;
const VECTORS_PER_ROW: u32 = STAGE_K as u32 / VECTOR;

pub(super) fn emit(ptx: &mut Ptx, plan: &HopperPlan) {
    let cta = Cta::new(ptx, plan);
    let fragment = Fragment::new(ptx, &cta);
    let descriptors = Descriptors::new(ptx, &cta);
    let accumulators = Accumulators::new(ptx, &cta);
    let boundary = Boundary::new(ptx, plan);
    ptx.wait_for_previous_kernel();
    ptx.let_next_kernel_start();
    let k = KRange::new(ptx, &cta);
    for_each_tile(ptx, &cta, k, |ptx, work| {
        let tile = work.tile(ptx, &cta);
        boundary.set(ptx, tile);
        let scales = ScaleReader::global(ptx, &cta, fragment, tile);
        let operands = [Operand::x(ptx, &cta, tile), Operand::w(ptx, &cta, tile)];
        accumulators.clear(ptx);
        let k_block = ptx.variable(k.first);
        let buffer = ptx.variable(0);
        fill(ptx, &cta, &operands, k_block, buffer);
        ptx.while_(
            |ptx| ptx.lt(k_block, k.end),
            |ptx| {
                let scales = scales.read(ptx, &cta, fragment, buffer, k_block);
                for product in (0..plan.waves()).map(WaveProduct::of_wave) {
                    accumulators.multiply(ptx, &cta, &descriptors, buffer, product, Chain::STAGE);
                    ptx.wgmma_wait(0);
                    accumulators.promote(ptx, &scales, &boundary, None, product, Promotion::Add);
                }
                ptx.increase(k_block, 1);
                ptx.flip(buffer, 1);
                fill(ptx, &cta, &operands, k_block, buffer);
            },
        );
        epilogue::store(ptx, &cta, fragment, tile, &accumulators);
    });
}

/// Fills a buffer with both operands and makes it visible to every warp's wgmma.
fn fill(ptx: &mut Ptx, cta: &Cta<'_>, operands: &[Operand; 2], k_block: B32, buffer: B32) {
    for operand in operands {
        operand.load(ptx, cta.plan, k_block);
        operand.store(ptx, cta, buffer);
    }
    ptx.fence_shared_stores();
    ptx.block_barrier();
}

/// One operand: what a thread loads of it, and where it stores that.
struct Operand {
    id: BufferId,
    /// The thread's vectors of a stage: address, whether the row lies inside the matrix, and registers.
    vectors: Vec<(B64, Pred, [B32; 4])>,
    /// First byte of the vectors in their row.
    column: B32,
    /// Where the first vector goes in a buffer; the others follow at equal distances.
    destination: B32,
}

impl Operand {
    fn x(ptx: &mut Ptx, cta: &Cta<'_>, tile: Tile) -> Self {
        let (pointer, stride, rows) = (ptx.pointer("x"), ptx.number("x_stride"), ptx.number("m"));
        let tile_rows = cta.plan.shape.tile.a;
        Self::new(ptx, cta, BufferId::A, pointer, [stride, rows, tile.a_row], tile_rows)
    }

    fn w(ptx: &mut Ptx, cta: &Cta<'_>, tile: Tile) -> Self {
        let (pointer, stride, rows) = (ptx.pointer("w"), ptx.number("w_stride"), ptx.number("n"));
        let tile_rows = cta.plan.shape.tile.b;
        Self::new(ptx, cta, BufferId::B, pointer, [stride, rows, tile.b_row], tile_rows)
    }

    fn new(
        ptx: &mut Ptx,
        cta: &Cta<'_>,
        id: BufferId,
        pointer: B64,
        [stride, rows, first_row]: [B32; 3],
        tile_rows: usize,
    ) -> Self {
        let row = ptx.shr(cta.thread, VECTORS_PER_ROW.ilog2());
        let vector = ptx.and(cta.thread, VECTORS_PER_ROW - 1);
        let column = ptx.mul(vector, VECTOR);
        // The 128-byte swizzle: vector v of row r goes to v ^ (r & 7).
        let swizzle = ptx.and(row, 7);
        let swizzled = ptx.xor(vector, swizzle);
        let in_row = ptx.mul(swizzled, VECTOR);
        let destination = ptx.mad(row, STAGE_K as u32, in_row);
        let rows_at_once = cta.consumer_threads() / VECTORS_PER_ROW;
        let vectors = (0..tile_rows as u32 / rows_at_once)
            .map(|part| {
                let row = ptx.add(row, rows_at_once * part);
                let row = ptx.add(row, first_row);
                let start = ptx.mad_wide(row, stride, pointer);
                let start = ptx.mad_wide(column, 1, start);
                (start, ptx.lt(row, rows), [(); 4].map(|()| ptx.b32()))
            })
            .collect();
        Self { id, vectors, column, destination }
    }

    /// Loads the vectors of a stage, with zeros beyond the matrix.
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

    /// Stores the vectors into a buffer.
    fn store(&self, ptx: &mut Ptx, cta: &Cta<'_>, buffer: B32) {
        let at = cta.buffer(ptx, self.id, buffer);
        let at = ptx.add(at, self.destination);
        let step = cta.consumer_threads() / VECTORS_PER_ROW * STAGE_K as u32;
        for (part, (_, _, registers)) in (0..).zip(&self.vectors) {
            ptx.store_shared_16(Shared(at, step * part), *registers);
        }
    }
}

/// Clears the bytes from `k` on in a vector that starts at `column`.
fn mask_tail(ptx: &mut Ptx, registers: [B32; 4], column: B32, k: B32) {
    for (word, register) in (0..).zip(registers) {
        let start = ptx.add(column, 4 * word);
        let end = ptx.min(start, k);
        let bytes = ptx.sub(k, end);
        let bytes = ptx.min(bytes, 4);
        let bits = ptx.shl(bytes, 3);
        // PTX shifts by 32 give 0, so four bytes get a mask of ones.
        let above = ptx.shl(1, bits);
        let mask = ptx.sub(above, 1);
        let kept = ptx.and(register, mask);
        ptx.set(register, kept);
    }
}

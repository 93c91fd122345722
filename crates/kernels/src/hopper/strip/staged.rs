//! The epilogue through shared memory, so that whole 128-byte lines are stored: straight from registers a
//! store would touch eight rows with 32 bytes each. Warps store them ([`lines`](super::lines),
//! [`elements`](super::elements)), or TMA does.
//!
//! A warp works in *subtiles* of 16 rows x 64 columns, one 128-byte line per row.

use std::ops::Range;

use octile_core::plan::{
    BufferId,
    hopper::{HopperPlan, RESULT_COLUMNS, RESULT_ROWS, ResultPath, WAVE_ROWS},
};

use crate::hopper::{
    parts::{
        accumulators::{Accumulators, Promotion},
        consumer::Consumer,
        cta::Cta,
        scales::ScaleReader,
        schedule::{ClusterTile, Tile},
    },
    ptx::{B16, B32, F32, Ptx, Shared},
};

/// Rows of a subtile.
pub(super) const ROWS: u32 = RESULT_ROWS as u32;
/// Rows that one store of whole lines covers.
pub(super) const ROWS_PER_STORE: u32 = 4;
/// Columns of a 16-byte vector, the unit in which lanes write results and read lines.
pub(super) const VECTOR: usize = 8;
/// Bytes of a row, and of a subtile, in shared memory.
const ROW_BYTES: u32 = 2 * RESULT_COLUMNS as u32;
const SUBTILE_BYTES: u32 = ROWS * ROW_BYTES;

/// Waves whose results are stored while the last wave is multiplied.
pub(super) fn early_waves(plan: &HopperPlan) -> usize {
    if plan.result_path == ResultPath::TmaStoreByWave { plan.waves() - 1 } else { 0 }
}

/// Multiplies a CTA's only tile. In its last stage, each wave but the last is stored while the next one is
/// multiplied.
pub(super) fn multiply_only_tile(
    ptx: &mut Ptx,
    consumer: &Consumer<'_>,
    work: ClusterTile,
    k_block: B32,
) -> Tile {
    // The first stage is still being loaded, so there is nothing to hide this behind.
    let tile = consumer.locate(ptx, work);
    consumer.accumulators.clear(ptx);
    let last = ptx.sub(consumer.k.end, 1);
    consumer.multiply_stages(ptx, &ScaleReader::Stage, k_block, last);
    consumer.multiply_stage(ptx, &ScaleReader::Stage, None, k_block, Promotion::Add, |ptx, wave| {
        if let Some(done) = wave.checked_sub(1) {
            tma_store(ptx, consumer, tile, done..wave);
        }
    });
    tile
}

/// Writes the warp's part of some waves to shared memory and starts TMA stores of it. Calls go through a
/// tile's waves in order; the last one commits the group.
pub(super) fn tma_store(ptx: &mut Ptx, consumer: &Consumer<'_>, tile: Tile, waves: Range<usize>) {
    let Consumer { cta, fragment, accumulators, .. } = consumer;
    let staging = Staging::of_warp(ptx, cta);
    let per_wave = cta.plan.shape.tile.b / RESULT_COLUMNS;
    let (first, end) = (per_wave * waves.start, per_wave * waves.end);
    let at_once = cta.plan.result_path == ResultPath::TmaStore;
    if at_once {
        // TMA may still read the previous tile.
        wait_until_read(ptx);
        ptx.warp_barrier();
    }
    let at_a_time = if at_once { end - first } else { 1 };
    for subtiles in (first..end).step_by(at_a_time).map(|first| first..first + at_a_time) {
        staging.write_subtiles(ptx, cta, accumulators, subtiles.clone());
        ptx.fence_shared_stores();
        ptx.warp_barrier();
        ptx.in_one_lane(|ptx| {
            let map = ptx.tensor_map("map_out");
            let warp_row = ptx.add(tile.a_row, fragment.warp_row);
            for subtile in subtiles.clone() {
                let row = ptx.add(warp_row, (subtile / per_wave * WAVE_ROWS) as u32);
                let column = ptx.add(tile.b_row, (subtile % per_wave * RESULT_COLUMNS) as u32);
                ptx.tma_store(map, column, row, Shared(staging.base, staging.apart * subtile as u32));
            }
            if subtiles.end == per_wave * accumulators.promoted.len() {
                ptx.tma_store_commit();
            }
        });
    }
}

/// Waits until TMA has read what this warp's stores take from shared memory.
pub(super) fn wait_until_read(ptx: &mut Ptx) {
    ptx.in_one_lane(Ptx::tma_store_wait_until_read);
}

/// Stores a warp's subtiles from shared to global memory.
pub(super) trait StoreSubtile {
    /// What the subtiles of a wave have in common.
    type Rows;

    /// The rows of a wave.
    fn rows(&self, ptx: &mut Ptx, wave: usize) -> Self::Rows;

    /// Stores columns of these rows, given by the first one in the tile and their number.
    fn store(&self, ptx: &mut Ptx, staging: &Staging, rows: &Self::Rows, columns: (usize, usize));
}

/// Stores the warp's part of a tile, one subtile at a time.
pub(super) fn store_subtiles(
    ptx: &mut Ptx,
    cta: &Cta<'_>,
    accumulators: &Accumulators,
    out: &impl StoreSubtile,
) {
    let staging = Staging::of_warp(ptx, cta);
    for (wave, accumulators) in accumulators.promoted.iter().enumerate() {
        let rows = out.rows(ptx, wave);
        for (subtile, accumulators) in accumulators.chunks(RESULT_COLUMNS / 2).enumerate() {
            staging.write(ptx, cta, accumulators, 0);
            ptx.warp_barrier();
            out.store(ptx, &staging, &rows, (subtile * RESULT_COLUMNS, accumulators.len() * 2));
            ptx.warp_barrier();
        }
    }
}

/// A warp's subtiles in shared memory, with the 128-byte swizzle: vector `v` of row `r` lies at
/// `v ^ (r & 7)`, so that neither writes nor reads have bank conflicts.
pub(super) struct Staging {
    base: B32,
    /// Bytes from subtile to subtile.
    apart: u32,
    /// Address of the row that this lane writes, its first vector there, and the row's low bits.
    write_row: B32,
    write_vector: B32,
    write_swizzle: B32,
    /// Addresses that this lane reads with the even stores of lines, and with the odd ones, four rows below.
    read: [B32; 2],
    lane: B32,
}

impl Staging {
    /// All subtiles of a warp, one after the other.
    fn of_warp(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let base = cta.buffer(ptx, BufferId::Result, cta.warp);
        Self::new(ptx, cta, base, SUBTILE_BYTES)
    }

    /// The subtiles of a wave's four warps below one another, so that one TMA store takes all four.
    pub(super) fn of_waves(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let (group, warp) = (ptx.shr(cta.warp, 2), ptx.and(cta.warp, 3));
        let subtiles = cta.plan.waves() * cta.plan.shape.tile.b / RESULT_COLUMNS;
        let first = ptx.mul(group, subtiles as u32);
        let base = cta.buffer(ptx, BufferId::Result, first);
        let base = ptx.mad(warp, SUBTILE_BYTES, base);
        Self::new(ptx, cta, base, 4 * SUBTILE_BYTES)
    }

    fn new(ptx: &mut Ptx, cta: &Cta<'_>, base: B32, apart: u32) -> Self {
        // stmatrix writes four 8 x 16-byte matrices: lanes 0 to 15 address rows of one vector, the others of
        // the next.
        let row = ptx.and(cta.lane, ROWS - 1);
        let write_row = ptx.mad(row, ROW_BYTES, base);
        let write_swizzle = ptx.and(cta.lane, 7);
        let write_vector = ptx.shr(cta.lane, 4);
        let row = ptx.shr(cta.lane, 3);
        let vector = ptx.and(cta.lane, 7);
        let read = [0, ROWS_PER_STORE].map(|first| {
            let row = ptx.add(row, first);
            let at = ptx.mad(row, ROW_BYTES, base);
            let vector = ptx.xor(vector, row);
            ptx.mad(vector, 16, at)
        });
        Self { base, apart, write_row, write_vector, write_swizzle, read, lane: cta.lane }
    }

    /// Writes some of the warp's subtiles, counted through all waves of its tile.
    pub(super) fn write_subtiles(
        &self,
        ptx: &mut Ptx,
        cta: &Cta<'_>,
        accumulators: &Accumulators,
        subtiles: Range<usize>,
    ) {
        let per_wave = cta.plan.shape.tile.b / RESULT_COLUMNS;
        for subtile in subtiles {
            let wave = &accumulators.promoted[subtile / per_wave];
            let columns = &wave[subtile % per_wave * (RESULT_COLUMNS / 2)..];
            self.write(ptx, cta, &columns[..RESULT_COLUMNS / 2], subtile);
        }
    }

    fn write(&self, ptx: &mut Ptx, cta: &Cta<'_>, accumulators: &[F32], subtile: usize) {
        for (pair, values) in (0..).zip(accumulators.chunks(VECTOR)) {
            let vector = ptx.add(self.write_vector, 2 * pair);
            let vector = ptx.xor(vector, self.write_swizzle);
            let at = ptx.mad(vector, 16, self.write_row);
            let packed = [0, 2, 4, 6].map(|at| ptx.pack(cta.plan.out(), values[at], values[at + 1]));
            ptx.store_matrices(Shared(at, self.apart * subtile as u32), packed);
        }
    }

    /// This lane's result in a row of the first subtile: lanes read neighbours, the first one in `column`.
    pub(super) fn read_element(&self, ptx: &mut Ptx, row: u32, column: u32) -> B16 {
        // Subtiles are aligned, and the first row's vectors in order: the swizzle flips bits of addresses.
        let in_first_row = ptx.mad(self.lane, 2, self.base);
        let at = ptx.xor(in_first_row, (2 * column) ^ (16 * (row % 8)));
        ptx.load_shared_b16(Shared(at, row * ROW_BYTES))
    }

    /// This lane's vector in the rows of store `index`.
    pub(super) fn read(&self, ptx: &mut Ptx, index: u32) -> [B32; 4] {
        // The swizzle repeats every eight rows.
        ptx.load_shared_16(Shared(self.read[index as usize % 2], index / 2 * 8 * ROW_BYTES))
    }
}

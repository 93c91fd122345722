//! Adding up the sums of blocks that divided K among them: through shared memory, always in the order of the blocks,
//! so that the result has the same bits every time.

use super::{
    consumer::Sums,
    epilogue,
    frame::{Frame, Place},
    ptx::{B32, F32, Ptx, Shared},
    schedule::Tile,
};

/// Adds up and stores. Every block stores a part of the tile.
pub(super) fn add_up(ptx: &mut Ptx, frame: &Frame<'_>, place: Place, tile: Tile, sums: &Sums, parts: usize) {
    let threads = frame.consumer_threads();
    // The sums take the place of the operands, once every warp has read those.
    ptx.named_barrier(1, threads);
    let slot = ptx.mad(frame.thread, 4, frame.base);
    for (at, &sum) in sums.waves.iter().flatten().enumerate() {
        ptx.store_shared_f32(Shared(slot, 4 * threads * at as u32), sum);
    }
    ptx.cluster_barrier();
    let rank = ptx.cluster_rank();
    let slots: Vec<B32> = (0..parts as u32).map(|part| ptx.of_block(slot, part)).collect();
    let per_wave = sums.waves[0].len();
    epilogue::store(ptx, frame, place, tile, sums, |ptx, part, registers| {
        let is_mine = ptx.eq(rank, (part % parts) as u32);
        let end = ptx.label();
        ptx.jump_unless(is_mine, end);
        for (wave, at) in registers {
            let offset = 4 * threads * (wave * per_wave + at) as u32;
            let values: Vec<F32> =
                slots.iter().map(|&slot| ptx.load_cluster_f32(Shared(slot, offset))).collect();
            let total = values[1..].iter().fold(values[0], |total, &value| ptx.add_f32(total, value));
            ptx.copy_float(sums.waves[wave][at], total);
        }
        Some(end)
    });
    // No block may leave while another reads its sums.
    ptx.cluster_barrier();
}

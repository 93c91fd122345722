//! Adding up the sums of blocks that divided K among them. Every block owns a part of the tile: the others write their sums of
//! it into its shared memory. It adds them up in a fixed order, so that the result has the same bits every time.

use super::{
    epilogue,
    frame::{Frame, Place},
    ptx::{B32, F32, Ptx, Shared},
    schedule::Tile,
    sums::Sums,
};

/// Exchanges sums, adds up and stores.
pub(super) fn add_up(ptx: &mut Ptx, frame: &Frame<'_>, place: Place, tile: Tile, sums: &Sums, parts: usize) {
    let exchange = Exchange::new(ptx, frame, parts);
    // The other blocks have begun: their shared memory can be written.
    ptx.cluster_wait();
    for owner in 0..parts {
        exchange.give(ptx, sums, owner);
    }
    ptx.cluster_barrier();
    epilogue::store(ptx, frame, place, tile, sums, |ptx, part, registers| {
        let is_mine = ptx.eq(exchange.rank, (part % parts) as u32);
        let end = ptx.label();
        ptx.jump_unless(is_mine, end);
        let (wave, first) = registers[0];
        exchange.take(ptx, part, &sums.waves[wave][first..first + registers.len()]);
        Some(end)
    });
}

/// Where sums are exchanged.
struct Exchange {
    parts: usize,
    rank: B32,
    /// The thread's place in the share of the first of the other blocks.
    slot: B32,
    /// Registers of a part.
    per_part: usize,
    /// Bytes of the sums that one block gives another, and of a register of all threads.
    share: u32,
    register: u32,
}

/// Registers that are moved at once.
const MOVED: usize = 4;

impl Exchange {
    fn new(ptx: &mut Ptx, frame: &Frame<'_>, parts: usize) -> Self {
        let first = frame.buffer(ptx, "exchange", 0);
        Self {
            parts,
            rank: ptx.cluster_rank(),
            slot: ptx.mad(frame.thread, 4 * MOVED as u32, first),
            per_part: 4 * frame.plan.chunks_per_part(),
            share: frame.plan.buffer_bytes("exchange") as u32,
            register: 4 * frame.consumer_threads(),
        }
    }

    /// Where a part of the tile lies in a block's share.
    fn offset(&self, part: usize) -> u32 {
        (part / self.parts * self.per_part) as u32 * self.register
    }

    /// Writes the sums of the parts that `owner` owns into its shared memory.
    fn give(&self, ptx: &mut Ptx, sums: &Sums, owner: usize) {
        let is_other = ptx.ne(self.rank, owner as u32);
        ptx.when(is_other, |ptx| {
            // The blocks after the owner come first, then those before it.
            let after = ptx.add(self.rank, (self.parts - owner - 1) as u32);
            let index = ptx.rem(after, self.parts as u32);
            let slot = ptx.mad(index, self.share, self.slot);
            let slot = ptx.of_block(slot, owner as u32);
            let all = sums.waves.iter().flat_map(|wave| wave.chunks(self.per_part));
            for (part, sums) in all.enumerate().filter(|(part, _)| part % self.parts == owner) {
                let first = self.offset(part);
                for (at, sums) in (0..).zip(sums.chunks(MOVED)) {
                    ptx.store_cluster_floats(Shared(slot, first + at * MOVED as u32 * self.register), sums);
                }
            }
        });
    }

    /// Adds what the other blocks gave to the sums of a part.
    fn take(&self, ptx: &mut Ptx, part: usize, sums: &[F32]) {
        let first = self.offset(part);
        for (at, sums) in (0..).zip(sums.chunks(MOVED)) {
            let offset = first + at * MOVED as u32 * self.register;
            for other in 0..self.parts as u32 - 1 {
                let given: [F32; MOVED] =
                    ptx.load_shared_floats(Shared(self.slot, offset + other * self.share));
                for (&sum, given) in sums.iter().zip(given) {
                    let total = ptx.add_f32(sum, given);
                    ptx.copy_float(sum, total);
                }
            }
        }
    }
}

//! The reduction of a tile whose K a cluster splits. Every CTA owns a part of the tile; the others write
//! their accumulators of it into its shared memory. It adds them in a fixed order, so that results are
//! bitwise repeatable.

use octile_core::plan::hopper::ClusterMode;

use crate::hopper::{
    parts::{accumulators::Accumulators, consumer::Consumer, cta::Cta, epilogue, schedule::Tile},
    ptx::{B32, F32, Ptx, Shared},
};

/// Reduces a tile across the cluster and stores it.
pub(super) fn reduce_and_store(ptx: &mut Ptx, consumer: &Consumer<'_>, tile: Tile, parts: usize) {
    let Consumer { cta, fragment, accumulators, .. } = consumer;
    let exchange = Exchange::new(ptx, cta, parts);
    if cta.plan.shape.cluster == ClusterMode::SplitTail {
        // The exchange takes the place of stages that every CTA has multiplied now.
        ptx.cluster_barrier();
    } else {
        // Every CTA of the cluster has started, so its shared memory can be written.
        ptx.cluster_wait();
    }
    for owner in 0..parts {
        exchange.send(ptx, accumulators, owner);
    }
    ptx.cluster_barrier();
    epilogue::store_parts(ptx, cta, *fragment, tile, accumulators, |ptx, part, accumulators| {
        let is_mine = ptx.eq(exchange.rank, (part % parts) as u32);
        let end = ptx.label();
        ptx.jump_unless(is_mine, end);
        exchange.receive(ptx, part, accumulators);
        Some(end)
    });
}

/// The shared-memory buffer through which CTAs exchange accumulators.
struct Exchange {
    parts: usize,
    rank: B32,
    /// The thread's slot in the share of the first other CTA.
    slot: B32,
    /// Accumulators of a part.
    per_part: usize,
    /// Bytes that one CTA sends another, and bytes of one register of all threads.
    share: u32,
    register: u32,
}

/// Registers moved by one instruction.
const VECTOR: usize = 4;

impl Exchange {
    fn new(ptx: &mut Ptx, cta: &Cta<'_>, parts: usize) -> Self {
        let exchange = cta.plan.exchange(parts);
        let first = ptx.add(cta.base, exchange.offset as u32);
        Self {
            parts,
            rank: ptx.cluster_rank(),
            slot: ptx.mad(cta.thread, 4 * VECTOR as u32, first),
            per_part: 4 * cta.plan.chunks_per_part(),
            share: exchange.share as u32,
            register: 4 * cta.consumer_threads(),
        }
    }

    /// Offset of a part of the tile in a CTA's share.
    fn offset(&self, part: usize) -> u32 {
        (part / self.parts * self.per_part) as u32 * self.register
    }

    /// Writes the accumulators of the parts that `owner` owns into its shared memory.
    fn send(&self, ptx: &mut Ptx, accumulators: &Accumulators, owner: usize) {
        let is_other = ptx.ne(self.rank, owner as u32);
        ptx.when(is_other, |ptx| {
            // Shares in order of rank, starting behind the owner's.
            let after = ptx.add(self.rank, (self.parts - owner - 1) as u32);
            let index = ptx.rem(after, self.parts as u32);
            let slot = ptx.mad(index, self.share, self.slot);
            let slot = ptx.of_block(slot, owner as u32);
            let all = accumulators.promoted.iter().flat_map(|wave| wave.chunks(self.per_part));
            for (part, accumulators) in all.enumerate().filter(|(part, _)| part % self.parts == owner) {
                let first = self.offset(part);
                for (at, vector) in (0..).zip(accumulators.chunks(VECTOR)) {
                    let offset = first + at * VECTOR as u32 * self.register;
                    ptx.store_cluster_floats(Shared(slot, offset), vector);
                }
            }
        });
    }

    /// Adds what the other CTAs sent to the accumulators of a part.
    fn receive(&self, ptx: &mut Ptx, part: usize, accumulators: &[F32]) {
        let first = self.offset(part);
        for (at, vector) in (0..).zip(accumulators.chunks(VECTOR)) {
            let offset = first + at * VECTOR as u32 * self.register;
            for other in 0..self.parts as u32 - 1 {
                let received: [F32; VECTOR] =
                    ptx.load_shared_floats(Shared(self.slot, offset + other * self.share));
                for (&accumulator, received) in vector.iter().zip(received) {
                    let total = ptx.add_f32(accumulator, received);
                    ptx.copy_float(accumulator, total);
                }
            }
        }
    }
}

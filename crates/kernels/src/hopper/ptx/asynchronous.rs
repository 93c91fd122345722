//! Copies that run beside the threads, and the barriers in shared memory that say when they are done.

use super::{B32, B64, Global, Pred, Ptx, Shared, Source, stream::Policy};

/// A tile copy by the tensor memory accelerator.
#[derive(Clone, Copy, Debug)]
pub struct TmaLoad {
    /// Where the tile goes.
    pub destination: B32,
    /// The tensor map.
    pub map: B64,
    /// First column, counted in elements.
    pub column: B32,
    /// First row.
    pub row: B32,
    /// The barrier that counts the bytes.
    pub barrier: B32,
    /// Blocks of the cluster that get the tile, one bit each; `None` for this block alone.
    pub multicast: Option<u16>,
    /// How long its lines stay in the second-level cache.
    pub policy: Policy,
}

impl Ptx {
    /// Starts a tile copy.
    pub fn tma_load(&mut self, load: TmaLoad) {
        let TmaLoad { destination, map, column, row, barrier, multicast, policy } = load;
        let (hint, policy) = (policy.suffix(), policy.operand());
        let (suffix, mask) = match multicast {
            Some(blocks) => {
                let mask = self.b16();
                self.line(format_args!("mov.b16 {mask}, {blocks}"));
                (".multicast::cluster", format!(", {mask}"))
            }
            None => ("", String::new()),
        };
        self.line(format_args!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes{suffix}{hint} \
             [{destination}], [{map}, {{{column}, {row}}}], [{barrier}]{mask}{policy}"
        ));
    }

    /// Starts to copy a tile from shared memory.
    pub fn tma_store(&mut self, map: B64, column: B32, row: B32, source: Shared) {
        self.line(format_args!(
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [{map}, {{{column}, {row}}}], {source}"
        ));
    }

    /// Closes a group of this thread's copies from shared memory.
    pub fn tma_store_commit(&mut self) {
        self.line("cp.async.bulk.commit_group");
    }

    /// Waits until this thread's copies have read what they copy.
    pub fn tma_store_wait_until_read(&mut self) {
        self.line("cp.async.bulk.wait_group.read 0");
    }

    /// Brings a tensor map close before it is used.
    pub fn prefetch_tensor_map(&mut self, map: B64) {
        self.line(format_args!("prefetch.tensormap [{map}]"));
    }

    /// Starts to copy 4 bytes, or to write 4 zero bytes where `bytes` is 0.
    pub fn copy_4(&mut self, destination: Shared, source: Global, bytes: B32) {
        self.line(format_args!("cp.async.ca.shared.global {destination}, {source}, 4, {bytes}"));
    }

    /// Starts to copy 16 bytes past the first-level cache, of which those beyond `bytes` become zeros.
    pub fn copy_16(&mut self, destination: Shared, source: Global, bytes: B32) {
        self.line(format_args!("cp.async.cg.shared.global {destination}, {source}, 16, {bytes}"));
    }

    /// Arrives at a barrier once this thread's copies so far have landed.
    pub fn arrive_after_copies(&mut self, barrier: B32) {
        self.line(format_args!("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{barrier}]"));
    }

    /// Makes a barrier that opens after `arrivals` arrivals.
    pub fn barrier_init(&mut self, barrier: Shared, arrivals: u32) {
        self.line(format_args!("mbarrier.init.shared::cta.b64 {barrier}, {arrivals}"));
    }

    /// Lets the cluster and the copy engine see barriers made before.
    pub fn fence_barrier_init(&mut self) {
        self.line("fence.mbarrier_init.release.cluster");
    }

    /// Lets the copy engine and the tensor cores see ordinary stores to shared memory made before.
    pub fn fence_shared_stores(&mut self) {
        self.line("fence.proxy.async.shared::cta");
    }

    /// Arrives at a barrier of this block.
    pub fn arrive(&mut self, barrier: B32) {
        self.line(format_args!("mbarrier.arrive.shared::cta.b64 _, [{barrier}]"));
    }

    /// Arrives at a barrier of any block of the cluster.
    pub fn arrive_in_cluster(&mut self, barrier: B32) {
        self.line(format_args!("mbarrier.arrive.shared::cluster.b64 _, [{barrier}]"));
    }

    /// Arrives at a barrier and tells it to wait for `bytes` more.
    pub fn arrive_expecting(&mut self, barrier: B32, bytes: u32) {
        self.line(format_args!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {bytes}"));
    }

    /// Whether the barrier has completed the phase of the given parity, into `done`.
    pub fn has_completed(&mut self, done: Pred, barrier: B32, parity: impl Into<Source>) {
        let parity = parity.into();
        self.line(format_args!("mbarrier.test_wait.parity.shared::cta.b64 {done}, [{barrier}], {parity}"));
    }

    /// Waits until the barrier has completed the phase of the given parity.
    pub fn wait(&mut self, barrier: B32, parity: impl Into<Source>) {
        let (retry, done, parity) = (self.label(), self.pred(), parity.into());
        self.place(retry);
        self.line(format_args!("mbarrier.try_wait.parity.shared::cta.b64 {done}, [{barrier}], {parity}"));
        self.jump_unless(done, retry);
    }
}

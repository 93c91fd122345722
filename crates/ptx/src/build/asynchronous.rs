//! TMA, `cp.async`, and the mbarriers that track them.

use super::{B32, B64, Global, Pred, Ptx, Shared, Source, address, stream::Policy, vector};
use crate::ir::Operand;

/// A TMA load of one tile.
#[derive(Clone, Copy, Debug)]
pub struct TmaLoad {
    /// Destination in shared memory.
    pub destination: B32,
    /// The tensor map.
    pub map: B64,
    /// First column, in elements.
    pub column: B32,
    /// First row.
    pub row: B32,
    /// The mbarrier that counts the bytes.
    pub barrier: B32,
    /// Multicast mask, one bit per CTA of the cluster; `None` for this CTA alone.
    pub multicast: Option<u16>,
    /// L2 eviction policy.
    pub policy: Policy,
}

/// `[map, {column, row}]`
fn tile(map: B64, column: B32, row: B32) -> Operand<'static> {
    Operand::Address(vec![map.into(), vector(&[column, row])])
}

impl Ptx {
    /// Issues a TMA load.
    pub fn tma_load(&mut self, load: TmaLoad) {
        const OPCODE: &str = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes";
        let TmaLoad { destination, map, column, row, barrier, multicast, policy } = load;
        let (multicast, mask) = match multicast {
            Some(ctas) => {
                let mask = self.b16();
                self.emit("mov.b16", [mask.into(), u32::from(ctas).into()]);
                (".multicast::cluster", Some(mask.into()))
            }
            None => ("", None),
        };
        let operands = [address(destination), tile(map, column, row), address(barrier)];
        let operands = operands.into_iter().chain(mask).chain(policy.operand());
        self.emit(format!("{OPCODE}{multicast}{}", policy.suffix()), operands);
    }

    /// Issues a TMA store.
    pub fn tma_store(&mut self, map: B64, column: B32, row: B32, source: Shared) {
        let operands = [tile(map, column, row), source.into()];
        self.emit("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", operands);
    }

    /// Commits this thread's TMA stores as a group.
    pub fn tma_store_commit(&mut self) {
        self.emit("cp.async.bulk.commit_group", []);
    }

    /// Waits until this thread's TMA stores have read their source.
    pub fn tma_store_wait_until_read(&mut self) {
        self.emit("cp.async.bulk.wait_group.read", [0.into()]);
    }

    /// Prefetches a tensor map.
    pub fn prefetch_tensor_map(&mut self, map: B64) {
        self.emit("prefetch.tensormap", [address(map)]);
    }

    /// Issues a `cp.async` of 4 bytes, or of zeros where `bytes` is 0.
    pub fn copy_4(&mut self, destination: Shared, source: Global, bytes: B32) {
        let operands = [destination.into(), source.into(), 4.into(), bytes.into()];
        self.emit("cp.async.ca.shared.global", operands);
    }

    /// Issues a `cp.async` of 16 bytes that bypasses L1; bytes beyond `bytes` become zeros.
    pub fn copy_16(&mut self, destination: Shared, source: Global, bytes: B32) {
        let operands = [destination.into(), source.into(), 16.into(), bytes.into()];
        self.emit("cp.async.cg.shared.global", operands);
    }

    /// Arrives at an mbarrier once this thread's earlier `cp.async` have completed.
    pub fn arrive_after_copies(&mut self, barrier: B32) {
        self.emit("cp.async.mbarrier.arrive.noinc.shared::cta.b64", [address(barrier)]);
    }

    /// Issues a copy of adjacent bytes from global memory, in multiples of 16; the mbarrier counts them.
    pub fn copy_block(&mut self, destination: B32, source: Global, bytes: B32, barrier: B32) {
        const OPCODE: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
        self.emit(OPCODE, [address(destination), source.into(), bytes.into(), address(barrier)]);
    }

    /// Initializes an mbarrier that expects `arrivals` arrivals per phase.
    pub fn barrier_init(&mut self, barrier: Shared, arrivals: u32) {
        self.emit("mbarrier.init.shared::cta.b64", [barrier.into(), arrivals.into()]);
    }

    /// Makes earlier mbarrier initializations visible to the cluster and to TMA.
    pub fn fence_barrier_init(&mut self) {
        self.emit("fence.mbarrier_init.release.cluster", []);
    }

    /// Makes earlier shared-memory stores visible to TMA and wgmma (the async proxy).
    pub fn fence_shared_stores(&mut self) {
        self.emit("fence.proxy.async.shared::cta", []);
    }

    /// Arrives at an mbarrier of this CTA.
    pub fn arrive(&mut self, barrier: B32) {
        self.emit("mbarrier.arrive.shared::cta.b64", [Operand::word("_"), address(barrier)]);
    }

    /// Arrives at an mbarrier of this CTA so many times.
    pub fn arrive_times(&mut self, barrier: B32, times: u32) {
        let operands = [Operand::word("_"), address(barrier), times.into()];
        self.emit("mbarrier.arrive.shared::cta.b64", operands);
    }

    /// Arrives at an mbarrier of any CTA of the cluster.
    pub fn arrive_in_cluster(&mut self, barrier: B32) {
        self.emit("mbarrier.arrive.shared::cluster.b64", [Operand::word("_"), address(barrier)]);
    }

    /// Arrives at an mbarrier and makes its phase expect `bytes` more bytes.
    pub fn arrive_expecting(&mut self, barrier: B32, bytes: impl Into<Source>) {
        let operands = [Operand::word("_"), address(barrier), bytes.into().into()];
        self.emit("mbarrier.arrive.expect_tx.shared::cta.b64", operands);
    }

    /// Tests whether the mbarrier has completed the phase of the given parity, into `done`.
    pub fn has_completed(&mut self, done: Pred, barrier: B32, parity: impl Into<Source>) {
        let operands = [done.into(), address(barrier), parity.into().into()];
        self.emit("mbarrier.test_wait.parity.shared::cta.b64", operands);
    }

    /// Waits until the mbarrier has completed the phase of the given parity.
    pub fn wait(&mut self, barrier: B32, parity: impl Into<Source>) {
        let (retry, done) = (self.label(), self.pred());
        self.place(retry);
        let operands = [done.into(), address(barrier), parity.into().into()];
        self.emit("mbarrier.try_wait.parity.shared::cta.b64", operands);
        self.jump_unless(done, retry);
    }
}

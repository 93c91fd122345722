//! Warpgroup MMA (wgmma) and matrix fragments.

use super::{B32, B64, F32, Pred, Ptx, Shared, vector};

/// The wgmma descriptor of a K-major operand in shared memory: rows of 128 bytes in the 128-byte swizzle,
/// groups of 8 rows 1024 bytes apart (PTX ISA, "Matrix Descriptor Format").
struct MatrixDescriptor;

impl MatrixDescriptor {
    /// Bytes of 8 rows.
    const GROUP: u32 = 1024;
    /// The upper half: the stride between groups in units of 16 bytes, and the code of the 128-byte swizzle.
    const HIGH: u32 = (Self::GROUP >> 4) | 1 << 30;
    /// The leading dimension offset, which this layout does not use.
    const LEADING: u32 = 1 << 16;
}

impl Ptx {
    /// The lower half of the descriptor of an operand at a shared-memory address. Addresses stay below 2^18,
    /// so adding to the lower half moves the operand in units of 16 bytes.
    pub fn descriptor_low(&mut self, address: B32) -> B32 {
        let units = self.shr(address, 4);
        let units = self.and(units, 0x3fff);
        self.or(units, MatrixDescriptor::LEADING)
    }

    /// The descriptor with this lower half.
    pub fn descriptor(&mut self, low: B32) -> B64 {
        self.join(low, MatrixDescriptor::HIGH)
    }

    /// Orders earlier register accesses before the wgmmas that follow.
    pub fn wgmma_fence(&mut self) {
        self.emit("wgmma.fence.sync.aligned", []);
    }

    /// Issues `sums = a * b`, or `sums += a * b` where `add` holds: 64 rows, `columns` columns, K = 32
    /// f8e4m3fn.
    pub fn wgmma(&mut self, sums: &[F32], columns: usize, a: B64, b: B64, add: Pred) {
        assert_eq!(sums.len() * 2, columns, "a thread holds half an accumulator per column");
        let operands = [vector(sums), a.into(), b.into(), add.into(), 1.into(), 1.into()];
        self.emit(format!("wgmma.mma_async.sync.aligned.m64n{columns}k32.f32.e4m3.e4m3"), operands);
    }

    /// Stores four 8x8 matrices of 16-bit values; each lane gives the address of one row.
    pub fn store_matrices(&mut self, row: Shared, values: [B32; 4]) {
        self.emit("stmatrix.sync.aligned.m8n8.x4.shared.b16", [row.into(), vector(&values)]);
    }

    /// Commits the issued wgmmas as a group.
    pub fn wgmma_commit(&mut self) {
        self.emit("wgmma.commit_group.sync.aligned", []);
    }

    /// Waits until at most `pending` wgmma groups are in flight.
    pub fn wgmma_wait(&mut self, pending: u32) {
        self.emit("wgmma.wait_group.sync.aligned", [pending.into()]);
    }

    /// Transposes the 8x8 matrix of 16-bit values that the warp holds, two per lane.
    pub fn transpose(&mut self, packed: B32) -> B32 {
        let out = self.b32();
        self.emit("movmatrix.sync.aligned.m8n8.trans.b16", [out.into(), packed.into()]);
        out
    }
}

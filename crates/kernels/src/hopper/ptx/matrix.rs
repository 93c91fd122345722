//! Matrix products by a warpgroup: four warps that act as one.

use super::{B32, B64, F32, Pred, Ptx, Shared};

/// What the tensor cores must know of an operand in shared memory: rows of 128 bytes along K, in the 128-byte
/// swizzle, groups of 8 rows 1024 bytes apart (PTX ISA, "Matrix Descriptor Format").
#[derive(Clone, Copy, Debug)]
pub struct MatrixDescriptor;

impl MatrixDescriptor {
    /// Bytes of 8 rows.
    const GROUP: u32 = 1024;
    /// The upper half: the stride between groups in units of 16 bytes, and the code of the 128-byte swizzle.
    const HIGH: u32 = (Self::GROUP >> 4) | 1 << 30;
    /// The stride along K, which this layout does not use.
    const LEADING: u32 = 1 << 16;
}

impl Ptx {
    /// The lower half of the descriptor of an operand at a shared-memory address. Addresses stay below 2^18, so
    /// adding sixteenths of bytes to it moves the operand.
    pub fn descriptor_low(&mut self, address: B32) -> B32 {
        let units = self.shr(address, 4);
        let units = self.and(units, 0x3fff);
        self.or(units, MatrixDescriptor::LEADING)
    }

    /// The descriptor with this lower half.
    pub fn descriptor(&mut self, low: B32) -> B64 {
        self.join(low, MatrixDescriptor::HIGH)
    }

    /// Orders register accesses before the matrix products that follow.
    pub fn wgmma_fence(&mut self) {
        self.line("wgmma.fence.sync.aligned");
    }

    /// Starts `sums (+)= a * b` for 64 rows, `columns` columns and a depth of 32 f8e4m3fn; adds where `add` holds.
    pub fn wgmma(&mut self, sums: &[F32], columns: usize, a: B64, b: B64, add: Pred) {
        assert_eq!(sums.len() * 2, columns, "a thread holds half a float per column");
        let sums: Vec<String> = sums.iter().map(F32::to_string).collect();
        self.line(format_args!(
            "wgmma.mma_async.sync.aligned.m64n{columns}k32.f32.e4m3.e4m3 {{{}}}, {a}, {b}, {add}, 1, 1",
            sums.join(", ")
        ));
    }

    /// Stores four matrices of 8 rows x 16 bytes, whose rows go where the lanes say.
    pub fn store_matrices(&mut self, row: Shared, values: [B32; 4]) {
        let [a, b, c, d] = values;
        self.line(format_args!("stmatrix.sync.aligned.m8n8.x4.shared.b16 {row}, {{{a}, {b}, {c}, {d}}}"));
    }

    /// Closes a group of matrix products.
    pub fn wgmma_commit(&mut self) {
        self.line("wgmma.commit_group.sync.aligned");
    }

    /// Waits until at most `pending` groups are unfinished.
    pub fn wgmma_wait(&mut self, pending: u32) {
        self.line(format_args!("wgmma.wait_group.sync.aligned {pending}"));
    }

    /// Transposes the 8 x 8 matrix of 16-bit values that the warp holds, two to a lane.
    pub fn transpose(&mut self, packed: B32) -> B32 {
        let out = self.b32();
        self.line(format_args!("movmatrix.sync.aligned.m8n8.trans.b16 {out}, {packed}"));
        out
    }
}

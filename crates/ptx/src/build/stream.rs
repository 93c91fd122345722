//! Streaming through registers: vector accesses with an L2 policy, and arithmetic on pairs of 16-bit floats.

use octile_core::{FloatKind, plan::hopper::CachePriority};

use super::{B32, B64, F32, Global, Pred, Ptx, vector};
use crate::ir::Operand;

/// A [`CachePriority`] in a register, as instructions take it.
#[derive(Clone, Copy, Debug)]
pub struct Policy(Option<B64>);

impl Policy {
    pub(super) fn suffix(self) -> &'static str {
        if self.0.is_some() { ".L2::cache_hint" } else { "" }
    }

    pub(super) fn operand(self) -> Option<Operand<'static>> {
        self.0.map(Into::into)
    }
}

impl Ptx {
    /// Creates an L2 policy.
    pub fn policy(&mut self, keep: CachePriority) -> Policy {
        let opcode = match keep {
            CachePriority::Normal => return Policy(None),
            CachePriority::EvictFirst => "createpolicy.fractional.L2::evict_first.b64",
            CachePriority::EvictLast => "createpolicy.fractional.L2::evict_last.b64",
        };
        let out = self.b64();
        self.emit(opcode, [out.into(), Operand::word("1.0")]);
        Policy(Some(out))
    }

    /// Loads 16 read-only bytes without allocating in L1 where the predicate holds; else 0.
    pub fn stream_load_16_if(&mut self, at: Global, predicate: Pred, policy: Policy) -> [B32; 4] {
        let out = [(); 4].map(|()| self.variable(0));
        let opcode = format!("ld.global.nc.L1::no_allocate{}.v4.b32", policy.suffix());
        self.emit_if(predicate, opcode, [vector(&out), at.into()].into_iter().chain(policy.operand()));
        out
    }

    /// Stores 4 or 8 bytes where the predicate holds.
    pub fn stream_store_if(&mut self, at: Global, values: &[B32], predicate: Pred, policy: Policy) {
        let (width, value) = match values {
            [one] => ("", (*one).into()),
            [_, _] => (".v2", vector(values)),
            _ => unreachable!("codes are stored 4 or 8 at a time"),
        };
        let opcode = format!("st.global{}{width}.b32", policy.suffix());
        self.emit_if(predicate, opcode, [at.into(), value].into_iter().chain(policy.operand()));
    }

    /// The larger magnitudes of two pairs of 16-bit floats. Their signs are meaningless.
    pub fn max_abs_pairs(&mut self, kind: FloatKind, a: B32, b: B32) -> B32 {
        let out = self.b32();
        let opcode = match kind {
            FloatKind::Bf16 => "max.xorsign.abs.bf16x2",
            FloatKind::F16 => "max.xorsign.abs.f16x2",
            FloatKind::F32 => unreachable!("f32 values do not come in pairs"),
        };
        self.emit(opcode, [out.into(), a.into(), b.into()]);
        out
    }

    /// Reinterprets the bits as a float.
    pub fn as_float(&mut self, bits: B32) -> F32 {
        let out = self.f32();
        self.emit("mov.b32", [out.into(), bits.into()]);
        out
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: F32, b: F32, c: F32) -> F32 {
        let out = self.f32();
        self.emit("fma.rn.f32", [out.into(), a.into(), b.into(), c.into()]);
        out
    }

    /// Approximate `1 / value`, within 1 ulp.
    pub fn rough_reciprocal(&mut self, value: F32) -> F32 {
        let out = self.f32();
        self.emit("rcp.approx.ftz.f32", [out.into(), value.into()]);
        out
    }

    /// `-value`
    pub fn negate(&mut self, value: F32) -> F32 {
        let out = self.f32();
        self.emit("neg.f32", [out.into(), value.into()]);
        out
    }

    /// `a < b`
    pub fn lt_f32(&mut self, a: F32, b: F32) -> Pred {
        let out = self.pred();
        self.emit("setp.lt.f32", [out.into(), a.into(), b.into()]);
        out
    }

    /// Maximum over `lanes` adjacent lanes, in each of them.
    pub fn max_of_lanes(&mut self, value: F32, lanes: u32) -> F32 {
        let mut max = value;
        for mask in butterfly_masks(lanes) {
            let other = self.f32();
            self.shuffle("shfl.sync.bfly.b32", other.into(), max.into(), mask);
            max = self.max_f32(max, other);
        }
        max
    }

    /// Like [`Ptx::max_of_lanes`] for magnitudes of pairs of 16-bit floats.
    pub fn max_abs_pairs_of_lanes(&mut self, kind: FloatKind, value: B32, lanes: u32) -> B32 {
        let mut max = value;
        for mask in butterfly_masks(lanes) {
            let other = self.shuffle_xor(max, mask);
            max = self.max_abs_pairs(kind, max, other);
        }
        max
    }

    /// `a * b >> 32`, unsigned.
    pub fn mul_high(&mut self, a: B32, b: B32) -> B32 {
        let out = self.b32();
        self.emit("mul.hi.u32", [out.into(), a.into(), b.into()]);
        out
    }
}

/// Shuffle masks of a butterfly reduction over `lanes` lanes.
fn butterfly_masks(lanes: u32) -> impl Iterator<Item = u32> {
    (0..lanes.ilog2()).map(|bit| 1 << bit)
}
